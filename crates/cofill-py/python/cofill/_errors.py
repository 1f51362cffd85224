"""The two ways in which something fails."""


class Error(ValueError):
    """The request was wrong: the message names the field or array, the limit, what was given, and what to do."""

    __module__ = "cofill"


class RunError(RuntimeError):
    """The run failed: the model, the machine, or a sampler that does not end."""

    __module__ = "cofill"
