"""Manifest and request in, bake file out. Pure: no Docker, no network, no clock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from imagekit import compat
from imagekit.files import write_changed
from imagekit.locks import LOCKS, locked_versions
from imagekit.manifest import ROOT, Image, Manifest
from imagekit.tags import Flavour, tags
from imagekit.torch_lock import Wheels, locks_for, write_cpu_lock

IMAGES = ROOT / "images"
FACTS = ROOT / "build" / "facts"
SIM_DRIVER = "sim-driver"
# zstd level 1 costs a few seconds where gzip costs minutes; bundles for old engines are written with gzip. Docker's own
# media types know no zstd: engines with containerd's image store cannot pull layers that carry them.
FORM = "oci-mediatypes=true,compression=zstd,compression-level=1"
EXPORT = f"type=image,{FORM}"


@dataclass(frozen=True)
class Request:
    """One build, with everything that was looked up before it."""

    flavour: Flavour
    rlinf_kind: str  # git | pypi | dir
    rlinf_revision: str
    rlinf_tree: Path
    base_name: str
    base_digest: str
    source_url: str
    created: int  # SOURCE_DATE_EPOCH, seconds
    torch_wheels: Wheels = "pypi"
    apt: str = "locked"  # locked | snapshot | newest, see images/common/apt-locked
    base_contexts: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    no_cache: bool = False
    registry_cache: str = ""  # host/repository where steps are kept between machines; empty for none
    layouts: Path | None = None  # images go to OCI layouts there, one folder each, instead of the engine

    @property
    def chain(self) -> Literal["cann", "sim"]:
        """Whose chain is built: on an image with the vendor's name, a stand-in too, no simulated base of ours."""
        return "cann" if "cann" in self.base_contexts else "sim"


def labels(manifest: Manifest, image: Image, request: Request) -> dict[str, str]:
    """Return the OCI labels and ours.

    org.opencontainers.image.base.* name the published image at the bottom of the chain: the ones in between are built
    in the same run and have no digest yet when their children start.
    """
    oci, ours = "org.opencontainers.image", manifest.project.label_prefix
    flavour, versions = request.flavour, manifest.versions
    result = {
        f"{oci}.title": image.title,
        f"{oci}.description": image.description,
        f"{oci}.vendor": manifest.project.vendor,
        f"{oci}.version": flavour.rlinf if image.name == "rlinf-npu" else versions.cann,
        f"{oci}.revision": flavour.revision,
        f"{oci}.source": request.source_url,
        f"{oci}.licenses": manifest.project.licenses,
        f"{oci}.created": datetime.fromtimestamp(request.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"{oci}.base.name": request.base_name,
        f"{oci}.base.digest": request.base_digest,
        f"{ours}.base": flavour.base,
        f"{ours}.simulated": str(flavour.base == "sim").lower(),
        f"{ours}.cann": versions.cann,
        f"{ours}.chip": versions.chip,
    }
    if image.name == "rlinf-npu":
        result |= {
            f"{ours}.torch": versions.torch,
            f"{ours}.torch.wheels": request.torch_wheels,
            f"{ours}.torch-npu": versions.torch_npu,
            f"{ours}.compatibility": "listed" if compat.is_listed(manifest) else "unlisted",
            f"{ours}.rlinf.source": request.rlinf_kind,
            f"{ours}.rlinf.revision": request.rlinf_revision,
            f"{ours}.fixes": "npufix" if flavour.fixes else "none",
            f"{ours}.installer": flavour.installer,
        }
    return result


def facts(manifest: Manifest, request: Request) -> dict[str, Any]:
    """Return what the runtime may know: versions, tables, how it was built. Nothing of the host's network."""
    return {
        "versions": manifest.versions.model_dump(),
        "base": request.flavour.base,
        "simulated": request.flavour.base == "sim",
        "os": request.flavour.os,
        "rlinf": {"source": request.rlinf_kind, "revision": request.rlinf_revision, "version": request.flavour.rlinf},
        "fixes": request.flavour.fixes,
        "installer": request.flavour.installer,
        "devices": manifest.devices.model_dump(),
        "mounts": [mount.model_dump() for mount in manifest.devices.mounts],
        "python": {
            "excluded": [name for exclude in manifest.python.exclude for name in exclude.names],
            "check_exception": [e.model_dump() for e in manifest.python.check_exception],
        },
        "label_prefix": manifest.project.label_prefix,
        "compatibility": [row.model_dump() for row in manifest.compatibility],
        "chip": [chip.model_dump() for chip in manifest.chip],
        "engine": manifest.engine.model_dump(),
        "disk_gib": manifest.defaults.disk_gib,
        "created": request.created,
        "paths": manifest.paths.model_dump() | {"python": f"{manifest.paths.venv}/bin/python3"},
    }


def write_facts(manifest: Manifest, request: Request, folder: Path = FACTS) -> Path:
    """Write what goes to /usr/share/rlinf-npu: facts.json and recap.yaml. Unchanged files keep the build cache."""
    texts = {
        "facts.json": json.dumps(facts(manifest, request), indent=1, sort_keys=True) + "\n",
        "recap.yaml": (ROOT / "recap.yaml").read_text(encoding="utf-8"),
    }
    for name, text in texts.items():
        write_changed(folder / name, text)
    return folder


def write_inputs(manifest: Manifest, request: Request) -> None:
    """Write everything a build reads that is derived from the manifest."""
    write_facts(manifest, request)
    if request.torch_wheels == "cpu":
        write_cpu_lock(manifest)


def _arguments(manifest: Manifest, image: Image, request: Request) -> dict[str, str]:
    versions = manifest.versions
    everywhere = {
        "SOURCE_DATE_EPOCH": str(request.created),
        "FILE_DATE": str(min(manifest.apt.seconds, request.created)),
        "PYTHON_VERSION": versions.python,
    }
    own: dict[str, dict[str, str]] = {
        "cann-sim": {
            "CANN_VERSION": versions.cann,
            "CHIP": versions.chip,
            "SOC_NAME": versions.soc,
            "DRIVER_VERSION": versions.driver,
            "UV_VERSION": versions.uv,
        }
        | _apt_arguments(manifest, request),
        "cann-base": {
            "OWNER": manifest.devices.owner,
            "OWNER_UID": str(manifest.devices.uid),
            "OWNER_GID": str(manifest.devices.gid),
        }
        | _apt_arguments(manifest, request),
        "rlinf-npu": {
            "UV_VERSION": versions.uv,
            "NPU_FIXES": "1" if request.flavour.fixes else "0",
            "INSTALLER": request.flavour.installer,
        },
    }
    if image.name == "rlinf-npu" and request.flavour.installer == "upstream":
        own[image.name] |= _upstream_arguments(manifest, request)
    return everywhere | own.get(image.name, {})


def _upstream_arguments(manifest: Manifest, request: Request) -> dict[str, str]:
    """What images/rlinf-npu/upstream/install reads, and what is added to the result."""
    versions, locked = manifest.versions, locked_versions(request.flavour.platform)
    names = {"torch": versions.torch, "torchvision": versions.torchvision, "torch-npu": versions.torch_npu}
    return {
        "INSTALL_ARGUMENTS": " ".join(manifest.upstream.arguments),
        "REPAIR": " ".join(f"{name}=={locked[name]}" for name in manifest.upstream.repair),
        "STRIP": " ".join(manifest.upstream.strip),
        "PROMISED": " ".join(f"{name}=={version}" for name, version in names.items()),
        "ASSETS": manifest.upstream.assets,
        "OWN": " ".join(manifest.python.own),
    }


def _apt_arguments(manifest: Manifest, request: Request) -> dict[str, str]:
    """Read by images/common/apt-locked and with-net."""
    servers = (f"{place}={url}" for place, url in manifest.apt.dated.items())
    return {"APT": request.apt, "APT_SERVERS": " ".join(servers) if request.apt == "snapshot" else ""}


def _contexts(manifest: Manifest, image: Image, request: Request) -> dict[str, str]:
    own: dict[str, dict[str, str]] = {
        "cann-sim": {"stubgen": str(IMAGES / "stubgen"), "locks": str(LOCKS)},
        "rlinf-npu": {
            "stubgen": str(IMAGES / "stubgen"),
            "locks": str(locks_for(request.torch_wheels)),
            "runtime-src": str(ROOT / "runtime"),
            "rlinf-src": str(request.rlinf_tree),
            "facts": str(FACTS),
        },
    }
    contexts = {"common": str(IMAGES / "common")} | own.get(image.name, {})
    if image.parent == "cann":
        return contexts | ({"cann": "target:cann-sim"} if request.chain == "sim" else dict(request.base_contexts))
    if image.parent:
        return contexts | {image.parent: f"target:{image.parent}"}
    return contexts | dict(request.base_contexts)


def _target(manifest: Manifest, image: Image, request: Request) -> dict[str, Any]:
    return {
        "context": str(IMAGES / image.name),
        "target": image.name,
        "contexts": _contexts(manifest, image, request),
        "args": _arguments(manifest, image, request),
        "labels": labels(manifest, image, request),
        "tags": tags(manifest, image.name, request.flavour),
        "platforms": [request.flavour.platform.name],
        "secret": [f"id={name},src={path}" for name, path in sorted(request.secrets.items())],
        "output": [_output(image, request)],
        "attest": ["type=provenance,disabled=true"],
        "no-cache": request.no_cache,
    } | _registry_cache(image, request)


def _output(image: Image, request: Request) -> str:
    """Either way the manifest is the same."""
    return f"type=oci,tar=false,dest={request.layouts / image.name},{FORM}" if request.layouts else EXPORT


def _registry_cache(image: Image, request: Request) -> dict[str, Any]:
    """All stages are kept, not only what ends in the image; a cache that cannot be written fails no build."""
    if not request.registry_cache:
        return {}
    where = f"type=registry,ref={request.registry_cache}:buildcache-{image.name}-{request.flavour.platform.arch}"
    how = "mode=max,image-manifest=true,oci-mediatypes=true,compression=zstd,compression-level=1,ignore-error=true"
    return {"cache-from": [where], "cache-to": [f"{where},{how}"]}


def bake(manifest: Manifest, names: list[str], request: Request) -> dict[str, Any]:
    """Return the bake file (https://docs.docker.com/build/bake/reference/) for `names` and all they stand on."""
    chain = {image.name: image for name in names for image in manifest.chain(name, request.chain)}
    targets = {name: _target(manifest, image, request) for name, image in chain.items()}
    groups = {"default": {"targets": list(chain)}}
    if "cann-sim" in targets:
        driver = {
            "target": SIM_DRIVER,
            "output": [f"type=local,dest={sim_driver_folder(request)}"],
            "tags": [],
            "labels": {},
            "cache-to": [],
        }
        targets[SIM_DRIVER] = targets["cann-sim"] | driver
        groups["default"]["targets"].append(SIM_DRIVER)
    return {"group": groups, "target": targets}


def sim_driver_folder(request: Request) -> Path:
    """Return where the simulated driver of the request's platform is put."""
    return ROOT / "build" / SIM_DRIVER / request.flavour.platform.arch


def describe(manifest: Manifest, names: list[str], request: Request) -> list[tuple[str, str, str]]:
    """Return (image, stands on, first tag) for each image of the plan, parent first."""
    plan = bake(manifest, names, request)
    rows = []
    for name in plan["group"]["default"]["targets"]:
        if name == SIM_DRIVER:
            rows.append((name, "cann-sim", "a folder, mounted like a host's driver"))
            continue
        parent = manifest.get_image(name).parent
        below = (
            request.base_name
            if parent is None
            else "cann-sim"
            if parent == "cann" and "cann-sim" in plan["target"]
            else parent
        )
        rows.append((name, below if below != "cann" else request.base_name, plan["target"][name]["tags"][0]))
    return rows
