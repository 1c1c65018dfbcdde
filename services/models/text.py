"""Text on which the small tokenizer is trained: plain English made from word lists."""

import random
from collections.abc import Iterator

_NOUNS = (
    "agent answer article author bridge budget cache call capital chapter city claim client "
    "company context country critic data debugger document effect engine error evidence "
    "example fact failure field file film function garden graph history hour house idea "
    "index island judge key language length letter library line list manager market matter "
    "meeting memory message method minute model moment mountain name network number office "
    "order page parser part patch pattern person picture place planner player point policy "
    "prefix problem process program programmer project prompt query question queue reader "
    "reason record refiner reply report request result retriever river road row rule sample "
    "school score search season section sentence server session side signal song source "
    "state station step store story street system table task team test tester text token "
    "tool topic town trace tree turn value verdict version village water week window winner "
    "word worker workflow world writer year"
).split()
_VERBS = (
    "accept add agree answer appear ask begin belong bring build call carry change check "
    "choose claim close collect compare contain continue count cover decide describe direct "
    "divide drop enter evict expect explain fail fetch fill find finish follow forecast "
    "happen help hold import improve include join keep lead learn leave listen load look "
    "match measure mention move need note offer open order own pass play point prefetch "
    "present print produce prove provide publish pull push raise reach read receive record "
    "reject release remain remember remove repeat replace report return review run save say "
    "search seem select send serve show sort split start stay stop store support take "
    "talk test think train travel trust try turn use verify visit wait walk want watch win "
    "work write"
).split()
_QUALITIES = (
    "able active brief bright busy careful certain clear close cold common correct current "
    "deep different direct double early easy empty exact false famous fast final first free "
    "full general good great high important large last late little local long main modern "
    "narrow new next old only open other partial plain possible private public quick quiet "
    "ready real recent same second separate several short silent similar simple small "
    "special stable strong sure third true useful usual warm whole wide wrong young"
).split()
_LINKS = "the a this that each every some one another its their our your no any".split()
_PLACES = "in on at of for from with by under over after before between against through".split()
_ENDS = (". ", ". ", ". ", "? ", "! ", "; ", ":\n", ".\n\n", ", and ", ", but ", ", so ", ", or ")


def training_text(seed: int, sentences: int) -> Iterator[str]:
    """Sentences, the same ones for the same seed; a few carry numbers, code or JSON."""
    rng = random.Random(seed)
    for _ in range(sentences):
        yield rng.choices((_statement, _assignment, _object), weights=(17, 2, 1))[0](rng)


def _statement(rng: random.Random) -> str:
    subject, target = _phrase(rng), _phrase(rng)
    verb = rng.choice(_VERBS) + rng.choice(("s", "s", "ed", "ing", "", ""))
    sentence = f"{subject} {verb} {target} {rng.choice(_PLACES)} {_phrase(rng)}"
    if rng.random() < 0.5:
        sentence = sentence.capitalize()
    return sentence + rng.choice(_ENDS)


def _phrase(rng: random.Random) -> str:
    noun = rng.choice(_NOUNS) + rng.choice(("", "", "", "s", "'s work"))
    quality = rng.choice(_QUALITIES) + rng.choice(("", "", "", "ly"))
    return f"{rng.choice(_LINKS)} {quality} {noun}" if rng.random() < 0.6 else f"the {noun}"


def _assignment(rng: random.Random) -> str:
    return (
        f"{rng.choice(_NOUNS)}_{rng.choice(_NOUNS)} = {rng.choice(_VERBS)}({rng.randrange(5000)})\n"
    )


def _object(rng: random.Random) -> str:
    return (
        f'{{"{rng.choice(_NOUNS)}": "{rng.choice(_QUALITIES)}", "id": {rng.randrange(100000)}}}\n'
    )
