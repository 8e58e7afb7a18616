"""The doctor beside a run: what is wrong with driver, cards, image, as far as it shows from inside.

Its rules take a moment, but for those that wait for an import of torch. So the former are asked before anything starts,
and the import goes on while the first step starts: its findings stop the step as soon as they are there.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from rlinf_npu.doctor.model import Finding, Report, Severity
from rlinf_npu.facts import load_facts
from rlinf_npu.recap.errors import UsageError

HOW_ON = "correct it, or start all the same with --no-doctor (RECAP_DOCTOR=0)"
Look = Callable[[], Report | None]


def looks(nodes: int = 1) -> tuple[Look, Look]:
    """Return two runs of the doctor on this container: all rules but those that import torch, and these.

    Outside an image both give None: there are no facts to hold against it. What `recap check` itself looks at is left
    out, as no recap.yaml is given. `nodes`: machines of the job.
    """
    return lambda: _examine(nodes, imports=False), lambda: _examine(nodes, imports=True)


def _examine(nodes: int, *, imports: bool) -> Report | None:
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
    rules = (rule for rule in all_rules() if rule.imports is imports)
    return run(Context(system, facts, where_am_i(system), nodes=nodes), rules)


class Examination:
    """Looks at once, in threads of its own, and tells each finding once."""

    def __init__(self, say: Callable[[str], None], quick: Look, slow: Look) -> None:
        """`say` prints a line."""
        self._say = say
        pool = ThreadPoolExecutor(2)
        self._quick, self._slow = pool.submit(quick), pool.submit(slow)
        self._told: set[Finding] = set()
        pool.shutdown(wait=False)

    @contextlib.contextmanager
    def before(self) -> Iterator[None]:
        """Ask the quick rules while the body makes its own checks; tell what was found.

        When the body refuses, the findings are told first: they often are the cause. Whoever is refused gets the
        findings of the import too.

        Raises:
            UsageError: one of them is an error: training would not start, or would fail.
        """
        try:
            yield
        except Exception:
            self.tell()
            raise
        if self._tell(self._quick):
            raise UsageError(f"{_count(self.tell())}, nothing was started: {HOW_ON}")

    def alarm(self) -> str | None:
        """Return what the import found wrong, once it is known; None while it is not, and when all is well."""
        errors = self._tell(self._slow) if self._slow.done() else []
        return f"{_count(errors)}: {HOW_ON}" if errors else None

    def tell(self) -> list[Finding]:
        """Wait for both, tell what was not told yet, return the errors."""
        return self._tell(self._quick) + self._tell(self._slow)

    def _tell(self, look: Future[Report | None]) -> list[Finding]:
        report = look.result()
        findings = report.findings if report else []
        for finding in findings:
            if finding.severity != Severity.NOTE and finding not in self._told:
                self._told.add(finding)
                self._say(line(finding))
        return [finding for finding in findings if finding.severity == Severity.ERROR]


def _count(errors: list[Finding]) -> str:
    ids = ", ".join(dict.fromkeys(finding.rule for finding in errors))
    return f"the doctor found {len(errors)} problem(s) ({ids})"


def line(finding: Finding) -> str:
    """One line: how bad, where, what was seen, what to do."""
    return (
        f"doctor: {finding.severity.name.lower()}: {finding.title} ({finding.rule}): {finding.evidence}; {finding.fix}"
    )
