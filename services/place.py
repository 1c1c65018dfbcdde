"""What a replica learns only where it runs: its address, and secrets from its environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from services.errors import InvalidReplicaSettings
from services.settings import ReplicaSettings

_VARIABLE = re.compile(r"\$\((\w+)\)")
_EVERY_INTERFACE = ("0.0.0.0", "::")


def settle(
    settings: ReplicaSettings, environ: Mapping[str, str], own_address: Callable[[], str]
) -> ReplicaSettings:
    """``settings`` with what depends on the place filled in.

    ``redis_url`` may name variables as ``$(NAME)``: a Serve configuration is readable by many, so
    no password belongs into it. An engine that binds every interface advertises ``own_address``
    unless told otherwise. Raises :class:`InvalidReplicaSettings` for a variable that is not set.
    """

    def value(found: re.Match[str]) -> str:
        try:
            return environ[found[1]]
        except KeyError:
            raise InvalidReplicaSettings(
                f"redis_url names {found[0]}, and the environment has no {found[1]}"
            ) from None

    changes = {"redis_url": _VARIABLE.sub(value, settings.redis_url)}
    if settings.host in _EVERY_INTERFACE and not settings.advertised_host:
        changes["advertised_host"] = own_address()
    return settings.model_copy(update=changes)
