"""Free ports on this machine."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel picks the near end of connections: a connection to a port
# in that range, on which nothing listens yet, can be answered by itself.
_FIRST_PORT, _LAST_PORT = 15_000, 29_999
_TRIES = 200


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on now. Another process may take it before it is used.

    Raises OSError when none was found.
    """
    # Not seeded: two processes that ask at the same time must not get the same answer.
    rng = random.SystemRandom()
    for _ in range(_TRIES):
        port = rng.randint(_FIRST_PORT, _LAST_PORT)
        if is_free(port, host):
            return port
    raise OSError(f"no free port between {_FIRST_PORT} and {_LAST_PORT}")


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could bind ``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
