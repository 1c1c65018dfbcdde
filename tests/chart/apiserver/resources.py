"""Reading and writing objects as the API's verbs do."""

from __future__ import annotations

import uuid
from typing import Any

from tests.chart.apiserver import patching
from tests.chart.apiserver.kinds import Discovery, of_definition
from tests.chart.apiserver.problems import Refusal, conflict, not_found
from tests.chart.apiserver.requests import Target
from tests.chart.apiserver.selectors import fields_match, labels_match
from tests.chart.apiserver.store import Item, Key, Store
from tests.chart.schemas import complaints

Answer = tuple[int, Item]


class Resources:
    """The verbs. Each answers a status and a body, or raises :class:`Refusal`."""

    def __init__(self, store: Store, discovery: Discovery) -> None:
        self._store = store
        self._discovery = discovery
        # What each manager applied last: (key, manager) -> configuration.
        self._applied: dict[tuple[Key, str], Item] = {}

    def read(self, target: Target) -> Answer:
        if target.name:
            return 200, self._answer(target, self._existing(target))
        items = [item for _, item in self.selected(target)]
        kind = {"kind": f"{target.kind.kind}List", "apiVersion": target.kind.version}
        metadata = {"resourceVersion": str(self._store.version)}
        return 200, {**kind, "metadata": metadata, "items": items}

    def selected(self, target: Target) -> list[tuple[Key, Item]]:
        """What a collection holds, under the selectors of the query."""
        found = self._store.list(target.kind, target.namespace)
        return [(key, item) for key, item in found if self.matches(target, item)]

    def matches(self, target: Target, item: Item) -> bool:
        labels = item["metadata"].get("labels") or {}
        return labels_match(target.query.get("labelSelector", ""), labels) and fields_match(
            target.query.get("fieldSelector", ""), item
        )

    def concerns(self, target: Target, key: Key, item: Item) -> bool:
        """Whether a watch of ``target`` hears of a change of ``item``."""
        inside = target.namespace in ("", key.namespace)
        return key.kind == target.kind and inside and self.matches(target, item)

    def create(self, target: Target, item: Item) -> Answer:
        item.setdefault("apiVersion", target.kind.version)
        item.setdefault("kind", target.kind.kind)
        metadata = item.setdefault("metadata", {})
        if not metadata.get("name"):
            metadata["name"] = metadata.get("generateName", "") + uuid.uuid4().hex[:5]
        if target.kind.kind == "SelfSubjectAccessReview":
            return 201, {**item, "status": {"allowed": True}}
        key = self._key(target, metadata["name"])
        if self._store.get(key) is not None:
            raise Refusal(409, "AlreadyExists", f'{target.kind.plural} "{key.name}" already exists')
        return 201, self._write(target, key, item)

    def replace(self, target: Target, item: Item) -> Answer:
        current = self._existing(target)
        self._check_version(target, current, item)
        if target.part == "status":
            item = {**current, "status": item.get("status")}
        elif "status" in current:
            item = {**item, "status": current["status"]}
        return 200, self._write(target, self._key(target), item)

    def patch(self, target: Target, content_type: str, patch: Any) -> Answer:
        key = self._key(target)
        current = self._store.get(key)
        if "apply-patch" in content_type:
            return self._apply(target, key, current, patch)
        if current is None:
            raise not_found(str(target))
        self._check_version(target, current, patch)
        if target.part == "scale":
            changed = patching.merge(current, {"spec": {"replicas": patch["spec"]["replicas"]}})
        elif "strategic" in content_type:
            changed = patching.strategic_merge(current, patch)
        elif "merge-patch" in content_type:
            changed = patching.merge(current, patch)
        else:
            raise Refusal(415, "UnsupportedMediaType", f"cannot apply a {content_type}")
        if target.part == "status":
            changed = {**current, "status": changed.get("status")}
        elif "status" in current:
            changed["status"] = current["status"]
        return 200, self._answer(target, self._write(target, key, changed))

    def delete(self, target: Target) -> Answer:
        keys = [self._key(target)] if target.name else [key for key, _ in self.selected(target)]
        if target.name:
            self._existing(target)
        for key in keys:
            if not target.dry_run and self._store.get(key) is not None:
                self._store.remove(key)
                self._applied = {k: v for k, v in self._applied.items() if k[0] != key}
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return 200, success

    def _apply(self, target: Target, key: Key, current: Item | None, wanted: Item) -> Answer:
        manager = (key, target.query.get("fieldManager", ""))
        base = current or {"metadata": {"name": key.name}}
        changed = patching.apply(base, self._applied.get(manager, {}), wanted)
        if current and "status" in current:
            changed["status"] = current["status"]
        written = self._write(target, key, changed)
        if not target.dry_run:
            self._applied[manager] = wanted
        return (200 if current else 201), written

    def _write(self, target: Target, key: Key, item: Item) -> Item:
        if target.kind.namespaced:
            item["metadata"]["namespace"] = key.namespace
        # The server fills in addresses; the schemas are about what people write.
        checked = {name: value for name, value in item.items() if name != "status"}
        if found := complaints(checked):
            raise Refusal(
                422, "Invalid", f'{item["kind"]} "{key.name}" is invalid: {"; ".join(found[:5])}'
            )
        if item["kind"] == "CustomResourceDefinition":
            for kind in of_definition(item):
                self._discovery.add(kind)
        if item["kind"] == "Service":
            item["spec"].setdefault("clusterIP", f"10.96.0.{1 + self._store.version % 250}")
        return item if target.dry_run else self._store.put(key, item)

    def _answer(self, target: Target, item: Item) -> Item:
        if target.part != "scale":
            return item
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": item["metadata"],
            "spec": {"replicas": item["spec"].get("replicas", 1)},
            "status": {"replicas": item.get("status", {}).get("replicas", 0)},
        }

    def _key(self, target: Target, name: str = "") -> Key:
        return Key(
            target.kind,
            target.namespace if target.kind.namespaced else "",
            name or target.name,
        )

    def _existing(self, target: Target) -> Item:
        item = self._store.get(self._key(target))
        if item is None:
            raise not_found(str(target))
        return item

    def _check_version(self, target: Target, current: Item, change: Any) -> None:
        wanted = (change.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != current["metadata"]["resourceVersion"]:
            raise conflict(str(target))
