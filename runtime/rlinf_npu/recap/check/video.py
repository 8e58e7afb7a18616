"""Is a video whole? Opened with PyAV, the decoder that LeRobot uses on an NPU."""

from pathlib import Path
from typing import Any


def video_problem(path: Path, frames: int, full: bool) -> str | None:
    """Return what is wrong with a video of `frames` frames, None when nothing is.

    Unless `full`, only the first and a late frame are decoded.
    """
    import av

    if not path.is_file():
        return "missing"
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                return "no video stream in it"
            stream = container.streams.video[0]
            if stream.frames and stream.frames != frames:
                return f"{stream.frames} frames, episodes.jsonl says {frames}"
            decoded = _decode_all(container, stream) if full else _decode_ends(container, stream)
    except (av.error.FFmpegError, OSError, StopIteration) as problem:
        return f"cannot be decoded ({str(problem).splitlines()[0] if str(problem) else type(problem).__name__})"
    if full and decoded != frames:
        return f"{decoded} frames can be decoded, episodes.jsonl says {frames}"
    return None


def _decode_all(container: Any, stream: Any) -> int:
    return sum(1 for _ in container.decode(stream))


def _decode_ends(container: Any, stream: Any) -> int:
    next(container.decode(stream))
    duration = stream.duration
    if duration:
        container.seek(int(duration * 0.9), stream=stream)
        next(container.decode(stream))
    return 0
