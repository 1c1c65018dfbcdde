"""What must hold between the objects of a release, whatever the values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.fleet.leaving import RAY_SERVICE
from services.ports import free_port
from tests.chart.helm import Docs, Helm, named, of_kind, pods
from tests.chart.values_matrix import VALUES

GPU = "nvidia.com/gpu"
EVERYTHING = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
Values = dict[str, Any] | Path


def subset(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return bool(selector) and selector.items() <= labels.items()


def selectors(docs: Docs) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Everything that selects pods of the release by labels."""
    for doc in docs:
        spec, name = doc.get("spec", {}), f"{doc['kind']}/{doc['metadata']['name']}"
        match doc["kind"]:
            case "Service":
                yield name, spec["selector"]
            case "Deployment" | "StatefulSet" | "PodDisruptionBudget":
                yield name, spec["selector"]["matchLabels"]
            case "NetworkPolicy":
                yield name, spec["podSelector"]["matchLabels"]


@EVERYTHING
def test_every_selector_selects_a_pod_of_the_release(helm: Helm, values: Values) -> None:
    docs = helm.render(values)
    labels = [pod.labels for pod in pods(docs)]
    unmatched = [n for n, s in selectors(docs) if not any(subset(s, found) for found in labels)]
    assert unmatched == []


@EVERYTHING
def test_services_and_workloads_do_not_share_pods(helm: Helm, values: Values) -> None:
    docs = helm.render(values)
    for kind in ("Service", "Deployment", "NetworkPolicy"):
        chosen = [s for n, s in selectors(docs) if n.startswith(f"{kind}/")]
        for pod in pods(docs):
            assert sum(subset(s, pod.labels) for s in chosen) <= 1, (kind, pod.owner)


@EVERYTHING
def test_monitors_and_routes_find_their_service(helm: Helm, values: Values) -> None:
    docs = helm.render(values)
    services = of_kind(docs, "Service")
    for monitor in of_kind(docs, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        (found,) = [s for s in services if subset(wanted, s["metadata"]["labels"])]
        ports = {port["name"] for port in found["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports
    for route in of_kind(docs, "HTTPRoute"):
        for backend in route["spec"]["rules"][0]["backendRefs"]:
            service = named(docs, "Service", backend["name"])
            assert backend["port"] in {port["port"] for port in service["spec"]["ports"]}
    for hpa in of_kind(docs, "HorizontalPodAutoscaler"):
        target = named(docs, "Deployment", hpa["spec"]["scaleTargetRef"]["name"])
        # Both writing the count would undo each other at every upgrade.
        assert "replicas" not in target["spec"]


@EVERYTHING
def test_a_port_that_is_named_exists(helm: Helm, values: Values) -> None:
    docs = helm.render(values)
    for pod in pods(docs):
        for container in pod.containers:
            ports = {port["name"] for port in container.get("ports", ())}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                action = container.get(probe, {})
                for kind in ("httpGet", "tcpSocket"):
                    if kind in action:
                        assert action[kind]["port"] in ports, (pod.owner, probe)
    for service in of_kind(docs, "Service"):
        (behind,) = [p for p in pods(docs) if subset(service["spec"]["selector"], p.labels)]
        ports = {port["name"] for c in behind.containers for port in c.get("ports", ())}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


@EVERYTHING
def test_both_layers_of_autoscaling_agree(helm: Helm, values: Values) -> None:
    for service in of_kind(helm.render(values), "RayService"):
        (application,) = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
        (deployment,) = application["deployments"]
        scaling = deployment.get("autoscaling_config")
        fixed = deployment.get("num_replicas")
        least = scaling["min_replicas"] if scaling else fixed
        most = scaling["max_replicas"] if scaling else fixed
        gpus = application["args"]["num_gpus"]
        cluster = service["spec"]["rayClusterConfig"]
        (group,) = cluster["workerGroupSpecs"]
        resources = group["template"]["spec"]["containers"][0]["resources"]
        per_pod = resources["limits"][GPU]
        assert resources["requests"][GPU] == per_pod
        assert int(group["rayStartParams"]["num-gpus"]) == per_pod
        assert per_pod % gpus == 0, "a replica must not span pods"
        assert group["maxReplicas"] * per_pod >= most * gpus
        assert group["maxReplicas"] == math.ceil(most * gpus / per_pod), "no pod that never fills"
        assert group["minReplicas"] * per_pod >= least * gpus
        assert group["replicas"] == group["minReplicas"]
        assert cluster["enableInTreeAutoscaling"] is bool(scaling)
        assert application["args"]["tp"] == gpus


@EVERYTHING
def test_the_grace_periods_cover_the_drain(helm: Helm, values: Values) -> None:
    docs = helm.render(values)
    for service in of_kind(docs, "RayService"):
        (application,) = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
        limit_s = application["args"]["drain_limit_s"]
        # Serve adds 30 s to the drain for its own shutdown; the pod must outlive both.
        assert service["spec"]["rayClusterDeletionDelaySeconds"] >= limit_s + 30
        for pod in pods([service]):
            if pod.labels["app.kubernetes.io/component"] == "engine":
                hook = pod.spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
                assert float(hook[-1]) == limit_s
                assert pod.spec["terminationGracePeriodSeconds"] >= limit_s + 45
    for pod in pods(of_kind(docs, "Deployment")):
        component = pod.labels["app.kubernetes.io/component"]
        grace_s = pod.spec.get("terminationGracePeriodSeconds", 30)
        (container,) = pod.spec["containers"]
        if component == "engine":
            (limit,) = [a for a in container["args"] if a.startswith("--drain-limit=")]
            assert grace_s >= float(limit.partition("=")[2]) + 45
        if component == "router":
            env = {entry["name"]: entry.get("value") for entry in container["env"]}
            pre_stop_s = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert grace_s >= pre_stop_s + float(env["PBKV_ROUTER_SHUTDOWN_S"]) + 45


@EVERYTHING
def test_start_up_probes_wait_for_the_model(helm: Helm, values: Values) -> None:
    for pod in pods(of_kind(helm.render(values), "Deployment")):
        if pod.labels["app.kubernetes.io/component"] == "engine":
            probe = pod.spec["containers"][0]["startupProbe"]
            assert probe["periodSeconds"] * probe["failureThreshold"] >= 900


@EVERYTHING
def test_every_pod_runs_with_the_least_rights(helm: Helm, values: Values) -> None:
    for pod in pods(helm.render(values)):
        security = pod.spec["securityContext"]
        assert security["runAsNonRoot"] and security["runAsUser"] > 0, pod.owner
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, pod.owner
        # Service links would become settings: Service pbkv-router -> PBKV_ROUTER_PORT.
        assert pod.spec["enableServiceLinks"] is False, pod.owner
        assert not pod.spec.get("hostNetwork") and not pod.spec.get("hostPID"), pod.owner
        for container in pod.containers:
            rights = container["securityContext"]
            where = (pod.owner, container["name"])
            assert rights["capabilities"] == {"drop": ["ALL"]}, where
            assert rights["readOnlyRootFilesystem"] is True, where
            assert rights["allowPrivilegeEscalation"] is False, where
            assert container["resources"]["limits"]["memory"], where
            assert container["resources"]["requests"]["cpu"], where
            mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert mounts <= {volume["name"] for volume in pod.spec["volumes"]} | {"data"}, where


@EVERYTHING
def test_only_the_watcher_and_a_scaling_head_hold_a_token(helm: Helm, values: Values) -> None:
    docs = helm.render(values)
    accounts = {doc["metadata"]["name"] for doc in of_kind(docs, "ServiceAccount")}
    for pod in pods(docs):
        component = pod.labels["app.kubernetes.io/component"]
        if pod.spec["automountServiceAccountToken"]:
            assert component in ("fleet", "engine-head"), pod.owner
        if "serviceAccountName" in pod.spec:
            assert pod.spec["serviceAccountName"] in accounts, pod.owner


def texts(value: Any) -> Iterator[str]:
    """Every string inside ``value``."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def test_no_secret_stands_outside_a_secret(helm: Helm) -> None:
    values = {
        "redis": {"auth": {"password": "hunter2-redis"}},
        "router": {"auth": {"apiKeys": {"hunter2-key": "team"}}},
        "models": [{"name": "m", "source": "tiny", "replicas": {"min": 1, "max": 2}}],
        "metrics": {"serviceMonitor": True, "rules": True, "dashboards": True},
        "trainer": {"enabled": True},
    }
    for mode in ("ray", "cpu"):
        fixed = {**values, "engine": {"mode": mode}}
        if mode == "cpu":
            fixed["models"] = [{"name": "m", "source": "tiny"}]
        docs = helm.render(fixed)
        for doc in docs:
            if doc["kind"] != "Secret":
                assert not [text for text in texts(doc) if "hunter2" in text], doc["metadata"]
        stored = [text for secret in of_kind(docs, "Secret") for text in texts(secret)]
        assert "aHVudGVyMi1yZWRpcw==" in stored


@EVERYTHING
def test_secrets_that_pods_need_are_made_or_given(helm: Helm, values: Values) -> None:
    docs = helm.render(values)
    made = {secret["metadata"]["name"]: secret["data"] for secret in of_kind(docs, "Secret")}
    for pod in pods(docs):
        for container in pod.containers:
            for entry in container.get("env", ()):
                wanted = entry.get("valueFrom", {}).get("secretKeyRef")
                if wanted and wanted["name"].startswith("pbkv-redis"):
                    assert wanted["key"] in made[wanted["name"]], (pod.owner, entry["name"])


@EVERYTHING
def test_an_environment_variable_is_set_before_it_is_used(helm: Helm, values: Values) -> None:
    for pod in pods(helm.render(values)):
        for container in pod.containers:
            known: set[str] = set()
            for entry in container.get("env", ()):
                used = set(re.findall(r"\$\((\w+)\)", entry.get("value", "")))
                assert used <= known, (pod.owner, entry)
                assert entry["name"] not in known, (pod.owner, entry)
                known.add(entry["name"])
            words = [*container.get("command", ()), *container.get("args", ())]
            for word in words:
                assert set(re.findall(r"\$\((\w+)\)", word)) <= known, (pod.owner, word)


@EVERYTHING
def test_claims_are_made_or_given(helm: Helm, values: Values) -> None:
    docs = helm.render(values)
    made = {claim["metadata"]["name"] for claim in of_kind(docs, "PersistentVolumeClaim")}
    for pod in pods(docs):
        for volume in pod.spec["volumes"]:
            if "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                assert name in made or not name.startswith("pbkv-"), pod.owner


def test_pods_that_network_policies_name_are_all_of_them(helm: Helm) -> None:
    """A pod without a policy would accept everything."""
    values = VALUES["cpu with everything"]
    for chosen in (values, VALUES["h100-pool-tp2"], VALUES["several-models"]):
        docs = helm.render(chosen)
        policies = [s for n, s in selectors(docs) if n.startswith("NetworkPolicy/")]
        for pod in pods(docs):
            if pod.labels["app.kubernetes.io/component"] in ("load", "test"):
                continue
            assert any(subset(s, pod.labels) for s in policies), pod.owner


def test_clients_may_be_restricted_without_locking_out_the_charts_own(helm: Helm) -> None:
    docs = helm.render(VALUES["cpu with everything"])
    policy = named(docs, "NetworkPolicy", "pbkv-router")["spec"]
    peers = policy["ingress"][0]["from"]
    own = [peer["podSelector"].get("matchLabels", {}) for peer in peers]
    components = {labels.get("app.kubernetes.io/component") for labels in own}
    assert {"load", "test"} <= components


def test_routers_reach_every_port_that_an_engine_may_choose(helm: Helm) -> None:
    docs = helm.render(VALUES["h100-pool-tp2"])
    to_engines = named(docs, "NetworkPolicy", "pbkv-router")["spec"]["egress"][-1]["ports"]
    from_routers = named(docs, "NetworkPolicy", "pbkv-engine")["spec"]["ingress"][0]["ports"]
    assert to_engines == from_routers
    (ports,) = to_engines
    assert all(ports["port"] <= free_port() <= ports["endPort"] for _ in range(50))


@EVERYTHING
def test_worker_pods_say_to_which_ray_service_they_belong(helm: Helm, values: Values) -> None:
    for service in of_kind(helm.render(values), "RayService"):
        for pod in pods([service]):
            if pod.labels["app.kubernetes.io/component"] == "engine":
                assert pod.labels[RAY_SERVICE] == service["metadata"]["name"]
