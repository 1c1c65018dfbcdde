"""Examples from traces."""

import numpy as np

from pbkv.predict.dataset import (
    MASKED,
    WINDOW,
    encode_prefixes,
    make_examples,
    transition_matrix,
)
from pbkv.predict.vocabulary import Vocabulary

A, B, END = 1, 2, 3
NONE = np.empty((1, 0), dtype=np.float32)


def vocabulary():
    return Vocabulary(["A", "B"])


def test_end_is_a_target_and_what_follows_it_is_masked():
    examples = make_examples([["A", "B"]], None, vocabulary(), steps=3)

    assert examples.targets.tolist() == [[B, END, MASKED], [END, MASKED, MASKED]]
    assert examples.remaining.tolist() == [1, 0]


def test_a_prefix_ends_in_the_last_place_and_begins_with_padding():
    prefixes = make_examples([["A", "B", "B"]], None, vocabulary(), steps=1).prefixes

    assert prefixes.calls[2, -4:].tolist() == [3, A, B, B]
    assert prefixes.counts[2].tolist() == [0, 1, 1]


def test_a_long_prefix_is_counted_whole_and_seen_in_part():
    prefixes = encode_prefixes([["A"] * 40 + ["B"]], NONE, vocabulary(), 0)

    assert prefixes.calls.shape == (1, WINDOW)
    assert prefixes.counts[0].tolist() == [0, 40, 0]


def test_agents_never_seen_are_the_unknown_agent():
    prefixes = encode_prefixes([["new", "A", "newer"]], NONE, vocabulary(), 0)

    assert prefixes.calls[0, -3:].tolist() == [0, A, 0]


def test_without_a_hidden_state_it_is_zero_and_said_to_be_absent():
    prefixes = encode_prefixes([["A"]], NONE, vocabulary(), 4)

    assert prefixes.hidden.tolist() == [[0, 0, 0, 0]]
    assert prefixes.has_hidden.tolist() == [False]


def test_states_follow_the_calls_of_all_traces():
    states = [np.array([[1.0], [2.0]]), np.array([[3.0]])]

    prefixes = make_examples([["A", "B"], ["B"]], states, vocabulary(), steps=1).prefixes

    assert prefixes.hidden.tolist() == [[1], [2], [3]]
    assert prefixes.has_hidden.all()


def test_the_transition_matrix_is_normalised_by_row():
    matrix = transition_matrix([["A", "B"], ["A", "A", "B"]], vocabulary())

    assert matrix.tolist() == [[0, 0, 0], [0, np.float32(1 / 3), np.float32(2 / 3)], [0, 0, 0]]
