"""A copy of what `build.py pull`, `bundle` and `load` need of this checkout: a test cannot change the real one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from imagekit.manifest import ROOT
from tests.e2e.commands import run_merged

FILES = ("build.py", "images.toml", "images.lock", "compose.yaml", "recap.yaml", ".env.example", "LICENSE")
OURS = ("TAG", "REGISTRY", "CHIP", "IMAGE", "SINCE", "OUTPUT", "BUNDLE", "EARLIER", "DOCKER_HOST", "REGISTRY_USER")


class Checkout:
    """One copy, in `folder`."""

    def __init__(self, folder: Path) -> None:
        """Copy the files."""
        self.folder = folder
        folder.mkdir()
        for name in (*FILES, "README.md", "README.zh-CN.md"):
            shutil.copy(ROOT / name, folder)
        (folder / ".venv").symlink_to(ROOT / ".venv")
        for name in ("imagekit", "docs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        self.env = {name: value for name, value in os.environ.items() if name not in OURS}

    def run(self, *arguments: str, seconds: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `build.py ARGUMENTS`; both streams in stdout."""
        return run_merged([sys.executable, "build.py", *arguments], self.env | environment, self.folder, seconds)

    def good(self, *arguments: str, **environment: str) -> str:
        """Run it to success and return what it said."""
        done = self.run(*arguments, **environment)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def refused(self, code: int, *arguments: str, **environment: str) -> str:
        """Run it to an error of one line, with one that says what to do; return the error's line."""
        done = self.run(*arguments, **environment)
        assert done.returncode == code, done.stdout
        assert "Traceback" not in done.stdout
        lines = done.stdout.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1, done.stdout
        assert lines[-1].startswith("  fix: "), done.stdout
        return errors[0]

    def edit(self, name: str, pattern: str, replacement: str) -> None:
        """Change a file of the copy; the pattern must be there."""
        path = self.folder / name
        text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), count=1, flags=re.MULTILINE)
        assert count == 1, f"{pattern} is not in {name}"
        path.write_text(text, encoding="utf-8")
