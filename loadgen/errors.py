"""The errors of the load generator, one tree under the library's.

::

    LoadError
      BadLoad             an option, a workload or a results file cannot be used
      DownloadFailed      a data set could not be fetched whole
      TargetUnusable      the endpoint cannot be measured at all, said before any load is sent

What goes wrong with a single call is no exception but a sample: see :mod:`loadgen.records`.
"""

from __future__ import annotations

from pbkv.errors import PbkvError


class LoadError(PbkvError):
    """Base of all; the text is one line for the person at the command line."""


class BadLoad(LoadError):
    """An option, a workload or a results file cannot be used."""


class DownloadFailed(LoadError):
    """A data set could not be fetched, or is not the pinned one; nothing was put in its place."""


class TargetUnusable(LoadError):
    """The endpoint names no model and none was given."""
