"""images.toml as a checked model. Pure: reads one file, no Docker, no network."""

import datetime
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from imagekit.errors import Problem

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "images.toml"

Version = Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)*([.-]?(rc|post|dev|a|b)\d+)*$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Installer = Literal["lock", "upstream"]
BaseChoice = Literal["auto", "cann", "sim"]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$")]


class Model(BaseModel):
    """Unknown keys are errors: a misspelt key must not be a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Project(Model):
    """Who publishes, under which licence."""

    name: Name
    vendor: str
    licenses: str
    label_prefix: str
    url: str


class Versions(Model):
    """Every version that stands in a tag, a label or a requirement."""

    cann: Version
    chip: Name
    soc: str
    python: Version
    torch: Version
    torchvision: Version
    torch_npu: Version
    rlinf: Version
    driver: Version
    uv: Version

    @property
    def python_series(self) -> str:
        """`3.11` of `3.11.13`."""
        return ".".join(self.python.split(".")[:2])


class Defaults(Model):
    """What a command uses when it is not told otherwise."""

    base: BaseChoice
    source: str
    torch: Literal["auto", "cpu", "pypi"]
    installer: Installer
    probe_seconds: Annotated[float, Field(gt=0, le=60)]
    disk_gib: Annotated[float, Field(gt=0)]


class Rlinf(Model):
    """Where RLinf's tree comes from."""

    git: str
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    pypi_sha256: Sha256
    paths: list[str]


class CannBase(Model):
    """The vendor's image."""

    os: Name
    tag: str
    repositories: Annotated[list[str], Field(min_length=1)]


class SimBase(Model):
    """What the simulated base stands on."""

    os: Name
    image: str
    suite: Name
    archive: str
    security_archive: str
    preinstalled: list[str]


class Base(Model):
    """The two bases."""

    cann: CannBase
    sim: SimBase


class Apt(Model):
    """The state of the distributions' archives that images/common/apt/ records.

    `servers` keep earlier states: host and path of an archive -> URL with {date}.
    """

    date: Annotated[str, StringConstraints(pattern=r"^\d{8}T\d{6}Z$")]
    servers: dict[str, str]

    @property
    def seconds(self) -> int:
        """The date in seconds since the epoch."""
        return int(datetime.datetime.strptime(f"{self.date}+0000", "%Y%m%dT%H%M%SZ%z").timestamp())

    @property
    def dated(self) -> dict[str, str]:
        """The servers with the date in their URLs."""
        return {place: url.format(date=self.date) for place, url in self.servers.items()}

    def server(self, archive: str) -> str:
        """Return the URL of an archive's state of that day; the archive's own when no server keeps it."""
        return self.dated.get(archive.partition("://")[2].rstrip("/"), archive)


class Image(Model):
    """One image of the chain. `parent` names another image, or `cann` for the base."""

    name: Name
    parent: str | None = None
    title: str
    description: str
    only_base: Literal["cann", "sim"] | None = None
    budget_mib: Annotated[int, Field(gt=0)]


class Platform(Model):
    """One platform: Docker's, uname's, Debian's and uv's name for it."""

    name: Annotated[str, StringConstraints(pattern=r"^linux/(arm64|amd64)$")]
    machine: Literal["aarch64", "x86_64"]
    debian: Literal["arm64", "amd64"]
    python_platform: str

    @property
    def arch(self) -> str:
        """Docker's architecture name, `arm64` of `linux/arm64`."""
        return self.name.partition("/")[2]


class Mirror(Model):
    """One set of mirrors, switched together."""

    apt: str
    pypi: str
    git_prefix: str
    repositories: list[str]
    pytorch: Annotated[list[str], Field(min_length=1)]
    huggingface: str


class EngineSpec(Model):
    """What we install when a machine has no engine, and the oldest that will do."""

    packages: Annotated[list[str], Field(min_length=1)]
    debian_suite: Name
    min_engine: Version
    min_buildx: Version
    min_compose: Version
    min_qemu: Version


class Mount(Model):
    """A path of the host that the containers get, read-only."""

    path: str
    required: bool


class Devices(Model):
    """Device nodes and mounts of an Ascend host."""

    card: str
    max_cards: Annotated[int, Field(gt=0, le=64)]
    managers: list[str]
    owner: str
    uid: int
    gid: int
    mode: str
    driver: str
    mounts: list[Mount]
    cluster_mounts: list[str]
    visible: list[str]


class Paths(Model):
    """Where things are inside the images."""

    toolkit: str
    venv: str
    rlinf: str
    runtime: str


class Override(Model):
    """A requirement that replaces what packages ask for."""

    requirement: str
    reason: Annotated[str, Field(min_length=3)]


class Exclude(Model):
    """Packages that must never be resolved."""

    names: Annotated[list[Name], Field(min_length=1)]
    reason: Annotated[str, Field(min_length=3)]


class CheckException(Model):
    """A complaint of `uv pip check` that is known and harmless."""

    package: str
    requires: str
    reason: Annotated[str, Field(min_length=3)]


class Upstream(Model):
    """RLinf's own installer: how it is called, what it asks for, and what is taken out again (patterns)."""

    arguments: Annotated[list[str], Field(min_length=1)]
    mirror_argument: str
    assets: str
    git: list[str]
    pages: list[str]
    repair: list[Name]
    strip: Annotated[list[str], Field(min_length=1)]
    budget_mib: Annotated[int, Field(gt=0)]
    check_exception: list[CheckException]


class CpuWheels(Model):
    """PyTorch's own CPU wheels for a platform where PyPI has CUDA builds only; hashes by `name==version`."""

    platform: str
    pages: Annotated[list[str], Field(min_length=1)]
    sha256: dict[str, Sha256]


class PythonSet(Model):
    """Inputs of the locks. `own` is what the image itself needs, whoever installs RLinf's requirements."""

    requirements: list[str]
    own: list[str]
    not_installed: list[Name]
    source_builds: list[Name]
    override: list[Override]
    exclude: list[Exclude]
    check_exception: list[CheckException]
    cpu: CpuWheels


class Suite(Model):
    """A selection of the image tests: pytest's own words for it."""

    tests: Annotated[list[str], Field(min_length=1)]
    ignore: list[str] = []
    markers: str = ""


class Waiver(Model):
    """A check that may fail for a while.

    `test` is a pattern over test ids, or `vulnerabilities`, `vulnerabilities not checked`, `budget`.
    """

    test: Annotated[str, Field(min_length=3)]
    simulated_only: bool = False
    reason: Annotated[str, Field(min_length=10)]
    until: datetime.date


class KnownVulnerability(Model):
    """A vulnerability that does not keep an image from being published, until it has to be looked at again."""

    id: Annotated[str, Field(min_length=3)]
    package: str = "*"
    reason: Annotated[str, Field(min_length=10)]
    review_by: datetime.date


class Publish(Model):
    """Where images are published, and what has to be true of them before."""

    registry: Annotated[str, StringConstraints(pattern=r"^[^/@\s]+/[^@\s]*[^/@\s]$")]
    images: Annotated[list[Name], Field(min_length=1)]
    required_suite: Name
    size_ratio: Annotated[float, Field(ge=1)]
    fail_severity: Literal["low", "medium", "high", "critical"]
    always: Annotated[list[str], Field(min_length=1)]
    suites: dict[str, Suite]
    waiver: list[Waiver] = []
    vulnerability: list[KnownVulnerability] = []


class Signature(Model):
    """Who signs the releases: a public key (path in the checkout), or a keyless identity and its issuer."""

    key: str = ""
    identity: str = ""
    issuer: str = ""
    transparency_log: bool = True

    @model_validator(mode="after")
    def _check_one(self) -> "Signature":
        if bool(self.key) == bool(self.identity and self.issuer):
            raise ValueError("give a key, or identity and issuer")
        if self.identity and not self.transparency_log:
            raise ValueError("a keyless signature is worth nothing without the transparency log: give a key")
        return self


class Pull(Model):
    """Where releases are looked for beside [publish].registry."""

    mirrors: list[str]
    signature: Signature | None = None


class CannRelease(Model):
    """What goes with one CANN release; `cann` as Ascend writes it, or a series (`9.0` for 9.0.1)."""

    cann: str
    paired: str = ""
    oldest: str
    stated: bool
    torch_npu: dict[str, list[str]] = {}
    sources: Annotated[list[str], Field(min_length=1)]


class Chip(Model):
    """A chip tag of the vendor's images; `names` matches the start of what npu-smi calls such a card."""

    tag: Name
    names: str
    source: str


class Manifest(Model):
    """images.toml."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    project: Project
    versions: Versions
    defaults: Defaults
    rlinf: Rlinf
    upstream: Upstream
    base: Base
    apt: Apt
    image: Annotated[list[Image], Field(min_length=1)]
    platform: Annotated[list[Platform], Field(min_length=1)]
    mirrors: dict[str, Mirror]
    compatibility: list[CannRelease]
    chip: list[Chip]
    engine: EngineSpec
    devices: Devices
    paths: Paths
    python: PythonSet
    publish: Publish
    pull: Pull

    @model_validator(mode="after")
    def _check_publish(self) -> "Manifest":
        if self.publish.required_suite not in self.publish.suites:
            raise ValueError(f"publish.required_suite: no suite {self.publish.required_suite!r} in publish.suites")
        known = {image.name for image in self.image}
        if unknown := set(self.publish.images) - known:
            raise ValueError(f"publish.images: unknown {sorted(unknown)}, known: {', '.join(sorted(known))}")
        return self

    @model_validator(mode="after")
    def _check_graph(self) -> "Manifest":
        names = [i.name for i in self.image]
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"image: {sorted(twice)} defined twice")
        for image in self.image:
            if image.parent not in (None, "cann", *names):
                known = ", ".join(names)
                raise ValueError(f"image.{image.name}.parent: unknown image {image.parent!r}, known: {known}")
            self._walk(image)
        return self

    def _walk(self, image: Image) -> list[Image]:
        chain, seen = [image], {image.name}
        while (parent := chain[-1].parent) not in (None, "cann"):
            if parent in seen:
                raise ValueError(f"image.{image.name}.parent: cycle {' -> '.join(i.name for i in chain)} -> {parent}")
            seen.add(str(parent))
            chain.append(self.get_image(str(parent)))
        return chain

    def get_image(self, name: str) -> Image:
        """Return the image called `name`.

        Raises:
            Problem: there is none; the known names are listed.
        """
        for image in self.image:
            if image.name == name:
                return image
        known = ", ".join(i.name for i in self.image)
        raise Problem(f"no image called {name!r} in images.toml", f"known: {known}", usage=True)

    def chain(self, name: str, base: Literal["cann", "sim"]) -> list[Image]:
        """Return the images to build for `name` on `base`, parent first (the simulated base included)."""
        images = self._walk(self.get_image(name))
        if base == "sim" and images[-1].parent == "cann":
            images += [i for i in self.image if i.only_base == "sim"]
        return images[::-1]

    def get_platform(self, name: str) -> Platform:
        """Return the platform called `name` (`linux/arm64`, or just `arm64` or `aarch64`).

        Raises:
            Problem: not a platform of ours.
        """
        for platform in self.platform:
            if name in (platform.name, platform.arch, platform.machine):
                return platform
        known = ", ".join(p.name for p in self.platform)
        raise Problem(f"no platform {name!r}", f"use one of {known}", usage=True)

    def fill(self, text: str) -> str:
        """Replace {torch}, {cann}, ... in `text` from [versions]."""
        values = self.versions.model_dump()
        return re.sub(r"\{(\w+)\}", lambda m: str(values.get(m[1], m[0])), text)


def load_manifest(path: Path = MANIFEST) -> Manifest:
    """Read and check images.toml.

    Raises:
        Problem: file and key of what is wrong.
    """
    try:
        return Manifest.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise Problem(f"{path} is missing", "run from a full checkout") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Problem(f"{path.name}: not valid TOML: {error}") from None
    except ValidationError as error:
        raise Problem(f"{path.name}: {_first_complaint(error)}") from None


def _first_complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    message = first["msg"].removeprefix("Value error, ")
    value = f", got {first['input']!r}" if isinstance(first["input"], str | int | float | bool) else ""
    return f"{key}: {message}{value}{more}" if key else f"{message}{more}"
