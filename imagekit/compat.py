"""Which torch_npu goes with which CANN: [[compatibility]] of images.toml, which the doctor reads too."""

from imagekit.manifest import CannRelease, Manifest


def find_release(manifest: Manifest, cann: str) -> CannRelease | None:
    """Return the row of a CANN release: its own, else that of its series (`9.0` for 9.0.1), else None."""
    rows = {row.cann.lower(): row for row in manifest.compatibility}
    return rows.get(cann.lower()) or rows.get(".".join(cann.lower().split(".")[:2]))


def is_listed(manifest: Manifest) -> bool:
    """Return whether CANN, torch and torch_npu of the manifest are a pair that the table knows."""
    row, versions = find_release(manifest, manifest.versions.cann), manifest.versions
    return row is not None and versions.torch_npu in row.torch_npu.get(versions.torch, [])
