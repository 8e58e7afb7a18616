"""Which layers and files of an image are ours: what the vendor left in its base is not ours to judge."""

import functools
import json
from collections.abc import Iterable
from typing import Any

from tests.images.support import subjects
from tests.images.support.layers import Entry, entries
from tests.images.support.subjects import Subject

# cann-base's Dockerfile begins with it, and no image above changes its shell again.
FIRST_STEP = "SHELL [/bin/bash -euo pipefail -c]"


def own_steps(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps of `docker history` (newest first) that cann-base and its children added."""
    for number, step in enumerate(history):
        if step["CreatedBy"].startswith(FIRST_STEP):
            return history[:number]
    raise AssertionError(f"no step begins with {FIRST_STEP}: not an image of ours, or cann-base begins otherwise now")


def own_size(subject: Subject) -> int:
    """Return the unpacked bytes that are ours; on the simulated base everything is."""
    history = subjects.client().images.get(subject.id).history()
    return sum(step["Size"] for step in (history if subject.all_ours else own_steps(history)))


def own_layer_count(subject: Subject) -> int:
    """Return how many of the topmost layers are ours."""
    if subject.all_ours:
        return len(subject.attrs["RootFS"]["Layers"])
    return sum(step["Size"] > 0 for step in own_steps(subjects.client().images.get(subject.id).history()))


BLOBS = "blobs/sha256/"


class LayerNames:
    """Learns from the documents in a `docker save` stream which blobs are an image's own layers.

    The documents may come after the layers, so ask when the stream has ended.
    """

    def __init__(self, images: list[Subject]) -> None:
        """Own layers of `images` are wanted."""
        # The documents name an image by its configuration or its manifest, the engine may by an index. A child has more
        # layers than its parent, so their number tells them apart.
        self._own = {len(image.attrs["RootFS"]["Layers"]): own_layer_count(image) for image in images}
        self._layers: set[str] = set()
        self._all = all(image.all_ours for image in images)
        self.order: dict[str, list[str]] = {}  # image id -> layers, lowest first

    def look(self, entry: Entry) -> None:
        """Take note of the stream's table of contents, and of manifests: containerd's store names images by them."""
        if entry.layer or not entry.path.startswith(("manifest.json", BLOBS)):
            return
        if entry.path.startswith(BLOBS):
            self._look_at_manifest(entry)
            return
        for image in json.loads(entry.data.read()):
            self._note(image["Config"].rpartition("/")[2].removesuffix(".json"), image["Layers"])

    def _look_at_manifest(self, entry: Entry) -> None:
        try:
            document = json.loads(entry.data.read())
            layers = [BLOBS + layer["digest"].partition(":")[2] for layer in document["layers"]]
        except (ValueError, KeyError, TypeError):
            return  # a configuration, an index, an attestation
        self._note(entry.path.removeprefix(BLOBS), layers)

    def _note(self, name: str, layers: list[str]) -> None:
        self.order[name] = layers
        self._layers.update(layers[len(layers) - self._own.get(len(layers), 0) :])

    def __contains__(self, layer: str) -> bool:
        """Whether that blob is a layer of ours."""
        return self._all or layer in self._layers


@functools.cache
def own_files(subject: Subject) -> frozenset[str] | None:
    """Return the paths in our layers of `subject`, or None on the simulated base, where all are."""
    if subject.all_ours:
        return None
    names, found = LayerNames([subject]), set()
    for entry in entries(subjects.engine(), [subject.id]):
        names.look(entry)
        if entry.layer:
            found.add((entry.layer, entry.path.rstrip("/")))
    return frozenset(path for layer, path in found if layer in names)


def only_ours(subject: Subject, paths: Iterable[str]) -> set[str]:
    """Return those of `paths` that an image of ours put there or changed."""
    own = own_files(subject)
    return {path for path in paths if own is None or path in own}
