"""Whose call a request is, case by case, and what no input may do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import InvalidRequest, RouterError
from router.identity import Identity, anonymous_id, identify

CHAT = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}


def ident(headers=None, body=None, tenant="default"):
    raw = [(name.lower().encode(), value) for name, value in (headers or {}).items()]
    raw = [(name, v if isinstance(v, bytes) else v.encode()) for name, v in raw]
    return identify(raw, {**CHAT, **(body or {})}, tenant)


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"X-Workflow-ID": "w"}, {}, Identity("w", "default", False, "x-workflow-id")),
        (
            {"X-Workflow-ID": "w", "X-Agent-Name": "a", "X-Workflow-End": "TRUE"},
            {},
            Identity("w", "a", True, "x-workflow-id"),
        ),
        (
            {"X-Workflow-ID": "h"},
            {"workflow": {"id": "b", "agent": "a", "end": True}},
            Identity("h", "a", True, "x-workflow-id"),
        ),
        (
            {"X-Workflow-ID": "h", "X-Workflow-End": "false"},
            {"workflow": {"end": True}},
            Identity("h", "default", False, "x-workflow-id"),
        ),
        ({}, {"workflow": {"id": "b"}}, Identity("b", "default", False, "workflow")),
        ({"X-Workflow-ID": "工作-1"}, {}, Identity("工作-1", "default", False, "x-workflow-id")),
        ({"X-Workflow-ID": "a%20b"}, {}, Identity("a%20b", "default", False, "x-workflow-id")),
        ({"x-session-id": "s"}, {}, Identity("s", "default", False, "x-session-id")),
        ({"x-session-affinity": "s"}, {}, Identity("s", "default", False, "x-session-affinity")),
        ({"x-smg-routing-key": "s"}, {}, Identity("s", "default", False, "x-smg-routing-key")),
        (
            {"x-aibrix-session-key": "s"},
            {},
            Identity("s", "default", False, "x-aibrix-session-key"),
        ),
        (
            {"x-litellm-session-id": "s"},
            {},
            Identity("s", "default", False, "x-litellm-session-id"),
        ),
        (
            {"x-claude-code-session-id": "s"},
            {},
            Identity("s", "default", False, "x-claude-code-session-id"),
        ),
        ({"session-id": "s"}, {}, Identity("s", "default", False, "session-id")),
        ({"thread-id": "s"}, {}, Identity("s", "default", False, "thread-id")),
        (
            {"x-dynamo-session-id": "s", "x-dynamo-session-final": "true"},
            {},
            Identity("s", "default", True, "x-dynamo-session-id"),
        ),
        # A subagent's session belongs to its parent's workflow and does not end it.
        (
            {
                "x-dynamo-session-id": "child",
                "x-dynamo-parent-session-id": "parent",
                "x-dynamo-session-final": "true",
            },
            {},
            Identity("parent", "default", False, "x-dynamo-parent-session-id"),
        ),
        ({}, {"session_id": "s"}, Identity("s", "default", False, "session_id")),
        ({}, {"session_params": {"id": "s"}}, Identity("s", "default", False, "session_params.id")),
        ({}, {"program_id": "s"}, Identity("s", "default", False, "program_id")),
        (
            {},
            {"metadata": {"thread_id": "s", "agent": "coder"}},
            Identity("s", "coder", False, "metadata.thread_id"),
        ),
        ({}, {"prompt_cache_key": "s"}, Identity("s", "default", False, "prompt_cache_key")),
        (
            {},
            {"prompt_cache_key": "k", "user": "u"},
            Identity("k", "default", False, "prompt_cache_key"),
        ),
        (
            {"baggage": "x=1,gen_ai.conversation.id=a%20b;p=1, gen_ai.agent.name = critic"},
            {"user": "u"},
            Identity("a b", "critic", False, "baggage"),
        ),
        ({}, {"user": "u"}, Identity("u", "default", False, "user")),
        # Values that are no ids are passed over in the names of others.
        (
            {"x-session-id": b"\xff", "thread-id": "t" * 300, "session-id": ""},
            {"session_id": 7, "user": "u"},
            Identity("u", "default", False, "user"),
        ),
        # Our agent header also names the agent of someone else's session.
        (
            {"x-session-id": "s", "X-Agent-Name": "a"},
            {},
            Identity("s", "a", False, "x-session-id"),
        ),
    ],
)
def test_first_match_wins(headers, body, expected):
    assert ident(headers, body) == expected


@pytest.mark.parametrize(
    "name", ["x-request-id", "x-correlation-id", "traceparent", "x-claude-code-parent-agent-id"]
)
def test_request_ids_are_never_identity(name):
    assert ident({name: "one"}) == ident({name: "two"})
    assert ident({name: "one"}).source == "anonymous"


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        ({"X-Workflow-ID": "x" * 257}, {}, "257 characters"),
        ({"X-Workflow-ID": ""}, {}, "empty"),
        ({"X-Workflow-ID": b"\xff\xfe"}, {}, "not UTF-8"),
        ({"X-Workflow-ID": b"a\x01b"}, {}, "printed"),
        ({"X-Workflow-ID": "w", "X-Agent-Name": "a" * 129}, {}, "129 characters"),
        ({"X-Workflow-End": "maybe"}, {}, "true or false"),
        ({"X-Workflow-End": b"\xff"}, {}, "true or false"),
        ({}, {"workflow": "w"}, "must be an object"),
        ({}, {"workflow": {"id": 7}}, "workflow.id"),
        ({}, {"workflow": {"id": " w"}}, "space"),
        ({}, {"workflow": {"ID": "w"}}, "workflow.ID"),
        ({}, {"workflow": {"end": "true"}}, "workflow.end"),
        ({}, {"workflow": {"id": "a\nb"}}, "printed"),
    ],
)
def test_our_own_names_are_strict(headers, body, words):
    with pytest.raises(RouterError, match=words) as caught:
        ident(headers, body)
    assert caught.value.status == 400


def test_two_workflow_headers_contradict():
    raw = [(b"x-workflow-id", b"a"), (b"x-workflow-id", b"b")]
    with pytest.raises(RouterError, match="twice"):
        identify(raw, CHAT, "default")


def test_longest_names_are_taken():
    assert ident({"X-Workflow-ID": "é" * 256, "X-Agent-Name": "é" * 128}).workflow_id == "é" * 256


def test_ids_are_compared_whole():
    assert ident({"X-Workflow-ID": "session-1"}) != ident({"X-Workflow-ID": "session-12"})


def test_body_is_not_mutated():
    body = {**CHAT, "workflow": {"id": "w"}}
    before = repr(body)
    identify([], body, "default")
    assert repr(body) == before


class TestAnonymous:
    def test_conversation_keeps_its_id_as_it_grows(self):
        grown = {
            "messages": [*CHAT["messages"], {"role": "assistant", "content": "a"}],
            "temperature": 1,
        }
        assert anonymous_id(CHAT, "t") == anonymous_id(grown, "t")

    def test_another_first_user_message_is_another_workflow(self):
        other = {"messages": [CHAT["messages"][0], {"role": "user", "content": "v"}]}
        assert anonymous_id(CHAT, "t") != anonymous_id(other, "t")

    def test_another_system_message_is_another_workflow(self):
        other = {"messages": [{"role": "system", "content": "z"}, CHAT["messages"][1]]}
        assert anonymous_id(CHAT, "t") != anonymous_id(other, "t")

    def test_tenants_do_not_meet(self):
        assert anonymous_id(CHAT, "t1") != anonymous_id(CHAT, "t2")

    def test_completion_prompt_may_grow_beyond_its_start(self):
        assert anonymous_id({"prompt": "x" * 600}, "t") == anonymous_id({"prompt": "x" * 900}, "t")
        assert anonymous_id({"prompt": "x"}, "t") != anonymous_id({"prompt": "y"}, "t")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
header_names = st.sampled_from(
    ["x-workflow-id", "x-agent-name", "x-workflow-end", "baggage", "session-id", "x-other"]
)
body_names = st.sampled_from(
    ["workflow", "metadata", "user", "session_params", "messages", "input", "prompt", "nvext"]
)


@given(
    headers=st.lists(st.tuples(header_names, st.binary(max_size=400)), max_size=4),
    body=st.dictionaries(body_names, json_values, max_size=4),
)
def test_nothing_but_our_own_errors(headers, body):
    raw = [(name.encode(), value) for name, value in headers]
    try:
        identity = identify(raw, body, "default")
    except RouterError as problem:
        assert problem.status == 400
        assert "\n" not in problem.message
    else:
        assert 1 <= len(identity.workflow_id) <= 256
        assert 1 <= len(identity.agent) <= 128
        assert identity.workflow_id.isprintable() and identity.agent.isprintable()


def test_the_application_is_what_its_header_says():
    headers = [(b"x-workflow-id", b"w"), (b"x-application-name", "büro".encode())]

    assert identify(headers, {}, "t").application == "büro"
    assert identify(headers[:1], {}, "t").application == ""
    with pytest.raises(InvalidRequest, match="x-application-name"):
        identify([(b"x-application-name", b"")], {}, "t")
