"""Tells replicas to drain before their place goes, from what Kubernetes says of nodes and pods.

:mod:`services.fleet.watching` follows nodes and pods, :mod:`services.fleet.leaving` decides which
of them are going, :mod:`services.fleet.drains` asks their replicas by a key in Redis that the
replica's heartbeat obeys (:mod:`services.registration`). One watcher of several leads
(:mod:`services.fleet.lease`). :mod:`services.fleet.leave` is the other end: what a pod runs before
it may be ended.
"""
