"""Threads and pools belong to the workflow that started their work, and to no other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pbkv.clients import scope
from pbkv.clients.threads import carry_into_threads


@pytest.fixture(autouse=True)
def carried(monkeypatch):
    """Threads as they are in a process that has installed us, and plain ones afterwards."""
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    carry_into_threads()
    carry_into_threads()


def whose():
    workflow = scope.current_workflow()
    return (workflow.workflow_id if workflow else None), scope.current_agent()


def test_a_thread_is_its_starters():
    found = []
    with scope.workflow("w"), scope.agent("Planner"):
        thread = threading.Thread(target=lambda: found.append(whose()))
        thread.start()
    thread.join()
    assert found == [("w", "Planner")]
    assert whose() == (None, "")


def test_a_pool_works_for_whoever_submits():
    with ThreadPoolExecutor(1) as pool:
        found = [pool.submit(whose)]
        for name in ("one", "two"):
            with scope.workflow(name), scope.agent(f"{name}'s"):
                found.append(pool.submit(whose))
                found[-1].result()
        found.append(pool.submit(whose))
        # The thread itself was started outside, but one that was started inside is no other.
    with scope.workflow("outer"):
        pool = ThreadPoolExecutor(1)
        pool.submit(whose).result()
    found.append(pool.submit(whose))
    pool.shutdown()
    assert [future.result() for future in found] == [
        (None, ""),
        ("one", "one's"),
        ("two", "two's"),
        (None, ""),
        (None, ""),
    ]


def test_a_thread_that_outlives_its_workflow_has_none():
    over, found = threading.Event(), []

    def work():
        found.append(whose())
        over.wait(30)
        found.append(whose()[0])

    with scope.workflow("w"):
        thread = threading.Thread(target=work)
        thread.start()
        while not found:
            thread.join(0.01)
    over.set()
    thread.join()
    assert found == [("w", ""), None]


def test_an_agent_named_in_the_thread_counts_more(monkeypatch):
    monkeypatch.setattr(scope, "_agent_sources", [lambda: "node"])
    found = []

    def work():
        found.append(whose())
        with scope.agent("own"):
            found.append(whose())

    with scope.workflow("w"), scope.agent("Planner"):
        thread = threading.Thread(target=work)
        thread.start()
    thread.join()
    assert found == [("w", "node"), ("w", "own")]
