"""The one exception that ends a run with a one-line message."""


class StubgenError(Exception):
    """What is wrong and what to do, in one line (a list of names may follow)."""
