"""Import torch and torch_npu in a process of their own, and tell why it failed."""

import json
from dataclasses import dataclass

from rlinf_npu.doctor.system import Completed, System
from rlinf_npu.doctor.tables import limits, signatures

# The child prints one JSON line; everything else it prints is noise of the libraries.
_PROGRAM = """
import json
import torch, torch_npu
answer = {"torch": torch.__version__, "torch_npu": torch_npu.__version__, "count": torch.npu.device_count()}
print("DOCTOR " + json.dumps(answer))
"""
_SEGFAULT, _ABORT = -11, -6
_LONGEST = 100_000


@dataclass(frozen=True)
class ImportResult:
    """`kind` is "ok" or the class of the failure; the count is that of torch.npu."""

    kind: str
    evidence: str
    torch: str = ""
    torch_npu: str = ""
    count: int = 0


def probe(system: System, python: str, distributions: dict[str, str]) -> ImportResult:
    """Run the import; takes seconds, at most `import_seconds`."""
    seconds = limits().import_seconds
    done = system.run(python, "-c", _PROGRAM, seconds=seconds)
    answer = next((line[7:] for line in done.out.splitlines() if line.startswith("DOCTOR ")), None)
    if done.code == 0 and answer:
        values = json.loads(answer)
        return ImportResult("ok", answer, values["torch"], values["torch_npu"], int(values["count"]))
    kind = classify(done, distributions)
    return ImportResult(kind, _evidence(done, kind))


def classify(done: Completed, distributions: dict[str, str]) -> str:
    """A signature's id, or timeout, crash, tensorflow, not-run, other."""
    if done.code is None:
        return "timeout" if "no answer" in done.error else "not-run"
    text = (done.err + done.out)[-_LONGEST:]
    for signature in signatures():
        if signature.search(text):
            return signature.id
    if done.code in (_SEGFAULT, _ABORT, 128 - _SEGFAULT, 128 - _ABORT):
        return "tensorflow" if "tensorflow" in distributions else "crash"
    return "other"


def _evidence(done: Completed, kind: str) -> str:
    """How it ended, and the line that tells why: an import error's last line is often only a wrapper."""
    if done.code is None:
        return done.error
    how = f"exit {done.code}" if done.code >= 0 else f"killed by signal {-done.code}"
    telling = next((signature for signature in signatures() if signature.id == kind), None)
    lines = [line.strip() for line in (done.err + done.out).splitlines() if telling and telling.search(line)]
    return f"{how}: {lines[-1] if lines else done.said()}"
