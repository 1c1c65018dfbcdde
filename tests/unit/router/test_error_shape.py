"""Engine errors in OpenAI's shape."""

import json

import pytest

from router.error_shape import engine_error, error_body, error_response
from router.errors import NoReplicaReady

SGLANG = {"object": "error", "message": "m", "type": "BadRequest", "param": None, "code": 400}


def shaped(status, answer):
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    error = engine_error(status, body, retry_after_s=2)
    return error, json.loads(error_body(error))["error"]


@pytest.mark.parametrize(
    "answer",
    [
        SGLANG,
        {"error": {"message": "m", "type": "x"}},
        {"error": "m"},
        {"detail": "m"},
        {"error": {"code": 1}, "message": "m"},
    ],
)
def test_a_400_keeps_its_message(answer):
    error, body = shaped(400, answer)
    assert error.status == 400
    assert body == {"message": "m", "type": "invalid_request_error", "code": None}


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", {"detail": [{"msg": "x"}]}, {}])
def test_unreadable_answers_still_make_an_error(answer):
    error, body = shaped(404, answer)
    assert error.status == 404
    assert "404" in body["message"]


def test_too_long_prompt_gets_openais_code():
    message = "Input (9 tokens) is longer than the model's context length (4 tokens)."
    _, body = shaped(400, {**SGLANG, "message": message})
    assert body["code"] == "context_length_exceeded"
    assert body["message"] == message


def test_422_is_a_400():
    assert shaped(422, SGLANG)[0].status == 400


def test_429_says_when_to_come_back():
    error, body = shaped(429, SGLANG)
    assert (error.status, error.retry_after_s, body["type"]) == (429, 2, "rate_limit_error")


def test_an_overloaded_engine_says_when_to_come_back():
    error, body = shaped(503, {**SGLANG, "message": "queue is full"})
    assert (error.status, error.retry_after_s) == (503, 2)
    assert body["message"] == "queue is full"


def test_the_inside_of_a_failed_engine_stays_inside():
    error, body = shaped(500, {**SGLANG, "message": "Traceback: secret"})
    assert error.status == 500
    assert "secret" not in body["message"]


def test_redirects_are_failures():
    assert shaped(302, b"")[0].status == 502


def test_retry_after_header():
    response = error_response(NoReplicaReady("x", retry_after_s=3))
    assert (response.status_code, response.headers["retry-after"]) == (503, "3")
