"""A report as a page and as Markdown."""

from html.parser import HTMLParser

import pytest

from pbkv.report import (
    Report,
    Section,
    Series,
    Table,
    Text,
    bar_chart,
    line_chart,
    render_html,
    report_markdown,
    table_markdown,
    write_html,
)


def chart():
    lines = [
        Series("a <b>", (1.0, 2.0), (0.5, 0.7), spread=(0.1, 0.1)),
        Series("c", (1.0,), (0.4,)),
    ]
    return line_chart([("k=1", lines)], x_label="x", y_label="y", alt='"over" & above')


def report(*blocks):
    return Report("Title <1>", "How it was made", (Section("Part", tuple(blocks)),))


class Outside(HTMLParser):
    """Collects what a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.fetched = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in ("script", "link", "img", "iframe"):
            self.fetched.append(tag)
        # A reference within the page begins with "#".
        for name in ("src", "href", "xlink:href"):
            if values.get(name, "#")[0] != "#":
                self.fetched.append(values[name])


def test_a_page_needs_nothing_else():
    page = render_html(report(chart(), bar_chart(["g"], [("b", [1.0])], y_label="y", alt="bars")))
    outside = Outside()

    outside.feed(page)

    assert outside.fetched == []
    assert page.count("<svg") == 2


def test_text_is_escaped_and_figures_have_alternative_text():
    page = render_html(report(Text("<script>"), Table.of(["a&b"], [["<i>"]]), chart()))

    assert "<script>" not in page
    assert "<i>" not in page
    assert "<title>Title &lt;1&gt;</title>" in page
    assert 'aria-label="&#34;over&#34; &amp; above"' in page


def test_the_same_data_makes_the_same_page():
    assert render_html(report(chart())) == render_html(report(chart()))


def test_markdown_of_a_table():
    table = Table.of(["name", "value"], [["a|b", 1.5], ["c", None]])

    assert table_markdown(table) == "| name | value |\n| --- | ---: |\n| a\\|b | 1.5 |\n| c |  |\n"


def test_markdown_of_a_report_says_what_figures_show():
    text = report_markdown(report(Text("words"), chart()))

    assert text.startswith("# Title <1>\n")
    assert "words" in text
    assert '*Figure: "over" & above*' in text


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 cells; expected 1"):
        Table.of(["a"], [[1, 2]])


def test_a_page_is_written_into_a_new_folder(tmp_path):
    path = tmp_path / "new" / "page.html"

    write_html(path, report())

    assert path.read_text().startswith("<!doctype html>")
