"""What pip needs to know to make .venv: a mirror's package index and the CA, as lines for a shell.

Run before anything is installed, so nothing but the standard library may be imported here.
"""

import os
import shlex
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from imagekit import mirrors
from imagekit.errors import Problem
from imagekit.network import find_ca
from imagekit.process import run

MANIFEST = Path(__file__).resolve().parent.parent / "images.toml"
# Where `pip config list` shows what `pip install` obeys: files, a command's own section, PIP_... variables.
SECTIONS = ("global", "install", ":env:")


def pip_variables(
    configured: str, environ: Mapping[str, str] = os.environ, manifest: Path = MANIFEST, root: Path = Path("/")
) -> dict[str, str]:
    """Return the variables that pip lacks; what this user configured for pip stays in force.

    Args:
        configured: what `pip config list` prints.
        environ: MIRROR and USE_MIRRORS mean what they mean for a build.
        manifest: images.toml.
        root: where the system's CA bundle is looked for.

    Raises:
        Problem: no such set of mirrors; a variable names a CA bundle that is not there.
    """
    found: dict[str, str] = {}
    index = mirrored_index(environ.get("MIRROR", ""), environ.get("USE_MIRRORS", ""), manifest)
    if index and not _is_set(configured, "index-url"):
        found["PIP_INDEX_URL"] = index
    if not _is_set(configured, "cert") and (ca := find_ca(environ, root)):
        found["PIP_CERT"] = str(ca)
    return found


def mirrored_index(name: str, use_mirrors: str, manifest: Path = MANIFEST) -> str:
    """Return the package index of the mirrors that `lookup.pick_mirror` picks, empty for none.

    Raises:
        Problem: no such set of mirrors.
    """
    known = tomllib.loads(manifest.read_text(encoding="utf-8"))["mirrors"]
    picked = mirrors.pick(name, use_mirrors, known)
    return str(known[picked]["pypi"]) if picked else ""


def _is_set(configured: str, name: str) -> bool:
    pairs = dict(line.partition("=")[::2] for line in configured.splitlines())
    return any(pairs.get(f"{section}.{name}", "''") != "''" for section in SECTIONS)


def main(pip: str) -> None:
    """Print `export NAME=value` lines for the installation with that pip."""
    try:
        for name, value in pip_variables(run((pip, "config", "list"), seconds=60).out).items():
            print(f"export {name}={shlex.quote(value)}")
    except Problem as problem:
        print(f"error: {problem.what}\n  fix: {problem.fix}", file=sys.stderr)
        sys.exit(problem.exit_code)


if __name__ == "__main__":
    main(sys.argv[1])
