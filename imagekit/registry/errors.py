"""What can go wrong between us and a registry; callers that try several registries tell the kinds apart."""

from imagekit.errors import Problem


class Unreachable(Problem):
    """No answer, or an answer that says `not now`: another registry, or the same one later, may do."""


class Untrusted(Unreachable):
    """The server's TLS certificate is not trusted here."""


class Unauthorised(Problem):
    """The registry wants other credentials than it got, or grants them less."""


class NotFound(Problem):
    """The registry has no such repository, tag or digest."""


class Altered(Problem):
    """What came is not what its digest promises: a broken disk, a broken transfer, or somebody's hand."""


class Refused(Problem):
    """The registry answers, and does not want what we send."""
