"""Signatures: of evidence by a key that only gates have (HMAC), of images by cosign."""

import hashlib
import hmac
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from imagekit.errors import Problem
from imagekit.process import Finished, run
from imagekit.registry import Altered, Reference
from imagekit.registry.trust import for_host

KEY, KEY_FILE = "EVIDENCE_KEY", "EVIDENCE_KEY_FILE"
SIGNATURE = "signature.hmac-sha256"  # a file of the artifact
KEY_BYTES = 32
COSIGN_KEY, COSIGN_KEYLESS = "COSIGN_KEY", "COSIGN_KEYLESS"
COSIGN_SECONDS = 300


def evidence_key(environ: Mapping[str, str] = os.environ) -> bytes | None:
    """Return the key for evidence from EVIDENCE_KEY or the file that EVIDENCE_KEY_FILE names; None without.

    Raises:
        Problem: not readable, or too short to be one.
    """
    text = environ.get(KEY, "").encode()
    if not text and (name := environ.get(KEY_FILE)):
        try:
            text = Path(name).read_bytes()
        except OSError as error:
            raise Problem(
                f"{KEY_FILE} names a file that cannot be read: {error.strerror}", "correct or unset it"
            ) from None
    text = text.strip()
    if not text:
        return None
    if len(text) < KEY_BYTES:
        raise Problem(
            f"the evidence key has {len(text)} bytes, {KEY_BYTES} are needed", "openssl rand -hex 32", usage=True
        )
    return text


def sign(raw: bytes, key: bytes) -> bytes:
    """Return the signature, as hex."""
    return hmac.new(key, raw, hashlib.sha256).hexdigest().encode()


def verify(raw: bytes, signature: bytes | None, key: bytes | None, image: Reference) -> str:
    """Check evidence's signature; return how it is signed, for the user.

    Raises:
        Altered: there is a key here, and the evidence is not signed with it.
    """
    if key is None:
        return "signed, not verified: no key here" if signature else "not signed"
    if signature is None:
        raise Altered(f"the evidence of {image} is not signed, and {KEY} is set", "gate it where the key is")
    if not hmac.compare_digest(sign(raw, key), signature.strip()):
        raise Altered(
            f"the signature of the evidence of {image} is not ours", "somebody has edited it, or the key differs"
        )
    return "signed, verified"


def cosign(environ: Mapping[str, str] = os.environ, log: bool = True) -> list[str] | None:
    """Return the command that signs (the image follows), None when no identity is configured.

    Without `log` nothing goes to the public transparency log, which may be out of reach or not the place for it.

    Raises:
        Problem: one is, and cosign is not here: found out before anything is published.
    """
    key, keyless = environ.get(COSIGN_KEY, ""), environ.get(COSIGN_KEYLESS, "") not in ("", "0")
    if not key and not keyless:
        return None
    program = shutil.which("cosign", path=environ.get("PATH"))
    if program is None:
        name = COSIGN_KEY if key else COSIGN_KEYLESS
        raise Problem(f"{name} is set, but cosign is not installed", f"install cosign, or unset {name}")
    return [program, "sign", "--yes", *(["--key", key] if key else []), *([] if log else ["--tlog-upload=false"])]


def sign_image(command: list[str] | None, image: Reference, environ: Mapping[str, str] = os.environ) -> str:
    """Sign one digest; return a word for the table.

    Raises:
        Problem: cosign says no.
    """
    if command is None:
        return "not signed"
    done = run_cosign([*command, str(image)], image, COSIGN_SECONDS, environ)
    if not done.ok:
        raise Problem(f"cosign did not sign {image}: {done.last_line[:200]}", "nothing was tagged")
    return "signed"


def run_cosign(
    command: list[str], image: Reference, seconds: float, environ: Mapping[str, str] = os.environ
) -> Finished:
    """Run cosign with our logins, trusting for the image's registry what docker trusts for it."""
    trusted = for_host(image.host, environ=environ)
    return run(command, seconds=seconds, env={**environ, "SSL_CERT_FILE": trusted.bundle})
