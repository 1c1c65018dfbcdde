"""Records of workflows whose agents are known."""

from pbkv.trace import InvocationRecord, RecordKind


def workflow(name, agents, *, at_s, end=True, tenant="t"):
    """One call a second; the last one ends the workflow if ``end``."""
    return [
        InvocationRecord(
            RecordKind.CALL,
            tenant,
            name,
            seq=int(at_s) * 1000 + step,
            step=step,
            agent=agent,
            sent_at_s=at_s + step,
            finished_at_s=at_s + step + 0.5,
            request_id=f"{name}/{step}",
            end=end and step == len(agents),
        )
        for step, agent in enumerate(agents, start=1)
    ]


def many(agents, count, *, first=0):
    """``count`` equal workflows, one after the other, ten seconds each."""
    return [
        record
        for i in range(first, first + count)
        for record in workflow(f"w{i}", agents, at_s=10.0 * i)
    ]
