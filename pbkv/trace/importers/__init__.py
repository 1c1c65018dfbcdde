"""Logs of other systems as traces, by name. None of them brings prompt text along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pbkv.errors import InvalidTrace
from pbkv.trace.importers.autogen import import_autogen
from pbkv.trace.importers.crewai import import_crewai
from pbkv.trace.importers.langsmith import import_langsmith
from pbkv.trace.importers.otel import import_otel
from pbkv.trace.record import InvocationRecord

IMPORTERS: dict[str, Callable[..., list[InvocationRecord]]] = {
    "langsmith": import_langsmith,
    "otel": import_otel,
    "autogen": import_autogen,
    "crewai": import_crewai,
}


def import_traces(source: str, path: Path, *, tenant: str = "") -> list[InvocationRecord]:
    """The records in a log of ``source``. Raises :class:`InvalidTrace`, listing the choices."""
    importer = IMPORTERS.get(source)
    if importer is None:
        raise InvalidTrace(f"unknown source {source!r}; choose one of: {', '.join(IMPORTERS)}")
    return importer(path, tenant=tenant)


__all__ = ["IMPORTERS", "import_traces"]
