"""The trained families and their variants, by name."""

from __future__ import annotations

from collections.abc import Callable

from pbkv.errors import SettingsError
from pbkv.predict.graphsage import GraphSage, OrderedGraphSage
from pbkv.predict.linear_probe import LinearProbe
from pbkv.predict.mlp import AgentsMlp, Mlp
from pbkv.predict.network import Network, Shape
from pbkv.predict.rgcn import Rgcn
from pbkv.predict.tcn import Tcn
from pbkv.predict.transformer import Transformer

NETWORKS: dict[str, dict[str, Callable[[Shape], Network]]] = {
    "graphsage": {"": GraphSage, "ordered": OrderedGraphSage},
    "rgcn": {"": Rgcn},
    "transformer": {
        "1L": lambda shape: Transformer(shape, depth=1),
        "2L": lambda shape: Transformer(shape, depth=2),
    },
    "tcn": {
        "small": lambda shape: Tcn(shape, depth=2, channels=32),
        "large": lambda shape: Tcn(shape, depth=4, channels=64),
    },
    "mlp": {
        "tiny": AgentsMlp,
        "small": lambda shape: Mlp(shape, widths=(64,), text_width=64),
        "deep": lambda shape: Mlp(shape, widths=(256, 128, 64), text_width=128),
    },
    "linear-probe": {"post-norm": LinearProbe},
}
"""Family -> variant -> how it is built."""


def make_network(family: str, variant: str, shape: Shape) -> Network:
    """An untrained network. Raises :class:`SettingsError` for a name that is unknown."""
    try:
        return NETWORKS[family][variant](shape)
    except KeyError:
        known = [
            "/".join(filter(None, (name, kind)))
            for name, kinds in NETWORKS.items()
            for kind in kinds
        ]
        asked = "/".join(filter(None, (family, variant)))
        raise SettingsError(f"unknown predictor {asked!r}; known: {', '.join(known)}") from None
