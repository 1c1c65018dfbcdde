"""The objects, their versions, and the history that watches follow."""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.chart.apiserver.kinds import Kind
from tests.chart.apiserver.problems import expired

Item = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """Where an object is; ``namespace`` empty for what is in none."""

    kind: Kind
    namespace: str
    name: str


@dataclass(frozen=True)
class Change:
    """One entry of the history."""

    version: int
    type: str
    key: Key
    item: Item


class Store:
    """Thread-safe. Items are handed out as copies; ``changed`` is told of every change, inside the
    lock, and may write again.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.changed: Callable[[Key, Item], None] = lambda key, item: None
        self._items: dict[Key, Item] = {}
        self._history: list[Change] = []
        self._version = 1
        self._oldest = 0

    @property
    def version(self) -> int:
        with self.condition:
            return self._version

    def get(self, key: Key) -> Item | None:
        with self.condition:
            return copy.deepcopy(self._items.get(key))

    def list(self, kind: Kind, namespace: str = "") -> list[tuple[Key, Item]]:
        """Of one namespace, or of all if that is empty."""
        with self.condition:
            return [
                (key, copy.deepcopy(item))
                for key, item in self._items.items()
                if key.kind == kind and namespace in ("", key.namespace)
            ]

    def put(self, key: Key, item: Item) -> Item:
        """Create or replace; fills in what the server owns."""
        with self.condition:
            old = self._items.get(key)
            item = copy.deepcopy(item)
            metadata = item.setdefault("metadata", {})
            metadata.pop("managedFields", None)
            if old is None:
                metadata["uid"] = str(uuid.uuid4())
                metadata["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                metadata["generation"] = 1
            else:
                for name in ("uid", "creationTimestamp", "generation", "deletionTimestamp"):
                    if name in old["metadata"]:
                        metadata[name] = old["metadata"][name]
                if item.get("spec") != old.get("spec"):
                    metadata["generation"] += 1
                if _same(old, item):
                    return copy.deepcopy(old)
            return self._record("MODIFIED" if old else "ADDED", key, item)

    def remove(self, key: Key) -> Item:
        """Delete, with everything that it owns. The key must exist."""
        with self.condition:
            item = self._record("DELETED", key, self._items.pop(key))
            uid = item["metadata"]["uid"]
            owned = [
                other
                for other, found in self._items.items()
                if any(o.get("uid") == uid for o in found["metadata"].get("ownerReferences", ()))
            ]
            for other in owned:
                if other in self._items:
                    self.remove(other)
            return item

    def since(self, version: int) -> Iterator[Change]:
        """The changes after ``version``. Raises a 410 if they are no longer known."""
        with self.condition:
            if version < self._oldest:
                raise expired()
            yield from [change for change in self._history if change.version > version]

    def compact(self) -> None:
        """Forget the history, as etcd does every few minutes."""
        with self.condition:
            self._history.clear()
            self._oldest = self._version

    def _record(self, type_: str, key: Key, item: Item) -> Item:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        if type_ != "DELETED":
            self._items[key] = item
        self._history.append(Change(self._version, type_, key, copy.deepcopy(item)))
        self.condition.notify_all()
        self.changed(key, copy.deepcopy(item))
        return copy.deepcopy(item)


def _same(old: Item, new: Item) -> bool:
    left, right = copy.deepcopy(old), copy.deepcopy(new)
    for item in (left, right):
        item["metadata"].pop("resourceVersion", None)
    return left == right
