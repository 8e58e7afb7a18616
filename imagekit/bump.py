"""Change a version in images.toml with all that hangs on it, and say what Ascend's compatibility table says.

The new manifest is checked and the locks are resolved before anything stays: either all of it is new, or nothing is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import requests

from imagekit import compat, locks
from imagekit.errors import Problem
from imagekit.manifest import MANIFEST, CannRelease, Manifest, load_manifest
from imagekit.network import NetworkSettings
from imagekit.process import Say
from imagekit.rlinf_source import PYPI

NAMES = ("cann", "torch-npu", "rlinf")
# The index's JSON form (PEP 691) carries the hashes.
JSON = "application/vnd.pypi.simple.v1+json"


@dataclass(frozen=True)
class Change:
    """What a bump is going to write.

    Attributes:
        values: key of images.toml (`versions.cann`) -> new value.
        remarks: what the person should know, one line each.
    """

    values: dict[str, str]
    remarks: list[str] = field(default_factory=list)


def plan_bump(
    manifest: Manifest, name: str, version: str, *, force: bool, revision: str, network: NetworkSettings
) -> Change:
    """Return what has to change for `name` to become `version`.

    Raises:
        Problem: not one of NAMES; a pair that the compatibility table does not know, without `force`.
    """
    if name == "cann":
        return _cann(manifest, version, force)
    if name == "torch-npu":
        return _torch_npu(manifest, version, force, network)
    if name == "rlinf":
        return _rlinf(manifest, version, revision, network)
    raise Problem(f"bump {name}: not something that can be bumped", f"use one of {', '.join(NAMES)}", usage=True)


def _cann(manifest: Manifest, version: str, force: bool) -> Change:
    row, present = compat.find_release(manifest, version), manifest.versions
    if row is None:
        known = ", ".join(release.cann for release in manifest.compatibility)
        _insist(force, f"CANN {version} is not in the compatibility table", f"known: {known}; --force takes it anyway")
        remark = "CANN is not in the compatibility table: labels say unlisted"
        return Change({"versions.cann": version.lower()}, [remark])
    values = {"versions.cann": version.lower()} | ({"versions.driver": row.paired.lower()} if row.paired else {})
    pairs = row.torch_npu.get(present.torch, [])
    if pairs:
        values["versions.torch_npu"] = pairs[-1]
    else:
        _insist(force, f"CANN {version} has no torch_npu for torch {present.torch}", f"it pairs with {_pairs(row)}")
    return Change(values, _about(row))


def _torch_npu(manifest: Manifest, version: str, force: bool, network: NetworkSettings) -> Change:
    row, torch = compat.find_release(manifest, manifest.versions.cann), re.sub(r"\.?(post|rc)\d+$", "", version)
    if row is None or version not in row.torch_npu.get(torch, []):
        pairs = f"it pairs with {_pairs(row)}" if row else "that CANN is not in the table at all"
        _insist(force, f"torch_npu {version} does not pair with CANN {manifest.versions.cann}", pairs)
    # torchvision asks for exactly one torch, so the resolver knows the pair.
    vision = locks.resolve_one(manifest, [f"torch=={torch}", "torchvision"], "torchvision", network.env())
    values = {"versions.torch_npu": version, "versions.torch": torch, "versions.torchvision": vision}
    remarks = _about(row) if row else []
    if torch != manifest.versions.torch:
        remarks.append(f"torch {torch}: until [python.cpu.sha256] has its CPU wheel, x86-64 takes PyPI's")
    return Change(values, remarks)


def _rlinf(manifest: Manifest, version: str, revision: str, network: NetworkSettings) -> Change:
    values = {"versions.rlinf": version, "rlinf.pypi_sha256": wheel_sha256("rlinf", version, network)}
    if revision:
        return Change(values | {"rlinf.revision": revision})
    return Change(values, [f"git stays at {manifest.rlinf.revision[:12]}; --revision COMMIT moves it too"])


def wheel_sha256(name: str, version: str, network: NetworkSettings) -> str:
    """Return the SHA-256 of the pure Python wheel of a release, as the package index states it.

    Raises:
        Problem: the index does not answer or has no such wheel.
    """
    url = f"{network.index or PYPI}/{name}/"
    try:
        # of itself requests reads neither SSL_CERT_FILE nor the system's bundle
        ca = str(network.ca) if network.ca else True
        answer = requests.get(url, headers={"Accept": JSON}, timeout=30, verify=ca)
        answer.raise_for_status()
        files = answer.json()["files"]
    except (requests.RequestException, ValueError, KeyError) as error:
        raise Problem(
            f"the package index does not say which wheels {name} has ({type(error).__name__})",
            "check network and proxy, or try an index that serves PEP 691",
        ) from None
    wanted = f"{name}-{version}-py3-none-any.whl"
    for file in files:
        if file["filename"] == wanted and file.get("hashes", {}).get("sha256"):
            return str(file["hashes"]["sha256"])
    raise Problem(f"the package index has no {wanted}", "check the version; known releases are on the index's page")


def rewrite(text: str, values: Mapping[str, str]) -> str:
    """Return images.toml with new values; comments and everything else stay as they are.

    Raises:
        Problem: a key is not there.
    """
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        head = rf"^\[{re.escape(table)}\]$(?:\n(?!\[).*)*?\n{re.escape(name)} = "
        found = re.search(rf'(?:{head})"(?P<value>[^"]*)"', text, re.MULTILINE)
        if found is None:
            raise Problem(f"images.toml has no {key}", "was it moved?")
        text = text[: found.start("value")] + value + text[found.end("value") :]
    return text


def apply(
    change: Change,
    relock: Callable[[Manifest], None],
    say: Say,
    path: Path = MANIFEST,
    lock_files: Callable[[Manifest], list[Path]] | None = None,
) -> Manifest:
    """Write images.toml and the locks; on any failure put everything back.

    Raises:
        Problem: the new manifest is wrong, or the new set cannot be resolved.
    """
    before = path.read_text(encoding="utf-8")
    manifest = load_manifest(path)
    kept = {file: file.read_bytes() for file in (lock_files or _locks)(manifest) if file.is_file()}
    try:
        path.write_text(rewrite(before, change.values), encoding="utf-8")
        manifest = load_manifest(path)
        relock(manifest)
    except BaseException:
        path.write_text(before, encoding="utf-8")
        for file, content in kept.items():
            file.write_bytes(content)
        say("nothing was changed: images.toml and the locks are as they were")
        raise
    return manifest


def _locks(manifest: Manifest) -> list[Path]:
    return [locks.lock_path(platform) for platform in manifest.platform]


def _insist(force: bool, what: str, fix: str) -> None:
    if not force:
        raise Problem(what, fix)


def _pairs(row: CannRelease) -> str:
    found = [f"torch_npu {release} (torch {torch})" for torch, all_of in row.torch_npu.items() for release in all_of]
    return ", ".join(found) or "none that the table names"


def _about(row: CannRelease) -> list[str]:
    driver = f"CANN {row.cann}: driver {row.paired or 'not stated'}, at least {row.oldest}"
    return [driver, f"it pairs with {_pairs(row)}", *(f"source: {page}" for page in row.sources)]
