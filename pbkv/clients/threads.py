"""Threads belong to the workflow that started them.

Python hands context variables to tasks but not to threads, and agent programs use threads where one
does not see it: a tool that is an ordinary function runs in an executor, several calls at a time in
a pool. Only our own two variables go along; the application's stay as Python has them.
"""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pbkv.clients.scope import Scope, current_scope, handed_on

_MARK = "_pbkv_carried"


def carry_into_threads() -> None:
    """Change how threads and thread pools start work. Again is nothing to do."""
    if not getattr(ThreadPoolExecutor.submit, _MARK, False):
        ThreadPoolExecutor.submit = _submitting(ThreadPoolExecutor.submit)  # type: ignore[method-assign]
        threading.Thread.start = _starting(threading.Thread.start)  # type: ignore[method-assign]


def _submitting(original: Any) -> Any:
    @functools.wraps(original)
    def submit(self: Any, fn: Any, /, *args: Any, **options: Any) -> Any:
        # Also where there is none: a pool's thread still has that of the work which started it.
        return original(self, _within(current_scope(), fn), *args, **options)

    setattr(submit, _MARK, True)
    return submit


def _starting(original: Any) -> Any:
    @functools.wraps(original)
    def start(self: Any) -> Any:
        scope = current_scope()
        if scope.workflow is not None:
            self.run = _within(scope, self.run)
        return original(self)

    return start


def _within(scope: Scope, work: Any) -> Any:
    @functools.wraps(work)
    def run(*args: Any, **options: Any) -> Any:
        with handed_on(scope):
            return work(*args, **options)

    return run
