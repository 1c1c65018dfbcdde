"""What a report is made of, apart from how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Text:
    """One paragraph of plain text; nothing in it is markup."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under ``columns``.

    Numbers are shown as they print, so a caller rounds them; None is an empty cell. The first
    ``row_headers`` columns name the row and are set to the left, all others to the right.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    row_headers: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row has {len(row)} cells; expected {len(self.columns)}")

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        *,
        caption: str = "",
        row_headers: int = 1,
    ) -> Table:
        """The same from any sequences."""
        return cls(tuple(columns), tuple(tuple(row) for row in rows), caption, row_headers)


@dataclass(frozen=True, slots=True)
class Figure:
    """An SVG element, and in ``alt`` what it shows, for those who cannot see it."""

    svg: str
    alt: str
    caption: str = ""


Block = Text | Table | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A page: its title, one paragraph that says how it was made, its sections."""

    title: str
    lead: str
    sections: tuple[Section, ...]


def cell_text(cell: Cell) -> str:
    """A cell as it is shown."""
    return "" if cell is None else str(cell)
