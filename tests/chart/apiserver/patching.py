"""Patches: JSON merge (RFC 7386), strategic merge, and server-side apply."""

from __future__ import annotations

import copy
from typing import Any

# By what items of a list are told apart, first that all of them have. Every other list is replaced.
_KEYS = ("name", "mountPath", "containerPort", "port", "uid", "ip", "topologyKey")


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch: None deletes, a list replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def strategic_merge(target: Any, patch: Any) -> Any:
    """Like :func:`merge`, but lists of named things are merged item by item."""
    if isinstance(patch, dict):
        if patch.get("$patch") == "replace":
            return {name: value for name, value in patch.items() if name != "$patch"}
        merged = dict(target) if isinstance(target, dict) else {}
        for name, value in patch.items():
            if name.startswith("$"):
                continue
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = strategic_merge(merged.get(name), value)
        return merged
    key = _key(patch)
    if key is None or not isinstance(target, list):
        return _without_directives(patch)
    items = [copy.deepcopy(item) for item in target]
    for change in patch:
        place = next((i for i, item in enumerate(items) if item.get(key) == change[key]), None)
        if change.get("$patch") == "delete":
            if place is not None:
                del items[place]
        elif place is None:
            items.append(change)
        else:
            items[place] = strategic_merge(items[place], change)
    return items


def apply(current: Any, before: Any, wanted: Any) -> Any:
    """Server-side apply by a manager that applied ``before`` last time and ``wanted`` now.

    What it no longer names goes; what others set stays.
    """
    return strategic_merge(_disown(current, before, wanted), wanted)


def _disown(current: Any, before: Any, wanted: Any) -> Any:
    if isinstance(current, dict) and isinstance(before, dict) and isinstance(wanted, dict):
        kept = {}
        for name, value in current.items():
            if name in wanted:
                kept[name] = _disown(value, before.get(name), wanted[name])
            elif name not in before:
                kept[name] = value
        return kept
    key = _key(wanted)
    if key and isinstance(current, list) and isinstance(before, list):
        named = {item[key]: item for item in wanted}
        earlier = {item.get(key): item for item in before if isinstance(item, dict)}
        return [
            _disown(item, earlier.get(item.get(key)), named.get(item.get(key), item))
            for item in current
            if item.get(key) in named or item.get(key) not in earlier
        ]
    return current


def _key(items: Any) -> str | None:
    if not isinstance(items, list) or not items:
        return None
    if not all(isinstance(item, dict) for item in items):
        return None
    return next((key for key in _KEYS if all(key in item for item in items)), None)


def _without_directives(value: Any) -> Any:
    if isinstance(value, list):
        return [
            _without_directives(item)
            for item in value
            if not (isinstance(item, dict) and item.get("$patch") == "delete")
        ]
    if isinstance(value, dict):
        return {k: _without_directives(v) for k, v in value.items() if not k.startswith("$")}
    return value
