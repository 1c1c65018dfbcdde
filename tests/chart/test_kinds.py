"""Every combination of values renders to objects that an API server would take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chart.helm import CHART, Helm
from tests.chart.schemas import complaints
from tests.chart.values_matrix import VALUES


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_every_object_meets_the_strict_schema_of_its_kind(
    helm: Helm, values: dict[str, Any] | Path
) -> None:
    docs = helm.render(values)
    assert len(docs) > 5
    problems = {f"{d['kind']}/{d['metadata']['name']}": complaints(d) for d in docs}
    assert {name: found for name, found in problems.items() if found} == {}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_no_two_objects_have_the_same_name(helm: Helm, values: dict[str, Any] | Path) -> None:
    names = [(d["apiVersion"], d["kind"], d["metadata"]["name"]) for d in helm.render(values)]
    assert len(names) == len(set(names))


def test_both_helms_render_the_same(each_helm: Helm, helm: Helm) -> None:
    values = next(
        path for path in VALUES.values() if isinstance(path, Path) and "h100" in str(path)
    )
    with_password = {"engine": {"mode": "cpu"}, "redis": {"auth": {"password": "p"}}}
    assert each_helm.render(with_password) == helm.render(with_password)
    kinds = [d["kind"] for d in each_helm.render(values)]
    assert kinds == [d["kind"] for d in helm.render(values)]


def test_lint_is_strict_and_silent(each_helm: Helm) -> None:
    assert "0 chart(s) failed" in each_helm.run("lint", "--strict", str(CHART))


def test_the_package_holds_no_examples(helm: Helm) -> None:
    printed = helm.run("package", str(CHART), "--destination", str(helm.scratch))
    import tarfile

    with tarfile.open(printed.rsplit(": ", 1)[1].strip()) as package:
        names = package.getnames()
    assert "pbkv/values.schema.json" in names
    assert not [name for name in names if "examples" in name]


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        ({"apiVersion": "v1", "kind": "Gizmo"}, "no schema for v1 Gizmo"),
        (
            {"apiVersion": "v1", "kind": "Service", "spec": {"prots": []}},
            "'prots' was unexpected",
        ),
        (
            {"apiVersion": "ray.io/v1", "kind": "RayService", "spec": {"serveConfig": ""}},
            "'serveConfig' was unexpected",
        ),
    ],
)
def test_the_schemas_are_strict(manifest: dict[str, Any], complaint: str) -> None:
    assert any(complaint in found for found in complaints(manifest))
