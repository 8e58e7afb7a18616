"""bundle.json: what a bundle holds, and what it leaves to an earlier one."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from imagekit.errors import Problem
from imagekit.manifest import Model

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
BLOBS = "blobs/sha256"
IMAGES = "images"  # the OCI layout in the bundle
CONTENTS, SUMS, NEEDS, SETTINGS = "bundle.json", "SHA256SUMS", "NEEDS.sha256", "bundle.env"


class Layer(Model):
    """One layer: `diff_id` is the plain tar's digest, `digest` and `size` (bytes) are the gzip file's."""

    diff_id: Digest
    digest: Digest
    size: Annotated[int, Field(gt=0)]


class Earlier(Model):
    """The bundle that the missing layers are in, told by the digest of its SHA256SUMS."""

    fingerprint: Digest
    layers: list[Digest]


class Contents(Model):
    """bundle.json. `digest` is the OCI manifest's, `config` the configuration's: the id in Docker's old store.

    `size` is the unpacked bytes of all layers."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    image: str
    names: Annotated[list[str], Field(min_length=1)]
    platform: str
    simulated: bool
    digest: Digest
    config: Digest
    size: Annotated[int, Field(ge=0)]
    layers: list[Layer]
    earlier: Earlier | None = None

    @property
    def blobs(self) -> list[str]:
        """Digests of all files of the image, once each."""
        return list(dict.fromkeys([self.digest, self.config, *(layer.digest for layer in self.layers)]))

    @property
    def from_earlier(self) -> list[str]:
        """Digests of the files that the earlier bundle has."""
        return list(self.earlier.layers) if self.earlier else []


def blob_path(digest: str) -> str:
    """Return where a blob is in an OCI layout."""
    return f"{BLOBS}/{digest.removeprefix('sha256:')}"


def read_contents(text: bytes) -> Contents:
    """Read bundle.json.

    Raises:
        Problem: it is none.
    """
    try:
        return Contents.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise Problem(f"{CONTENTS} is wrong: {key}: {first['msg']}", "carry the bundle over again") from None
