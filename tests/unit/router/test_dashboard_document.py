"""The page is one document, and its policy fits what is in it."""

import re
from base64 import b64encode
from hashlib import sha256

from router.dashboard.document import Document

DOCUMENT = Document.assemble()
PAGE = DOCUMENT.body.decode()
POLICY = DOCUMENT.headers["Content-Security-Policy"]


def digest(text):
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_every_script_and_style_is_allowed_by_its_hash_and_nothing_else_is():
    inside = {
        "script-src": re.findall(r"<script>(.*?)</script>", PAGE, re.DOTALL),
        "style-src": re.findall(r"<style>(.*?)</style>", PAGE, re.DOTALL),
    }
    directives = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert directives["default-src"] == "'none'"
    for name, texts in inside.items():
        assert texts
        assert directives[name] == " ".join(map(digest, texts))
    assert PAGE.count("<script") == len(inside["script-src"])
    assert "unsafe" not in POLICY


def test_nothing_comes_from_elsewhere():
    addresses = set(re.findall(r"https?://[^\s\"'`]+", PAGE))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?!data:)", PAGE)


def test_text_is_never_written_as_markup():
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in PAGE


def test_no_attribute_needs_inline_rights():
    markup = re.sub(r"<(script|style)>.*?</\1>", "", PAGE, flags=re.DOTALL)
    assert not re.search(r"\s(?:style|on\w+)=", markup)
    assert "<!-- styles -->" not in PAGE and "<!-- scripts -->" not in PAGE
