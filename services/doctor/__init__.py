"""``pbkv doctor``: looks at a cluster and at a running stack, and names a fix for what is wrong.

Every check is a function that answers findings; none changes anything.
"""
