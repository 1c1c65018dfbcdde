"""Takes a framework into service: at once where it is loaded, else when it is."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from pbkv.clients.threads import carry_into_threads
from pbkv.clients.transport import tag_clients
from pbkv.errors import SettingsError

FRAMEWORKS: dict[str, dict[str, str]] = {
    "langgraph": {"langgraph.pregel.main": "pbkv.clients.langgraph:attach"},
    "autogen": {
        "autogen_agentchat.agents": "pbkv.clients.autogen:attach_agents",
        "autogen_agentchat.teams": "pbkv.clients.autogen:attach_teams",
    },
    "crewai": {"crewai": "pbkv.clients.crewai:attach"},
    "openai": {"openai": "pbkv.clients.openai:attach"},
}
"""Name -> modules of the framework, each with our function that changes it once it is loaded."""

_AUTOMATIC = ("langgraph", "autogen", "crewai")


def install(*frameworks: str, origins: Iterable[str] = ()) -> None:
    """Tag the calls of these frameworks; with no name, of all that have workflows of their own.

    None is imported for it. ``openai`` makes the whole process one workflow. Calls to URLs outside
    of ``origins`` (such as ``http://router:8000``) stay as they are; empty is no limit. Raises
    :class:`SettingsError` for a name that is none.
    """
    for name in frameworks:
        if name not in FRAMEWORKS:
            raise SettingsError(
                f"unknown framework {name[:40]!r}; choose from: {', '.join(FRAMEWORKS)}"
            )
    tag_clients(origins)
    carry_into_threads()
    for name in frameworks or _AUTOMATIC:
        for module, ours in FRAMEWORKS[name].items():
            if module in sys.modules:
                _attach(ours)
            else:
                _Waiting.of_process().add(module, ours)


def _attach(ours: str) -> None:
    module, _, function = ours.partition(":")
    getattr(importlib.import_module(module), function)()


class _Waiting(importlib.abc.MetaPathFinder):
    """Sees the import of a module that is waited for, and has it changed when it is loaded."""

    _instance: _Waiting | None = None

    def __init__(self) -> None:
        self._ours: dict[str, str] = {}

    @classmethod
    def of_process(cls) -> _Waiting:
        if cls._instance is None:
            cls._instance = cls()
            sys.meta_path.insert(0, cls._instance)
        return cls._instance

    def add(self, module: str, ours: str) -> None:
        self._ours[module] = ours

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        ours = self._ours.pop(fullname, None)
        if ours is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, ours)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Loads as the module's own loader does, then attaches."""

    def __init__(self, loader: Any, ours: str) -> None:
        self._loader = loader
        self._ours = ours

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _attach(self._ours)
