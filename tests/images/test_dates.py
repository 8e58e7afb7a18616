"""Two builds on different days are the same bytes only if no file says when it was made."""

from datetime import datetime

from tests.images.support.subjects import Subject
from tests.images.support.sweep import Sweep


def test_no_file_of_ours_is_newer_than_the_images_date(everything: list[Subject], sweep: Sweep) -> None:
    """Folders and links included; the date is SOURCE_DATE_EPOCH, by default the commit's."""
    created = everything[-1].labels["org.opencontainers.image.created"]
    limit = datetime.fromisoformat(created).timestamp()
    assert [found for found in sweep.newest if found[0] > limit] == []
