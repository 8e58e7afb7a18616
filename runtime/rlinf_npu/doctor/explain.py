"""`doctor explain`: what a code means, where that is documented, what to do; and codes found in a log."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from rlinf_npu.doctor.tables import Code, codes, families, signatures, sources

# Progress bars and dumped tensors make lines of megabytes; what tells a fault stands at a line's start.
_LONGEST_LINE = 2000

UNDOCUMENTED = "No public page that we know documents this code."

# Where codes stand in logs. Bare numbers are taken only after words that announce a code.
_TEXT_CODE = re.compile(r"(?<![0-9A-Za-z_])(E[0-9A-Z]\d{4}|ERR\d{5})(?![0-9A-Za-z_])")
_DCMI_CODE = re.compile(r"(?<![\w.])(-8\d{3})\b")
_ACL_CODE = re.compile(
    r"(?:error code is|runtime result = |acl ?error|ret(?:code)?\s*[=:\[]|result\s*[=:])\s*(\d{6})\b", re.IGNORECASE
)
_HCCL_CODE = re.compile(r"HCCL function error:.{0,300}?error code is (\d{1,2})\b")


@dataclass
class Explanation:
    """One code or fault line."""

    code: str
    name: str = ""
    meaning: str = UNDOCUMENTED
    fix: str = "Keep the log; search the code on https://www.hiascend.com/document/ or ask the vendor's support."
    documented: str = ""  # page
    seen: list[str] = field(default_factory=list)
    seen_as: str = ""
    npufix: list[str] = field(default_factory=list)
    count: int = 0  # occurrences in a log
    line: str = ""  # the first of them

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return asdict(self)


def normalise(code: str) -> str:
    """As in the table: upper case, HcclResult numbers as hccl:<n>."""
    text = code.strip().strip(",;.()[]")
    if re.fullmatch(r"(?i)hccl:?\d{1,2}", text):
        return "hccl:" + re.sub(r"\D", "", text)
    return f"hccl:{text}" if re.fullmatch(r"\d{1,2}", text) else text.upper()


def explain(code: str) -> Explanation:
    """Look a code up: itself, else its family, else it is undocumented."""
    wanted = normalise(code)
    entry: Code | None = codes().get(wanted)
    if entry is not None:
        return Explanation(
            wanted, entry.name, entry.meaning, entry.fix, sources()[entry.source], list(entry.seen), entry.seen_as
        )
    for family in families():
        if re.fullmatch(family.pattern, wanted):
            return Explanation(wanted, "", family.meaning, family.fix, sources()[family.source])
    return Explanation(wanted)


def explain_log(lines: Iterable[str]) -> list[Explanation]:
    """Every known code and fault line of a log, in the order of their first occurrence."""
    found: dict[str, Explanation] = {}
    for whole in lines:
        line = whole[:_LONGEST_LINE]
        for code in _codes_in(line):
            _count(found, code, line, explain(code))
        for signature in signatures():
            if signature.search(line):
                answer = Explanation(
                    signature.id, "", signature.meaning, signature.fix, signature.link, npufix=list(signature.npufix)
                )
                _count(found, signature.id, line, answer)
    return list(found.values())


def _codes_in(line: str) -> list[str]:
    hccl = [f"hccl:{number}" for number in _HCCL_CODE.findall(line)]
    return hccl + [code for pattern in (_TEXT_CODE, _ACL_CODE, _DCMI_CODE) for code in pattern.findall(line)]


def _count(found: dict[str, Explanation], key: str, line: str, answer: Explanation) -> None:
    entry = found.setdefault(key, answer)
    entry.count += 1
    entry.line = entry.line or line.strip()[:300]
