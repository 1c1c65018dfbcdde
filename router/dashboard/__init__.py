"""``GET /dashboard``: a live page of replicas, workflows and the last minutes.

The page is one document (:mod:`router.dashboard.document`) made of the files in ``page/``; it reads
``/v1/replicas``, ``/v1/workflows`` and ``/v1/activity`` as any client would, with the same API key.
"""
