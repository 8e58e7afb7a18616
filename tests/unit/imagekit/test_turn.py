"""Two builds of one checkout take turns."""

import threading
from pathlib import Path

from hostkit import Said

from imagekit.turn import my_turn


def test_the_second_build_says_that_it_waits_and_goes_on_after_the_first(tmp_path: Path, said: Said) -> None:
    lock, order = tmp_path / "build" / "lock", list[str]()
    waiting = threading.Event()

    def second() -> None:
        def say(text: str) -> None:
            said(text)
            waiting.set()

        with my_turn(lock, say):
            order.append("second")

    with my_turn(lock, said):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert said == ["Another build of this checkout is running: waiting for it to end."]


def test_a_build_alone_says_nothing(tmp_path: Path, said: Said) -> None:
    with my_turn(tmp_path / "lock", said):
        assert said == []
    with my_turn(tmp_path / "lock", said):
        assert said == []
