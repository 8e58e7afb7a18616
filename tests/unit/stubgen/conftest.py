"""stubgen is a tool of the build, not an installed package. What it makes is tested in tests/native."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "images/stubgen"))
