"""Which servers are who they say they are: the host's CA bundle, and docker's folder for one registry."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import certifi

from imagekit.network import find_ca

CERTS_D = "etc/docker/certs.d"


@dataclass(frozen=True)
class Trust:
    """What a TLS connection is checked with.

    Attributes:
        bundle: PEM file of trusted CAs.
        client: certificate and key that we show, where docker's folder has a pair.
    """

    bundle: str
    client: tuple[str, str] | None = None
    _kept: "tempfile._TemporaryFileWrapper[bytes] | None" = field(default=None, repr=False)


def for_host(host: str, *, environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Trust:
    """Return what is trusted for `host`: the bundle that SSL_CERT_FILE and its kind name, else the system's.

    What docker's engine trusts for this one registry (/etc/docker/certs.d/HOST/*.crt) is added, its client pair used.

    Raises:
        Problem: a variable names a bundle that is not there.
    """
    bundle = find_ca(environ, root) or Path(certifi.where())
    folder = root / CERTS_D / host
    own = sorted(folder.glob("*.crt")) if folder.is_dir() else []
    pairs = [
        (str(c), str(c.with_suffix(".key"))) for c in sorted(folder.glob("*.cert")) if c.with_suffix(".key").is_file()
    ]
    client = pairs[0] if pairs else None
    if not own:
        return Trust(str(bundle), client)
    kept = tempfile.NamedTemporaryFile(prefix="rlinf-npu-ca-", suffix=".pem")  # noqa: SIM115  (lives as long as the Trust)
    kept.write(b"\n".join(path.read_bytes() for path in (bundle, *own)))
    kept.flush()
    return Trust(kept.name, client, kept)
