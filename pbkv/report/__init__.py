"""One self-contained page from text, tables and figures; the tables also as Markdown.

Import it where a report is written, not at the top of a module: it brings matplotlib and Jinja2.
"""

from __future__ import annotations

from pbkv.report.chart import Series, bar_chart, line_chart
from pbkv.report.document import Block, Figure, Report, Section, Table, Text
from pbkv.report.html import render_html, write_html
from pbkv.report.markdown import report_markdown, table_markdown

__all__ = [
    "Block",
    "Figure",
    "Report",
    "Section",
    "Series",
    "Table",
    "Text",
    "bar_chart",
    "line_chart",
    "render_html",
    "report_markdown",
    "table_markdown",
    "write_html",
]
