"""Beats while a context is open, and none that outlives it."""

import asyncio

import pytest

from router.keep_alive import COMMENT, KeepAlive


class Beats:
    """Counts beats; each one waits until it may end."""

    def __init__(self, *, held=False):
        self.begun = self.ended = 0
        self.may_end = asyncio.Event()
        self.changed = asyncio.Event()
        if not held:
            self.may_end.set()

    async def __call__(self):
        self.begun += 1
        self.changed.set()
        await self.may_end.wait()
        self.ended += 1

    async def until(self, begun):
        while self.begun < begun:
            self.changed.clear()
            await self.changed.wait()


async def test_it_beats_again_and_again():
    beats = Beats()
    async with KeepAlive(0.001, beats):
        await beats.until(3)
    ended = beats.ended
    await asyncio.sleep(0.01)
    assert (beats.begun, beats.ended) == (ended, ended)


async def test_zero_is_never():
    beats = Beats()
    async with KeepAlive(0, beats):
        await asyncio.sleep(0.01)
    assert beats.begun == 0


async def test_a_beat_that_was_begun_is_finished_first():
    beats = Beats(held=True)

    async def leave():
        async with KeepAlive(0.001, beats):
            await beats.until(1)

    leaving = asyncio.create_task(leave())
    await beats.until(1)
    await asyncio.sleep(0.01)
    # Neither a second one beside it, nor an end before it.
    assert (beats.begun, leaving.done()) == (1, False)
    beats.may_end.set()
    await leaving
    assert (beats.begun, beats.ended) == (1, 1)


async def test_a_beat_that_fails_is_heard_of():
    async def fail():
        raise OSError("no connection")

    context = KeepAlive(0.001, fail)
    with pytest.raises(OSError, match="no connection"):
        async with context:
            await asyncio.sleep(0.01)


def test_the_comment_is_an_event_of_its_own():
    assert COMMENT.startswith(b":")
    assert COMMENT.endswith(b"\n\n")
