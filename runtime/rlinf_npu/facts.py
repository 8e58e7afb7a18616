"""Facts about the image (versions, tables, budgets), rendered from images.toml at build time.

The runtime never reads images.toml itself: it holds mirrors and other host-side matters that must not be in an image.
"""

import json
import os
from pathlib import Path
from typing import Any

FACTS_PATH = Path("/usr/share/rlinf-npu/facts.json")


def load_facts(path: Path | None = None) -> dict[str, Any]:
    """Return the image's facts.

    The file is `path`, else the one named by RLINF_NPU_FACTS, else /usr/share/rlinf-npu/facts.json.

    Raises:
        FileNotFoundError: no such file, with a hint how to get one on a host.
        ValueError: the file is not a JSON object.
    """
    source = path or Path(os.environ.get("RLINF_NPU_FACTS", FACTS_PATH))
    if not source.is_file():
        raise FileNotFoundError(f"{source} is missing; on a host run `python build.py plan` and set RLINF_NPU_FACTS")
    facts = json.loads(source.read_text(encoding="utf-8"))
    if not isinstance(facts, dict):
        raise ValueError(f"{source}: expected a JSON object")
    return facts
