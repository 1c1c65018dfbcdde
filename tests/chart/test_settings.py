"""What the chart tells the processes is what they accept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from router.settings import RouterSettings
from services.cli.lazy import COMMANDS
from services.cli.main import app
from services.doctor.cluster import OLDEST_KUBERNETES
from services.place import settle
from services.settings import replica_settings
from tests.chart.helm import CHART, Helm, PodTemplate, of_kind, pods
from tests.chart.values_matrix import VALUES

EVERYTHING = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())


def environment(pod: PodTemplate) -> dict[str, str]:
    """The environment of the first container, as the kubelet would fill it in."""
    known: dict[str, str] = {}
    for entry in pod.spec["containers"][0]["env"]:
        value = entry.get("value", "filled-in")
        known[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: known[m[1]], value)
    return known


@EVERYTHING
def test_the_router_accepts_its_environment(
    helm: Helm, values: dict[str, Any] | Path, tmp_path: Path
) -> None:
    (pod,) = [p for p in pods(helm.render(values)) if p.owner == "Deployment/pbkv-router"]
    environ = environment(pod)
    if "PBKV_ROUTER_API_KEYS_FILE" in environ:
        keys = tmp_path / "keys.json"
        keys.write_text('{"k": "t"}')
        environ["PBKV_ROUTER_API_KEYS_FILE"] = str(keys)
    settings = RouterSettings.from_env(environ)
    assert settings.port == pod.spec["containers"][0]["ports"][0]["containerPort"]
    # What is in the address is for test_redis_address.py.
    assert settings.redis_url == environ["PBKV_ROUTER_REDIS_URL"]


def test_router_settings_arrive_unchanged(helm: Helm) -> None:
    docs = helm.render(VALUES["cpu with everything"])
    (pod,) = [p for p in pods(docs) if p.owner == "Deployment/pbkv-router"]
    environ = environment(pod)
    environ.pop("PBKV_ROUTER_API_KEYS_FILE")
    settings = RouterSettings.from_env(environ)
    assert settings.max_in_flight == 2_000_000
    assert settings.trace_prompts is True
    assert settings.refresh_s == 0.25
    assert settings.redis_url == "redis://:filled-in@pbkv-redis:6379/0"


def test_a_managed_redis_is_reached_by_tls_with_user_and_authority(helm: Helm) -> None:
    docs = helm.render(VALUES["external-redis"])
    (pod,) = [p for p in pods(docs) if p.owner == "Deployment/pbkv-router"]
    assert environment(pod)["PBKV_ROUTER_REDIS_URL"] == (
        "rediss://pbkv:filled-in@pins.redis.example.com:6380/0"
        "?ssl_ca_certs=/etc/pbkv/redis-ca/ca.crt"
    )


@EVERYTHING
def test_serve_configurations_are_valid(helm: Helm, values: dict[str, Any] | Path) -> None:
    config = pytest.importorskip("ray.serve.config", reason="needs the engine extra")
    schema = pytest.importorskip("ray.serve.schema", reason="needs the engine extra")
    for service in of_kind(helm.render(values), "RayService"):
        content = yaml.safe_load(service["spec"]["serveConfigV2"])
        schema.ServeDeploySchema(**content)
        assert content.keys() <= schema.ServeDeploySchema.model_fields.keys()
        for application in content["applications"]:
            assert application.keys() <= schema.ServeApplicationSchema.model_fields.keys()
            assert application["import_path"] == "services.replica:build_app"
            settings = settle(
                replica_settings(application["args"]),
                {"PBKV_REDIS_URL": "redis://h:6379/0"},
                lambda: "10.0.0.1",
            )
            settings.engine_options(model_path=Path("/m"), replica_id="r", port=1234)
            for deployment in application["deployments"]:
                assert deployment.keys() <= schema.DeploymentSchema.model_fields.keys()
                scaling = deployment.get("autoscaling_config", {})
                assert scaling.keys() <= config.AutoscalingConfig.model_fields.keys()
                config.AutoscalingConfig(**scaling)


@pytest.mark.parametrize(
    ("example", "bounds", "gpus", "grace_s"),
    [("h100-pool-tp2", (2, 8), 2, 1830), ("one-gpu-node", None, 1, 630)],
)
def test_ray_serve_itself_makes_of_it_what_was_meant(
    helm: Helm, example: str, bounds: tuple[int, int] | None, gpus: int, grace_s: float
) -> None:
    pytest.importorskip("ray.serve", reason="needs the engine extra")
    from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
    from ray.serve._private.application_state import override_deployment_info
    from ray.serve._private.deployment_info import DeploymentInfo
    from ray.serve.schema import ServeApplicationSchema

    from services.replica import DEPLOYMENT_NAME, build_app

    (service,) = of_kind(helm.render(VALUES[example]), "RayService")
    (content,) = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    built = call_user_app_builder_with_args_if_necessary(build_app, content["args"])
    deployment = built._bound_deployment
    info = DeploymentInfo(
        deployment_config=deployment._deployment_config,
        replica_config=deployment._replica_config,
        start_time_ms=0,
        deployer_job_id="",
    )
    merged = override_deployment_info({DEPLOYMENT_NAME: info}, ServeApplicationSchema(**content))
    config = merged[DEPLOYMENT_NAME].deployment_config
    scaling = config.autoscaling_config
    assert (scaling and (scaling.min_replicas, scaling.max_replicas)) == bounds
    assert merged[DEPLOYMENT_NAME].replica_config.ray_actor_options["num_gpus"] == gpus
    assert config.graceful_shutdown_timeout_s == grace_s


def test_large_numbers_stay_numbers(helm: Helm) -> None:
    """Helm reads numbers as floats; 1e+06 would be a text to a YAML parser."""
    values = VALUES["several-models"]
    services = of_kind(helm.render(values), "RayService")
    configs = [yaml.safe_load(service["spec"]["serveConfigV2"]) for service in services]
    arguments = [config["applications"][0]["args"] for config in configs]
    assert [args.get("kv_tokens") for args in arguments] == [None, 1_000_000]


def cli_commands(values: Any, helm: Helm) -> set[tuple[str, ...]]:
    """Every ``pbkv`` command with its options that a pod of the release runs."""
    found = set()
    for pod in pods(helm.render(values)):
        for container in pod.containers:
            command, arguments = container.get("command", []), container.get("args", [])
            if command[:1] == ["pbkv"]:
                options = (word.partition("=")[0] for word in arguments if word.startswith("--"))
                found.add((*command[1:], *sorted(set(options))))
            elif "pbkv" in arguments:
                words = arguments[arguments.index("pbkv") + 1 :]
                options = (word.partition("=")[0] for word in words if word.startswith("--"))
                found.add((words[0], *sorted(set(options))))
    return found


@pytest.mark.parametrize(
    "command",
    [("serve", "router"), ("serve", "replica"), ("serve", "fleet"), ("load", "run"), ("train",)],
    ids=" ".join,
)
def test_every_option_of_a_command_exists(helm: Helm, command: tuple[str, ...]) -> None:
    if command[0] not in COMMANDS:
        pytest.skip(f"pbkv {command[0]} is not there yet")
    used = [
        c for c in cli_commands(VALUES["cpu with everything"], helm) if c[: len(command)] == command
    ]
    assert used
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "300"}).output
    known = set(re.findall(r"--[a-z][a-z-]*", shown))
    assert known, shown
    assert {word for words in used for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("path", sorted(CHART.glob("dashboards/*.json")), ids=lambda p: p.stem)
def test_dashboards_and_alerts_ask_for_metrics_that_exist(path: Path, helm: Helm) -> None:
    board = json.loads(path.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    (rules,) = of_kind(helm.render(VALUES["h100-pool-tp2"]), "PrometheusRule")
    asked += [rule["expr"] for rule in rules["spec"]["groups"][0]["rules"]]
    root = CHART.parents[1]
    sources = "".join(
        (root / name).read_text() for name in ("router/metrics.py", "pbkv/sglang/record.py")
    )
    exported = set(re.findall(r"pbkv_[a-z_]+", sources))
    # The recorder makes some names from parts.
    for part in re.findall(r'\("([a-z_]+)", "', sources):
        exported |= {f"pbkv_{part}", f"pbkv_{part}_tokens"}
    for expression in asked:
        for name in re.findall(r"pbkv_[a-z_]+", expression):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert {base, base.removesuffix("_total")} & exported, name
    titles = [panel["title"] for panel in board["panels"]]
    assert len(set(titles)) == len(titles) == len({panel["id"] for panel in board["panels"]})


def test_the_doctor_and_the_chart_want_the_same_kubernetes() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={'.'.join(map(str, OLDEST_KUBERNETES))}.0-0"
