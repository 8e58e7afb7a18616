"""Find codes and known fault lines in logs of any size.

A log is read in blocks. In a block, lines are picked by literals that a pattern cannot do without (a plain search, some
microseconds a megabyte and literal), and only those lines meet the regular expression.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import BinaryIO

from rlinf_npu.doctor.literals import necessary
from rlinf_npu.doctor.tables import signatures

_BLOCK = 1 << 20
# Progress bars and dumped tensors make lines of megabytes; what tells a fault stands at a line's start.
_LONGEST_LINE = 2000

# Where codes stand in logs. Bare numbers are taken only after words that announce a code. Those that begin with a
# letter or sign have their look-behind after it: a pattern with a fixed beginning is searched many times faster.
_TEXT_CODE = r"E(?<![0-9A-Za-z_]E)(?:[0-9A-Z]\d{4}|RR\d{5})(?![0-9A-Za-z_])"
_DCMI_CODE = r"-8(?<![\w.]-8)\d{3}\b"
_HCCL_CODE = r"HCCL function error:.{0,300}?error code is (\d{1,2})\b"
_ACL_CODE = r"(?i)(?:error code is|runtime result = |acl ?error|ret(?:code)?\s*[=:\[]|result\s*[=:])\s*(\d{6})\b"
_ACL_WORDS = ("error code is", "runtime result = ", "aclerror", "acl error", "retcode")
_ACL_MARKED = [word + mark for word in ("ret", "result") for mark in "=:[ \t"]


@dataclass(frozen=True)
class Found:
    """A code (or a signature's id) and the line that it stands in."""

    key: str
    line: str


@dataclass(frozen=True)
class _Detector:
    """A kind of thing to find; without literals its (quick) pattern picks the lines by itself."""

    keys: Callable[[str], list[str]]  # line -> what is in it
    literals: frozenset[bytes] = frozenset()
    picks: re.Pattern[bytes] | None = field(default=None)

    def lines(self, block: bytes, lower: bytes) -> Iterator[tuple[int, int]]:
        """Begin and end of each line that may have it, some of them more than once."""
        if self.picks:
            for match in self.picks.finditer(block):
                yield _line_at(block, match.start())
        for literal in self.literals:
            place = lower.find(literal)
            while place >= 0:
                begin, end = _line_at(block, place)
                yield begin, end
                place = lower.find(literal, end)


def _line_at(block: bytes, place: int) -> tuple[int, int]:
    end = block.find(b"\n", place)
    return block.rfind(b"\n", 0, place) + 1, len(block) if end < 0 else end


@cache
def _detectors() -> tuple[_Detector, ...]:
    """In the order in which they are told for one line: codes first, then signatures, most specific first."""
    hccl = re.compile(_HCCL_CODE)
    acl, text, dcmi = re.compile(_ACL_CODE), re.compile(_TEXT_CODE), re.compile(_DCMI_CODE)
    return (
        _Detector(lambda line: [f"hccl:{number}" for number in hccl.findall(line)], _bytes(necessary(_HCCL_CODE))),
        _Detector(text.findall, picks=re.compile(_TEXT_CODE.encode())),
        _Detector(acl.findall, _bytes(frozenset([*_ACL_WORDS, *_ACL_MARKED]))),
        _Detector(dcmi.findall, picks=re.compile(_DCMI_CODE.encode())),
        *(_of_signature(signature.id, signature.pattern) for signature in signatures()),
    )


def _of_signature(key: str, pattern: str) -> _Detector:
    search = re.compile(pattern, re.MULTILINE).search
    # Every line has a line's end: where no literal is necessary, each line is looked at.
    return _Detector(lambda line: [key] if search(line) else [], _bytes(necessary(pattern) or frozenset(["\n"])))


def _bytes(literals: frozenset[str] | None) -> frozenset[bytes]:
    return frozenset(literal.encode() for literal in literals or ())


def scan(stream: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> Iterator[Found]:
    """Everything known in a log, in its order.

    Args:
        stream: the log; a carriage return ends a line too.
        progress: is told how many bytes have been read.
    """
    for block in _blocks(stream, progress):
        lower = block.lower()  # of bytes: no letter changes its length
        picked = [
            (begin, end, order)
            for order, detector in enumerate(_detectors())
            for begin, end in set(detector.lines(block, lower))
        ]
        for begin, end, order in sorted(picked):
            line = block[begin : min(end, begin + _LONGEST_LINE)].decode("utf-8", "replace")
            yield from (Found(key, line) for key in _detectors()[order].keys(line))


def _blocks(stream: BinaryIO, progress: Callable[[int], None]) -> Iterator[bytes]:
    """Whole lines, about a megabyte of them at a time; a line beyond the longest may be cut."""
    rest, done = b"", 0
    while piece := stream.read(_BLOCK):
        done += len(piece)
        whole, end, rest = (rest + piece.replace(b"\r", b"\n")).rpartition(b"\n")
        rest = rest[:_LONGEST_LINE]  # what comes to a line of that length is not looked at
        yield whole + end
        progress(done)
    yield rest
