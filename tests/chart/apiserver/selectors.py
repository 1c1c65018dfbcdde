"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.chart.apiserver.problems import Refusal

_EXISTS = re.compile(r"(!?)\s*([\w./-]+)")
_EQUALS = re.compile(r"([\w./-]+)\s*(==|=|!=)\s*([\w./-]*)")
_SET = re.compile(r"([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)")
_BETWEEN = re.compile(r",(?![^()]*\))")


def labels_match(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether ``labels`` meet every term. Raises :class:`Refusal` for a term it cannot read."""
    return all(_label_term(term.strip(), labels) for term in _terms(selector))


def fields_match(selector: str, item: Mapping[str, Any]) -> bool:
    """Whether the fields, by dotted path, have the values asked for."""
    for term in _terms(selector):
        found = _EQUALS.fullmatch(term.strip())
        if found is None:
            raise Refusal(400, "BadRequest", f"cannot read the field selector {term!r}")
        value: Any = item
        for part in found[1].split("."):
            value = (value or {}).get(part)
        if (str("" if value is None else value) == found[3]) is (found[2] == "!="):
            return False
    return True


def _terms(selector: str) -> list[str]:
    return [term for term in _BETWEEN.split(selector) if term.strip()]


def _label_term(term: str, labels: Mapping[str, str]) -> bool:
    if found := _EXISTS.fullmatch(term):
        return (found[2] in labels) is not bool(found[1])
    if found := _EQUALS.fullmatch(term):
        return (labels.get(found[1]) == found[3]) is (found[2] != "!=")
    if found := _SET.fullmatch(term):
        values = {value.strip() for value in found[3].split(",")}
        return (labels.get(found[1]) in values) is (found[2] == "in")
    raise Refusal(400, "BadRequest", f"cannot read the label selector {term!r}")
