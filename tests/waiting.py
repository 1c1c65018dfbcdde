"""Waits for a condition in another process, for which there is no event to await."""

import time


def wait_until(condition, timeout_s=90.0, every_s=0.05):
    """Return the first true value of ``condition``; fail when there is none in time."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"still not true after {timeout_s} s")
        time.sleep(every_s)
    return value
