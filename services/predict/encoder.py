"""Hidden states of prompts from a real model, one forward pass per workflow.

All prompts of a workflow share a growing transcript and differ in the instruction at the end. So
the transcript is computed once, and each instruction is a branch off it: it sees the transcript
before it and itself, the rest of the transcript does not see it, and its positions continue where
it branches off. Every branch then holds the states that its prompt would have alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pbkv.hidden_source import POST_NORM, layer_source
from pbkv.predict.data.prompted import PromptedWorkflow

_USER = "\N{OBJECT REPLACEMENT CHARACTER}"


def source_names(layers: Sequence[int]) -> tuple[str, ...]:
    """Names of the states that are kept: of block outputs, and of the post-norm state, last."""
    return (*(layer_source(layer) for layer in layers), POST_NORM)


def block_count(model_path: Path) -> int:
    """Blocks of the model in that folder, as its configuration says."""
    from transformers import AutoConfig

    config: Any = AutoConfig.from_pretrained(model_path)
    return int(config.num_hidden_layers)


@dataclass(frozen=True, slots=True)
class _Tree:
    """The tokens of a workflow: trunk and branches in order, and where each branch ends.

    ``branch`` is 0 for the trunk, else the number of the branch from 1 on.
    """

    tokens: list[int]
    positions: list[int]
    branch: list[int]
    ends: list[int]

    def mask(self) -> torch.Tensor:
        """Which tokens (columns) each token (rows) sees, shape (S, S), bool."""
        branch = torch.tensor(self.branch)
        causal = torch.ones(len(branch), len(branch), dtype=torch.bool).tril()
        return causal & ((branch[None, :] == 0) | (branch[None, :] == branch[:, None]))


class PromptEncoder:
    """A causal language model that only reads. Loads the weights when it is made."""

    def __init__(self, model_path: Path, layers: Sequence[int] = ()) -> None:
        """``layers`` are block outputs to keep, counted from 1, besides the post-norm state."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(model_path)
        causal_model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.bfloat16)
        self._model: Any = causal_model.model.eval()
        self._layers = tuple(layers)
        self.num_layers: int = self._model.config.num_hidden_layers
        self.hidden_size: int = self._model.config.hidden_size
        if any(not 1 <= layer < self.num_layers for layer in self._layers):
            raise ValueError(f"layers are 1 to {self.num_layers - 1}, got {self._layers}")

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the second axis of :meth:`encode`."""
        return source_names(self._layers)

    def to_float32(self) -> PromptEncoder:
        """The same in full precision: slower, for comparisons."""
        self._model = self._model.float()
        return self

    def encode(self, workflows: Sequence[PromptedWorkflow]) -> list[NDArray[np.float16]]:
        """Per workflow the states of the last prompt token, (calls, sources, D)."""
        trees = [self._tree(workflow) for workflow in workflows]
        length = max(len(tree.tokens) for tree in trees)
        tokens = torch.zeros(len(trees), length, dtype=torch.long)
        positions = torch.zeros(len(trees), length, dtype=torch.long)
        # A padded token sees itself: a row that sees nothing would be NaN.
        mask = torch.eye(length, dtype=torch.bool).repeat(len(trees), 1, 1)
        for row, tree in enumerate(trees):
            size = len(tree.tokens)
            tokens[row, :size] = torch.tensor(tree.tokens)
            positions[row, :size] = torch.tensor(tree.positions)
            mask[row, :size, :size] = tree.mask()
        with torch.inference_mode():
            output = self._model(
                input_ids=tokens,
                position_ids=positions,
                attention_mask=mask[:, None],
                output_hidden_states=bool(self._layers),
                use_cache=False,
            )
        kept = [output.hidden_states[layer] for layer in self._layers]
        states = torch.stack([*kept, output.last_hidden_state], dim=2)
        return [states[row, tree.ends].to(torch.float16).numpy() for row, tree in enumerate(trees)]

    def prompt(self, workflow: PromptedWorkflow, step: int) -> str:
        """The whole prompt of one call, as an engine renders it."""
        return self._render(workflow.system, workflow.user_message(step))

    def encode_alone(self, workflow: PromptedWorkflow, step: int) -> NDArray[np.float32]:
        """The post-norm state of one prompt by itself, (D,): the reference for :meth:`encode`."""
        ids = self._ids(self.prompt(workflow, step))
        with torch.inference_mode():
            output = self._model(input_ids=torch.tensor([ids]), use_cache=False)
        state: NDArray[np.float32] = output.last_hidden_state[0, -1].float().numpy()
        return state

    def _render(self, system: str, user: str) -> str:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        text: str = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return text

    def _tree(self, workflow: PromptedWorkflow) -> _Tree:
        head, _, tail = self._render(workflow.system, _USER).partition(_USER)
        tree = _Tree([], [], [], [])
        trunk = self._ids(head + workflow.opening)
        tree.tokens.extend(trunk)
        tree.positions.extend(range(len(trunk)))
        tree.branch.extend([0] * len(trunk))
        depth = len(trunk)
        for number, call in enumerate(workflow.calls, start=1):
            for text, branch in ((call.added, 0), (call.instruction + tail, number)):
                ids = self._ids(text)
                tree.tokens.extend(ids)
                tree.positions.extend(range(depth, depth + len(ids)))
                tree.branch.extend([branch] * len(ids))
                if branch == 0:
                    depth += len(ids)
            tree.ends.append(len(tree.tokens) - 1)
        return tree

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
