"""A report as one HTML file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from pbkv.report.document import Figure, Report, Table, cell_text

_TEMPLATE = "page.html"


def render_html(report: Report) -> str:
    """The page. All text is escaped; only the SVG of a figure is taken as it is."""
    environment = Environment(
        loader=PackageLoader("pbkv.report", "."),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell_text
    environment.filters["drawing"] = _drawing
    environment.tests["table"] = lambda block: isinstance(block, Table)
    environment.tests["figure"] = lambda block: isinstance(block, Figure)
    return environment.get_template(_TEMPLATE).render(report=report)


def write_html(path: Path, report: Report) -> None:
    """Write the page; folders on the way are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_html(report), encoding="utf-8")


def _drawing(figure: Figure) -> Markup:
    # Drawn by matplotlib, which escapes the text in it.
    return Markup(figure.svg)
