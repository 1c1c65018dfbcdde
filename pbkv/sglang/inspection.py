"""``GET /pbkv/nodes``: what would be evicted next, from which tier and why.

The HTTP server and the scheduler are two processes. The question rides on the engine's own request
for its internal state, marked by its request id, so ``/server_info``, which asks for the same,
neither pays for it nor shows it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fastapi.responses import JSONResponse

from pbkv.policy import CacheNode, EvictionPolicy, EvictionReason, Tier
from pbkv.policy.he import HePolicy
from pbkv.sglang import BACKEND_NAME

if TYPE_CHECKING:
    from pbkv.sglang.binding import PolicyBinding

DEFAULT_LIMIT = 20
MAX_LIMIT = 1000
"""Most nodes of one tier in an answer."""

_MAX_WORKFLOWS = 8
_MAX_AGENTS = 8
_QUESTION = "pbkv-nodes:"
_PATH = "/pbkv/nodes"


# ---- in the scheduler ----


def answer_nodes(original: Any, scheduler: Any, question: Any) -> Any:
    """AROUND the scheduler's answer of its internal state: ours, if the question is ours."""
    rid = question.rid
    if rid is None or not rid.startswith(_QUESTION):
        return original(scheduler, question)
    from sglang.srt.managers.io_struct import GetInternalStateReqOutput

    limit = int(rid.removeprefix(_QUESTION))
    state = describe_nodes(scheduler.tree_cache.binding, limit)
    state["waiting_requests"] = len(scheduler.waiting_queue)
    return GetInternalStateReqOutput(internal_state=state)


def describe_nodes(binding: PolicyBinding, limit: int) -> dict[str, Any]:
    """The first ``limit`` eviction candidates of each tier, the next to go first, and totals.

    O(n log n) in the candidates. Names of workflows and agents are shown, tokens never.
    """
    policy = binding.policy
    tiers = {}
    for tier in Tier:
        candidates = policy.candidates(tier)
        tiers[tier.value] = {
            "tokens": policy.stored_tokens(tier),
            "retired_tokens": policy.retired_tokens(tier),
            "candidates": len(candidates),
            "nodes": [_row(policy, node, tier) for node in candidates[:limit]],
        }
    return {
        "policy": policy.name,
        "queue": policy.settings.queue or "engine",
        "limit": limit,
        "clock_s": binding.now_s,
        "workflows": {
            "active": policy.workflows.num_active,
            "retired": policy.workflows.num_retired,
        },
        "nodes": len(binding.views),
        "waiting_nodes": sum(1 for view in binding.views if view.waiting),
        **tiers,
    }


def _row(policy: EvictionPolicy, node: CacheNode, tier: Tier) -> dict[str, Any]:
    reason = policy.explain(node) if tier is Tier.DEVICE else EvictionReason.HOST
    shown = list(node.accesses.items())[:_MAX_WORKFLOWS]
    return {
        "node": node.node_id,
        "parent": node.parent_id,
        "tokens": node.num_tokens,
        "tier": tier.value,
        "score": policy.score(node) if isinstance(policy, HePolicy) else None,
        "reason": reason.value,
        "retired": node.retired,
        "waiting": node.waiting,
        "num_workflows": node.num_workflows,
        "workflows": {workflow: sorted(agents)[:_MAX_AGENTS] for workflow, agents in shown},
    }


# ---- in the HTTP server ----


def add_nodes_route(result: Any, tokenizer_manager: Any, *args: Any, **kwargs: Any) -> None:
    """AFTER the tokenizer manager was built: the HTTP server of its process gets the route."""
    http_server = sys.modules.get("sglang.srt.entrypoints.http_server")
    selected = tokenizer_manager.server_args.radix_cache_backend == BACKEND_NAME
    if not selected or http_server is None:
        return

    async def nodes(limit: str = str(DEFAULT_LIMIT)) -> Any:
        """The nodes that would be evicted next, by tier."""
        wanted = _limit(limit)
        if wanted is None:
            return _refusal(400, f"limit must be a whole number from 1 to {MAX_LIMIT}")
        states = await _ask(tokenizer_manager, wanted)
        if len(states) != 1:
            return _refusal(501, f"{_PATH} shows one cache, and this server has {len(states)}")
        return JSONResponse(states[0])

    http_server.app.add_api_route(_PATH, nodes, methods=["GET"])


async def _ask(tokenizer_manager: Any, limit: int) -> list[dict[str, Any]]:
    from sglang.srt.managers.io_struct import GetInternalStateReq

    tokenizer_manager.auto_create_handle_loop()
    question = GetInternalStateReq(rid=f"{_QUESTION}{limit}")
    answers = await tokenizer_manager.get_internal_state_communicator(question)
    return [answer.internal_state for answer in answers]


def _limit(text: str) -> int | None:
    """``text`` as a limit, None if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_LIMIT))):
        return None
    limit = int(text)
    return limit if 1 <= limit <= MAX_LIMIT else None


def _refusal(status: int, message: str) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "code": status}
    return JSONResponse({"error": error}, status_code=status)
