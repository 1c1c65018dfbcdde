"""The router: OpenAI-compatible HTTP in front of the engine replicas.

A request's life, file by file: :mod:`router.endpoints` reads it (:mod:`router.auth`,
:mod:`router.call`, :mod:`router.identity`), :mod:`router.lifecycle` pins its workflow
(:mod:`router.directory`, :mod:`router.placement`, :mod:`router.pins`, or :mod:`router.local_pins`
while Redis is away), :mod:`router.relay` carries it to the replica and the answer back.
"""
