"""What a bench can be asked for."""

import pytest

from imagekit.bench import PARTS, pick
from imagekit.errors import Problem


def test_all_or_one() -> None:
    assert pick("") == PARTS
    assert pick("overhead") == ("overhead",)


def test_an_unknown_part_is_wrong_usage() -> None:
    with pytest.raises(Problem, match="--only speed: no such part; one of build, overhead") as raised:
        pick("speed")
    assert raised.value.exit_code == 2
