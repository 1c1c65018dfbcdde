"""Has the served model hand out the output of one of its layers beside its last hidden states.

SGLang's models do that for EAGLE-3, by a method of their own: what they hand out is the residual
stream, one row per token of the batch like the last hidden states, on CPU and CUDA graphs alike,
and it comes to the logits processor as one more argument.
"""

from __future__ import annotations

from typing import Any

from pbkv.hidden_source import layer_of
from pbkv.sglang.version import stop_start


def check_layer(source: str, num_layers: int) -> None:
    """End the start with one line if the model has no such layer before its last one.

    The output of the last one is what the norm makes the post-norm state of.
    """
    if (layer_of(source) or 0) >= num_layers:
        stop_start(f"hidden states of {source}: the model has layers 1 to {num_layers - 1}")


def hand_out_layer(model: Any, source: str) -> None:
    """Before the first forward; nothing to do for the post-norm state, which is there anyway.

    Ends the start with one line for a model that hands no layer out.
    """
    layer = layer_of(source)
    if layer is None:
        return
    set_layers = getattr(model, "set_eagle3_layers_to_capture", None)
    if set_layers is None:
        stop_start(
            f"hidden states of {source}: SGLang's {type(model).__name__} hands out no layer; "
            f"use those of post-norm"
        )
    # Counted from 0 there: the block whose output is wanted.
    set_layers([layer - 1])


def layer_rows(handed_out: Any) -> Any:
    """The rows of that layer, (tokens, D), in the argument of the logits processor."""
    # One layer in a list, or packed into a tensor, whose width then is that of one layer.
    return handed_out[0] if isinstance(handed_out, list | tuple) else handed_out
