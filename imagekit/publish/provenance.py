"""How an image came to be: an in-toto statement with a SLSA provenance predicate (https://slsa.dev/provenance/v1)."""

import hashlib
from typing import Any

from imagekit import lookup
from imagekit.locks import LOCKS
from imagekit.manifest import MANIFEST, ROOT, Manifest
from imagekit.publish.identity import OCI, Identity
from imagekit.registry import Reference, canonical

STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"


def statement(manifest: Manifest, identity: Identity, image: Reference, builder: str) -> bytes:
    """Return the statement on one image.

    Args:
        manifest: images.toml.
        identity: of the image.
        image: by digest.
        builder: who built it: a CI job's address, or `local`.
    """
    ours, labels = manifest.project.label_prefix, identity.labels
    document: dict[str, Any] = {
        "_type": STATEMENT,
        "subject": [{"name": f"{image.host}/{image.repository}", "digest": {"sha256": image.digest.partition(":")[2]}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": f"{lookup.source_url(manifest)}#make-image",
                "externalParameters": {
                    "revision": identity.revision,
                    "platform": identity.flavour.platform.name,
                    "base": identity.flavour.base,
                    "rlinf": {
                        "source": labels.get(f"{ours}.rlinf.source", ""),
                        "revision": labels.get(f"{ours}.rlinf.revision", ""),
                    },
                },
                "internalParameters": {"simulated": identity.simulated, "content": identity.content},
                "resolvedDependencies": dependencies(manifest, identity),
            },
            "runDetails": {
                "builder": {"id": builder},
                "metadata": {"invocationId": identity.content},
            },
        },
    }
    return canonical(document)


def dependencies(manifest: Manifest, identity: Identity) -> list[dict[str, Any]]:
    """Return what went in, each with its digest: this repository, the base image, images.toml, the lock."""
    labels = identity.labels
    # Files of this checkout went in only if the image was built from it as it is now.
    same = identity.revision == lookup.our_revision()
    files = (MANIFEST, LOCKS / f"{identity.flavour.platform.machine}.txt") if same else ()
    base = labels.get(f"{OCI}.base.digest", "")
    return [
        {"uri": f"git+{labels.get(f'{OCI}.source', '')}", "digest": {"gitCommit": identity.revision}},
        {"uri": f"docker://{labels.get(f'{OCI}.base.name', '')}", "digest": {"sha256": base.partition(":")[2]}},
        *(
            {"uri": str(path.relative_to(ROOT)), "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}
            for path in files
        ),
    ]
