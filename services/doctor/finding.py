"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    SKIPPED = "skipped"
    """Could not be looked at; the detail says why."""
    WARNING = "warning"
    """Works, but not well."""
    FAILED = "failed"
    """Does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``fix`` is one line to do or run; empty where there is nothing to fix."""

    check: str
    verdict: Verdict
    detail: str
    fix: str = ""

    def __post_init__(self) -> None:
        if self.verdict in (Verdict.WARNING, Verdict.FAILED) and not self.fix:
            raise ValueError(f"the finding of {self.check!r} names no fix")


def ok(check: str, detail: str) -> Finding:
    return Finding(check, Verdict.OK, detail)


def skipped(check: str, detail: str) -> Finding:
    return Finding(check, Verdict.SKIPPED, detail)


def warning(check: str, detail: str, fix: str) -> Finding:
    return Finding(check, Verdict.WARNING, detail, fix)


def failed(check: str, detail: str, fix: str) -> Finding:
    return Finding(check, Verdict.FAILED, detail, fix)


def healthy(findings: Iterable[Finding]) -> bool:
    """Whether nothing failed."""
    return not any(finding.verdict is Verdict.FAILED for finding in findings)
