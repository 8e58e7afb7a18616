"""`doctor explain`: what a code means, where that is documented, what to do; and codes found in a log."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from rlinf_npu.doctor.logscan import scan
from rlinf_npu.doctor.tables import Code, Signature, codes, families, signatures, sources

FORM = r"-?\d+|hccl:\d+|[A-Z]{1,4}[0-9][0-9A-Z]{3,5}"
FORMS = (
    "numbers (507033, -8005), hccl:<number>, letters with digits (EJ0003, ERR00100), names (HCCL_E_NETWORK),"
    " or a log on stdin"
)
UNDOCUMENTED = "No public page that we know documents this code."


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


def is_code(text: str) -> bool:
    """Whether it has the form of a code, known or not, or is the name of a known one."""
    wanted = normalise(text)
    return bool(re.fullmatch(FORM, wanted)) or any(_is_name(entry, wanted) for entry in codes().values())


def _is_name(entry: Code, wanted: str) -> bool:
    return bool(entry.name) and entry.name.upper() == wanted


def explain(code: str) -> Explanation:
    """Look a code up: itself, else by its name, else its family, else it is undocumented."""
    wanted = normalise(code)
    entry = codes().get(wanted) or next((entry for entry in codes().values() if _is_name(entry, wanted)), None)
    if entry is not None:
        return Explanation(
            entry.code, entry.name, entry.meaning, entry.fix, sources()[entry.source], list(entry.seen), entry.seen_as
        )
    for family in families():
        if re.fullmatch(family.pattern, wanted):
            return Explanation(wanted, "", family.meaning, family.fix, sources()[family.source])
    return Explanation(wanted)


def explain_log(log: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> list[Explanation]:
    """Every known code and fault line of a log, in the order of their first occurrence.

    Args:
        log: read to its end.
        progress: is told how many bytes have been read.
    """
    answers: dict[str, Explanation] = {}
    known = {signature.id: signature for signature in signatures()}
    for found in scan(log, progress):
        if found.key not in answers:
            answers[found.key] = _of_signature(known[found.key]) if found.key in known else explain(found.key)
            answers[found.key].line = found.line.strip()[:300]
        answers[found.key].count += 1
    return list(answers.values())


def _of_signature(signature: Signature) -> Explanation:
    return Explanation(
        signature.id, "", signature.meaning, signature.fix, signature.link, npufix=list(signature.npufix)
    )
