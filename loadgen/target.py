"""The endpoint under load: where it is, how to speak to it, and which model it serves."""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from loadgen.errors import BadLoad, TargetUnusable

WORKFLOW_HEADER = "X-Workflow-ID"
AGENT_HEADER = "X-Agent-Name"
END_HEADER = "X-Workflow-End"
REPLICA_HEADER = "X-PBKV-Replica"


@dataclass(frozen=True, slots=True)
class Target:
    """``url`` without a trailing slash and without ``/v1``. ``model`` is empty until it is known.

    ``exact_lengths`` asks for answers as long as the script says, by ``ignore_eos``, which SGLang
    and vLLM know and stricter endpoints refuse.
    """

    url: str
    api_key: str = field(default="", repr=False)
    model: str = ""
    ca_file: Path | None = None
    request_timeout_s: float = 600.0
    connect_timeout_s: float = 10.0
    exact_lengths: bool = True

    @classmethod
    def of(cls, url: str, **settings: Any) -> Target:
        """Checks what a user gives; ``/v1`` at the end of the URL may be left out or given.

        Raises :class:`BadLoad`. A message never shows a password or a key.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise BadLoad(f"the URL has no valid host and port: {url[:80]!r}") from None
        if parts.username or parts.password:
            raise BadLoad("the URL holds a user or password; a key belongs in OPENAI_API_KEY")
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise BadLoad(f"the URL must begin with http:// or https://, got {url[:80]!r}")
        if parts.query or parts.fragment:
            raise BadLoad(f"the URL must end with its path, got {url[:80]!r}")
        target = cls(url.rstrip("/").removesuffix("/v1"), **settings)
        key = target.api_key.strip()
        if not (key.isascii() and key.isprintable()):
            raise BadLoad("the key holds characters that no header can carry (OPENAI_API_KEY)")
        if not 0 < target.request_timeout_s < math.inf:
            raise BadLoad("the time for one call must be above 0 seconds")
        return replace(target, api_key=key)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def open_session(self) -> aiohttp.ClientSession:
        """The one connection pool of a run, without a limit of its own."""
        timeout = aiohttp.ClientTimeout(
            total=self.request_timeout_s, sock_connect=self.connect_timeout_s
        )
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls(), keepalive_timeout=60)
        return aiohttp.ClientSession(connector=connector, timeout=timeout, headers=self.headers())

    def _tls(self) -> ssl.SSLContext | bool:
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=str(self.ca_file))
        except (OSError, ssl.SSLError) as problem:
            raise BadLoad(f"{self.ca_file} holds no certificates: {problem}") from None


async def first_model(session: aiohttp.ClientSession, target: Target) -> str:
    """The first model that the endpoint lists. Raises :class:`TargetUnusable`."""
    where = f"{target.url}/v1/models"
    try:
        async with session.get(where) as answer:
            if answer.status in (401, 403):
                raise TargetUnusable(
                    f"{where} answered {answer.status}: is the key right (OPENAI_API_KEY)?"
                )
            if answer.status != 200:
                raise TargetUnusable(f"{where} answered {answer.status}; name the model: --model")
            listed = await answer.json(content_type=None)
    except aiohttp.ClientConnectorError as problem:
        # Its own text speaks of SSL even where there is none.
        reason = problem.os_error.strerror or str(problem.os_error)
        raise TargetUnusable(f"{where}: cannot connect: {reason[:160]}") from None
    except (aiohttp.ClientError, TimeoutError, ValueError) as problem:
        raise TargetUnusable(f"{where}: {str(problem)[:160] or type(problem).__name__}") from None
    models = listed.get("data") if isinstance(listed, Mapping) else None
    if not isinstance(models, list) or not models or "id" not in models[0]:
        raise TargetUnusable(f"{where} lists no model; name one: --model")
    return str(models[0]["id"])
