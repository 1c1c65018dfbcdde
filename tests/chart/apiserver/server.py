"""The HTTP side: verbs to methods, watches as streams, planned faults."""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.chart.apiserver.controllers import Controllers
from tests.chart.apiserver.faults import Fault, Faults, Kind
from tests.chart.apiserver.kinds import Discovery, built_in, of_definition
from tests.chart.apiserver.problems import Refusal
from tests.chart.apiserver.requests import Target, read_body, read_target
from tests.chart.apiserver.resources import Resources
from tests.chart.apiserver.store import Item, Key, Store
from tests.chart.schemas import KUBERNETES_VERSION, crd_definitions

_WATCH_S = 300.0
_POLL_S = 0.5


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left in the middle of an answer is none; anything else is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ApiServer:
    """One server on a free port; a context manager. ``log`` lists what was asked."""

    def __init__(self) -> None:
        self.store = Store()
        self.faults = Faults()
        self.log: list[tuple[str, str, int]] = []
        self.stopping = threading.Event()
        self.discovery = Discovery(built_in())
        self.resources = Resources(self.store, self.discovery)
        Controllers(self.store, self.discovery)
        self._http = _Http(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        for name in ("default", "kube-system"):
            self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> ApiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        with self.store.condition:
            self.store.condition.notify_all()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def kubeconfig(self, path: Path) -> Path:
        """A configuration for clients, written to ``path``."""
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        return path

    def add_custom_kinds(self) -> None:
        """The definitions of :mod:`tests.chart.schemas`, as an operator would have installed.

        Kept without their schemas, half a megabyte that nobody asks this server for.
        """
        for definition in crd_definitions():
            for kind in of_definition(definition):
                self.discovery.add(kind)
            spec = definition["spec"]
            versions = [{n: v[n] for n in v if n != "schema"} for v in spec["versions"]]
            self.add({**definition, "spec": {**spec, "versions": versions}})

    def add(self, item: Item) -> Item:
        """Store an object past all validation: for the state that a test begins with."""
        key = self.key(item["apiVersion"], item["kind"], item["metadata"])
        return self.store.put(key, item)

    def key(self, version: str, kind: str, metadata: Any) -> Key:
        """The key of an object by its kind."""
        for found in [*built_in(), *(k for d in crd_definitions() for k in of_definition(d))]:
            if (found.version, found.kind) == (version, kind):
                namespace = metadata.get("namespace", "default") if found.namespaced else ""
                return Key(found, namespace, metadata["name"])
        raise KeyError((version, kind))


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one packet: two would wait 40 ms for each other.
        wbufsize = -1
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def _serve(self) -> None:
            body = self._read()
            fault = server.faults.next_for(self.command, self.path)
            try:
                if fault is not None and fault.kind in (Kind.REFUSE, Kind.CUT):
                    self._fail(fault)
                    return
                answer = self._route(body, fault)
            except Refusal as problem:
                answer = problem.code, problem.status()
            except (BrokenPipeError, ConnectionResetError):
                return
            server.log.append((self.command, self.path, answer[0] if answer else 200))
            if answer is not None:
                self._send(*answer)

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def do_PATCH(self) -> None:
            self._serve()

        def do_DELETE(self) -> None:
            self._serve()

        def _fail(self, fault: Fault) -> None:
            server.log.append((self.command, self.path, fault.code))
            if fault.kind is Kind.CUT:
                self.close_connection = True
                self.connection.shutdown(2)
                return
            problem = Refusal(fault.code, "InternalError", "a planned fault")
            self._send(fault.code, problem.status())

        def _route(self, body: bytes, fault: Fault | None) -> tuple[int, Any] | None:
            path = self.path.partition("?")[0].rstrip("/")
            if path in ("/healthz", "/readyz", "/livez"):
                return 200, "ok"
            if path == "/version":
                major, minor = KUBERNETES_VERSION.split(".")
                version = f"v{KUBERNETES_VERSION}.0"
                return 200, {"major": major, "minor": minor, "gitVersion": version}
            if (document := server.discovery.document(path)) is not None:
                return 200, document
            target = read_target(self.path, server.discovery)
            content = read_body(body)
            match self.command:
                case "GET" if target.watch:
                    self._watch(target, fault)
                    return None
                case "GET":
                    return server.resources.read(target)
                case "POST":
                    return server.resources.create(target, content)
                case "PUT":
                    return server.resources.replace(target, content)
                case "PATCH":
                    kind = self.headers.get("Content-Type", "")
                    return server.resources.patch(target, kind, content)
                case _:
                    return server.resources.delete(target)

        def _watch(self, target: Target, fault: Fault | None) -> None:
            """A stream of events until the client's time-out, or its leaving."""
            until_s = time.monotonic() + float(target.query.get("timeoutSeconds", _WATCH_S))
            with server.store.condition:
                version = int(target.query.get("resourceVersion") or 0)
                start = [] if version else [item for _, item in server.resources.selected(target)]
                version = version or server.store.version
                list(server.store.since(version))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            if fault is not None and fault.kind is Kind.GONE:
                self._event("ERROR", Refusal(410, "Expired", "too old").status())
                until_s = 0
            for item in start:
                self._event("ADDED", item)
            if target.query.get("sendInitialEvents") == "true":
                self._bookmark(target, version)
            hung = fault is not None and fault.kind is Kind.HANG
            while time.monotonic() < until_s and not server.stopping.is_set():
                with server.store.condition:
                    changes = [] if hung else list(server.store.since(version))
                    if not changes:
                        server.store.condition.wait(_POLL_S)
                        continue
                for change in changes:
                    version = change.version
                    if server.resources.concerns(target, change.key, change.item):
                        self._event(change.type, change.item)
            self.wfile.write(b"0\r\n\r\n")

        def _bookmark(self, target: Target, version: int) -> None:
            metadata = {
                "resourceVersion": str(version),
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
            kind = {"kind": target.kind.kind, "apiVersion": target.kind.version}
            self._event("BOOKMARK", {**kind, "metadata": metadata})

        def _event(self, type_: str, item: Item) -> None:
            line = json.dumps({"type": type_, "object": item}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()

        def _read(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().strip() or b"0", 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _send(self, code: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler
