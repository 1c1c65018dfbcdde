"""Captures the hidden state of the last prompt token of each request, as prefill leaves it.

The scheduler launches a batch in one call, and the model's forward runs inside that call. Before
it, the rows that end a prompt are noted; inside it, SGLang's logits processor holds the post-norm
hidden states of all tokens of the batch, and those rows are taken; after it, whoever got none is
told so. Overlap scheduling changes nothing here: it puts off the reading of results, and not the
launch.

Taking a row never waits for the device: it is copied behind the forward pass on the same stream,
and only the predictor's thread waits for the copy to arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from pbkv.predict.worker import HiddenState


@dataclass(frozen=True, slots=True)
class CapturedState:
    """One row of a copy on the host, which is complete once ``arrived`` is."""

    rows: torch.Tensor
    row: int
    arrived: Any

    def read(self) -> NDArray[np.float32]:
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.rows[self.row].float().numpy()


@dataclass(frozen=True, slots=True)
class _Expected:
    """The batch that is being launched: its row counts, and which rows end an awaited prompt."""

    extend_lens: tuple[int, ...]
    last_rows: tuple[int, ...]
    request_ids: tuple[str, ...]


class HiddenStateSink(Protocol):
    """Who wants the hidden states of the requests that were announced to it."""

    def announce(self, request_id: str, workflow_id: str) -> None:
        """A new request of that workflow; its hidden state may follow."""
        ...

    def awaits(self, request_id: str) -> bool:
        """Whether the hidden state of that request is still to come."""
        ...

    def take_hidden_state(self, request_id: str, state: HiddenState | None) -> None:
        """The state of an awaited request; None if it could not be captured."""
        ...


class HiddenStateCapture:
    """One batch at a time: :meth:`expect`, the model's forward with :meth:`take`, :meth:`finish`.

    ``deliver`` gets a state for every awaited request whose prompt the batch completed, None where
    the engine ran it in a way whose rows cannot be told apart, such as speculative decoding.
    """

    def __init__(
        self,
        awaits: Callable[[str], bool],
        deliver: Callable[[str, HiddenState | None], None],
    ) -> None:
        self._awaits = awaits
        self._deliver = deliver
        self._expected: _Expected | None = None

    def expect(self, batch: Any) -> None:
        """``batch`` is about to be launched."""
        self._expected = None
        if not batch.forward_mode.is_extend() or not batch.extend_lens:
            return
        ends = list(accumulate(batch.extend_lens))
        completed = [
            (end - 1, req.rid)
            for end, req in zip(ends, batch.reqs, strict=False)
            if self._completes_prompt(req) and self._awaits(req.rid)
        ]
        if not completed:
            return
        rows, request_ids = zip(*completed, strict=True)
        self._expected = _Expected(tuple(batch.extend_lens), rows, request_ids)
        if len(ends) != len(batch.reqs) or not batch.spec_algorithm.is_none():
            self.finish()

    def take(self, hidden_states: Any, metadata: Any) -> None:
        """The logits processor of the launched batch sees ``hidden_states``."""
        expected = self._expected
        if expected is None or not self._fits(expected, hidden_states, metadata):
            return
        self._expected = None
        # Row by row: an index tensor would have to be brought to the device first.
        rows = torch.stack([hidden_states[row] for row in expected.last_rows])
        host_rows, arrived = _to_host(rows)
        for row, request_id in enumerate(expected.request_ids):
            self._deliver(request_id, CapturedState(host_rows, row, arrived))

    def finish(self) -> None:
        """The batch was launched; requests that it should have served and did not get None."""
        expected, self._expected = self._expected, None
        if expected is not None:
            for request_id in expected.request_ids:
                self._deliver(request_id, None)

    @classmethod
    def for_sinks(cls, sinks: Sequence[HiddenStateSink]) -> HiddenStateCapture:
        """A capture that serves each of ``sinks`` with what it awaits."""

        def deliver(request_id: str, state: HiddenState | None) -> None:
            for sink in sinks:
                if sink.awaits(request_id):
                    sink.take_hidden_state(request_id, state)

        return cls(lambda request_id: any(sink.awaits(request_id) for sink in sinks), deliver)

    @staticmethod
    def _completes_prompt(req: Any) -> bool:
        """Whether this batch prefills the last chunk of the prompt.

        A request that was put back after it had begun to answer is prefilled with its answer so
        far; its prompt was captured the first time.
        """
        return not req.output_ids and req.extend_end == len(req.origin_input_ids)

    @staticmethod
    def _fits(expected: _Expected, hidden_states: Any, metadata: Any) -> bool:
        """Whether the rows are those of the expected batch, one per token, perhaps padded."""
        lens: Sequence[int] | None = getattr(metadata, "extend_seq_lens_cpu", None)
        return (
            metadata.forward_mode.is_extend()
            and lens is not None
            and tuple(lens) == expected.extend_lens
            and hidden_states.dim() == 2
            and len(hidden_states) >= sum(expected.extend_lens)
        )


def _to_host(rows: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """A copy on the host, and the event after which it is complete (None: it is)."""
    if rows.device.type == "cpu":
        return rows, None
    host_rows = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
    host_rows.copy_(rows, non_blocking=True)
    arrived = torch.get_device_module(rows.device).Event()
    arrived.record()
    return host_rows, arrived
