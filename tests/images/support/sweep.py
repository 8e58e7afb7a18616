"""One pass over everything in the images under test; reading five gigabytes twice would be a minute lost."""

import io
from dataclasses import replace

from tests.images.support import needles, subjects
from tests.images.support.layers import Entry, entries
from tests.images.support.needles import Hit
from tests.images.support.ours import LayerNames
from tests.images.support.subjects import Subject
from tests.images.support.waste import Ledger

# Files that hold somebody's credentials, wherever they lie.
KEY_NAMES = ("/id_rsa", "/id_ed25519", "/.netrc", "/.git-credentials", "/.docker/config.json", "/.pypirc", "/.env")
# Folders that a build fills and must not leave filled, in any layer.
CACHES = ("/root/.cache/", "/var/lib/apt/lists/", "/var/cache/apt/", "/run/secrets/", "/tmp/", "/var/tmp/")


class Sweep:
    """What was found.

    Attributes:
        files, documents: how many were seen.
        cached, keys: paths in caches, and of credential files.
        hits: needles of this host and of the mirrors.
        ledger: sizes of all files.
        layers: image id -> its layers, lowest first.
        bases: image id -> those of them that are not ours, of the vendor's base.
        newest: time and path of the newest file of each layer of ours.
    """

    def __init__(self, images: list[Subject]) -> None:
        """Look at every file of every layer of `images`."""
        self.ledger = Ledger()
        self.files = self.documents = 0
        looked_for = [*needles.of_host(), *needles.of_mirrors()]
        cached: list[tuple[str, str]] = []
        keys: list[tuple[str, str]] = []
        hits: list[Hit] = []
        newest: dict[str, tuple[float, str]] = {}
        names = LayerNames(images)
        for entry in entries(subjects.engine(), [image.id for image in images]):
            self.files += bool(entry.layer)
            self.documents += not entry.layer
            self.ledger.note(entry)
            if entry.layer:
                newest[entry.layer] = max(newest.get(entry.layer, (0.0, "")), (entry.time, entry.path))
            if is_cache(entry):
                cached.append((entry.layer, entry.path))
            if entry.layer and entry.path.endswith(KEY_NAMES):
                keys.append((entry.layer, entry.path))
            if not entry.layer:
                document = entry.data.read()
                names.look(replace(entry, data=io.BytesIO(document)))
                entry = replace(entry, data=io.BytesIO(document))  # noqa: PLW2901
            hits.extend(needles.find(entry, looked_for))
        self.cached = [path for layer, path in cached if layer in names]
        self.keys = [path for layer, path in keys if layer in names]
        self.hits = [hit for hit in hits if not hit.layer or hit.layer in names]
        self.newest = [found for layer, found in newest.items() if layer in names]
        self.layers = names.order
        self.bases = {image: [layer for layer in layers if layer not in names] for image, layers in names.order.items()}


def is_cache(entry: Entry) -> bool:
    """Whether it is a file that a build fills and must not leave filled."""
    return bool(entry.layer and entry.regular and entry.size and entry.path.startswith(CACHES))
