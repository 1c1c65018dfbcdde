"""Stock SGLang's session-aware cache as a policy, for comparison with it."""

from __future__ import annotations

from pbkv.policy.index import Rank
from pbkv.policy.lae import LaePolicy
from pbkv.policy.tag import Tag


class SessionPolicy(LaePolicy):
    """``--enable-session-radix-cache`` with a session per workflow, closed at its end.

    Stock evicts what no open session refers to by recency, then what fewer sessions refer to.
    """

    name = "session"

    def rank(self, tag: Tag) -> Rank:
        return (tag.active_workflows,)
