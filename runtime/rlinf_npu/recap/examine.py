"""The doctor, before anything starts: what is wrong with driver, cards, image, as far as it shows from inside."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from rlinf_npu.doctor.model import Finding, Report, Severity
from rlinf_npu.facts import load_facts
from rlinf_npu.recap.errors import UsageError

HOW_ON = "correct it, or start all the same with --no-doctor (RECAP_DOCTOR=0)"


def examine(nodes: int = 1) -> Report | None:
    """Run the doctor's rules on this container; None outside an image, which has no facts to hold against it.

    What `recap check` itself looks at is left out, as no recap.yaml is given. `nodes`: machines of the job.
    """
    from rlinf_npu.doctor.context import Context, where_am_i
    from rlinf_npu.doctor.factsview import facts_view
    from rlinf_npu.doctor.registry import all_rules
    from rlinf_npu.doctor.runner import run
    from rlinf_npu.doctor.system import System

    try:
        facts = facts_view(load_facts())
    except (FileNotFoundError, ValueError):
        return None
    system = System()
    return run(Context(system, facts, where_am_i(system), nodes=nodes), all_rules())


@contextlib.contextmanager
def examination(say: Callable[[str], None], look: Callable[[], Report | None]) -> Iterator[None]:
    """Look while the body makes its own checks; print what was found, and raise when something of it is an error.

    At the same time, because most of the doctor's seconds are one import of torch in a process of its own. When the
    body itself refuses, the doctor's findings are told first: they often are the cause.

    Raises:
        UsageError: training would not start, or would fail.
    """
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            yield
        finally:
            report = looking.result()
            findings = report.findings if report else []
            for finding in findings:
                if finding.severity != Severity.NOTE:
                    say(line(finding))
    errors = [finding for finding in findings if finding.severity == Severity.ERROR]
    if errors:
        ids = ", ".join(dict.fromkeys(finding.rule for finding in errors))
        raise UsageError(f"the doctor found {len(errors)} problem(s) ({ids}), nothing was started: {HOW_ON}")


def line(finding: Finding) -> str:
    """One line: how bad, where, what was seen, what to do."""
    return (
        f"doctor: {finding.severity.name.lower()}: {finding.title} ({finding.rule}): {finding.evidence}; {finding.fix}"
    )
