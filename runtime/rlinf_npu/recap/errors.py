"""Errors with the exit code they mean: 2 for wrong use, 1 for a failure, 75 for stopped but resumable."""

EXIT_USAGE = 2
EXIT_FAILURE = 1
EXIT_RESUMABLE = 75  # sysexits' EX_TEMPFAIL: try again


class RecapError(Exception):
    """One clear line for the user: what is wrong, what to do."""

    exit_code = EXIT_FAILURE


class UsageError(RecapError):
    """The configuration or the command line is wrong; nothing was started."""

    exit_code = EXIT_USAGE


class StepFailed(RecapError):
    """A step ended without its outputs."""


class Stopped(RecapError):
    """The user or the system asked to stop; the run can be resumed."""

    exit_code = EXIT_RESUMABLE
