"""A stand-in for the Kubernetes API server, for tests of what talks to one.

Real helm and kubectl and the official Python client work against it over HTTP. It keeps objects
with resource versions and a history that watches follow, refuses what the schemas of
:mod:`tests.chart.schemas` refuse (422), applies merge, strategic and server-side patches, and
plays the few controllers that ``helm --wait`` waits for. It does not schedule, run or probe pods,
enforce RBAC or network policies, or run admission: a test that passes here says nothing of those.
"""

from tests.chart.apiserver.faults import Fault
from tests.chart.apiserver.server import ApiServer

__all__ = ["ApiServer", "Fault"]
