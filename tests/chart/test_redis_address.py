"""What pods are given as the address of Redis is read by the project's own clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from pbkv.redis_url import PlainAddress, SentinelAddress, redis_address
from tests.chart.helm import Docs, Helm, named, of_kind, pods
from tests.chart.values_matrix import VALUES

# As random Secrets look: with what separates the parts of a URL.
SECRETS = {"PBKV_REDIS_PASSWORD": "r/ed?is+p#w=", "PBKV_SENTINEL_PASSWORD": "s/en+t="}


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a container as Kubernetes fills them in."""
    known = dict(SECRETS)
    for entry in container.get("env", ()):
        if "value" in entry:
            known[entry["name"]] = re.sub(
                r"\$\((\w+)\)", lambda found: known[found[1]], entry["value"]
            )
    return known


def addresses(docs: Docs) -> dict[str, PlainAddress | SentinelAddress]:
    """What each pod that reaches Redis reaches."""
    return {
        pod.owner: redis_address(value)
        for pod in pods(docs)
        for container in pod.containers
        for name, value in environment(container).items()
        if name in ("PBKV_REDIS_URL", "PBKV_ROUTER_REDIS_URL")
    }


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_all_pods_are_given_one_address_that_they_can_read(helm: Helm, values: Any) -> None:
    found = addresses(helm.render(values))
    assert len(found) >= 2
    assert len(set(map(str, found.values()))) == 1
    assert len({getattr(a, "url", None) or a.member_url for a in found.values()}) == 1


def test_sentinels_are_asked_with_passwords_and_tls(helm: Helm) -> None:
    docs = helm.render(VALUES["sentinel with tls"])
    address = addresses(docs)["Deployment/pbkv-router"]
    assert isinstance(address, SentinelAddress)
    assert address.sentinels == (("s1", 26379), ("s2", 26379))
    assert address.master == "pins"
    assert address.member_url == (
        "rediss://pbkv:r%2Fed%3Fis%2Bp%23w%3D@MASTER/3?ssl_ca_certs=/etc/pbkv/redis-ca/ca.crt"
    )
    assert address.sentinel_password is None
    several = addresses(helm.render(VALUES["several-models"]))["Deployment/pbkv-router"]
    assert isinstance(several, SentinelAddress)
    assert several.sentinel_password == SECRETS["PBKV_SENTINEL_PASSWORD"]


def test_members_and_sentinels_may_both_be_reached(helm: Helm) -> None:
    docs = helm.render(VALUES["sentinel with tls"])
    for component in ("router", "engine", "fleet"):
        egress = named(docs, "NetworkPolicy", f"pbkv-{component}")["spec"]["egress"]
        ports = {port["port"] for rule in egress if "to" not in rule for port in rule["ports"]}
        assert {6390, 26379} <= ports
    # Nothing in between: one more hop would be one more thing to follow the master.
    assert not [s for s in of_kind(docs, "Service") if "proxy" in s["metadata"]["name"]]
