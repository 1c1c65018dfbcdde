"""What is put on a call, and on which calls."""

import json

import httpx
import pytest

from pbkv.clients import agent, install, transport, workflow
from pbkv.clients.install import FRAMEWORKS
from pbkv.clients.scope import current_workflow
from pbkv.errors import SettingsError

URL = "http://router/v1/chat/completions"
BODY = {"messages": [{"role": "system", "content": "You plan."}, {"role": "user", "content": "x"}]}


@pytest.fixture
def sent(monkeypatch):
    """The requests that leave, with the classes of httpx as they were afterwards."""
    requests = []

    def answer(request):
        requests.append(request)
        return httpx.Response(200, headers={"X-PBKV-Replica": "a"})

    for kind in (httpx.Client, httpx.AsyncClient):
        monkeypatch.setattr(kind, "send", kind.send)
    monkeypatch.setattr(transport, "_Rules", type("Rules", (transport._Rules,), {}))
    monkeypatch.setattr("pbkv.clients.scope.signal_end", lambda router, name: None)
    transport.tag_clients()
    return requests, httpx.MockTransport(answer)


def tags(request):
    return request.headers.get("X-Workflow-ID"), request.headers.get("X-Agent-Name")


def test_calls_in_a_workflow_are_tagged_and_no_others(sent):
    requests, mock = sent
    with httpx.Client(transport=mock) as client:
        client.post(URL, json=BODY)
        with workflow("w"), agent("Planner"):
            client.post(URL, json=BODY)
            client.get("http://router/v1/models")
            client.post("http://elsewhere/upload", json=BODY)
            client.post(URL, json=BODY, headers={"X-Workflow-ID": "own"})
    assert [tags(request) for request in requests] == [
        (None, None),
        ("w", "Planner"),
        (None, None),
        (None, None),
        ("own", None),
    ]


async def test_asynchronous_clients_and_installing_twice(sent):
    requests, mock = sent
    transport.tag_clients()
    async with httpx.AsyncClient(transport=mock) as client:
        with workflow("w"), agent("  Prüfer\n2 "):
            await client.post(URL, json=BODY)
    assert tags(requests[0])[0] == "w"
    assert requests[0].headers.raw[-1][1].decode() == "Prüfer 2"


def test_only_the_named_origin(sent):
    requests, mock = sent
    transport.tag_clients(["http://router/"])
    with httpx.Client(transport=mock) as client, workflow("w"):
        client.post(URL, json=BODY)
        client.post(URL.replace("router", "other"), json=BODY)
    assert [tags(request)[0] for request in requests] == ["w", None]


def test_agents_are_told_apart_by_their_system_message(sent):
    requests, mock = sent
    transport.tag_clients(agent_by_prompt=True)
    other = {"messages": [{"role": "system", "content": "You write."}]}
    with httpx.Client(transport=mock) as client, workflow("w"):
        for body in (BODY, other, BODY, {"messages": []}):
            client.post(URL, json=body)
        client.post(URL, content=json.dumps("text"))
    names = [tags(request)[1] for request in requests]
    assert names[0] == names[2] != names[1]
    assert names[0].startswith("agent-")
    assert names[3:] == [None, None]


def test_the_router_that_answered_is_remembered(sent):
    _, mock = sent
    with httpx.Client(transport=mock) as client, workflow("w"):
        client.post(URL, json=BODY, headers={"Authorization": "Bearer k"})
        (router,) = current_workflow().routers
    assert (router.url, router.authorization) == ("http://router", "Bearer k")


def test_an_unknown_framework():
    with pytest.raises(SettingsError, match=", ".join(FRAMEWORKS)):
        install("langchain2")
