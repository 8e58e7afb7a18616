"""What the Docker engine says when a transfer fails, as kinds of error. The only place that reads these words."""

import re

from imagekit.registry.errors import Altered, NotFound, Unauthorised, Unreachable, Untrusted

Kind = type[Unauthorised | Untrusted | Altered | NotFound | Unreachable]
LINE = 160  # characters of the engine's own words that are shown

# First match wins: what a registry answers stands before what a broken connection says.
KINDS: tuple[tuple[str, Kind, str], ...] = (
    (r"unauthori[sz]ed|denied|authentication required|no basic auth|forbidden", Unauthorised, "not authorised"),
    (r"x509|certificate", Untrusted, "its TLS certificate is not trusted by the engine"),
    (
        r"failed commit on ref|failed precondition|unexpected (commit|digest)|digest mismatch|does not match digest"
        r"|size validation|checksum|verification failed|failed verification|invalid tar|gzip:",
        Altered,
        "its content is not what the digest promises",
    ),
    (
        r"(manifest|name|blob) unknown|not found|does not exist|repository name not known",
        NotFound,
        "it has no such image",
    ),
    (
        r"refused|reset|EOF|closed network|time(d )?out|deadline|broken pipe|no route|no such host|server closed"
        r"|unreachable|server misbehaving|unavailable|too many requests|tls: |\b50[0234]\b",
        Unreachable,
        "it does not answer, or broke off",
    ),
)


def find_kind(text: str) -> tuple[Kind, str] | None:
    """Return the kind of error that the engine's words tell, and what it means; None for words nobody has seen."""
    line = one_line(text)
    return next(((kind, what) for pattern, kind, what in KINDS if re.search(pattern, line, re.IGNORECASE)), None)


def one_line(text: str) -> str:
    """The engine breaks lines where it likes."""
    return " ".join(text.split())


def shorten(text: str) -> str:
    """The end of Go's chain of errors is the cause."""
    line = one_line(text)
    return line if len(line) <= LINE else f"... {line[10 - LINE :]}"
