"""Scripts as messages: lengths, shared beginnings, what is kept and what is not."""

from loadgen.dialogue import Dialogue
from loadgen.events import EventReader
from loadgen.text import render
from pbkv.workload import ScriptedCall, ScriptedWorkflow, Segment


def script(*calls):
    held = (Segment("system", 4), Segment("claim", 3, "The claim."))
    return ScriptedWorkflow("w", {"c": held}, calls)


def call(added="a", instruction="", keep=True):
    return ScriptedCall(
        "A",
        "c",
        (Segment(added, 2),),
        (Segment(instruction, 2),) if instruction else (),
        5,
        keep_output=keep,
    )


def test_an_instruction_is_sent_and_not_kept():
    first, second = call("x", "go"), call("y")
    dialogue = Dialogue(script(first, second))
    prompt = dialogue.messages(first)
    assert [message["role"] for message in prompt] == ["system", "user"]
    assert prompt[1]["content"].endswith(render((Segment("go", 2),)))
    dialogue.answered(first, "reply")
    following = dialogue.messages(second)
    assert [message["role"] for message in following] == ["system", "user", "assistant", "user"]
    assert following[0] == prompt[0]
    assert prompt[1]["content"].startswith(following[1]["content"])
    assert "go" not in {message["content"] for message in following}


def test_a_reply_that_is_not_kept_leaves_one_growing_message():
    first, second = call("x", keep=False), call("y")
    dialogue = Dialogue(script(first, second))
    before = dialogue.messages(first)
    dialogue.answered(first, "reply")
    after = dialogue.messages(second)
    assert len(before) == len(after) == 2
    assert after[1]["content"].startswith(before[1]["content"])


def test_text_is_real_text_then_words_and_follows_the_seed():
    assert render((Segment("s", 12),)) == render((Segment("s", 12),))
    assert render((Segment("s", 12),)) != render((Segment("t", 12),))
    assert len(render((Segment("s", 12),)).split()) == 12
    long = "x" * 400
    assert render((Segment("s", 10, long),)) == long[:40]
    assert render((Segment("s", 10, "Claim one"),)).startswith("Claim one ")


def test_events_come_out_whole_wherever_the_bytes_are_cut():
    stream = b'data: {"a":1}\n\n: comment\r\ndata: {"b":2}\r\n\r\ndata: [DONE]\n\n'
    for size in range(1, len(stream)):
        reader = EventReader()
        found = [
            event
            for start in range(0, len(stream), size)
            for event in reader.feed(stream[start : start + size])
        ]
        assert found == [b'{"a":1}', b'{"b":2}', b"[DONE]"]
