"""Videos are decoded and scenes are rendered, with nothing but what is in the image."""

from collections.abc import Callable

import pytest

from tests.images.support.container import Container

Npus = Callable[[int], Container]


def test_frames_of_a_real_mp4(npus: Npus) -> None:
    """lerobot#3976, torchcodec#637: the decoder finds the ffmpeg that it was built for."""
    found = npus(1).probe("video", seconds=90)
    assert found["plain"] == pytest.approx(found["expected"], abs=3)
    assert found["lerobot"] == pytest.approx(found["chosen"], abs=3)
    assert found["shape"] == [3, 3, 64, 64]


def test_a_frame_without_a_screen(npus: Npus) -> None:
    """robosuite#459: OSMesa is there, and both variables point to it."""
    found = npus(1).probe("render", seconds=120)
    for picture in found.values():
        assert picture["mean"] > 5
        assert picture["colours"] > 10
