"""What goes wrong is counted by kind: never a crash, never a missing sample."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import threading

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from loadgen.arrivals import ArrivalKind, Arrivals
from loadgen.errors import TargetUnusable
from loadgen.measure import measure
from loadgen.records import ErrorKind, WorkflowState
from loadgen.run import Pace
from loadgen.source import Source
from loadgen.summary import rows
from loadgen.target import Target
from pbkv.workload import ScriptedCall, ScriptedWorkflow, Segment
from services.ports import free_port
from tests.contract.loadgen.plans import one_call_source, small_plan
from tests.contract.router.stack import ROOT
from tests.fakes.engine import FakeEngine

MODEL = {"model": "m"}
OPENSSL = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=nobody".split()


@pytest.fixture
async def alone():
    """A fake engine without a router."""
    engine = await FakeEngine().start()
    yield engine
    await engine.stop()


async def run_at(url, count=1, **target):
    plan = small_plan(url, source=one_call_source(count), target=Target.of(url, **MODEL, **target))
    return (await measure(plan)).records


async def test_nothing_listens():
    records = await run_at(f"http://127.0.0.1:{free_port()}", count=3)
    assert [call.error for call in records.calls] == [ErrorKind.UNREACHABLE] * 3
    assert {w.state for w in records.workflows} == {WorkflowState.FAILED}
    total = rows(records)[0]
    assert (total["calls"], total["errors"], total["latency_mean_s"]) == (3, 3, None)


async def test_no_model_and_nobody_to_ask():
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TargetUnusable, match="/v1/models: cannot connect"):
        await measure(small_plan(url, source=one_call_source()))


async def test_a_wrong_key_is_called_so_when_the_model_is_asked_for():
    async def models(request):
        return web.json_response({"error": {"message": "no"}}, status=401)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    async with TestServer(app) as server:
        with pytest.raises(TargetUnusable, match="is the key right"):
            await measure(small_plan(str(server.make_url("")), source=one_call_source()))


@pytest.mark.parametrize(
    ("faults", "kind"),
    [
        ({"status": 400}, ErrorKind.CLIENT),
        ({"status": 401}, ErrorKind.KEY),
        ({"status": 500}, ErrorKind.SERVER),
        ({"drop": True}, ErrorKind.UNREACHABLE),
        ({"die_after_chunks": 1}, ErrorKind.BROKEN_STREAM),
        ({"hold": True}, ErrorKind.TIMEOUT),
    ],
)
async def test_kinds(alone, faults, kind):
    for name, value in faults.items():
        setattr(alone.faults, name, value)
    records = await run_at(alone.url, request_timeout_s=1.0)
    assert [call.error for call in records.calls] == [kind]


async def test_a_broken_workflow_makes_no_further_calls_and_is_ended(router, engine, fleet):
    engine.faults.die_after_chunks = 1
    plan = small_plan(router.url, "hover", count=1)
    measured = await measure(plan)
    assert [call.error for call in measured.records.calls] == [ErrorKind.BROKEN_STREAM]
    assert (await fleet.workflow(f"t-{plan.source.scripts[0].workflow_id}"))["state"] == "retired"


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured(status):
    # The second date has no zone, the last is none at all.
    waits = ["0.01", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 -0000", "nan"]

    async def chat(request):
        if waits:
            return web.json_response({}, status=status, headers={"Retry-After": waits.pop(0)})
        return web.Response(body=b"data: " + CHUNK + b"\n\ndata: [DONE]\n\n")

    async with serving(chat) as url:
        plan = small_plan(url, source=one_call_source(), target=Target.of(url, **MODEL))
        measured = await measure(plan)
    (call,) = measured.records.calls
    assert (call.error, call.retries) == (None, 4)
    assert any(note.startswith("1 calls were sent again, 4 times") for note in measured.notes)
    assert call.sent_s <= call.first_token_s


CHUNK = json.dumps({"choices": [{"index": 0, "delta": {"content": "hi"}}]}).encode()


async def test_answers_without_usage_are_said_to_have_none():
    async def chat(request):
        return web.Response(body=b"data: " + CHUNK + b"\r\n\r\ndata: [DONE]\r\n\r\n")

    async with serving(chat) as url:
        plan = small_plan(url, source=one_call_source(2), target=Target.of(url, **MODEL))
        measured = await measure(plan)
    assert rows(measured.records)[0]["hit_rate"] is None
    assert rows(measured.records)[0]["without_usage"] == 2
    assert any("no usage" in note for note in measured.notes)


@pytest.mark.parametrize(
    "usage",
    [
        "many",
        [],
        {"prompt_tokens": "7", "prompt_tokens_details": []},
        {"prompt_tokens": True, "prompt_tokens_details": {"cached_tokens": 0.5}},
    ],
)
async def test_usage_of_another_form_is_none(usage):
    async def chat(request):
        end = json.dumps({"choices": [], "usage": usage, "error": None}).encode()
        return web.Response(body=b"data: " + CHUNK + b"\n\ndata: " + end + b"\n\ndata: [DONE]\n\n")

    async with serving(chat) as url:
        records = await run_at(url)
    (call,) = records.calls
    assert (call.error, call.prompt_tokens, call.cached_tokens) == (None, None, None)


async def test_a_model_that_reasons_has_its_first_token_there():
    first = json.dumps({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}).encode()

    async def chat(request):
        return web.Response(body=b"data: " + first + b"\n\ndata: [DONE]\n\n")

    async with serving(chat) as url:
        records = await run_at(url)
    assert records.calls[0].ttft_s is not None


async def test_a_connection_that_breaks_behind_the_answer_is_no_error():
    async def chat(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"data: " + CHUNK + b"\n\ndata: [DONE]\n\n")
        # The end of the chunked transfer never comes.
        request.transport.close()
        return response

    async with serving(chat) as url:
        records = await run_at(url)
    assert records.calls[0].error is None


async def test_any_name_of_a_trace_can_be_sent():
    seen = []

    async def chat(request):
        seen.append(request.headers.get("X-Agent-Name"))
        return web.Response(body=b"data: " + CHUNK + b"\n\ndata: [DONE]\n\n")

    calls = [ScriptedCall(name, "c", (Segment("x", 3),), (), 2) for name in (" a\nb", "\n")]
    script = ScriptedWorkflow("w", {"c": ()}, tuple(calls))
    async with serving(chat) as url:
        plan = small_plan(url, source=Source("t", (script,)), target=Target.of(url, **MODEL))
        measured = await measure(plan)
    assert [call.error for call in measured.records.calls] == [None, None]
    assert seen == ["a b", None]


async def test_what_never_got_room_is_mentioned(alone):
    alone.faults.hold = True
    plan = small_plan(
        alone.url,
        source=one_call_source(3),
        target=Target.of(alone.url, **MODEL),
        pace=Pace(concurrency=1),
        arrivals=Arrivals(ArrivalKind.POISSON, rate=1e6),
    )
    measuring = asyncio.create_task(measure(plan))
    await alone.until(arrived=1)
    os.kill(os.getpid(), signal.SIGINT)
    measured = await measuring
    assert len(measured.records.workflows) == 1
    assert any("2 workflows were due and had not begun" in note for note in measured.notes)


async def test_something_else_listens():
    async def chat(request):
        return web.Response(text="<html>welcome</html>")

    async with serving(chat) as url:
        records = await run_at(url)
    assert records.calls[0].error is ErrorKind.NOT_OPENAI


async def test_an_error_event_breaks_the_stream():
    async def chat(request):
        return web.Response(body=b"data: " + CHUNK + b'\n\ndata: {"error":{"message":"gone"}}\n\n')

    async with serving(chat) as url:
        records = await run_at(url)
    call = records.calls[0]
    assert (call.error, call.detail) == (ErrorKind.BROKEN_STREAM, "gone")


async def test_counters_that_disagree_are_mentioned():
    async def chat(request):
        usage = {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 5}}
        end = json.dumps({"choices": [], "usage": usage}).encode()
        return web.Response(body=b"data: " + CHUNK + b"\n\ndata: " + end + b"\n\ndata: [DONE]\n\n")

    asked = 0

    async def metrics(request):
        nonlocal asked
        asked += 1
        return web.Response(
            text="# TYPE pbkv_prompt_tokens counter\n"
            f"pbkv_prompt_tokens_total {100 * asked}\n"
            "# TYPE pbkv_cached_tokens counter\n"
            f"pbkv_cached_tokens_total {5 * asked}\n"
        )

    async with serving(chat, metrics) as url:
        plan = small_plan(url, source=one_call_source(1), target=Target.of(url, **MODEL))
        measured = await measure(plan)
    (note,) = (note for note in measured.notes if "disagree" in note)
    assert "10 prompt tokens by the answers, 100 by the engines" in note
    assert "cached tokens" not in note


async def test_wrong_tls(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate = tmp_path / "cert.pem"
    key = tmp_path / "key.pem"
    await asyncio.to_thread(
        subprocess.run,
        [*OPENSSL, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context.load_cert_chain(certificate, key)

    async def chat(request):
        return web.Response()

    async with serving(chat, tls=context) as url:
        records = await run_at(url)
    assert records.calls[0].error is ErrorKind.TLS


def test_ctrl_c_writes_the_report(tmp_path):
    """In a process of its own, as a user would."""
    started = threading.Event()
    ready: list[str] = []
    over = threading.Event()
    thread = threading.Thread(target=serve_held_calls, args=(ready, started, over))
    thread.start()
    while not ready:
        thread.join(0.01)
    results = tmp_path / "results.json"
    page = tmp_path / "page.html"
    argv = [sys.executable, "-m", "services.cli.main", "load", "run", "--url", ready[0]]
    argv += ["--workflows", "3", "--concurrency", "3", "--json", str(results), "--html", str(page)]
    process = subprocess.Popen(
        argv, cwd=ROOT, env={**os.environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert started.wait(240)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        over.set()
        thread.join()
    content = json.loads(results.read_text())
    assert content["rows"][0]["errors_by_kind"] == {"cut": 3}
    assert content["rows"][0]["workflows_cut"] == 3
    assert "stopped before its end" in content["notes"][0]
    assert "Hit rate over time" in page.read_text()
    assert b"Traceback" not in err
    assert process.returncode == 1


def serve_held_calls(ready, started, over):
    """Takes calls and answers none."""

    async def serve():
        engine = await FakeEngine().start()
        engine.faults.hold = True
        ready.append(engine.url)
        await engine.until(arrived=3)
        started.set()
        await asyncio.to_thread(over.wait, 60)
        await engine.stop()

    asyncio.run(serve())


class serving:  # noqa: N801
    """A small server for answers that the fake engine does not give."""

    def __init__(self, chat, metrics=None, tls=None):
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        if metrics is not None:
            app.router.add_get("/metrics", metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._tls = tls

    async def __aenter__(self):
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aexit__(self, *problem):
        await self._runner.cleanup()
