"""The parts of one running router, put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from router.activity import Activity
from router.auth import Authenticator
from router.directory import ReplicaDirectory
from router.lifecycle import Lifecycle
from router.local_pins import LocalPins
from router.metrics import RouterMetrics
from router.pins import PinStore
from router.redis_link import RedisLink
from router.settings import RouterSettings
from router.traces import TraceWriter
from router.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Serving:
    """What the endpoints work with."""

    settings: RouterSettings
    auth: Authenticator
    link: RedisLink
    store: PinStore
    memory: LocalPins
    directory: ReplicaDirectory
    lifecycle: Lifecycle
    upstream: Upstream
    traces: TraceWriter
    activity: Activity
    metrics: RouterMetrics

    @classmethod
    def build(cls, settings: RouterSettings) -> Self:
        """All parts; nothing connects yet."""
        link = RedisLink.connect(settings)
        metrics = RouterMetrics()
        store = PinStore(
            link.client,
            idle_timeout_s=settings.idle_timeout_s,
            max_stream_events=settings.max_stream_events,
        )
        memory = LocalPins(max_pins=settings.max_local_pins, max_events=settings.max_queued_events)
        directory = ReplicaDirectory(
            link.client,
            heartbeat_ttl_s=settings.heartbeat_ttl_s,
            mark_down_s=settings.mark_down_s,
        )
        lifecycle = Lifecycle(
            link,
            store,
            directory,
            memory,
            metrics,
            idle_timeout_s=settings.idle_timeout_s,
            retry_after_s=settings.retry_after_s,
        )
        return cls(
            settings=settings,
            auth=Authenticator(settings.api_keys),
            link=link,
            store=store,
            memory=memory,
            directory=directory,
            lifecycle=lifecycle,
            upstream=Upstream(connect_timeout_s=settings.connect_timeout_s),
            traces=TraceWriter(
                link,
                metrics,
                enabled=settings.traces,
                max_queued=settings.max_queued_traces,
                max_stream=settings.max_stream_traces,
                retry_s=settings.refresh_s,
            ),
            activity=Activity(link, metrics),
            metrics=metrics,
        )
