"""Hidden states on disk, one file per workflow, found by the hash of what they were made from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pbkv.predict.data.prompted import PromptedWorkflow
from services.predict.encoder import PromptEncoder, source_names

_FORMAT = 1

Progress = Callable[[int, int], None]
"""Receives how many of how many workflows are done."""


class StateCache:
    """States of one model and one choice of layers. An interrupted run continues where it was."""

    def __init__(self, folder: Path, model_path: Path, layers: Sequence[int]) -> None:
        self._folder = folder
        self._model_path = model_path
        self._layers = tuple(layers)
        self._model_hash = _model_hash(model_path)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the second axis of :meth:`states`."""
        return source_names(self._layers)

    def states(
        self, workflows: Sequence[PromptedWorkflow], progress: Progress = lambda done, total: None
    ) -> list[NDArray[np.float16]]:
        """Per workflow (calls, sources, D); the model is loaded only if some are missing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        encoder: PromptEncoder | None = None
        states = []
        for done, workflow in enumerate(workflows):
            progress(done, len(workflows))
            path = self._folder / f"{self._key(workflow)}.npy"
            if not path.exists():
                # One workflow at a time: a padded batch is no faster on a CPU.
                encoder = encoder or PromptEncoder(self._model_path, self._layers)
                _write(path, encoder.encode([workflow])[0])
            states.append(np.load(path))
        progress(len(workflows), len(workflows))
        return states

    def _key(self, workflow: PromptedWorkflow) -> str:
        content = asdict(workflow) | {"workflow_id": ""}
        made_from = [_FORMAT, self._model_hash, self._layers, content]
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]


def _model_hash(model_path: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted([*model_path.glob("*.json"), *model_path.glob("*.safetensors")]):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _write(path: Path, states: NDArray[np.float16]) -> None:
    # Under a name of this process, so that two runs at once do not share it.
    partial = path.with_suffix(f".{os.getpid()}.npy")
    np.save(partial, states)
    partial.replace(path)
