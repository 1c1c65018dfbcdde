"""Reports and tables as Markdown, for a terminal or a file of notes."""

from __future__ import annotations

from pbkv.report.document import Block, Cell, Report, Table, Text, cell_text


def table_markdown(table: Table) -> str:
    """A table in the pipe notation; its caption is left out."""
    rules = [
        "---" if column < table.row_headers else "---:" for column in range(len(table.columns))
    ]
    lines = [_row(table.columns), _row(tuple(rules)), *(_row(row) for row in table.rows)]
    return "\n".join(lines) + "\n"


def report_markdown(report: Report) -> str:
    """Title, text and tables; a figure is represented by its alternative text."""
    parts = [f"# {report.title}\n", f"{report.lead}\n"]
    for section in report.sections:
        parts.append(f"## {section.title}\n")
        parts += [_block(block) for block in section.blocks]
    return "\n".join(parts)


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f"{block.text}\n"
    if isinstance(block, Table):
        caption = f"{block.caption}\n\n" if block.caption else ""
        return caption + table_markdown(block)
    return f"*Figure: {block.alt}*\n"


def _row(cells: tuple[Cell, ...]) -> str:
    escaped = (cell_text(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
