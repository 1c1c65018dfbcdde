"""``python -m services.fleet.leave``: what a pod runs before it may be ended (preStop).

Asks the replicas at this pod's address to drain, and waits until no workflow is pinned to them, or
the limit has passed. Ends with 0 either way: Kubernetes would end the pod no later for a failure.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping

from pbkv.errors import InvalidRedisUrl
from services.fleet.drains import DrainRequests
from services.fleet.errors import FleetError
from services.fleet.watcher import Requests

_LOOK_S = 1.0
# Routers and heartbeats learn a little late that a replica drains; see services.supervisor.
_SETTLE_S = 3.0


def leave(
    requests: Requests,
    address: str,
    limit_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Whether all workflows at ``address`` were over within ``limit_s``.

    While Redis is away nothing is known to be over, so it waits.
    """
    began_s = clock()
    idle_since_s: float | None = None
    while clock() - began_s < limit_s:
        try:
            here = [r for r in requests.replicas() if r.address == address]
            for replica in here:
                requests.ask(replica.replica_id, "its pod is being deleted")
            busy = any(replica.workflows for replica in here)
        except FleetError:
            busy = True
        if busy:
            idle_since_s = None
        elif idle_since_s is None:
            idle_since_s = clock()
        if idle_since_s is not None and clock() - idle_since_s >= _SETTLE_S:
            return True
        sleep(_LOOK_S)
    return False


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Needs ``PBKV_REDIS_URL`` and ``POD_IP``."""
    parser = argparse.ArgumentParser(prog="python -m services.fleet.leave")
    parser.add_argument("--limit-seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    try:
        redis_url, address = environ["PBKV_REDIS_URL"], environ["POD_IP"]
    except KeyError as missing:
        print(f"error: {missing.args[0]} is not set", file=sys.stderr)
        return 2
    try:
        requests = DrainRequests(redis_url)
    except InvalidRedisUrl as problem:
        print(f"error: PBKV_REDIS_URL: {problem}", file=sys.stderr)
        return 2
    try:
        leave(requests, address, options.limit_seconds)
    finally:
        requests.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
