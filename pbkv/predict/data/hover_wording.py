"""How the notes of a HoVer-like transcript are worded.

Several wordings per fact, in everyday language with names out of the claim. No wording is a tag;
the sentences are short because a workflow of real text costs real computation.
"""

from __future__ import annotations

import random
import re

SYSTEM = "You verify claims together."

_NAME = re.compile(r"\b[A-Z][\w'&-]*(?: [A-Z][\w'&-]*)*")
_OPENERS = frozenset("The A An In It He She They This That These His Her Its Both".split())

_WORDINGS: dict[tuple[str, str], tuple[str, ...]] = {
    ("parts", "one"): (
        "Only {e} has to be checked.",
        "One lookup on {e} should do.",
        "It all hangs on {e}.",
        "A single source can decide this.",
        "There is just one thing to find out.",
        "This is one question about {e}.",
    ),
    ("parts", "two"): (
        "First {e}, then {f}.",
        "{e} before {f} can be checked.",
        "One source will not do here.",
        "This splits into two questions.",
        "We need {e} and {f} separately.",
        "There are two things to find out.",
    ),
    ("tangled", "no"): (
        "Such entries are usually brief.",
        "Sources on {e} tend to be plain.",
        "Expect a clear first line.",
        "This is tidily documented.",
        "Easy to read off, I think.",
        "Pages here come to the point.",
    ),
    ("tangled", "yes"): (
        "Such pages are long and dense.",
        "Sources on {e} mention it in passing.",
        "Expect a buried line.",
        "This is documented all over the place.",
        "It will take patience to work through.",
        "Pages here tend to ramble.",
    ),
    ("left", "none"): (
        "Nothing else to look up after it.",
        "This is the last open item.",
        "Then we can weigh the evidence.",
        "No other part is waiting.",
        "That completes the list.",
        "After {e} we are through.",
    ),
    ("left", "one"): (
        "{f} has to follow afterwards.",
        "Another item is still open.",
        "This is only the first half.",
        "We still owe an answer on {f}.",
        "Then comes the next search.",
        "The rest has not been searched yet.",
    ),
    ("read", "no"): (
        "A two-line snippet says it.",
        "The first sentence is what we asked.",
        "The summary is complete in itself.",
        "An infobox gives it directly.",
        "The hit can be taken as it stands.",
        "No need to open the page.",
    ),
    ("read", "yes"): (
        "Somebody must go through the page.",
        "The line is deep in the article.",
        "The snippet breaks off.",
        "Several pages of prose came back.",
        "Only the full text would tell.",
        "It is a long article on {e}.",
    ),
    ("cover", "settled"): (
        "That is exactly what the claim needs.",
        "Every part is accounted for now.",
        "It answers the question on {e}.",
        "Nothing is missing any more.",
        "The last gap is closed.",
        "The evidence is all there.",
    ),
    ("cover", "wrong page"): (
        "It is about a namesake of {e}.",
        "This is another article altogether.",
        "We looked under the wrong title.",
        "The search led to something unrelated.",
        "{e} does not occur in it.",
        "These terms will not find it.",
    ),
    ("cover", "short passage"): (
        "The excerpt stops before the point.",
        "Right article, too few lines.",
        "A later paragraph of it is needed.",
        "The text on {e} is cut off.",
        "The same page has more to say.",
        "The part we need was not fetched.",
    ),
    ("doubt", "no"): (
        "All sources agree on it.",
        "It holds without reservation.",
        "Two pages say the same.",
        "No other reading is possible.",
        "It is as firm as it gets.",
        "Nobody would dispute it.",
    ),
    ("doubt", "yes"): (
        "One source seems to contradict it.",
        "The dates do not quite fit.",
        "It holds only read generously.",
        "Somebody should object here.",
        "The support is shaky.",
        "I am not sure about {e}.",
    ),
    ("weak", "wording"): (
        "It is phrased too strongly.",
        "Two terms are mixed up in it.",
        "It should be put more carefully.",
        "The reasoning skips a step.",
        "A more precise sentence will do.",
        "The facts are there, the answer is clumsy.",
    ),
    ("weak", "source"): (
        "The cited page does not back it.",
        "No page shows this about {e}.",
        "The citation has to be fetched.",
        "We lack a source for that step.",
        "A better document is needed.",
        "It rests on nothing we have read.",
    ),
}


def entities(claim: str) -> tuple[str, ...]:
    """The last words of the names in a claim, in order; at least one word."""
    found = [name.split()[-1] for name in _NAME.findall(claim) if name not in _OPENERS]
    return tuple(dict.fromkeys(found)) or ("the subject",)


def wording(fact: tuple[str, str], names: tuple[str, ...], rng: random.Random) -> str:
    """One of the wordings of ``fact``, about one or two of ``names``."""
    first, other = rng.choice(names), rng.choice(names)
    return rng.choice(_WORDINGS[fact]).format(e=first, f=other)
