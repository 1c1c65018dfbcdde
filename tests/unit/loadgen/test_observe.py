"""Calls of a program as samples: one per call, however often OpenAI's library sends it."""

import json

import httpx
import pytest

from loadgen.programs.observe import observe_clients
from loadgen.programs.plan import Decisions, Plan, current_plan
from loadgen.records import ErrorKind
from pbkv.workload import ScriptedCall, ScriptedWorkflow

URL = "http://router/v1/chat/completions"
CHUNK = b'data: {"choices": [{"delta": {"content": "hi"}}], "usage": "none"}\n\ndata: [DONE]\n\n'


@pytest.fixture
def records(monkeypatch):
    for kind in (httpx.Client, httpx.AsyncClient):
        monkeypatch.setattr(kind, "send", kind.send)
    found = []
    observe_clients(found.append, exact_lengths=True)
    return found


@pytest.fixture
def plan():
    calls = [ScriptedCall(f"a{n}", "c", (), (), 10 + n) for n in range(3)]
    plan = Plan(ScriptedWorkflow("w", {"c": ()}, tuple(calls)), Decisions.WORKLOAD)
    token = current_plan.set(plan)
    yield plan
    current_plan.reset(token)


class Endpoint:
    """Answers with the statuses that are left, then well."""

    def __init__(self, *statuses):
        self.statuses = list(statuses)
        self.lengths = []

    def __call__(self, request):
        self.lengths.append(json.loads(request.content)["max_tokens"])
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 0:
            raise httpx.ConnectError("gone")
        return httpx.Response(status, content=iter([CHUNK] if status == 200 else []))


def send(client, retry=0):
    headers = {"X-Workflow-ID": "w", "x-stainless-retry-count": str(retry)}
    with client.stream("POST", URL, json={"messages": []}, headers=headers) as answer:
        answer.read()


@pytest.mark.parametrize("failure", [429, 503, 500])
def test_a_call_that_is_repeated_is_one_call(records, plan, failure):
    endpoint = Endpoint(failure, failure)
    with httpx.Client(transport=httpx.MockTransport(endpoint)) as client:
        for retry in range(3):
            send(client, retry)
        send(client)
    plan.settle()
    assert endpoint.lengths == [10, 10, 10, 11]
    assert [(call.step, call.retries, call.error) for call in records] == [
        (1, 2, None),
        (2, 0, None),
    ]
    assert records[0].prompt_tokens is None


def test_a_call_that_failed_for_good_is_recorded_when_no_one_repeats_it(records, plan):
    endpoint = Endpoint(429, 200, 429)
    with httpx.Client(transport=httpx.MockTransport(endpoint)) as client:
        send(client)
        assert records == []
        send(client)
        send(client)
    assert [call.error for call in records] == [ErrorKind.LIMITED, None]
    plan.settle()
    assert [call.error for call in records] == [ErrorKind.LIMITED, None, ErrorKind.LIMITED]
    assert records[0].detail == "HTTP 429"
    assert [call.step for call in records] == [1, 2, 3]


def test_an_endpoint_that_is_gone(records, plan):
    client = httpx.Client(transport=httpx.MockTransport(Endpoint(0)))
    with client, pytest.raises(httpx.ConnectError):
        send(client)
    plan.settle()
    assert [call.error for call in records] == [ErrorKind.UNREACHABLE]
