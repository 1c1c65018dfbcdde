"""The paper's three applications as real programs of the real frameworks.

They run in a process of their own (:mod:`loadgen.programs.child`), in the environment in which the
frameworks are installed, and report every call to the load generator.
"""
