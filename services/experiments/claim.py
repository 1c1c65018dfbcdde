"""What the paper says of a table or figure, held against what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pbkv.report import Text


@dataclass(frozen=True, slots=True)
class Claim:
    """``says`` is the paper's, ``holds`` whether it came out here, ``measured`` the numbers."""

    says: str
    holds: bool
    measured: str

    def text(self) -> str:
        return f"{'Agrees' if self.holds else 'Disagrees'}: {self.says}. Here: {self.measured}."


def verdict(claims: Sequence[Claim]) -> list[Text]:
    """One line on how far paper and simulation agree, then one for each claim."""
    held = sum(claim.holds for claim in claims)
    if held == len(claims):
        summary = "Agrees with the paper in all that was compared."
    elif held:
        summary = f"Agrees with the paper in {held} of {len(claims)} points."
    else:
        summary = "Disagrees with the paper."
    return [Text(summary), *(Text(claim.text()) for claim in claims)]
