"""What was simulated, looked up by cell and put together over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from services.sim.grid import GridCell

Row = dict[str, Any]

_PERCENT = ("hit_rate", "host_hit_rate")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value per seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def std(self) -> float:
        """Standard deviation over seeds; 0 of a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.std / math.sqrt(len(self.values))

    def minus(self, other: Sample) -> Sample:
        """Seed by seed: both saw the same workflows, so what they share drops out."""
        pairs = zip(self.values, other.values, strict=True)
        return Sample(tuple(mine - theirs for mine, theirs in pairs))

    def text(self, digits: int = 1) -> str:
        return f"{self.mean:.{digits}f} ± {self.std:.{digits}f}"


class Measured:
    """Rows by cell. Rates are given in percent."""

    def __init__(self, rows: Mapping[GridCell, Row]) -> None:
        self._rows = rows

    def row(self, cell: GridCell, seed: int = 1) -> Row:
        """The row of one seed."""
        return self._rows[replace(cell, seed=seed)]

    def of(self, cell: GridCell, key: str, seeds: int) -> Sample:
        """``key`` of the first ``seeds`` seeds of a cell."""
        factor = 100.0 if key in _PERCENT else 1.0
        return Sample(tuple(factor * self.row(cell, seed)[key] for seed in range(1, seeds + 1)))
