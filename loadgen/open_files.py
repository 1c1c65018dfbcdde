"""One socket per stream: the process may have to be allowed more open files than by default."""

from __future__ import annotations

import resource

_OTHERS = 500


def allow_streams(streams: int) -> int:
    """Raise this process's limit, which children inherit, as far as it goes.

    Returns how many files are missing for ``streams`` calls at a time; 0 if there are enough.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * streams + _OTHERS
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= wanted:
        return 0
    allowed = wanted if hard == unlimited else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return wanted - allowed
