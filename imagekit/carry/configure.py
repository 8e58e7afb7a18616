"""`configure.sh` of a bundle: `make compose` run with the image's own Python, the host's files under another root."""

import dataclasses
import sys
from pathlib import Path

from imagekit.compose import generate
from imagekit.compose.settings import read_settings
from imagekit.errors import Problem
from imagekit.manifest import ROOT, load_manifest


def main(arch: str, host: str) -> int:
    """Write compose.override.yaml into the bundle's folder; return the exit code.

    Args:
        arch: Docker's name of the image's architecture.
        host: where the host's root is.
    """
    try:
        settings = read_settings(ROOT / ".env")
        # Folders elsewhere on the host are not writable from here; Compose itself refuses those that are not there.
        elsewhere = {"data_dir": settings.data_dir and "."}
        if settings.log_dir.startswith(("/", "~")):
            elsewhere["log_dir"] = "./runs"
        seen = dataclasses.replace(settings, **elsewhere)
        generate(load_manifest(), arch, print, root=Path(host), settings=seen)
    except Problem as problem:
        print(f"error: {problem.what}\n  fix: {problem.fix}".rstrip(), file=sys.stderr)
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
