"""Count the accelerators that a process started here would see. One answer for scripts (`npu-count`) and for Python.

Order: ASCEND_RT_VISIBLE_DEVICES as a filter over the cards that there are; how many there are is asked of torch.npu
(only when torch_npu is loaded already, or on request: importing it takes seconds), else of the nodes
/dev/davinci<number>, else, for machines without any NPU, of nvidia-smi. Nothing found: 0 and a message, never 1.

The filter follows torch_npu 2.6.0.post3 (torch_npu.npu._parse_visible_devices and _device_count_ascend_hal):
unset means all; empty means none; the text counts up to the first character that is neither a digit nor a comma; ids
must ascend, else the count is 0; counting stops at the first id that does not exist.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
DEV_DIR = "CANNSIM_DEV_DIR"  # simulated driver only: the folder of the device nodes, for tests without root
NODE = re.compile(r"davinci(\d+)")
TORCH_COUNT = "import torch, torch_npu; print('npu-count', torch.npu.device_count())"


@dataclass(frozen=True)
class Count:
    """How many devices there are, and who said so."""

    number: int
    source: str
    message: str = ""


def visible_ids(text: str | None) -> list[int] | None:
    """Card ids that ASCEND_RT_VISIBLE_DEVICES asks for; None means every card.

    Works on any text: as in torch_npu, the first character that is neither digit nor comma ends it.
    """
    if text is None:
        return None
    ids: list[int] = []
    for part in re.match(r"[\d,]*", text).group().split(","):  # type: ignore[union-attr]  # the pattern matches ""
        if not part:
            break
        ids.append(int(part))
    return ids


def visible_count(present: int, ids: Sequence[int] | None) -> int:
    """How many of `present` cards a process sees that asks for `ids` (None: all)."""
    if ids is None:
        return present
    for index, card in enumerate(ids):
        if index and card <= ids[index - 1]:
            return 0  # the runtime wants ascending ids without repetition
        if card >= present:
            return index
    return len(ids)


def davinci_nodes(folder: Path) -> tuple[int, int]:
    """Device nodes davinci<number> in a folder (davinci_manager does not count): usable by this user, and all."""
    try:
        nodes = [entry for entry in folder.iterdir() if NODE.fullmatch(entry.name)]
    except OSError:
        return 0, 0
    return sum(os.access(node, os.R_OK | os.W_OK) for node in nodes), len(nodes)


def nvidia_gpus() -> int:
    """Number of GPUs that nvidia-smi lists; 0 without it."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(1 for line in done.stdout.splitlines() if line.startswith("GPU ")) if done.returncode == 0 else 0


def torch_count(timeout: float = 120) -> int | None:
    """torch.npu.device_count() in a process of its own; None when torch_npu is not there or does not load."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", TORCH_COUNT], capture_output=True, text=True, timeout=timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^npu-count (\d+)$", done.stdout, re.MULTILINE)
    return int(found.group(1)) if done.returncode == 0 and found else None


def count(environ: Mapping[str, str] | None = None, ask_torch: bool = False) -> Count:
    """Count devices.

    `ask_torch`: start a process that imports torch_npu when this one has not (slow, and the last word when it works).
    """
    environ = os.environ if environ is None else environ
    folder = Path(environ.get(DEV_DIR, "/dev"))
    usable, all_nodes = davinci_nodes(folder)
    by_torch = _loaded_torch_count() if environ is os.environ else None
    if by_torch is None and ask_torch:
        by_torch = torch_count()
    if by_torch or (by_torch is not None and all_nodes):  # torch_npu applies the variable itself
        return Count(
            by_torch, "torch.npu", f"torch.npu sees none of the {all_nodes} cards ({VISIBLE}, driver, rights?)"
        )
    if all_nodes:
        return _count_nodes(environ.get(VISIBLE), usable, all_nodes, folder)
    gpus = nvidia_gpus()
    if gpus:
        return Count(gpus, "nvidia-smi")
    return Count(0, "nothing", f"no {folder}/davinci<number>, and nvidia-smi lists no GPU")


def _count_nodes(text: str | None, usable: int, all_nodes: int, folder: Path) -> Count:
    if not usable:
        return Count(0, f"{folder}/davinci*", f"{all_nodes} cards in {folder}, none of which this user may open")
    seen = visible_count(usable, visible_ids(text))
    message = f"{usable} cards, but {VISIBLE}={text!r} leaves none; give ascending ids below {usable}"
    return Count(seen, f"{folder}/davinci*" if text is None else VISIBLE, message)


def _loaded_torch_count() -> int | None:
    """torch.npu's own count, when this process has loaded torch_npu."""
    npu = getattr(sys.modules.get("torch"), "npu", None)
    return int(npu.device_count()) if npu is not None and "torch_npu" in sys.modules else None


USAGE = """usage: npu-count [--torch] [--verbose]

Print how many NPUs (or, without any, GPUs) a process sees. Exit code 0, also for 0 devices: stderr says why.
  --torch    ask torch_npu in a process of its own (slow; the last word)
  --verbose  say on stderr who counted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Console script npu-count; returns the exit code (2 for wrong usage)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if {"-h", "--help"} & set(given):
        print(USAGE)
        return 0
    unknown = set(given) - {"--torch", "--verbose"}
    if unknown:
        print(f"npu-count: unknown argument {sorted(unknown)[0]!r}\n{USAGE}", file=sys.stderr)
        return 2
    found = count(ask_torch="--torch" in given)
    print(found.number)
    if not found.number:
        print(f"npu-count: 0 devices: {found.message or found.source}", file=sys.stderr)
    elif "--verbose" in given:
        print(f"npu-count: {found.number} by {found.source}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
