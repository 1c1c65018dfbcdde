"""Bad input gets an OpenAI-shaped error, and none of it is logged."""

import asyncio
import logging

import pytest

from tests.contract.router.stack import running_router
from tests.fakes.engine import MODEL

SECRET = "confidential-prompt-text"
CHAT = "/v1/chat/completions"
GOOD = {"model": MODEL, "messages": [{"role": "user", "content": SECRET}]}


def check_shape(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert set(error) == {"message", "type", "code"}
    assert error["message"] and "\n" not in error["message"]
    assert "Traceback" not in answer.text
    return error


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"messages": "' + SECRET.encode(), 400, None),
        (b"", 400, None),
        (b"[]", 400, None),
        (b"\xff\xfe\x00", 400, None),
        (b'{"model": "gpt-9", "messages": [{"role": "user"}]}', 404, "model_not_found"),
        (b'{"model": 1, "messages": [{"role": "user"}]}', 400, None),
        (b'{"model": "fake-model"}', 400, None),
        (b'{"model": "fake-model", "messages": []}', 400, None),
        (b'{"model": "fake-model", "messages": [{}], "workflow": 1}', 400, None),
        (
            b'{"model": "fake-model", "messages": [{}], "x": ' + b"[" * 400 + b"]" * 400 + b"}",
            400,
            None,
        ),
        (b"[" * 100_000, 400, None),
    ],
)
async def test_bodies(router, engine, caplog, body, status, code):
    caplog.set_level(logging.DEBUG)
    error = check_shape(await router.http.post(CHAT, content=body), status)
    assert error["code"] == code
    assert engine.requests == []
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({b"X-Workflow-ID": b"\xff\xfe"}, 400),
        ({b"X-Agent-Name": b"\xc3("}, 400),
        ({b"X-Other": b"\xff"}, 400),
        ({b"X-Workflow-ID": b"x" * 257}, 400),
        ({b"X-Workflow-ID": b"x" * 1_000_000}, 431),
        ({b"X-Workflow-End": b"perhaps"}, 400),
    ],
)
async def test_headers(router, engine, headers, status):
    check_shape(await router.http.post(CHAT, json=GOOD, headers=headers), status)
    assert engine.requests == []
    if status == 431:
        check_shape(await router.http.get("/v1/workflows", headers=headers), status)
    # The router is none the worse for it.
    assert (await router.chat()).status_code == 200


async def test_control_characters_in_a_header(router):
    """httptools closes on some of these before the application sees them: never a stack trace."""
    host, port = router.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Workflow-ID: a\x01b\r\n"
        b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    )
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"Traceback" not in answer


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("PUT", "/v1/workflows", 405, "method_not_allowed"),
        ("GET", "/v1/workflows/unknown", 404, "workflow_not_found"),
        ("GET", "/v1/models/unknown", 404, "model_not_found"),
        ("GET", "/v1/workflows?limit=0", 400, None),
        ("GET", "/v1/workflows?limit=x", 400, None),
        ("GET", "/v1/workflows?state=odd", 400, None),
        ("GET", "/v1/workflows/%ff", 404, "workflow_not_found"),
        ("DELETE", "/v1/workflows/" + "x" * 257, 400, None),
    ],
)
async def test_routes(router, method, path, status, code):
    error = check_shape(await router.http.request(method, path), status)
    assert error["code"] == code


async def test_an_unknown_model_lists_the_served_ones(router):
    answer = await router.chat(model="gpt-9")
    assert MODEL in check_shape(answer, 404)["message"]


async def test_body_limit(redis_url, engine):
    async with running_router(redis_url, max_body_bytes=200) as router:
        assert (await router.chat()).status_code == 200
        error = check_shape(await router.chat(padding="x" * 200), 413)
        assert error["code"] == "request_too_large"


async def test_in_flight_limit(redis_url, engine):
    engine.faults.hold = True
    async with running_router(redis_url, max_in_flight=1) as router:
        first = asyncio.create_task(router.chat())
        await engine.until(arrived=1)
        refused = await router.chat()
        check_shape(refused, 429)
        assert refused.headers["retry-after"] == "1"
        engine.release()
        assert (await first).status_code == 200
        engine.faults.hold = False
        assert (await router.chat()).status_code == 200


@pytest.mark.parametrize(
    ("status", "shown", "code"),
    [(400, 400, "context_length_exceeded"), (404, 404, None), (422, 400, None)],
)
async def test_what_the_engine_refuses(router, engine, caplog, status, shown, code):
    caplog.set_level(logging.DEBUG)
    engine.faults.status = status
    tail = "longer than the model's context length" if status == 400 else SECRET
    engine.faults.message = f"The input is {tail}"
    for stream in (False, True):
        answer = await router.chat(stream=stream)
        error = check_shape(answer, shown)
        assert error["message"] == engine.faults.message
        assert error["code"] == code
        assert answer.headers["x-pbkv-replica"] == "a"
    assert SECRET not in caplog.text


async def test_a_prompt_beyond_the_pool_is_too_long_as_well(router, engine):
    engine.faults.status = 400
    engine.faults.message = (
        "Input length (90 tokens) exceeds the maximum allowed length (59 tokens)."
    )
    error = check_shape(await router.chat(), 400)
    assert error["code"] == "context_length_exceeded"


async def test_an_engine_that_fails_does_not_show_its_inside(router, engine):
    engine.faults.status = 500
    engine.faults.message = "secret inside"
    error = check_shape(await router.chat(), 500)
    assert "secret" not in error["message"]
    # A failure is an answer: the request is not repeated elsewhere.
    assert len(engine.requests) == 1


async def test_an_overloaded_engine(router, engine):
    engine.faults.status = 503
    engine.faults.message = "The request queue is full."
    answer = await router.chat()
    assert check_shape(answer, 503)["message"] == engine.faults.message
    assert answer.headers["retry-after"] == "1"


async def test_an_unexpected_exception_is_not_shown(router, monkeypatch, caplog):
    def explode(*args, **kwargs):
        raise RuntimeError(SECRET)

    monkeypatch.setattr("router.completions.identify", explode)
    error = check_shape(await router.chat(), 500)
    assert error["code"] == "internal_error"
    assert "unexpected RuntimeError" in caplog.text
    assert SECRET not in caplog.text


async def test_good_requests_leave_no_text_in_the_log(router, caplog):
    caplog.set_level(logging.DEBUG)
    assert (await router.http.post(CHAT, json=GOOD)).status_code == 200
    assert (await router.http.post(CHAT, json={**GOOD, "stream": True})).status_code == 200
    assert SECRET not in caplog.text


async def test_labels_stay_bounded(router):
    for i in range(5):
        await router.http.get(f"/nowhere/{i}")
        await router.http.get(f"/v1/workflows/w{i}")
    text = (await router.http.get("/metrics")).text
    assert 'pbkv_router_requests_total{route="other",status="404"} 5.0' in text
    assert 'route="/v1/workflows/{id}",status="404"} 5.0' in text
    assert "nowhere" not in text


async def test_without_replicas(redis_url):
    async with running_router(redis_url) as router:
        for answer in (await router.chat(), await router.http.get("/ready")):
            assert check_shape(answer, 503)["code"] == "no_replica_ready"
            assert answer.headers["retry-after"] == "1"
        assert (await router.http.get("/health")).status_code == 200
        assert (await router.http.get("/v1/models")).json() == {"object": "list", "data": []}


KEYS = {"k1": "acme", "k2": "globex"}


class TestKeys:
    async def test_a_key_is_needed(self, redis_url, engine):
        async with running_router(redis_url, api_keys=KEYS) as router:
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                check_shape(await router.chat(headers=headers), 401)
                for path in ("/v1/workflows", "/v1/models", "/v1/replicas", "/v1/workflows/w"):
                    check_shape(await router.http.get(path, headers=headers), 401)
            for path in ("/health", "/ready", "/metrics"):
                assert (await router.http.get(path)).status_code == 200
            assert engine.requests == []

    async def test_tenants_do_not_see_each_other(self, redis_url, engine):
        async with running_router(redis_url, api_keys=KEYS) as router:
            one, two = ({"Authorization": f"Bearer {key}"} for key in KEYS)
            answer = await router.chat(headers=one)
            assert answer.headers["x-workflow-id"] == "w"
            assert engine.requests[0].invocation["workflow"] == "acme:w"
            assert "Authorization" not in engine.requests[0].headers
            check_shape(await router.http.get("/v1/workflows/w", headers=two), 404)
            assert (await router.http.get("/v1/workflows", headers=two)).json()["data"] == []
            listed = (await router.http.get("/v1/workflows", headers=one)).json()["data"]
            assert [view["id"] for view in listed] == ["w"]
