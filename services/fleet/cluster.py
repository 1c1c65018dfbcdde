"""The Kubernetes API as plain JSON, through the official client's connection.

The client's typed models refuse objects with values they do not know, so a newer cluster could
stop a watcher that reads five fields. Its configuration, authentication, TLS and pools are used.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import urllib3
from kubernetes import client, config

from services.fleet.errors import (
    ApiRefused,
    Conflict,
    Expired,
    FleetError,
    NoCluster,
    NotFound,
    Unreachable,
)

Item = Mapping[str, Any]

_CONNECT_S = 5.0
_ANSWER_S = 20.0
# A watch is quiet for as long as nothing happens; the server ends it after the time asked for.
_QUIET_MARGIN_S = 10.0
MERGE_PATCH = "application/merge-patch+json"
_BY_STATUS: Mapping[int, type[ApiRefused]] = {404: NotFound, 409: Conflict, 410: Expired}


class Cluster:
    """One API server. Every method raises :class:`FleetError`. Thread-safe."""

    def __init__(
        self, configuration: client.Configuration, *, quiet_margin_s: float = _QUIET_MARGIN_S
    ) -> None:
        # Retries are decided here, by whoever knows what a request is for.
        configuration.retries = False
        self._api = client.ApiClient(configuration)
        self._quiet_margin_s = quiet_margin_s

    @classmethod
    def connect(cls, kubeconfig: str = "", context: str = "") -> Cluster:
        """By the pod's service account, else by a kubeconfig. Raises :class:`NoCluster`."""
        configuration = client.Configuration()
        try:
            if kubeconfig or context:
                raise config.ConfigException("a kubeconfig is asked for")
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            try:
                config.load_kube_config(
                    config_file=kubeconfig or None,
                    context=context or None,
                    client_configuration=configuration,
                )
            except OSError as problem:
                raise NoCluster(f"no cluster: {kubeconfig}: {problem.strerror}") from None
            except config.ConfigException as problem:
                reason = _one_line(problem).removeprefix("Invalid kube-config file. ").rstrip(".")
                raise NoCluster(f"no cluster: kubeconfig: {reason}") from None
            except Exception:
                # The client fails in many ways on a file that is no kubeconfig.
                raise NoCluster(f"no cluster: {kubeconfig or 'KUBECONFIG'} is malformed") from None
        return cls(configuration)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """One object, or a list of them."""
        return self._json("GET", path, query)

    def create(self, path: str, item: Item) -> dict[str, Any]:
        return self._json("POST", path, {}, item)

    def replace(self, path: str, item: Item) -> dict[str, Any]:
        return self._json("PUT", path, {}, item)

    def patch(self, path: str, change: Item) -> dict[str, Any]:
        """A JSON merge patch: lists are replaced whole."""
        return self._json("PATCH", path, {}, change, MERGE_PATCH)

    def watch(self, path: str, *, version: str, timeout_s: float, **query: str) -> Iterator[Item]:
        """The events after ``version``, until the server ends the stream.

        Raises :class:`Expired` if it says so in the stream too, and :class:`Unreachable` when it
        is silent for longer than it was asked to be.
        """
        asked = {
            **query,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(timeout_s))),
        }
        quiet_s = timeout_s + self._quiet_margin_s
        with self._request("GET", path, asked, read_s=quiet_s) as answer:
            for event in _lines(answer):
                if event.get("type") == "ERROR":
                    status = event.get("object", {})
                    raise _refused(int(status.get("code", 500)), status.get("message", ""))
                yield event

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Item | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        with self._request(method, path, query, body, content_type) as answer:
            try:
                parsed = json.loads(answer.read())
            except (ValueError, urllib3.exceptions.HTTPError) as problem:
                raise Unreachable(f"the API server's answer broke off: {problem}") from None
        return dict(parsed)

    @contextlib.contextmanager
    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Item | None = None,
        content_type: str = "application/json",
        *,
        read_s: float = _ANSWER_S,
    ) -> Iterator[urllib3.HTTPResponse]:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        method, url, headers, content, _ = self._api.param_serialize(
            method=method,
            resource_path=path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._api.call_api(
                method, url, headers, content, _request_timeout=(_CONNECT_S, read_s)
            ).response
        except client.ApiException as problem:
            raise Unreachable(_one_line(problem)) from None
        except (urllib3.exceptions.HTTPError, OSError) as problem:
            raise Unreachable(_one_line(problem)) from None
        try:
            if answer.status >= 400:
                raise _refused(answer.status, _message(answer.read()))
            yield answer
        finally:
            # A watch that is left early must not go back into the pool half read.
            answer.close()
            answer.release_conn()


def _lines(answer: urllib3.HTTPResponse) -> Iterator[dict[str, Any]]:
    buffer = b""
    try:
        for chunk in answer.stream(65_536, decode_content=True):
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in filter(None, lines):
                yield json.loads(line)
    except (urllib3.exceptions.HTTPError, OSError) as problem:
        raise Unreachable(f"the watch broke off: {_one_line(problem)}") from None
    except ValueError:
        raise Unreachable("the watch sent what is no JSON") from None


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")


def _refused(status: int, message: str) -> FleetError:
    return _BY_STATUS.get(status, ApiRefused)(status, " ".join(message.split())[:300])


def _one_line(problem: BaseException) -> str:
    return (" ".join(str(problem).split()) or type(problem).__name__)[:300]
