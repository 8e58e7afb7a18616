"""Read a safetensors file's table without torch: enough to know that the file is whole, and how much is in it."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

HEADER = 8  # bytes of the header's length, little-endian
HEADER_LIMIT = 100_000_000  # the format's own


@dataclass(frozen=True)
class Table:
    """Number of tensors and of parameters."""

    tensors: int
    parameters: int


def read_table(path: Path) -> Table:
    """Return what the file holds.

    Raises:
        ValueError: not a safetensors file, or cut off; says how many bytes are missing.
    """
    size = path.stat().st_size
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(HEADER), "little")
        if size < HEADER or length > min(size, HEADER_LIMIT):
            raise ValueError("not a safetensors file")
        try:
            header = json.loads(handle.read(length))
        except ValueError as error:
            raise ValueError("not a safetensors file: its header is not JSON") from error
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    end = HEADER + length + max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
    if size != end:
        raise ValueError(f"{size} bytes where its table wants {end}: incomplete download")
    return Table(len(tensors), sum(math.prod(entry["shape"]) for entry in tensors.values()))
