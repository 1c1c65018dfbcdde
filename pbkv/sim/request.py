"""One request inside a simulated engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pbkv.invocation import Invocation
from pbkv.sim.node import TreeNode

if TYPE_CHECKING:
    from pbkv.sim.waiting import Waiting


@dataclass(slots=True, eq=False)
class SimRequest:
    """``ids`` are the pages of prompt and reply together; the first ``prompt_tokens`` tokens are
    the prompt. ``max_new_tokens`` is what the client allowed, at least ``output_tokens``, which is
    what the reply will have.

    The engine's fields: ``generated`` tokens of the reply exist; ``kv_tokens`` of prompt and reply
    have KV cache, of which ``private_pages`` pages are outside the tree; ``last_node`` is the
    locked end of what is inside. ``cached_*_tokens`` and times are of the first admission.
    """

    invocation: Invocation
    ids: list[int]
    prompt_tokens: int
    output_tokens: int
    max_new_tokens: int
    arrival: int
    arrived_s: float
    generated: int = 0
    kv_tokens: int = 0
    private_pages: int = 0
    last_node: TreeNode | None = None
    cached_device_tokens: int = 0
    cached_host_tokens: int = 0
    admitted_s: float = -1.0
    first_token_s: float = -1.0
    finished_s: float = -1.0
    processed_at_arrival: int = 0
    waiting: Waiting | None = field(default=None, repr=False)

    @property
    def workflow_id(self) -> str:
        return self.invocation.workflow_id

    @property
    def input_tokens(self) -> int:
        """What a prefill has to cover: the prompt, and after a retraction the reply so far."""
        return self.prompt_tokens + self.generated
