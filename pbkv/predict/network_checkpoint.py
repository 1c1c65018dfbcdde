"""The checkpoint of a trained network: a folder with its configuration and its weights.

::

    folder/
      config.json           family, variant, agents, sizes, and the hash of the weights
      weights.safetensors
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load, save_file

from pbkv.errors import InvalidCheckpoint, SettingsError
from pbkv.hidden_source import NO_SOURCE, POST_NORM
from pbkv.predict.checkpoint import (
    CONFIG_FILE,
    FORMAT_VERSION,
    Checkpoint,
    read_checkpoint,
    read_family,
    write_checkpoint,
)
from pbkv.predict.families import make_network
from pbkv.predict.network import Network, Shape
from pbkv.predict.vocabulary import Vocabulary

WEIGHTS_FILE = "weights.safetensors"


class NetworkCheckpoint(Checkpoint):
    """``agents`` are the columns of the vocabulary from 1 on; ``hidden_source`` says which state
    of the served model the network was trained on, see :mod:`pbkv.hidden_source`."""

    variant: str
    agents: list[str]
    steps: Annotated[int, Field(ge=1)]
    hidden_size: Annotated[int, Field(ge=0)]
    hidden_source: Annotated[str, Field(pattern=r"^(post-norm|none|layer [1-9][0-9]{0,3})$")]
    weights_sha256: str


def save_network(
    folder: Path,
    network: Network,
    family: str,
    variant: str,
    agents: Vocabulary,
    hidden_source: str = POST_NORM,
) -> None:
    """Write the checkpoint; ``folder`` appears whole, in place of an earlier one.

    A network without hidden states is of no ``hidden_source``, whatever is given.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        weights = partial / WEIGHTS_FILE
        save_file({k: v.contiguous() for k, v in network.state_dict().items()}, str(weights))
        write_checkpoint(
            partial / CONFIG_FILE,
            NetworkCheckpoint(
                format=FORMAT_VERSION,
                family=family,
                variant=variant,
                agents=list(agents.agents[1:]),
                steps=network.shape.steps,
                hidden_size=network.shape.hidden_size,
                hidden_source=hidden_source if network.shape.hidden_size else NO_SOURCE,
                weights_sha256=hashlib.sha256(weights.read_bytes()).hexdigest(),
            ),
        )
        # mkdtemp makes a folder for its owner alone; the engine may run as another user.
        partial.chmod(0o755)
        _replace_folder(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load_network(folder: Path) -> tuple[Network, NetworkCheckpoint, str]:
    """The network, ready to forecast, its configuration, and a name for this state of it.

    Raises :class:`InvalidCheckpoint` in one line.
    """
    config = folder / CONFIG_FILE
    content = read_checkpoint(config, read_family(config), NetworkCheckpoint)
    try:
        weights = (folder / WEIGHTS_FILE).read_bytes()
    except OSError as problem:
        raise InvalidCheckpoint(f"checkpoint {folder}: {problem.strerror}") from None
    if hashlib.sha256(weights).hexdigest() != content.weights_sha256:
        raise InvalidCheckpoint(
            f"checkpoint {folder}: {WEIGHTS_FILE} is not the one it was saved with"
        )
    shape = Shape(
        len(Vocabulary(content.agents, max_agents=len(content.agents))),
        content.steps,
        content.hidden_size,
    )
    try:
        network = make_network(content.family, content.variant, shape)
        network.load_state_dict(load(weights))
    except SettingsError as problem:
        raise InvalidCheckpoint(f"checkpoint {folder}: {problem}") from None
    except (RuntimeError, SafetensorError):
        raise InvalidCheckpoint(f"checkpoint {folder}: the weights do not fit its config") from None
    network.eval()
    name = "-".join(filter(None, (content.family, content.variant, content.weights_sha256[:8])))
    return network, content, name


def _replace_folder(new: Path, folder: Path) -> None:
    if folder.is_file():
        raise InvalidCheckpoint(f"{folder} is there already and is no checkpoint")
    if folder.exists():
        if not (folder / CONFIG_FILE).is_file() and any(folder.iterdir()):
            raise InvalidCheckpoint(f"{folder} is there already and is no checkpoint")
        old = folder.with_name(f".{folder.name}-old-{os.getpid()}")
        folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old)
    else:
        new.rename(folder)
