"""``pbkv serve fleet``: the watcher as a process."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from services.fleet.cluster import Cluster
from services.fleet.drains import DrainRequests
from services.fleet.lease import Lease
from services.fleet.watcher import FleetWatcher
from services.fleet.watching import Mirror

logger = logging.getLogger(__name__)

# A loop or a watch this long without a sign of life hangs; a restart is the cure.
_HUNG_S = 180.0


@dataclass(frozen=True)
class FleetOptions:
    """One watcher. ``selector`` chooses the pods with engines; ``identity`` is unique among
    watchers of the same ``lease``.
    """

    redis_url: str
    namespace: str
    selector: str
    lease: str
    identity: str
    watch_nodes: bool = True
    extra_taints: tuple[str, ...] = ()
    health_port: int = 8080


class _NoNodes:
    """Where nodes may not be watched: only the deletion of pods makes replicas drain."""

    def items(self) -> list[Mapping[str, Any]]:
        return []


def run_fleet(options: FleetOptions, cluster: Cluster, stopped: threading.Event) -> None:
    """Watch until ``stopped``. Raises OSError if the health port is taken."""
    requests = DrainRequests(options.redis_url)
    lease = Lease(cluster, options.namespace, options.lease, options.identity)
    mirrors: list[Mirror] = []
    woken = threading.Event()

    def mirror(path: str, selector: str = "") -> Mirror:
        mirrors.append(Mirror(cluster, path, woken.set, selector=selector))
        return mirrors[-1]

    pods = mirror(f"/api/v1/namespaces/{options.namespace}/pods", options.selector)
    nodes = mirror("/api/v1/nodes") if options.watch_nodes else _NoNodes()
    watcher = FleetWatcher(
        api=cluster,
        namespace=options.namespace,
        nodes=nodes,
        pods=pods,
        requests=requests,
        extra_taints=options.extra_taints,
        woken=woken,
        stepped_at_s=time.monotonic(),
    )

    def healthy() -> bool:
        loop_s = time.monotonic() - watcher.stepped_at_s
        return loop_s < _HUNG_S and all(m.silent_s() < _HUNG_S for m in mirrors)

    def leads() -> bool:
        # Half a picture would make the watcher withdraw what it does not see.
        return lease.hold() and all(m.complete.is_set() for m in mirrors)

    server = _health_server(options.health_port, healthy)
    try:
        for each in mirrors:
            each.start()
        watcher.run(leads, stopped)
    finally:
        for each in mirrors:
            each.stop()
        lease.release()
        requests.close()
        server.shutdown()
        server.server_close()


def until_terminated() -> threading.Event:
    """Set by SIGTERM and SIGINT; from the main thread only."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def _health_server(port: int, healthy: Callable[[], bool]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Probes every few seconds are not worth a line."""

        def do_GET(self) -> None:
            self.send_response(200 if healthy() else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
