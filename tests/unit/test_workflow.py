from hypothesis import given
from hypothesis import strategies as st

from pbkv.events import EventKind, WorkflowEvent
from pbkv.workflow import HISTORY_CALLS, Transition, WorkflowPhase, WorkflowRegistry

ACTIVE, RETIRED = WorkflowPhase.ACTIVE, WorkflowPhase.RETIRED


def registry(idle_timeout_s=10.0, max_active=100, max_retired=100):
    return WorkflowRegistry(
        idle_timeout_s=idle_timeout_s, max_active=max_active, max_retired=max_retired
    )


def call(workflow="w", seq=None, at_s=0.0, agent="A"):
    return WorkflowEvent(EventKind.INVOKE, workflow, at_s, agent, seq)


def end(workflow="w", seq=None, at_s=0.0):
    return WorkflowEvent(EventKind.TERMINATE, workflow, at_s, seq=seq)


def never_busy(workflow_id):
    return False


def test_a_call_starts_a_workflow_and_a_terminate_retires_it():
    known = registry()

    assert known.apply(call(seq=1)) == [Transition("w", ACTIVE)]
    assert known.apply(end(seq=2)) == [Transition("w", RETIRED)]
    assert (known.num_active, known.num_retired) == (0, 1)


def test_a_doubled_terminate_changes_nothing():
    known = registry()
    known.apply(call(seq=1))
    known.apply(end(seq=2))

    assert known.apply(end(seq=2)) == []


def test_a_terminate_older_than_a_known_call_does_not_retire():
    known = registry()
    known.apply(call(seq=1))
    known.apply(call(seq=3))

    assert known.apply(end(seq=2)) == []
    assert known.is_active("w")


def test_a_late_call_does_not_revive():
    known = registry()
    known.apply(call(seq=1))
    known.apply(end(seq=3))

    assert known.apply(call(seq=2)) == []
    assert not known.is_active("w")


def test_a_terminate_that_outran_the_call_is_a_tombstone():
    known = registry()
    known.apply(end(seq=2))

    assert known.apply(call(seq=1)) == []
    assert not known.is_active("w")


def test_a_retired_workflow_that_speaks_again_is_active_again():
    known = registry()
    known.apply(call(seq=1))
    known.apply(end(seq=2))

    assert known.apply(call(seq=3)) == [Transition("w", ACTIVE)]


def test_events_without_seq_count_as_newest():
    known = registry()
    known.apply(call())
    known.apply(end())
    assert not known.is_active("w")
    known.apply(call())
    assert known.is_active("w")


def test_silence_retires():
    known = registry(idle_timeout_s=10.0)
    known.apply(call("old", at_s=0.0))
    known.apply(call("new", at_s=5.0))

    assert known.expire(11.0, never_busy) == [Transition("old", RETIRED)]
    assert known.is_active("new")


def test_a_busy_workflow_is_not_silent():
    known = registry(idle_timeout_s=10.0)
    known.apply(call(at_s=0.0))

    assert known.expire(11.0, lambda workflow_id: True) == []
    assert known.expire(20.0, never_busy) == [], "being busy counts as activity"
    assert known.expire(22.0, never_busy) == [Transition("w", RETIRED)]


def test_expired_workflow_revives_with_its_next_call():
    known = registry(idle_timeout_s=10.0)
    known.apply(call(seq=1))
    known.expire(11.0, never_busy)

    assert known.apply(call(seq=2, at_s=12.0)) == [Transition("w", ACTIVE)]


def test_memory_is_bounded():
    known = registry(max_active=2, max_retired=1)
    for name in "abc":
        known.apply(call(name))
    assert (known.num_active, known.num_retired) == (2, 1)

    assert known.apply(call("d")) == [
        Transition("d", ACTIVE),
        Transition("b", RETIRED),
        Transition("a", None),
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from(("call", "end")), st.integers(1, 12)),
        min_size=1,
        unique_by=lambda item: item[1],
    ).flatmap(lambda issued: st.tuples(st.just(issued), st.permutations(issued + issued[:3])))
)
def test_the_last_issued_event_decides_whatever_order_events_arrive_in(history):
    """Doubled and reordered: the phase at the end is that of the largest seq."""
    issued, arrived = history
    known = registry()
    for kind, seq in arrived:
        known.apply(call(seq=seq) if kind == "call" else end(seq=seq))

    last_kind, _ = max(issued, key=lambda item: item[1])
    assert known.is_active("w") == (last_kind == "call")


class Heard(list):
    def on_call(self, workflow):
        self.append((workflow.workflow_id, workflow.calls, "".join(workflow.history)))

    def on_retire(self, workflow):
        self.append((workflow.workflow_id, "retired"))


def test_a_listener_hears_calls_with_their_history_and_every_retirement():
    workflows = registry(max_active=2)
    workflows.listener = heard = Heard()

    workflows.apply(WorkflowEvent(EventKind.START, "w", 0.0, seq=1))
    workflows.apply(WorkflowEvent(EventKind.INVOKE, "w", 1.0, "A", seq=2))
    workflows.apply(WorkflowEvent(EventKind.INVOKE, "w", 2.0, "B", seq=3))
    workflows.apply(WorkflowEvent(EventKind.TERMINATE, "w", 3.0, seq=4))
    workflows.apply(WorkflowEvent(EventKind.INVOKE, "w", 4.0, "late", seq=3))
    for workflow_id in ("x", "y", "z"):
        workflows.apply(WorkflowEvent(EventKind.INVOKE, workflow_id, 5.0, "A"))
    workflows.expire(100.0, lambda workflow_id: workflow_id == "z")

    assert heard == [
        ("w", 1, "A"),
        ("w", 2, "AB"),
        ("w", "retired"),
        ("x", 1, "A"),
        ("y", 1, "A"),
        ("z", 1, "A"),
        ("x", "retired"),
        ("y", "retired"),
    ]


def test_history_is_bounded_and_a_stamp_is_never_used_twice():
    workflows = registry(max_retired=1)
    stamps = set()
    for _ in range(2):
        for call in range(HISTORY_CALLS + 5):
            workflows.apply(WorkflowEvent(EventKind.INVOKE, "w", 0.0, f"a{call}"))
            stamps.add(workflows.get("w").stamp)
        history = list(workflows.get("w").history)
        for workflow_id in ("w", "other"):
            workflows.apply(WorkflowEvent(EventKind.TERMINATE, workflow_id, 0.0))
        assert workflows.get("w") is None

    assert history == [f"a{call}" for call in range(5, HISTORY_CALLS + 5)]
    assert len(stamps) == 2 * (HISTORY_CALLS + 5)
