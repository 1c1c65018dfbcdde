"""The invocation that rides on a request, inside the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pbkv.errors import InvalidInvocation
from pbkv.invocation import PARAMS_KEY, Invocation

if TYPE_CHECKING:
    from pbkv.sglang.binding import PolicyBinding

_CACHED = "_pbkv_invocation"


def parse_invocation(sampling_params: Any, at_s: float) -> Invocation | None:
    """The invocation of a request, None without one. Raises :class:`InvalidInvocation`."""
    custom = getattr(sampling_params, "custom_params", None)
    if not custom or PARAMS_KEY not in custom:
        return None
    return Invocation.from_params(custom[PARAMS_KEY], at_s=at_s)


def invocation_of(req: Any, binding: PolicyBinding) -> Invocation | None:
    """The invocation of an engine request, parsed once per request.

    Malformed ones were answered with an error before they came here; one that slipped through is
    served as a request without identity, and counted.
    """
    try:
        return getattr(req, _CACHED)
    except AttributeError:
        pass
    try:
        invocation = parse_invocation(req.sampling_params, binding.now_s)
    except InvalidInvocation:
        binding.recorder.rejected_event()
        invocation = None
    setattr(req, _CACHED, invocation)
    return invocation


def verify_sampling_params(sampling_params: Any, *args: Any, **kwargs: Any) -> None:
    """BEFORE hook of ``SamplingParams.verify``: answers a malformed invocation with status 400."""
    try:
        parse_invocation(sampling_params, at_s=0.0)
    except InvalidInvocation as problem:
        # ValueError is what the server turns into a client error with this message.
        raise ValueError(f"custom_params: {problem}") from None
