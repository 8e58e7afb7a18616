"""What buildx says while it builds, in both of its formats."""

import base64
import io
import json

import pytest
from rich.console import Console

from imagekit.progress import Build, documents, follow


def vertex(digest: str, name: str, **more: object) -> dict[str, object]:
    return {"vertexes": [{"digest": digest, "name": name, **more}]}


EVENTS = [
    vertex("a", "[cann-base system 1/2] RUN apt-get install", started="2026-01-01T00:00:00.123456789Z"),
    {"logs": [{"vertex": "a", "data": base64.b64encode(b"one\ntwo\nthr").decode()}]},
    {"logs": [{"vertex": "a", "data": base64.b64encode(b"ee\n").decode()}]},
    vertex(
        "a",
        "[cann-base system 1/2] RUN apt-get install",
        started="2026-01-01T00:00:00Z",
        completed="2026-01-01T00:00:04Z",
    ),
    vertex(
        "b", "[cann-base internal] load build context", started="2026-01-01T00:00:00Z", completed="2026-01-01T00:00:01Z"
    ),
    vertex(
        "c",
        "[rlinf-npu packages 1/2] RUN uv",
        started="2026-01-01T00:00:04Z",
        completed="2026-01-01T00:00:04Z",
        cached=True,
    ),
]


def stream(indent: int | None) -> list[str]:
    text = "".join(json.dumps(event, indent=indent) + "\n" for event in EVENTS)
    return [*text.splitlines(keepends=True), "ERROR: the last word\n"]


@pytest.mark.parametrize("indent", [None, 2])
def test_both_formats_give_the_same_documents(indent: int | None) -> None:
    assert list(documents(stream(indent))) == [*EVENTS, "ERROR: the last word"]


def test_a_truncated_document_is_not_lost() -> None:
    assert list(documents(["{\n", '  "vertexes": [\n'])) == ["{", '  "vertexes": [']


def test_steps_logs_and_times_are_told_apart() -> None:
    build = Build()
    completed = [v for event in documents(stream(2)) for v in build.feed(event)]
    assert [v.target for v in completed] == ["cann-base", "", "rlinf-npu"]
    assert [v.name for v in build.steps] == [
        "[cann-base system 1/2] RUN apt-get install",
        "[rlinf-npu packages 1/2] RUN uv",
    ]
    assert build.vertexes["a"].log == ["one", "two", "three"]
    assert build.target_seconds("cann-base") == pytest.approx(4)
    assert not build.target_cached("cann-base")
    assert build.target_cached("rlinf-npu")
    assert build.words == ["ERROR: the last word"]
    assert build.timeline()[0]["seconds"] == pytest.approx(4)


def test_the_failing_step_is_found_among_cancelled_ones() -> None:
    build = Build()
    build.feed(vertex("x", "[a s 1/1] RUN x", error="context canceled: stopped"))
    build.feed(vertex("y", "[a s 1/1] RUN y", error="exit code: 1"))
    assert build.failed is build.vertexes["y"]


def test_without_a_terminal_finished_steps_are_lines() -> None:
    text = io.StringIO()
    follow(stream(2), Console(file=text, width=100), "building")
    assert text.getvalue().splitlines() == ["[1/1]    4.0s [cann-base system 1/2] RUN apt-get install"]
