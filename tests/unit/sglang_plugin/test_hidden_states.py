"""Which rows of a batch are captured, in each shape that a batch can have."""

from dataclasses import dataclass, field
from enum import Enum, auto
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from pbkv.sglang.hidden_states import HiddenStateCapture  # noqa: E402


class Mode(Enum):
    EXTEND = auto()
    DECODE = auto()

    def is_extend(self):
        return self is Mode.EXTEND


@dataclass
class Request:
    """A prompt of ``prompt`` tokens, prefilled from ``start`` to ``end`` in this batch."""

    rid: str
    prompt: int
    start: int = 0
    end: int | None = None
    output_ids: list = field(default_factory=list)

    @property
    def extend_end(self):
        return self.prompt if self.end is None else self.end

    @property
    def origin_input_ids(self):
        return range(self.prompt)


class Batch:
    def __init__(self, *reqs, mode=Mode.EXTEND, speculative=False):
        self.reqs = list(reqs)
        self.forward_mode = mode
        self.extend_lens = [req.extend_end - req.start for req in reqs]
        self.spec_algorithm = SimpleNamespace(is_none=lambda: not speculative)

    def metadata(self):
        return SimpleNamespace(
            forward_mode=self.forward_mode, extend_seq_lens_cpu=list(self.extend_lens)
        )


def states(rows):
    """Row i is (i, -i)."""
    column = torch.arange(rows, dtype=torch.bfloat16)
    return torch.stack([column, -column], dim=1)


class Delivered(dict):
    def __call__(self, request_id, state):
        assert request_id not in self
        self[request_id] = None if state is None else state.read().tolist()


@pytest.fixture
def delivered():
    return Delivered()


@pytest.fixture
def capture(delivered):
    return HiddenStateCapture(lambda rid: rid.startswith("w"), delivered)


def run(capture, batch, rows=None, metadata=None):
    capture.expect(batch)
    total = sum(batch.extend_lens) if rows is None else rows
    capture.take(states(total), metadata or batch.metadata())
    capture.finish()


def test_the_last_row_of_each_prompt_in_a_batch_of_mixed_lengths(capture, delivered):
    run(capture, Batch(Request("w1", 5), Request("w2", 1), Request("w3", 40, start=32)))

    assert delivered == {"w1": [4.0, -4.0], "w2": [5.0, -5.0], "w3": [13.0, -13.0]}


def test_only_the_last_chunk_of_a_chunked_prompt(capture, delivered):
    run(capture, Batch(Request("w1", 3), Request("w2", 100, start=0, end=60)))
    assert delivered == {"w1": [2.0, -2.0]}

    run(capture, Batch(Request("w2", 100, start=60, end=100)))
    assert delivered["w2"] == [39.0, -39.0]


def test_decoding_rows_mixed_into_a_prefill_are_passed_over(capture, delivered):
    decoding = Request("w2", 10, start=10, end=11)
    answered = Request("w3", 10, start=12, end=13, output_ids=[1, 2])
    run(capture, Batch(Request("w1", 4), decoding, answered))

    assert delivered == {"w1": [3.0, -3.0]}


def test_a_prompt_prefilled_again_with_its_answer_is_not_captured_again(capture, delivered):
    run(capture, Batch(Request("w1", 10, end=12, output_ids=[1, 2])))

    assert delivered == {}


def test_requests_that_nobody_awaits_cost_nothing(capture, delivered):
    run(capture, Batch(Request("other", 5)))

    assert delivered == {}


def test_rows_padded_behind_the_batch_do_not_matter(capture, delivered):
    run(capture, Batch(Request("w1", 5)), rows=16)

    assert delivered == {"w1": [4.0, -4.0]}


def test_a_decode_batch_is_left_alone(capture, delivered):
    run(capture, Batch(Request("w1", 5), mode=Mode.DECODE))

    assert delivered == {}


@pytest.mark.parametrize(
    ("rows", "metadata"),
    [
        (3, None),
        (5, SimpleNamespace(forward_mode=Mode.EXTEND, extend_seq_lens_cpu=[2, 3])),
        (5, SimpleNamespace(forward_mode=Mode.EXTEND, extend_seq_lens_cpu=None)),
        (5, SimpleNamespace(forward_mode=Mode.DECODE, extend_seq_lens_cpu=[5])),
    ],
    ids=["too few rows", "other lengths", "no lengths", "other mode"],
)
def test_an_unexpected_shape_is_no_signal_and_is_said(capture, delivered, rows, metadata):
    run(capture, Batch(Request("w1", 5)), rows, metadata)

    assert delivered == {"w1": None}


def test_speculative_decoding_is_no_signal(capture, delivered):
    run(capture, Batch(Request("w1", 5), speculative=True))

    assert delivered == {"w1": None}


def test_a_forward_that_never_reached_the_logits_is_no_signal(capture, delivered):
    capture.expect(Batch(Request("w1", 5)))
    capture.finish()

    assert delivered == {"w1": None}


def test_a_second_model_in_the_same_launch_is_not_taken(capture, delivered):
    batch = Batch(Request("w1", 2))
    capture.expect(batch)
    capture.take(states(2), batch.metadata())
    capture.take(states(2) + 7, batch.metadata())
    capture.finish()

    assert delivered == {"w1": [1.0, -1.0]}


def test_a_launch_that_raised_leaves_nothing_behind(capture, delivered):
    capture.expect(Batch(Request("w1", 5)))
    run(capture, Batch(Request("w2", 5)))

    assert delivered == {"w2": [4.0, -4.0]}


def test_what_is_captured_is_a_copy(capture):
    kept = []
    capture = HiddenStateCapture(lambda rid: True, lambda rid, state: kept.append(state))
    batch, buffer = Batch(Request("w1", 3)), states(3)
    capture.expect(batch)
    capture.take(buffer, batch.metadata())
    buffer.zero_()

    assert kept[0].read().tolist() == [2.0, -2.0]
