"""An image that has grown needs a look: its size against the last release's, and what makes the difference."""

import json
from collections.abc import Mapping
from typing import Any

from imagekit.publish import attachments
from imagekit.publish.evidence import Budget
from imagekit.publish.last import Release
from imagekit.publish.sbom import Package, packages
from imagekit.registry import Manifest, RegistryClient

SHOWN = 40  # lines of difference


def check(
    client: RegistryClient, image: Manifest, release: Release | None, have: list[Package], ratio: float
) -> Budget:
    """Compare the bytes that have to be transferred.

    Args:
        client: of the registry that both are in.
        image: under test.
        release: the last one of its kind; there may be none yet.
        have: the image's packages.
        ratio: how much larger it may be.
    """
    if release is None:
        return _budget("passed", image.size, None, "no release yet", [])
    last, compared = release.image, f"{_times(image, release.image)} the last release, {release.tag}"
    if last.size <= 0 or image.size <= last.size * ratio:
        return _budget("passed", image.size, last, compared, [])
    place = last.reference.at(last.descriptor.digest)
    before = attachments.newest_file(client, place, attachments.CYCLONEDX)
    changed = difference(packages(json.loads(before)), have) if before else ["the last release has no list of packages"]
    changed += layer_changes(layers(client, last), layers(client, image))
    note = f"{image.size / 1e6:,.1f} MB is {compared}; {ratio} is allowed"
    return _budget("failed", image.size, last, note, changed[:SHOWN])


def difference(before: list[Package], after: list[Package]) -> list[str]:
    """Return a line for every package that came, went or changed."""
    old, new = _versions(before), _versions(after)
    lines = [f"+ {kind} {name} {', '.join(new[kind, name])}" for kind, name in sorted(new.keys() - old.keys())]
    lines += [f"- {kind} {name} {', '.join(old[kind, name])}" for kind, name in sorted(old.keys() - new.keys())]
    return lines + [
        f"~ {kind} {name} {', '.join(old[kind, name])} -> {', '.join(new[kind, name])}"
        for kind, name in sorted(old.keys() & new.keys())
        if old[kind, name] != new[kind, name]
    ]


def layers(client: RegistryClient, image: Manifest) -> dict[str, tuple[int, str]]:
    """Return (bytes as transferred, the step that made it) by layer digest."""
    steps = [
        str(entry.get("created_by", "")) for entry in _history(client.config(image)) if not entry.get("empty_layer")
    ]
    names = steps if len(steps) == len(image.layers) else [""] * len(image.layers)
    return {layer.digest: (layer.size, name) for layer, name in zip(image.layers, names, strict=True)}


def layer_changes(before: Mapping[str, tuple[int, str]], after: Mapping[str, tuple[int, str]]) -> list[str]:
    """Return a line for every layer that only one of them has, largest first."""
    rows = [(size, "+", step) for digest, (size, step) in after.items() if digest not in before]
    rows += [(size, "-", step) for digest, (size, step) in before.items() if digest not in after]
    return [
        f"{sign} layer {size / 1e6:,.1f} MB {step[:160]}".rstrip() for size, sign, step in sorted(rows, reverse=True)
    ]


def _history(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(config.get("history") or [])


def _versions(found: list[Package]) -> dict[tuple[str, str], list[str]]:
    result: dict[tuple[str, str], list[str]] = {}
    for package in found:
        result.setdefault((package.kind, package.name), []).append(package.version)
    return result


def _times(image: Manifest, last: Manifest) -> str:
    return f"{image.size / last.size:.2f} x" if last.size else "more than"


def _budget(status: Any, size: int, last: Manifest | None, note: str, changed: list[str]) -> Budget:
    return Budget(
        status=status,
        size=size,
        last_size=last.size if last else 0,
        last_digest=last.descriptor.digest if last else "",
        note=note,
        difference=changed,
    )
