#!/usr/bin/env python3
"""The build CLI: plan, image, engine, sim-host, lock ... A thin entry over imagekit/."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV_PYTHON = ROOT / ".venv" / "bin" / "python"

if __name__ == "__main__":
    # Called with the system's Python, go on with the project's own: that is where the libraries are.
    if Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        if not VENV_PYTHON.exists():
            sys.exit("error: .venv is missing\n  fix: make venv")
        os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])
    from imagekit.cli import main

    main()
