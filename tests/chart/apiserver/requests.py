"""What a request asks for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.chart.apiserver import protobuf
from tests.chart.apiserver.kinds import Discovery, Kind
from tests.chart.apiserver.problems import Refusal, not_found


@dataclass(frozen=True)
class Target:
    """A collection, an object (``name``), or a part of one (``part``: status or scale)."""

    kind: Kind
    namespace: str
    name: str
    part: str
    query: dict[str, str]

    @property
    def watch(self) -> bool:
        return self.query.get("watch") in ("1", "true")

    @property
    def dry_run(self) -> bool:
        return "dryRun" in self.query

    def __str__(self) -> str:
        return f'{self.kind.plural} "{self.name}"'


def read_target(url: str, discovery: Discovery) -> Target:
    """Raises a 404 for a path that names no resource."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    words = parts.path.strip("/").split("/")
    if words[0] == "api" and len(words) > 2:
        version, words = words[1], words[2:]
    elif words[0] == "apis" and len(words) > 3:
        version, words = f"{words[1]}/{words[2]}", words[3:]
    else:
        raise not_found(f"the path {parts.path}")
    namespace = ""
    if words[0] == "namespaces" and len(words) > 2 and words[2] not in ("status", "finalize"):
        namespace, words = words[1], words[2:]
    plural, name, part = (*words, "", "")[:3]
    kind = discovery.find(version, plural)
    if kind is None:
        raise Refusal(404, "NotFound", "the server could not find the requested resource")
    return Target(kind, namespace, name, part, query)


def read_body(body: bytes) -> Any:
    """JSON, YAML (server-side apply) or the little protobuf that Helm writes; None if empty."""
    if not body:
        return None
    if body.startswith(protobuf.MAGIC):
        return protobuf.decode(body)
    if body.lstrip()[:1] in (b"{", b"["):
        return json.loads(body)
    return yaml.safe_load(body)
