"""The page as one document, and the policy that lets a browser run nothing else.

Styles and scripts are inside the document and allowed by their hashes, so the page needs no further
request, no other host, and what a workflow id or an agent name smuggles in does not run.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources

_STYLES = ("style.css",)
# In the order in which they use each other: classic scripts share their top level.
_SCRIPTS = (
    "format.js",
    "dom.js",
    "api.js",
    "chart.js",
    "replicas.js",
    "workflows.js",
    "activity.js",
    "main.js",
)


@dataclass(frozen=True, slots=True)
class Document:
    """The body of the answer and its headers."""

    body: bytes
    headers: dict[str, str]

    @classmethod
    def assemble(cls) -> Document:
        """Put the packaged files together."""
        styles = [_read(name) for name in _STYLES]
        scripts = [_read(name) for name in _SCRIPTS]
        page = _read("index.html")
        page = page.replace("<!-- styles -->", "".join(f"<style>{text}</style>" for text in styles))
        page = page.replace(
            "<!-- scripts -->", "".join(f"<script>{text}</script>" for text in scripts)
        )
        policy = "; ".join(
            (
                "default-src 'none'",
                f"script-src {_hashes(scripts)}",
                f"style-src {_hashes(styles)}",
                "img-src data:",
                "connect-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            )
        )
        headers = {
            "Content-Security-Policy": policy,
            "Cache-Control": "no-cache",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }
        return cls(page.encode(), headers)


def _hashes(texts: list[str]) -> str:
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _read(name: str) -> str:
    return resources.files("router.dashboard").joinpath("page", name).read_text("utf-8")
