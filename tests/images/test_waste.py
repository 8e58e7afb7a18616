"""Nobody pulls bytes that the image does not use."""

from tests.images.support.subjects import Subject
from tests.images.support.sweep import Sweep

WASTE = 0.005  # of all bytes in an image's layers


def test_the_published_image_wastes_no_bytes(everything: list[Subject], sweep: Sweep) -> None:
    """The last image of the chain: it holds the layers of all others, and it is the one that people pull.

    What the vendor's base wastes by itself is not ours; what we replace of it is.
    """
    image = everything[-1].id.removeprefix("sha256:")
    total, wasted = sweep.ledger.total(sweep.layers[image]), sweep.ledger.wasted(sweep.layers[image])
    theirs = sweep.ledger.wasted(sweep.bases[image])
    ours = {path: size - theirs.get(path, 0) for path, size in wasted.items()}
    worst = sorted(ours.items(), key=lambda item: -item[1])[:10]
    assert sum(ours.values()) <= WASTE * total, f"of {total} bytes these are in no final file: {worst}"


def test_no_static_libraries(sweep: Sweep) -> None:
    """Nothing below /opt is linked again; the distribution's compiler keeps its own archives."""
    names = {path for files in sweep.ledger.files.values() for path in files if path.startswith("/opt/")}
    assert [path for path in names if path.endswith(".a")] == []
