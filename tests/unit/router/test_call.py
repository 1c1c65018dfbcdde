"""What routing asks of a body, and what goes on to the engine."""

import json

import pytest

from pbkv.invocation import Invocation
from router.call import CHAT_PATH, EMBEDDINGS_PATH, parse_call, parse_object, read_body
from router.errors import BodyTooLarge, InvalidRequest, UnknownModel

MESSAGES = [{"role": "user", "content": "hi"}]
INVOCATION = Invocation("default:w", "planner", at_s=0.0, step=3, seq=9, end=True)


def chat(models=("m",), **body):
    return parse_call(CHAT_PATH, {"messages": MESSAGES, **body}, models)


def sent(call):
    return json.loads(call.encode(INVOCATION))


def test_everything_else_passes_through():
    extra = {"temperature": 0.5, "unknown": {"deep": [1, None]}, "tools": [], "user": "u"}
    out = sent(chat(model="m", **extra))
    custom = out.pop("custom_params")
    assert out == {"messages": MESSAGES, "model": "m", **extra}
    assert custom == {
        "pbkv": {"workflow": "default:w", "agent": "planner", "step": 3, "seq": 9, "end": True}
    }


def test_workflow_is_removed_and_custom_params_are_kept():
    out = sent(chat(workflow={"id": "w"}, custom_params={"mine": 1, "pbkv": {"workflow": "evil"}}))
    assert "workflow" not in out
    assert out["custom_params"]["mine"] == 1
    assert out["custom_params"]["pbkv"]["workflow"] == "default:w"


def test_the_clients_body_is_not_mutated():
    body = {"messages": MESSAGES, "stream": True, "workflow": {}, "custom_params": {"a": 1}}
    before = json.dumps(body)
    sent(parse_call(CHAT_PATH, body, ["m"]))
    assert json.dumps(body) == before


@pytest.mark.parametrize(
    ("body", "options", "strip"),
    [
        ({"stream": True}, {"include_usage": True}, True),
        ({"stream": True, "stream_options": None}, {"include_usage": True}, True),
        (
            {"stream": True, "stream_options": {"include_usage": True}},
            {"include_usage": True},
            False,
        ),
        (
            {"stream": True, "stream_options": {"include_usage": False, "x": 1}},
            {"include_usage": True, "x": 1},
            True,
        ),
        ({"stream": True, "stream_options": "bad"}, "bad", False),
        ({"stream": False}, None, False),
        ({}, None, False),
    ],
)
def test_usage_of_streams_is_asked_for(body, options, strip):
    call = chat(**body)
    assert sent(call).get("stream_options") == options
    assert call.strip_usage is strip


class TestModel:
    def test_missing_means_the_only_one(self):
        assert sent(chat())["model"] == "m"
        assert sent(chat(model=None))["model"] == "m"

    def test_missing_among_several_is_an_error(self):
        with pytest.raises(InvalidRequest, match="served: a, b"):
            chat(models=("a", "b"))

    def test_unknown_lists_the_names(self):
        with pytest.raises(UnknownModel, match="served: m") as caught:
            chat(model="gpt-9")
        assert (caught.value.status, caught.value.code) == (404, "model_not_found")

    def test_adapter_of_a_served_model(self):
        call = chat(model="m:adapter")
        assert call.model == "m"
        assert sent(call)["model"] == "m:adapter"

    def test_prefix_is_not_enough(self):
        with pytest.raises(UnknownModel):
            chat(models=("m-1",), model="m-12")

    @pytest.mark.parametrize("model", [7, ["m"], {}, False])
    def test_other_types(self, model):
        with pytest.raises(InvalidRequest, match="string"):
            chat(model=model)


@pytest.mark.parametrize("messages", [None, [], "hi", {}])
def test_chat_needs_messages(messages):
    with pytest.raises(InvalidRequest, match="messages"):
        parse_call(CHAT_PATH, {"messages": messages}, ["m"])


def test_other_paths_need_none():
    assert parse_call(EMBEDDINGS_PATH, {"input": "x"}, ["m"]).model == "m"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"null", b'"x"', b"\xff\xfe", b'{"a": NaN}', b"[" * 5000]
)
def test_malformed_bodies(body):
    with pytest.raises(InvalidRequest) as caught:
        parse_object(body)
    assert "\n" not in caught.value.message


def test_a_malformed_body_is_not_quoted():
    with pytest.raises(InvalidRequest) as caught:
        parse_object(b'{"messages": secret}')
    assert "secret" not in caught.value.message


def test_a_body_too_deep_to_write_is_refused():
    deep = json.loads("[" * 400 + "]" * 400)
    with pytest.raises(InvalidRequest, match="nested"):
        chat(deep=deep).encode(INVOCATION)


def test_custom_params_must_be_an_object():
    with pytest.raises(InvalidRequest, match="custom_params"):
        chat(custom_params="x")


class TestReadBody:
    @staticmethod
    async def chunks(*parts):
        for part in parts:
            yield part

    async def test_joins_chunks(self):
        assert await read_body(self.chunks(b"a", b"", b"bc"), None, 3) == b"abc"

    @pytest.mark.parametrize("declared", [None, "1", "4", "99999999999", "x", "-1"])
    async def test_limit_holds_whatever_is_declared(self, declared):
        with pytest.raises(BodyTooLarge):
            await read_body(self.chunks(b"ab", b"cd"), declared, 3)

    async def test_a_declared_length_over_the_limit_is_not_read(self):
        async def unread():
            raise AssertionError("read")
            yield b""

        with pytest.raises(BodyTooLarge):
            await read_body(unread(), "4", 3)
