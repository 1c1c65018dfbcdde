"""Checkpoints of predictors that are JSON: written whole, read strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pbkv.errors import InvalidCheckpoint
from pbkv.hidden_source import NO_SOURCE

FORMAT_VERSION = 1

CONFIG_FILE = "config.json"
"""The JSON of a checkpoint that is a folder."""


class Checkpoint(BaseModel):
    """What every checkpoint says of itself; a family adds what its predictor is made of."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    format: int
    family: str


def read_hidden_source(path: Path) -> str:
    """Which hidden states the predictor of the checkpoint at ``path``, file or folder, reads.

    ``none`` for one that reads none. Raises :class:`InvalidCheckpoint`.
    """
    config = path / CONFIG_FILE if path.is_dir() else path
    return str(_read_header(config)[1].get("hidden_source", NO_SOURCE))[:40]


Content = TypeVar("Content", bound=Checkpoint)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write it; a reader sees the old file or the new one, never a part."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(checkpoint.model_dump_json())
    partial.replace(path)


def read_family(path: Path) -> str:
    """The family that the checkpoint at ``path`` is of. Raises :class:`InvalidCheckpoint`."""
    return str(_read_header(path)[1].get("family"))[:40]


def read_checkpoint(path: Path, family: str, content: type[Content]) -> Content:
    """The checkpoint of ``family`` at ``path``. Raises :class:`InvalidCheckpoint` in one line."""
    text, header = _read_header(path)
    if header.get("family") != family:
        raise InvalidCheckpoint(
            f"checkpoint {path} is of family {str(header.get('family'))[:40]!r}, not {family!r}"
        )
    try:
        return content.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "content"
        raise InvalidCheckpoint(
            f"checkpoint {path} is damaged at {where}: {first['msg']}"
        ) from None


def _read_header(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a checkpoint, and its content as far as its format is known."""
    try:
        text = path.read_text()
        header = json.loads(text)
    except OSError as problem:
        raise InvalidCheckpoint(f"checkpoint {path}: {problem.strerror}") from None
    except ValueError:
        raise InvalidCheckpoint(f"checkpoint {path} is not JSON") from None
    if not isinstance(header, dict) or "format" not in header:
        raise InvalidCheckpoint(f"{path} is not a checkpoint of a predictor")
    if header["format"] != FORMAT_VERSION:
        raise InvalidCheckpoint(
            f"checkpoint {path} has format {str(header['format'])[:20]}; "
            f"this version reads format {FORMAT_VERSION}"
        )
    return text, header
