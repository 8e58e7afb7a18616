"""Write a bundle: an image for old and new engines, with all that `docker compose up train` needs beside it."""

import contextlib
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docker.errors import DockerException
from docker.models.images import Image
from requests.exceptions import RequestException
from rich.console import Console

from imagekit.builder import GIB, check_disk
from imagekit.carry import layout
from imagekit.carry.archive import SavedImage, SavedLayer
from imagekit.carry.contents import (
    CONTENTS,
    IMAGES,
    NEEDS,
    SETTINGS,
    Contents,
    Earlier,
    Layer,
    blob_path,
    read_contents,
)
from imagekit.carry.layer import as_gzip, store
from imagekit.carry.meter import Advance, counted, meter
from imagekit.carry.reader import open_bundle, read
from imagekit.carry.rules import check_carriable
from imagekit.carry.sums import fingerprint, write_sums
from imagekit.compose.record import remember_image
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest
from imagekit.planner import SIM_DRIVER
from imagekit.registry import digest_of

SCRIPTS = Path(__file__).parent / "scripts"
# The user's side of the checkout; imagekit writes compose.override.yaml there, with the Python of the image.
PAGES = ("compose.yaml", ".env.example", "recap.yaml", "images.toml", "README.md", "README.zh-CN.md", "LICENSE")
SAVE_CHUNK = 2 << 20


@dataclass(frozen=True)
class Written:
    """What was made: where, its fingerprint, its files' bytes, and the bytes left to the earlier bundle."""

    path: Path
    fingerprint: str
    size: int
    left_out: int


@dataclass(frozen=True)
class EarlierBundle:
    """What an earlier bundle already has: layers by their diff_id."""

    fingerprint: str
    layers: dict[str, Layer]


def read_earlier(path: Path) -> EarlierBundle:
    """Read what an earlier bundle has.

    Raises:
        Problem: no bundle, or itself only a difference.
    """
    bundle = open_bundle(path, "SINCE")
    contents = read_contents(read(bundle, CONTENTS))
    if contents.earlier:
        raise Problem(f"{path.name} is itself a difference to an earlier bundle", "SINCE= names a full one", usage=True)
    return EarlierBundle(fingerprint(bundle), {layer.diff_id: layer for layer in contents.layers})


def make_bundle(
    manifest: Manifest, image: Image, output: Path, since: Path | None, console: Console, root: Path = ROOT
) -> Written:
    """Write the bundle, whole or not at all.

    Args:
        manifest: images.toml.
        image: to be carried, under all its names without a registry.
        output: a folder, or a file when it ends in .tar; must not exist.
        since: an earlier bundle, whose layers are left out.
        console: for progress.
        root: the checkout.

    Raises:
        Problem: the image may not travel, the target exists, the disk is too small, the engine's copy is damaged.
    """
    name = manifest.image[-1].name
    own = [tag for tag in image.tags if tag.partition(":")[0] == name]
    names = sorted(own or image.tags, key=len)  # the immutable name, which holds the revision, is the last
    if not names:
        raise Problem("the image has no name to travel under", "docker tag, or make image")
    simulated = check_carriable(names[-1], names, image.labels, manifest.project.label_prefix)
    earlier = read_earlier(since) if since else None
    if output.exists():
        raise Problem(f"{output} exists already", "remove it, or give another OUTPUT=", usage=True)
    with _writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
    check_disk(output.parent, image.attrs["Size"] / GIB, "the bundle", "OUTPUT= elsewhere")
    with _writing(output), _workshop(output) as work:
        folder = work / output.name.removesuffix(".tar")
        contents = _write_image(name, names, simulated, image, folder, earlier, console)
        _write_pages(folder, contents, root)
        mark = write_sums(folder)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if output.suffix == ".tar":
            _pack(folder, work / output.name, size, console)
            folder = work / output.name
        folder.replace(output)
    kept = {layer.digest: layer.size for layer in contents.layers if layer.digest in contents.from_earlier}
    return Written(output, mark, size, sum(kept.values()))


@contextlib.contextmanager
def _writing(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Problem(f"the bundle cannot be written: {error.strerror}: {output.parent}", "OUTPUT= elsewhere") from None


@contextlib.contextmanager
def _workshop(output: Path) -> Iterator[Path]:
    """A folder beside the target: what is unfinished never has the target's name, and goes away."""
    work = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_image(
    name: str,
    names: list[str],
    simulated: bool,
    image: Image,
    folder: Path,
    earlier: EarlierBundle | None,
    console: Console,
) -> Contents:
    images = folder / IMAGES
    blobs = layout.make_folder(images)
    saved_as = folder.parent / "saved.tar"
    _save(image, names[-1], saved_as, console)
    with SavedImage(saved_as) as saved:
        have = earlier.layers if earlier else {}
        total = sum(saved.size(layer) for layer in saved.layers if layer.diff_id not in have)
        with meter(console, "packing layers", total) as advance:
            layers = [have.get(item.diff_id) or _pack_layer(saved, item, blobs, advance) for item in saved.layers]
        original = list(saved.manifests())
        config = saved.config
    saved_as.unlink()
    document = layout.manifest_for(config, layers, original)
    layout.write_layout(images, config, document, layers, names)
    absent = list(dict.fromkeys(layer.digest for layer in layers if layer.diff_id in have))
    contents = Contents(
        image=name,
        names=names,
        platform=f"{image.attrs['Os']}/{image.attrs['Architecture']}",
        simulated=simulated,
        digest=digest_of(document),
        config=digest_of(config),
        size=sum(step["Size"] for step in image.history()),
        layers=layers,
        earlier=Earlier(fingerprint=earlier.fingerprint, layers=absent) if earlier else None,
    )
    (folder / CONTENTS).write_text(contents.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    return contents


def _save(image: Image, name: str, target: Path, console: Console) -> None:
    try:
        with meter(console, "exporting") as advance, target.open("wb") as file:
            for piece in counted(image.save(SAVE_CHUNK, named=name), advance):
                file.write(piece)
    except (DockerException, RequestException) as error:
        why = " ".join(str(getattr(error, "explanation", None) or error).split())
        raise Problem(f"the engine cannot export {name}: {why[:200]}", "pull or build the image again") from None


def _pack_layer(saved: SavedImage, item: SavedLayer, blobs: Path, advance: Advance) -> Layer:
    blob = store(as_gzip(counted(saved.stream(item), advance), item.diff_id), blobs)
    return Layer(diff_id=item.diff_id, digest=blob.digest, size=blob.size)


def _write_pages(folder: Path, contents: Contents, root: Path) -> None:
    """Everything beside the image. What the scripts need is in plain files: a bare host has no JSON reader."""
    for page in PAGES:
        shutil.copyfile(root / page, folder / page)
    for source in sorted([*root.glob("docs/*.md"), *root.glob("imagekit/**/*.py")]):
        target = folder / source.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for script in sorted(SCRIPTS.glob("*.sh")):
        shutil.copy(script, folder / script.name)
    needs = "".join(f"{digest[7:]}  {blob_path(digest)}\n" for digest in contents.from_earlier)
    if needs:
        (folder / NEEDS).write_text(needs, encoding="ascii")
    arch = contents.platform.partition("/")[2]
    (folder / SETTINGS).write_text(f"IMAGE={contents.names[-1]}\nARCH={arch}\n", encoding="ascii")
    remember(folder / "build", contents)
    driver = root / "build" / SIM_DRIVER / arch
    if contents.simulated and driver.is_dir():
        shutil.copytree(driver, folder / "build" / SIM_DRIVER / arch, symlinks=True)


def remember(folder: Path, contents: Contents) -> None:
    """Write into the build record in `folder` what Compose takes its image from."""
    remember_image(
        folder,
        contents.image,
        contents.platform,
        contents.simulated,
        contents.names,
        contents.digest,
        contents.size,
    )


def _pack(folder: Path, target: Path, size: int, console: Console) -> None:
    """Put the folder into a tar, each file removed once it is in: the disk holds the bundle once."""
    with meter(console, "writing tar", size) as advance, tarfile.open(target, "w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or path.is_file():
                taken = path.lstat().st_size
                tar.add(path, f"{folder.name}/{path.relative_to(folder)}", recursive=False)
                path.unlink()
                advance(taken)
