"""The state machine of a drain, on a clock of its own."""

from __future__ import annotations

from services.draining import Drain, DrainState


def drain(limit_s: float = 60.0) -> Drain:
    return Drain(began_s=100.0, limit_s=limit_s, settle_s=3.0)


def test_waits_while_workflows_are_active() -> None:
    machine = drain()
    assert machine.look(100.0, busy=True) is DrainState.WAITING
    assert machine.look(159.0, busy=True) is DrainState.WAITING


def test_done_after_a_quiet_time_without_a_break() -> None:
    machine = drain()
    assert machine.look(100.0, busy=False) is DrainState.WAITING
    assert machine.look(102.9, busy=False) is DrainState.WAITING
    assert machine.look(103.0, busy=False) is DrainState.DONE


def test_a_late_workflow_starts_the_quiet_time_again() -> None:
    machine = drain()
    machine.look(100.0, busy=False)
    assert machine.look(102.0, busy=True) is DrainState.WAITING
    assert machine.look(104.0, busy=False) is DrainState.WAITING
    assert machine.look(106.9, busy=False) is DrainState.WAITING
    assert machine.look(107.0, busy=False) is DrainState.DONE


def test_gives_up_at_the_limit() -> None:
    machine = drain(limit_s=60.0)
    assert machine.look(159.9, busy=True) is DrainState.WAITING
    assert machine.look(160.0, busy=True) is DrainState.GIVEN_UP


def test_no_limit_at_all_gives_up_at_once() -> None:
    assert drain(limit_s=0.0).look(100.0, busy=False) is DrainState.GIVEN_UP


def test_the_limit_may_be_lowered_on_the_way() -> None:
    machine = drain(limit_s=60.0)
    assert machine.look(110.0, busy=True) is DrainState.WAITING
    machine.limit_s = 10.0
    assert machine.look(110.0, busy=True) is DrainState.GIVEN_UP
