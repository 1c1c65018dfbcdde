"""Strict schemas of every kind that the chart renders: what they do not name is a complaint."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

Manifest = Mapping[str, Any]

KUBERNETES_VERSION = "1.32"
_CRDS = Path(__file__).parent / "crds"
_FOLDER = f"kubernetes-json-schema/v{KUBERNETES_VERSION}.0-local-strict"
_KEPT = frozenset(
    "enum pattern minimum maximum minLength maxLength minItems maxItems minProperties"
    " maxProperties uniqueItems exclusiveMinimum exclusiveMaximum".split()
)


def complaints(manifest: Manifest) -> list[str]:
    """What an API server would refuse about ``manifest``; empty if nothing."""
    kind, version = manifest.get("kind", ""), manifest.get("apiVersion", "")
    validator = _custom_kinds().get((version, kind)) or _core_kind(version, kind)
    if validator is None:
        return [f"no schema for {version} {kind}"]
    return [
        f"{'.'.join(map(str, error.absolute_path)) or kind}: {error.message[:200]}"
        for error in validator.iter_errors(manifest)
    ]


def load_crd(definition: Manifest) -> dict[tuple[str, str], Draft202012Validator]:
    """(apiVersion, kind) -> validator, of one CustomResourceDefinition."""
    spec = definition["spec"]
    validators = {}
    for version in spec["versions"]:
        schema = _strict(version["schema"]["openAPIV3Schema"])
        schema.setdefault("properties", {})["metadata"] = {"type": "object"}
        name = f"{spec['group']}/{version['name']}"
        validators[name, spec["names"]["kind"]] = Draft202012Validator(schema)
    return validators


@cache
def crd_definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions beside this file."""
    return tuple(
        yaml.load(path.read_text(), yaml.CSafeLoader) for path in sorted(_CRDS.glob("*.yaml"))
    )


@cache
def _custom_kinds() -> dict[tuple[str, str], Draft202012Validator]:
    kinds: dict[tuple[str, str], Draft202012Validator] = {}
    for definition in crd_definitions():
        kinds |= load_crd(definition)
    return kinds


@cache
def _core_registry() -> Registry:
    definitions = schema_contents(f"{_FOLDER}/_definitions.json", KUBERNETES_VERSION)
    return Resource.from_contents(definitions) @ Registry()


@cache
def _core_kind(version: str, kind: str) -> Draft202012Validator | None:
    group, _, number = version.rpartition("/")
    name = "-".join(filter(None, (kind.lower(), group.split(".")[0], number)))
    try:
        schema = schema_contents(f"{_FOLDER}/{name}.json", KUBERNETES_VERSION)
    except FileNotFoundError:
        return None
    return Draft202012Validator(schema, registry=_core_registry())


def _strict(schema: Manifest) -> dict[str, Any]:
    """A CRD's schema as JSON schema in which no field is let through that it does not name."""
    strict: dict[str, Any] = {name: schema[name] for name in _KEPT & schema.keys()}
    free = schema.get("x-kubernetes-preserve-unknown-fields", False)
    if schema.get("x-kubernetes-int-or-string"):
        strict["type"] = ["integer", "string"]
    elif "type" in schema:
        strict["type"] = [schema["type"], "null"] if schema.get("nullable") else schema["type"]
    properties = schema.get("properties", {})
    if "required" in schema:
        # The server fills in defaults before it validates.
        strict["required"] = [
            n for n in schema["required"] if "default" not in properties.get(n, {})
        ]
    if properties:
        strict["properties"] = {name: _strict(inner) for name, inner in properties.items()}
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        strict["additionalProperties"] = _strict(extra)
    elif properties and extra is None and not free:
        strict["additionalProperties"] = False
    if "items" in schema:
        strict["items"] = _strict(schema["items"])
    return strict
