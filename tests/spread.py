"""How ``pytest -n 2`` spreads the tests over processes.

Tests of one file stay in one process, and so do those of the engines that several files share and
those of the shared stack: a second start of either would cost what the second process saves.
pytest-xdist's own groups (``--dist loadgroup``) do not work with this version of pytest.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

_OWN_ENGINES = (
    "test_live_accuracy",
    "test_lora",
    "test_queue_walk",
    "test_simulated_tree",
    "test_start",
    "test_tree_fuzz",
)
"""Files of ``tests/engine`` that use no engine of another file."""
_LONGEST_FIRST = ("shared engines", "stack", "tests/engine/")
"""Started last, one of these would run alone in the end."""


def group_of(nodeid: str) -> str:
    """What stays in one process."""
    path = nodeid.partition("::")[0]
    if path.startswith("tests/stack/"):
        return "stack"
    if path.startswith("tests/engine/") and not any(name in path for name in _OWN_ENGINES):
        return "shared engines"
    return path


def starting_rank(nodeid: str) -> int:
    """The lower, the sooner a group is started."""
    group = group_of(nodeid)
    ranks = (rank for rank, name in enumerate(_LONGEST_FIRST) if group.startswith(name))
    return next(ranks, len(_LONGEST_FIRST))


class GroupScheduling(LoadScopeScheduling):
    """A process that has nothing left takes the next group."""

    def __init__(self, config: Any, log: Any = None) -> None:
        # The order of collection holds, not that of the number of tests.
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
