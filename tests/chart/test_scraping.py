"""Prometheus finds what it is to scrape, and is let in."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from router.replica import Replica
from router.targets import TARGETS_PATH, scrape_target
from services.ports import free_port
from tests.chart.helm import CHART, Helm, named, of_kind
from tests.chart.values_matrix import VALUES


def scrape_config(helm: Helm, values: Any) -> dict[str, Any]:
    return named(helm.render(values), "ScrapeConfig", "pbkv-engine")["spec"]


def test_it_asks_the_routers_where_the_engines_are(helm: Helm) -> None:
    docs = helm.render(VALUES["h100-pool-tp2"])
    (discovery,) = named(docs, "ScrapeConfig", "pbkv-engine")["spec"]["httpSDConfigs"]
    url = urlsplit(discovery["url"])
    assert url.path == TARGETS_PATH
    service, namespace, kind = str(url.hostname).split(".")
    assert (namespace, kind) == ("pbkv", "svc")
    assert url.port in {p["port"] for p in named(docs, "Service", service)["spec"]["ports"]}
    # This example's router wants keys.
    assert discovery["authorization"]["credentials"]["name"] == "pbkv-metrics-key"
    (open_router,) = scrape_config(helm, {"metrics": {"scrapeConfig": True}})["httpSDConfigs"]
    assert "authorization" not in open_router


def test_it_reads_the_labels_that_the_router_gives(helm: Helm) -> None:
    rules = scrape_config(helm, VALUES["h100-pool-tp2"])["relabelings"]
    read = {label for rule in rules for label in rule.get("sourceLabels", ())}
    replica = Replica.from_hash("r", {"url": "http://h:1", "state": "ready", "model": "m"})
    assert read <= scrape_target(replica)["labels"].keys()
    assert read


def test_the_dashboards_find_engines_by_their_namespace(helm: Helm) -> None:
    rules = scrape_config(helm, VALUES["h100-pool-tp2"])["relabelings"]
    assert {"targetLabel": "namespace", "replacement": "pbkv"} in rules
    text = (CHART / "dashboards/cache.json").read_text()
    used = set(re.findall(r"(pbkv_\w+)\{namespace", text))
    assert {"pbkv_prompt_tokens_total", "pbkv_evicted_tokens_total"} <= used


def test_the_network_policy_lets_it_in_to_every_port_of_an_engine_and_only_then(
    helm: Helm,
) -> None:
    def let_in(values: Any) -> list[dict[str, Any]]:
        policy = named(helm.render(values), "NetworkPolicy", "pbkv-engine")["spec"]
        (rule,) = [rule for rule in policy["ingress"] if "namespaceSelector" in rule["from"][0]]
        return rule["ports"]

    scraped = let_in(VALUES["h100-pool-tp2"])
    assert any(
        all(p["port"] <= free_port() <= p.get("endPort", 0) for _ in range(20)) for p in scraped
    )
    assert not [p for p in let_in({}) if p.get("endPort")]
    assert {"port": 30000, "protocol": "TCP"} in let_in(VALUES["kind-cpu"])


def test_without_it_nothing_needs_its_definition(helm: Helm) -> None:
    """A cluster with an older operator has no such kind, and refuses the whole release."""
    docs = helm.render({"metrics": {"serviceMonitor": True, "rules": True}})
    assert of_kind(docs, "PodMonitor") and not of_kind(docs, "ScrapeConfig")
