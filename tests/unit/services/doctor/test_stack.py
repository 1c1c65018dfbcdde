"""Checks of a running stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from services.cli.main import app
from services.doctor.finding import Finding, Verdict
from services.doctor.stack import check_redis, check_router
from services.ports import free_port
from tests.redis_server import RedisServer

REPLICA = {
    "id": "r1",
    "url": "http://10.0.0.1:15000",
    "state": "ready",
    "reachable": True,
    "kv_tokens_total": 1000,
    "kv_tokens_active": 400,
}


def router(
    replicas: list[dict[str, Any]], *, redis: float = 1.0, health: int = 200, listing: int = 200
) -> httpx.Client:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            return httpx.Response(health)
        if request.url.path == "/metrics":
            return httpx.Response(200, text=f"# HELP x\npbkv_router_redis_available {redis}\n")
        return httpx.Response(listing, json={"data": replicas})

    return httpx.Client(transport=httpx.MockTransport(answer))


def verdicts(findings: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.verdict.value for finding in findings}


def test_a_stack_that_is_well() -> None:
    findings = check_router("http://r/v1", client=router([REPLICA]))
    assert verdicts(findings) == {"router": "ok", "Redis": "ok", "replicas": "ok"}


@pytest.mark.parametrize(
    ("client", "check", "verdict", "detail"),
    [
        (router([]), "replicas", "failed", "none registered"),
        (router([{**REPLICA, "state": "starting"}]), "replicas", "failed", "(starting)"),
        (router([{**REPLICA, "reachable": False}]), "replica r1", "failed", "cannot connect"),
        (router([{**REPLICA, "kv_tokens_active": 990}]), "replica r1", "warning", "99%"),
        (router([REPLICA], redis=0.0), "Redis", "failed", "does not reach it"),
        (router([], listing=401), "API key", "failed", "wants one"),
        (router([], health=404), "router", "failed", "/health answered 404"),
        (router([], listing=404), "router", "failed", "is no router of PBKV"),
    ],
)
def test_what_is_wrong_is_found(
    client: httpx.Client, check: str, verdict: str, detail: str
) -> None:
    (finding,) = [f for f in check_router("http://r", client=client) if f.check == check]
    assert finding.verdict.value == verdict
    assert detail in finding.detail
    assert finding.fix and "\n" not in finding.fix


def test_a_router_that_does_not_answer() -> None:
    (finding,) = check_router(f"http://127.0.0.1:{free_port()}")
    assert finding.verdict is Verdict.FAILED


def test_a_redis_that_may_drop_pins_is_a_warning(redis_server: RedisServer) -> None:
    assert verdicts(check_redis(redis_server.url)) == {"Redis": "ok"}
    redis_server.client.config_set("maxmemory-policy", "allkeys-lru")
    (_, finding) = check_redis(redis_server.url)
    assert (finding.verdict, finding.fix) == (
        Verdict.WARNING,
        "redis-cli config set maxmemory-policy noeviction",
    )


def test_the_command_ends_with_1_if_something_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    url = f"redis://127.0.0.1:{free_port()}/0"
    words = ["doctor", "--no-cluster", "--redis-url", url, "--json", str(report)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    # To be copied, so never wrapped, however narrow the terminal is.
    assert "fix: check host, port, password and TLS of --redis-url\n" in done.output
    assert done.output.count("\n") == 2
    (row,) = json.loads(report.read_text())["rows"]
    assert (row["check"], row["verdict"]) == ("Redis", "failed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--no-cluster"], "nothing to check"),
        (["--mode", "gpu"], "--mode is 'gpu'; choose one of: ray, cpu"),
        (["--kubeconfig", "/nowhere"], "no cluster: kubeconfig: No configuration found;"),
        (["--kubeconfig", "/"], "no cluster: /: Is a directory"),
        (["--kubeconfig", __file__], "test_stack.py is malformed"),
        (["--no-cluster", "--url", "router:8000"], "--url is 'router:8000'; it must start with"),
        (["--no-cluster", "--redis-url", "here"], "redis URL: it must start with one of redis://"),
    ],
)
def test_bad_input_is_one_line_and_2(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["doctor", *words])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert message in done.output


def test_a_problem_always_comes_with_a_fix() -> None:
    with pytest.raises(ValueError, match="names no fix"):
        Finding("x", Verdict.FAILED, "broken")
