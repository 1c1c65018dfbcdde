"""What can go wrong while a model name becomes a model folder.

ModelError
 |- UnknownModelError      neither a model this project builds nor an existing folder
 |- NotAModelFolderError   the path exists but no engine could load it
 `- ModelBuildError        a known model could not be built on this machine
     `- ChecksumError      a download is not the file that was pinned
"""


class ModelError(Exception):
    """Base of everything `resolve_model` raises on purpose; the text is fit for a user."""


class UnknownModelError(ModelError):
    """The name is not in the registry and no such folder exists."""


class NotAModelFolderError(ModelError):
    """The path exists but holds no `config.json`."""


class ModelBuildError(ModelError):
    """A registered model could not be built."""


class ChecksumError(ModelBuildError):
    """A downloaded file differs from the one whose hash is pinned."""
