"""Processes of the stack: engines, replicas, the local stack and the command line."""
