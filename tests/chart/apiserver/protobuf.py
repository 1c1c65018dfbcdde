"""Helm writes its releases through the typed client, which speaks protobuf: only as much of it.

Field numbers are those of k8s.io/api/core/v1 and k8s.io/apimachinery.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from tests.chart.apiserver.problems import Refusal

MAGIC = b"k8s\0"


def decode(body: bytes) -> dict[str, Any]:
    """A Secret, a ConfigMap or DeleteOptions as the JSON would be."""
    envelope = dict(_fields(body.removeprefix(MAGIC)))
    kind_of = dict(_fields(envelope[1]))
    version, kind = kind_of.get(1, b"").decode(), kind_of.get(2, b"").decode()
    if kind == "DeleteOptions":
        return {}
    if kind not in ("Secret", "ConfigMap"):
        raise Refusal(415, "UnsupportedMediaType", f"protobuf of {kind} is not understood")
    item: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": {}}
    for number, value in _fields(envelope.get(2, b"")):
        if number == 1:
            item["metadata"] = _metadata(value)
        elif number == 2:
            name, content = _entry(value)
            text = base64.b64encode(content) if kind == "Secret" else content
            item.setdefault("data", {})[name] = text.decode()
        elif number == 3 and kind == "Secret":
            item["type"] = value.decode()
    return item


def _metadata(content: bytes) -> dict[str, Any]:
    texts = {1: "name", 2: "generateName", 3: "namespace", 6: "resourceVersion"}
    maps = {11: "labels", 12: "annotations"}
    metadata: dict[str, Any] = {}
    for number, value in _fields(content):
        if number in texts and value:
            metadata[texts[number]] = value.decode()
        elif number in maps:
            name, text = _entry(value)
            metadata.setdefault(maps[number], {})[name] = text.decode()
    return metadata


def _entry(content: bytes) -> tuple[str, bytes]:
    pair = dict(_fields(content))
    return pair.get(1, b"").decode(), pair.get(2, b"")


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field; texts and messages as bytes, numbers as int."""
    place = 0
    while place < len(content):
        tag, place = _varint(content, place)
        if tag & 7 == 0:
            value, place = _varint(content, place)
            yield tag >> 3, value
        elif tag & 7 == 2:
            length, place = _varint(content, place)
            yield tag >> 3, content[place : place + length]
            place += length
        else:
            raise Refusal(415, "UnsupportedMediaType", f"protobuf wire type {tag & 7}")


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
