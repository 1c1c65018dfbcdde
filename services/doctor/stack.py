"""Checks of a running stack: router, Redis, replicas."""

from __future__ import annotations

from typing import Any

import httpx
from redis.exceptions import RedisError
from redis.sentinel import MasterNotFoundError

from pbkv.keys import REPLICAS_PATTERN
from pbkv.sglang.redis_client import redis_client
from services.doctor.finding import Finding, failed, ok, warning

_TIMEOUT_S = 5.0
_CROWDED_FRACTION = 0.95


def check_router(
    base_url: str, api_key: str = "", client: httpx.Client | None = None
) -> list[Finding]:
    """The router answers, sees Redis, and has replicas that serve."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    http = client or httpx.Client(timeout=_TIMEOUT_S)
    url = base_url.rstrip("/").removesuffix("/v1")
    try:
        health = http.get(f"{url}/health")
    except httpx.HTTPError as problem:
        fix = "kubectl -n pbkv port-forward svc/pbkv-router 8000:80   # or correct --url"
        reason = " ".join(str(problem).split())[:120] or type(problem).__name__
        return [failed("router", f"{url} does not answer: {reason}", fix)]
    if health.status_code != httpx.codes.OK:
        fix = f"check that {url} is the router, and no other server"
        return [failed("router", f"/health answered {health.status_code}", fix)]
    findings = [ok("router", url), *_redis_of_router(http, url)]
    replicas = http.get(f"{url}/v1/replicas", headers=headers)
    if replicas.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return [*findings, failed("API key", "the router wants one", "pass --api-key")]
    if replicas.status_code != httpx.codes.OK:
        detail = f"{url} is no router of PBKV: /v1/replicas answered {replicas.status_code}"
        return [failed("router", detail, "check --url; an engine's own port answers /health too")]
    return [*findings, *_replicas(replicas.json()["data"])]


def check_redis(redis_url: str) -> list[Finding]:
    """Redis answers, keeps what it is told, and replicas register there."""
    client: Any = redis_client(
        redis_url,
        decode_responses=True,
        socket_timeout=_TIMEOUT_S,
        socket_connect_timeout=_TIMEOUT_S,
    )
    try:
        info = client.info("memory")
        policy = client.config_get("maxmemory-policy").get("maxmemory-policy", "")
        count = sum(1 for _ in client.scan_iter(match=REPLICAS_PATTERN, count=1000))
    except MasterNotFoundError as problem:
        fix = "check hosts, name and sentinel_password: redis-cli -p 26379 sentinel masters"
        return [failed("Redis", str(problem), fix)]
    except (RedisError, OSError) as problem:
        reason = " ".join(str(problem).split())[:120]
        return [failed("Redis", reason, "check host, port, password and TLS of --redis-url")]
    finally:
        client.close()
    findings = [ok("Redis", f"{info['used_memory_human']} used, {count} replicas registered")]
    if policy not in ("", "noeviction"):
        fix = "redis-cli config set maxmemory-policy noeviction"
        findings.append(warning("Redis", f"under {policy} it may drop the pins of workflows", fix))
    return findings


def _redis_of_router(http: httpx.Client, url: str) -> list[Finding]:
    for line in http.get(f"{url}/metrics").text.splitlines():
        if line.startswith("pbkv_router_redis_available "):
            if float(line.split()[1]) == 1.0:
                return [ok("Redis", "the router reaches it")]
            fix = "check PBKV_ROUTER_REDIS_URL, the Secret behind it, and the NetworkPolicy"
            return [failed("Redis", "the router does not reach it", fix)]
    return []


def _replicas(replicas: list[dict[str, Any]]) -> list[Finding]:
    ready = [replica for replica in replicas if replica["state"] == "ready"]
    if not ready:
        states = ", ".join(sorted(r["state"] for r in replicas)) or "none registered"
        fix = "look at the engines' logs; a large model takes minutes to load"
        return [failed("replicas", f"none is ready ({states})", fix)]
    findings = [ok("replicas", f"{len(ready)} of {len(replicas)} ready")]
    for replica in replicas:
        if not replica["reachable"]:
            fix = "engines must bind 0.0.0.0 and advertise an address that routers reach"
            detail = f"the router cannot connect to {replica['url']}"
            findings.append(failed(f"replica {replica['id']}", detail, fix))
        total = replica["kv_tokens_total"]
        if total and replica["kv_tokens_active"] / total > _CROWDED_FRACTION:
            share = replica["kv_tokens_active"] / total
            detail = f"live workflows hold {share:.0%} of its KV cache"
            fix = "add replicas, lower --idle-timeout, or give it a host tier (hostRatio)"
            findings.append(warning(f"replica {replica['id']}", detail, fix))
    return findings
