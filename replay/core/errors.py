"""Errors a user can cause, each one sentence: what is wrong, where, what to do.

Every class below subclasses the builtin a caller would already catch. :mod:`replay.cli` is the only place that turns
them into messages and exit codes; anything else that escapes is a bug and keeps its traceback.
"""


class ReplayError(Exception):
    """Base of all errors of this toolkit. ``exit_code`` is what the command line returns for it."""

    exit_code = 1

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class TraceError(ReplayError, ValueError):
    """An input file is not what it claims to be, or holds nothing usable."""


class GraphError(ReplayError, ValueError):
    """A graph cannot be executed: a deadlock, or edges that name no op."""


class LayoutError(ReplayError, ValueError):
    """Parallel sizes that contradict each other or the model."""

    exit_code = 2


class ProfileError(ReplayError, ValueError):
    """A hardware profile is malformed or lacks a parameter that is needed."""


class FitError(ReplayError, ValueError):
    """Samples cannot determine the parameters of a cost model; the message names them and what would help."""

    exit_code = 3


class RefusedError(ReplayError, ValueError):
    """The input cannot answer the question; the message says what is missing and how to supply it (exit code 3)."""

    exit_code = 3


class OutputError(ReplayError, OSError):
    """A result cannot be written where it was asked for."""


class UnknownName(ReplayError, KeyError):  # noqa: N818 - reads as the builtin it specialises
    """A name that is not in its table; the message lists the nearest ones."""

    exit_code = 2
