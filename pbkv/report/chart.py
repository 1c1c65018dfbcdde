"""Line and bar charts as SVG that is the same, byte for byte, for the same data."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pbkv.report.document import Figure

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pbkv",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e7ec",
    "axes.axisbelow": True,
}
# Okabe and Ito's colours, which the colour-blind can tell apart too; after them, other markers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D")
_HEIGHT_INCHES = 3.0
_WIDTH_INCHES = 3.4
# Points closer than that are a curve, and markers on it would hide it.
_MARKED_POINTS = 40


@dataclass(frozen=True, slots=True)
class Series:
    """One line: ``y`` over ``x``, with ``spread`` as the half width of a band around it."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] = ()
    dashed: bool = False


def line_chart(
    panels: Sequence[tuple[str, Sequence[Series]]],
    *,
    x_label: str,
    y_label: str,
    alt: str,
    caption: str = "",
    log_x: bool = False,
    y_range: tuple[float, float] | None = None,
    panel_inches: float = _WIDTH_INCHES,
) -> Figure:
    """Panels side by side, each a title and its lines, with one legend for all."""

    def draw(axes: Axes, lines: Sequence[Series]) -> None:
        for index, line in enumerate(lines):
            colour = _COLOURS[index % len(_COLOURS)]
            plain = line.dashed or len(line.x) > _MARKED_POINTS
            axes.plot(
                line.x,
                line.y,
                label=line.label,
                color=colour,
                marker="" if plain else _MARKERS[index // len(_COLOURS) % len(_MARKERS)],
                markersize=3.5,
                linestyle="--" if line.dashed else "-",
                linewidth=1.4,
            )
            if line.spread:
                low = [y - s for y, s in zip(line.y, line.spread, strict=True)]
                high = [y + s for y, s in zip(line.y, line.spread, strict=True)]
                axes.fill_between(line.x, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set_xlabel(x_label)
        if log_x:
            axes.set_xscale("log")
        if y_range is not None:
            axes.set_ylim(*y_range)

    with matplotlib.rc_context(_STYLE):
        canvas = Canvas(figsize=(panel_inches * len(panels), _HEIGHT_INCHES), layout="constrained")
        for index, (title, lines) in enumerate(panels):
            axes = canvas.add_subplot(1, len(panels), index + 1)
            axes.set_title(title, fontsize=9)
            draw(axes, lines)
            if index == 0:
                axes.set_ylabel(y_label)
        handles, labels = canvas.axes[0].get_legend_handles_labels()
        if len(labels) > 1:
            canvas.legend(
                handles,
                labels,
                loc="outside lower center",
                ncols=min(5, len(labels)),
                frameon=False,
            )
        return Figure(_svg(canvas), alt, caption)


def bar_chart(
    groups: Sequence[str],
    bars: Sequence[tuple[str, Sequence[float]]],
    *,
    y_label: str,
    alt: str,
    caption: str = "",
) -> Figure:
    """One group of bars for every name in ``groups``; each of ``bars`` has a value per group."""
    with matplotlib.rc_context(_STYLE):
        canvas = Canvas(figsize=(max(4.0, 1.1 * len(groups)), _HEIGHT_INCHES), layout="constrained")
        axes = canvas.add_subplot()
        width = 0.8 / max(1, len(bars))
        for index, (label, values) in enumerate(bars):
            places = [group + (index + 0.5) * width - 0.4 for group in range(len(groups))]
            axes.bar(
                places, list(values), width, label=label, color=_COLOURS[index % len(_COLOURS)]
            )
        axes.set_xticks(range(len(groups)), list(groups))
        axes.set_ylabel(y_label)
        if len(bars) > 1:
            axes.legend(frameon=False)
        return Figure(_svg(canvas), alt, caption)


def _svg(canvas: Canvas) -> str:
    file = io.StringIO()
    canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
