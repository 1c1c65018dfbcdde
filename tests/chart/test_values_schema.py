"""Values that make no sense are refused before anything is rendered, in words people understand."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
import yaml

from pbkv.settings import PolicySettings
from router.settings import RouterSettings
from services.models import RECIPES
from tests.chart.helm import CHART, Helm, Refused

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
MODEL = {"name": "m", "source": "tiny"}

UNKNOWN = [
    ({"engin": {}}, "engin"),
    ({"engine": {"mod": "cpu"}}, "mod"),
    ({"router": {"settings": {"max_inflight": 3}}}, "max_inflight"),
    ({"models": [{**MODEL, "replica": 3}]}, "replica"),
    ({"redis": {"internal": {"maxmemory": "1gb"}}}, "maxmemory"),
    ({"router": {"resources": {"request": {}}}}, "request"),
    ({"engine": {"policyOptions": {"gama": 1}}}, "gama"),
    ({"models": [{**MODEL, "policyOptions": {"redis_url": "x"}}]}, "redis_url"),
]
WRONG = [
    ({"engine": {"mode": "gpu"}}, "/engine/mode", "'ray', 'cpu'"),
    ({"models": []}, "/models", "minItems"),
    ({"models": [{"source": "tiny"}]}, "/models/0", "missing property 'name'"),
    ({"models": [{**MODEL, "name": "Qwen3"}]}, "/models/0/name", "does not match pattern"),
    ({"models": [{**MODEL, "replicas": {"min": 0}}]}, "/models/0/replicas/min", "want 1"),
    ({"models": [{**MODEL, "tp": "two"}]}, "/models/0/tp", "want integer"),
    ({"engine": {"policy": "best"}}, "/engine/policy", "'lru'"),
    ({"drain": {"limitSeconds": -1}}, "/drain/limitSeconds", "minimum"),
    ({"drain": {"marginSeconds": 5}}, "/drain/marginSeconds", "want 45"),
    ({"router": {"service": {"port": 99999}}}, "/router/service/port", "maximum"),
    ({"engine": {"shmSize": "lots"}}, "/engine/shmSize", "does not match pattern"),
    ({"trainer": {"schedule": "nightly"}}, "/trainer/schedule", "does not match pattern"),
    ({"trainer": {"family": "gpt"}}, "/trainer/family", "'markov', 'graphsage'"),
    ({"models": [{**MODEL, "replicas": 3}]}, "/models/0/replicas", "want object"),
    ({"images": {"router": "pbkv/router:0.2"}}, "/images/router", "want object"),
    ({"redis": {"auth": {"password": "a/b@c"}}}, "/redis/auth/password", "does not match"),
    ({"engine": {"ray": {"autoscaling": {"targetActiveFraction": 2}}}}, "Fraction", "maximum"),
]
CONTRADICTIONS = [
    (
        {"models": [{**MODEL, "replicas": {"min": 4, "max": 2}}]},
        "m: replicas.min is 4, more than replicas.max, 2",
    ),
    ({"models": [MODEL, MODEL]}, 'two are called "m"'),
    ({"models": [{"name": "m"}]}, "m: give a source or a download"),
    ({"models": [{**MODEL, "download": {"repo": "a/b"}}]}, "source and download exclude"),
    (
        {"models": [{"name": "m", "source": "Qwen/Qwen3-14B"}]},
        'source "Qwen/Qwen3-14B" is neither smollm2, tiny or bench',
    ),
    ({"models": [{"name": "m", "source": "/models/x"}]}, "modelCache.enabled=true"),
    (
        {"engine": {"mode": "cpu"}, "models": [{**MODEL, "replicas": {"min": 1, "max": 2}}]},
        "engine.mode=cpu does not scale by itself",
    ),
    ({"redis": {"mode": "external"}}, "redis.mode=external needs a host"),
    (
        {"redis": {"mode": "external", "external": {"sentinel": {"enabled": True}}}},
        "redis.external.sentinel.hosts",
    ),
    (
        {
            "redis": {
                "mode": "external",
                "external": {"host": "h", "sentinel": {"enabled": True, "hosts": ["s"]}},
            }
        },
        "host and sentinel exclude each other",
    ),
    ({"engine": {"mode": "cpu"}, "metrics": {"scrapeConfig": True}}, "is for engine.mode=ray"),
    (
        {"router": {"auth": {"existingSecret": "k"}}, "metrics": {"scrapeConfig": True}},
        "metrics.apiKeySecret: the router wants API keys",
    ),
    ({"redis": {"auth": {"password": "a", "existingSecret": "b"}}}, "exclude each other"),
    ({"router": {"ingress": {"enabled": True}}}, "router.ingress.hosts"),
    ({"router": {"gateway": {"enabled": True}}}, "router.gateway.parentRefs"),
    (
        {"router": {"autoscaling": {"enabled": True, "min": 5, "max": 3}}},
        "min is 5, more than max, 3",
    ),
    (
        {"router": {"auth": {"existingSecret": "k"}}, "load": {"enabled": True}},
        "load.apiKeySecret: the router wants API keys",
    ),
    ({"fullnameOverride": "x" * 40}, "longer than the 47 characters that KubeRay allows"),
]


@pytest.mark.parametrize(("values", "name"), UNKNOWN)
def test_a_misspelt_value_is_named(helm: Helm, values: dict[str, Any], name: str) -> None:
    with pytest.raises(Refused, match=rf"additional properties '{name}' not allowed"):
        helm.render(values)


@pytest.mark.parametrize(("values", "where", "why"), WRONG)
def test_a_wrong_value_is_refused_with_its_place(
    helm: Helm, values: dict[str, Any], where: str, why: str
) -> None:
    with pytest.raises(Refused) as refused:
        helm.render(values)
    lines = [line for line in str(refused.value).splitlines() if where in line]
    assert any(why in line for line in lines), refused.value


@pytest.mark.parametrize(("values", "message"), CONTRADICTIONS)
def test_values_that_contradict_each_other_are_refused(
    helm: Helm, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused) as refused:
        helm.render(values)
    assert message in str(refused.value)


def test_helm_3_refuses_them_too(each_helm: Helm) -> None:
    with pytest.raises(Refused, match="mod"):
        each_helm.render({"engine": {"mod": "cpu"}})


def test_every_object_of_the_schema_is_closed() -> None:
    def walk(schema: Any, path: str) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object" and "properties" in schema:
                assert schema.get("additionalProperties") is False, path
            for name, inner in schema.items():
                walk(inner, f"{path}/{name}")
        elif isinstance(schema, list):
            for index, inner in enumerate(schema):
                walk(inner, f"{path}/{index}")

    walk(SCHEMA, "")


def test_the_router_settings_are_those_of_the_router() -> None:
    ours = set(SCHEMA["properties"]["router"]["properties"]["settings"]["properties"])
    set_by_the_chart = {"host", "port", "redis_url", "idle_timeout_s", "shutdown_s"}
    set_by_the_chart |= {"api_keys", "api_keys_file"}
    assert ours == RouterSettings.model_fields.keys() - set_by_the_chart


def test_the_policy_options_are_those_of_the_policy() -> None:
    ours = set(SCHEMA["definitions"]["policyOptions"]["properties"])
    set_by_the_chart = {"policy", "queue", "idle_timeout_s", "redis_url", "replica_id"}
    assert ours == {field.name for field in fields(PolicySettings)} - set_by_the_chart


def test_the_families_of_predictors_are_those_that_can_be_trained() -> None:
    pytest.importorskip("torch", reason="the engine extra is not installed (make install)")
    from pbkv.predict.families import NETWORKS

    trained = {"/".join(filter(None, (f, v))) for f, kinds in NETWORKS.items() for v in kinds}
    assert set(SCHEMA["properties"]["trainer"]["properties"]["family"]["enum"]) == {
        "markov",
        *trained,
    }


def test_the_models_that_the_image_can_build_are_all_of_them(helm: Helm) -> None:
    for name in RECIPES:
        helm.render({"models": [{"name": "m", "source": name}]})
    with pytest.raises(Refused, match=" ".join(("smollm2,", "tiny", "or", "bench"))):
        helm.render({"models": [{"name": "m", "source": "another"}]})
    assert set(RECIPES) == {"smollm2", "tiny", "bench"}


def test_the_schema_knows_every_default() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def walk(value: Any, schema: dict[str, Any], path: str) -> None:
        if "$ref" in schema:
            return
        for name, inner in value.items():
            assert name in schema["properties"], f"{path}.{name}"
            if isinstance(inner, dict) and "properties" in schema["properties"][name]:
                walk(inner, schema["properties"][name], f"{path}.{name}")

    walk(values, SCHEMA, "")
