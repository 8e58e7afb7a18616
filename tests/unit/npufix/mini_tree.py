"""Sources of our own that stand for an RLinf tree, and a way to compare texts."""

import difflib
from collections.abc import Callable
from pathlib import Path

from rlinf_npu.npufix.tree import Tree

TreeMaker = Callable[..., Tree]
Fixer = Callable[..., str]


# The least that every RLinf tree has and the fixes insist on finding.
SKELETON = {
    "rlinf/__init__.py": "from .utils.names import register\n\nregister()\n",
    "rlinf/utils/__init__.py": "",
    "rlinf/utils/names.py": "def register():\n    pass\n",
    "rlinf/manager.py": (
        "import torch\n"
        "from rlinf.scheduler import Worker\n"
        "\n"
        "\n"
        "class FSDPModelManager:\n"
        "    def __init__(self, cfg, rank):\n"
        "        Worker.torch_platform.set_device(rank)\n"
        "\n"
        "    def _create_amp_context(self):\n"
        '        return torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)\n'
    ),
    "rlinf/videos.py": (
        "from lerobot.common.datasets.lerobot_dataset import LeRobotDataset\n"
        "\n"
        "\n"
        "def open_videos(path):\n"
        "    dataset = LeRobotDataset(path)\n"
        "    return dataset\n"
    ),
}


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that left and lines that came, stripped."""
    delta = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    gone = [line[2:].strip() for line in delta if line.startswith("- ")]
    come = [line[2:].strip() for line in delta if line.startswith("+ ")]
    return gone, come
