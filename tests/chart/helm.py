"""The chart through a real helm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "pbkv"
EXAMPLES = sorted(path.parent for path in CHART.glob("examples/*/values.yaml"))

Docs = list[dict[str, Any]]

# Dozens of tests look at the same renderings; the chart does not change under them.
_RENDERED: dict[tuple[Path, str], Docs] = {}


class Refused(Exception):
    """Helm rendered nothing; the text is what it printed."""


@dataclass(frozen=True)
class Helm:
    """One helm binary."""

    binary: Path
    scratch: Path

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """What the command prints. Raises :class:`Refused`."""
        done = subprocess.run(
            [str(self.binary), *arguments],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.scratch), **(env or {})},
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def render(self, values: Mapping[str, Any] | Path | None = None) -> Docs:
        """The objects of a release ``pbkv`` in namespace ``pbkv``; shared, not to be changed."""
        key = (self.binary, repr(values))
        if key not in _RENDERED:
            arguments = ["template", "pbkv", str(CHART), "--namespace=pbkv"]
            arguments += ["--kube-version=1.32.0"]
            if values is not None:
                arguments += ["--values", str(self.values_file(values))]
            printed = self.run(*arguments)
            _RENDERED[key] = [doc for doc in yaml.load_all(printed, yaml.CSafeLoader) if doc]
        return _RENDERED[key]

    def values_file(self, values: Mapping[str, Any] | Path) -> Path:
        """``values`` as a file."""
        if isinstance(values, Path):
            return values
        path = self.scratch / "values.yaml"
        path.write_text(yaml.safe_dump(dict(values)))
        return path


@dataclass(frozen=True)
class PodTemplate:
    """One kind of pod that the chart makes, whatever makes it."""

    owner: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]

    @property
    def containers(self) -> list[Mapping[str, Any]]:
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]


def pods(docs: Docs) -> Iterator[PodTemplate]:
    """The pod templates of all objects."""
    for doc in docs:
        name = f"{doc['kind']}/{doc['metadata']['name']}"
        for suffix, template in _templates(doc):
            yield PodTemplate(
                name + suffix, template["metadata"].get("labels", {}), template["spec"]
            )


def _templates(doc: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    match doc["kind"]:
        case "Pod":
            yield "", doc
        case "Deployment" | "StatefulSet" | "Job":
            yield "", doc["spec"]["template"]
        case "CronJob":
            yield "", doc["spec"]["jobTemplate"]["spec"]["template"]
        case "RayService":
            cluster = doc["spec"]["rayClusterConfig"]
            yield "/head", cluster["headGroupSpec"]["template"]
            for group in cluster["workerGroupSpecs"]:
                yield f"/{group['groupName']}", group["template"]


def of_kind(docs: Docs, kind: str) -> Docs:
    """The objects of one kind."""
    return [doc for doc in docs if doc["kind"] == kind]


def named(docs: Docs, kind: str, name: str) -> dict[str, Any]:
    """The one object of that kind and name."""
    (found,) = [doc for doc in of_kind(docs, kind) if doc["metadata"]["name"] == name]
    return found
