"""Where the engines' metrics are, in the form of Prometheus' HTTP service discovery.

An engine of Ray Serve listens on a free port that no manifest can name. The routers know it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request

from router.replica import Replica
from router.serving import Serving

TARGETS_PATH = "/v1/replicas/targets"


def target_routes(serving: Serving) -> APIRouter:
    """The route. Addresses inside a cluster are not for everyone: with API keys it needs one."""
    routes = APIRouter()

    @routes.get(TARGETS_PATH, tags=["probes"])
    async def list_targets(request: Request) -> list[dict[str, Any]]:
        serving.auth.tenant(request.scope["headers"])
        # One that starts does not listen yet; it would only be reported as down.
        return [
            scrape_target(candidate.replica)
            for candidate in serving.directory.all()
            if candidate.replica.serving
        ]

    return routes


def scrape_target(replica: Replica) -> dict[str, Any]:
    """One target group. ``__meta_`` labels exist while Prometheus relabels, then they are gone."""
    url = urlsplit(replica.url)
    return {
        "targets": [url.netloc],
        "labels": {
            "__scheme__": url.scheme,
            "__metrics_path__": f"{url.path}/metrics",
            "__meta_pbkv_replica": replica.id,
            "__meta_pbkv_model": replica.model,
            "__meta_pbkv_state": replica.state,
        },
    }
