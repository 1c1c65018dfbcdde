"""The rolling window over a stream of records."""

import random

import numpy as np
import pytest

from pbkv.trace import InvocationRecord, RecordKind
from pbkv.trace.hidden import ShardFolder, StoredState
from services.training.window import TraceWindow, with_hidden_states
from tests.unit.services.training.traffic import many, workflow


@pytest.fixture
def window():
    return TraceWindow(3, idle_timeout_s=100.0, settle_s=2.0)


def names(window):
    return [found.workflow_id for found in window.finished]


def test_a_workflow_is_whole_a_moment_after_its_end(window):
    window.add(workflow("a", "AB", at_s=0.0))

    assert window.advance(3.0) == 0
    assert window.advance(4.5) == 1
    assert [(w.agents, w.ended) for w in window.finished] == [(("A", "B"), True)]
    assert window.num_open == 0


def test_records_may_come_in_any_order_and_twice(window):
    records = workflow("a", "ABCD", at_s=0.0) + workflow("b", "XY", at_s=1.0)
    records += records[:3]
    random.Random(1).shuffle(records)
    for record in records:
        window.add([record])
    window.advance(60.0)
    window.add(records)
    window.advance(120.0)

    assert sorted(w.agents for w in window.finished) == [("A", "B", "C", "D"), ("X", "Y")]


def test_a_workflow_without_an_end_is_over_by_silence(window):
    window.add(workflow("a", "AB", at_s=0.0, end=False))

    assert window.advance(50.0) == 0
    assert window.advance(103.0) == 1
    assert window.finished[0].ended


def test_an_end_of_its_own_ends_it(window):
    window.add(workflow("a", "AB", at_s=0.0, end=False))
    window.add([InvocationRecord(RecordKind.END, "t", "a", 9, 3.0, 3.0)])
    window.advance(6.0)

    assert [(w.agents, w.ended) for w in window.finished] == [(("A", "B"), True)]


def test_a_workflow_that_comes_back_is_another(window):
    window.add(workflow("a", "AB", at_s=0.0))
    window.advance(10.0)
    window.add(workflow("a", "CD", at_s=20.0))
    window.advance(40.0)

    assert [w.agents for w in window.finished] == [("A", "B"), ("C", "D")]


def test_only_the_newest_stay(window):
    window.add(many("AB", 5))
    window.advance(1e6)

    assert names(window) == ["t:w2", "t:w3", "t:w4"]
    assert window.total_finished == 5
    older, newest = window.split(1)
    assert [w.workflow_id for w in older] == ["t:w2", "t:w3"]
    assert [w.workflow_id for w in newest] == ["t:w4"]


def test_hidden_states_are_put_beside_their_calls(window, tmp_path):
    pytest.importorskip("pyarrow", reason="shards are Parquet")
    ShardFolder(tmp_path, "r", 1, max_bytes=1 << 20).add(
        [
            StoredState("a/2", "t:a", np.ones(3, dtype=np.float32)),
            StoredState("z/1", "t:z", np.ones(3, dtype=np.float32)),
        ]
    )
    window.add(workflow("a", "AB", at_s=0.0))
    window.advance(60.0)

    (found,) = with_hidden_states(list(window.finished), tmp_path)

    assert found.calls[0].hidden_state is None
    assert found.calls[1].hidden_state.tolist() == [1.0] * 3
