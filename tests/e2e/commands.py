"""Commands as a user runs them: what they say is one text, and nobody answers their questions."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_merged(
    command: Sequence[str], env: Mapping[str, str], folder: Path | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `command`; both streams in stdout, stdin closed, any exit code."""
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
