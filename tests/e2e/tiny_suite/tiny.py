"""A suite for the tiny images of test_publish*.py. Run by a gate, by this file's name: nothing else collects it."""

import os

from tests.images.support.subjects import client, given


def shell(script: str) -> str:
    """Run a line of shell in the image under test."""
    (reference,) = given().values()
    assert "@sha256:" in reference
    return client().containers.run(reference, ["sh", "-c", script], remove=True, network_mode="none").decode()


def test_has_its_marker() -> None:
    assert shell("cat /marker").strip()


def test_is_not_broken() -> None:
    assert shell("ls /broken 2>/dev/null || true") == ""


def test_base_is_said() -> None:
    assert os.environ["BASE"] in ("sim", "cann")
