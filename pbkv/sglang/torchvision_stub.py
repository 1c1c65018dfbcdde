"""A stand-in for torchvision where it is not installed: imports work, use fails and says why."""

from __future__ import annotations

import importlib.machinery
import sys
import types

_MODULES = (
    "torchvision",
    "torchvision.io",
    "torchvision.transforms",
    "torchvision.transforms.functional",
    "torchvision.transforms.v2",
    "torchvision.transforms.v2.functional",
)


class _Missing:
    """An attribute of the absent package. It may be imported and passed about, not used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> _Missing:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return _Missing(f"{self._name}.{attribute}")

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError(f"{self._name} was called, but torchvision is not installed")


class _StubModule(types.ModuleType):
    def __getattr__(self, attribute: str) -> _Missing:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return _Missing(f"{self.__name__}.{attribute}")


def install_torchvision_stub() -> None:
    """Put the stand-in modules where ``import torchvision`` finds them."""
    for name in _MODULES:
        module = _StubModule(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        sys.modules[name] = module
        parent, _, leaf = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], leaf, module)
    # Packages that look for a version must not take the stand-in for a real release.
    sys.modules["torchvision"].__version__ = "0.0.0"  # type: ignore[attr-defined]
