"""The router's own stack under load: real Redis, real router, fake engine."""

from tests.contract.router.conftest import engine, fleet, redis_server, redis_url, router

__all__ = ["engine", "fleet", "redis_server", "redis_url", "router"]
