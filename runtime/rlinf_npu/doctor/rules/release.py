"""Images on this host against images.lock, which says what bytes a release tag stands for."""

import json
from collections.abc import Iterator
from typing import Any

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import HOST, Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.tables import limits

_COLUMNS = "{{.Repository}} {{.Tag}} {{.Digest}} {{.ID}}"


@rule(
    "release-digest",
    "Release images are the recorded ones",
    where=HOST,
    needs=("docker", "lock"),
    meaning="An image here has a release's name but not the bytes that images.lock records: a mirror served another "
    "image, or the tag was moved.",
    fix="make pull takes the release by its digest; if images.lock is what is old: git pull.",
    link="https://github.com/vllm-project/vllm-ascend/issues/1001",
)
def release_digest(ctx: Context) -> Iterator[Hit]:
    """Digests that the engine knows for a release's name, in whatever registry, against those of the lock."""
    if ctx.lock_file is None:
        return
    try:
        releases = json.loads(ctx.lock_file.read_bytes())["releases"]
        recorded = {(entry["image"], entry["tag"]): _digests(entry) for entry in releases}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield Hit(f"{ctx.lock_file} is not a lock of images: {error!r}", severity=Severity.WARNING)
        return
    rows = _local_images(ctx)
    for repository, tag, _, image_id in rows:
        wanted = recorded.get((repository.rpartition("/")[2], tag))
        found = {digest for _, _, digest, other in rows if other == image_id and digest.startswith("sha256:")}
        if not wanted or not found or (found | {image_id}) & wanted:
            continue  # without a digest (docker load into the old image store) there is nothing to compare
        evidence = f"{repository}:{tag} is {' '.join(sorted(found))}; images.lock: {' '.join(sorted(wanted))}"
        if "/" in repository:
            yield Hit(evidence)
        else:
            yield Hit(evidence, severity=Severity.NOTE, meaning="Built on this host: it is not the published release.")


def _digests(entry: dict[str, Any]) -> set[str]:
    """The index's and each platform's."""
    return {entry["digest"], *entry["platforms"].values()}


def _local_images(ctx: Context) -> list[list[str]]:
    """Repository, tag, digest and id of every image; an image that has several names or digests comes several times."""
    command = ("docker", "image", "ls", "--no-trunc", "--digests", "--format", _COLUMNS)
    answer = ctx.system.run(*command, seconds=limits().command_seconds)
    return [fields for line in answer.out.splitlines() if len(fields := line.split()) == 4]
