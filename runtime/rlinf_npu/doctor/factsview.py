"""The part of facts.json that the doctor reads. Keys and wording are those of images.toml."""

from typing import Any

from pydantic import BaseModel, ValidationError


class Versions(BaseModel):
    """What the image was built from."""

    cann: str
    chip: str
    torch: str
    torch_npu: str


class Mount(BaseModel):
    """A path that comes from the host."""

    path: str
    required: bool = True


class Devices(BaseModel):
    """Device nodes and mounts of an Ascend host."""

    card: str  # with {id}
    managers: list[str]
    uid: int
    gid: int
    driver: str
    mounts: list[Mount] = []
    cluster_mounts: list[str] = []
    visible: list[str] = []


class Engine(BaseModel):
    """Oldest usable Docker parts."""

    min_engine: str
    min_buildx: str
    min_compose: str


class Paths(BaseModel):
    """Where things are inside the image."""

    toolkit: str
    python: str


class Python(BaseModel):
    """The Python set."""

    excluded: list[str] = []


class CannRow(BaseModel):
    """What one CANN release goes with. `oldest`: oldest driver the vendor lists, or, if not `stated`, our reading."""

    cann: str
    paired: str = ""  # driver released beside it
    oldest: str
    stated: bool
    torch_npu: dict[str, list[str]] = {}  # torch -> torch_npu releases
    sources: list[str]


class Chip(BaseModel):
    """A chip tag of the vendor's images and the names npu-smi prints for it."""

    tag: str
    names: str  # regular expression, matched at the start
    source: str


class Facts(BaseModel):
    """facts.json as far as the doctor is concerned; what is optional only switches rules off when absent."""

    versions: Versions
    devices: Devices
    engine: Engine | None = None
    paths: Paths | None = None  # without it the variables of the environment tell
    python: Python = Python()
    compatibility: list[CannRow] = []  # oldest release first
    chip: list[Chip] = []
    fixes: bool = True
    base: str | None = None  # cann | sim
    created: float | None = None  # POSIX seconds of the build
    disk_gib: int | None = None  # free space an image build needs
    mirrors: list[str] = []  # URLs a build would use; on a host only
    env: dict[str, str] = {}  # variables the image sets


def facts_view(document: dict[str, Any]) -> Facts:
    """Check the document.

    Raises:
        ValueError: one line with the first wrong key.
    """
    try:
        return Facts.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"facts.json: {key}: {first['msg']}") from None
