"""The whole stack on one machine: Redis, Ray Serve, engine replicas and routers."""
