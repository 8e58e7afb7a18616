"""`smoke run`: fixtures, the four steps through `recap`, then every output by content."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rlinf_npu.npufix.symptoms import advice
from rlinf_npu.recap import process
from rlinf_npu.recap.cards import count_cards
from rlinf_npu.recap.check import errors_of, run_checks
from rlinf_npu.recap.config import Config, load_config
from rlinf_npu.recap.environment import run_mark
from rlinf_npu.recap.layout import STEPS, TITLES, Run
from rlinf_npu.smoke.calls import VARIABLE, allocations, count_calls, simulated
from rlinf_npu.smoke.fixtures import Fixtures, make_fixtures
from rlinf_npu.smoke.report import Case, Report
from rlinf_npu.smoke.wrong import Wrong

if TYPE_CHECKING:  # it imports numpy, which the host that runs only our unit tests has not
    from rlinf_npu.smoke.verify import Verifier

POLL_SECONDS = 1.0
MEMORY_SECONDS = 4.0  # reading the memory of all processes is not free
MAX_CARDS = 2
COLLECTIVE_STEPS = ("value_sft", "cfg_rl")


class Smoke:
    """One smoke run in a folder of its own."""

    def __init__(self, workdir: Path, say: Callable[[str], None], timeout: float, cards: int | None) -> None:
        """`timeout`: seconds for everything; `cards`: None for two, or one where there is only one."""
        self.workdir, self.say = workdir.resolve(), say
        self.deadline = time.monotonic() + timeout
        self.timeout = timeout
        self.env = dict(os.environ)
        self.cards = cards or max(1, min(MAX_CARDS, count_cards()))
        self.workdir.mkdir(parents=True, exist_ok=True)
        self.report = Report("smoke", simulated(self.workdir))
        # Fixtures and checks need no device, and an import of torch must not depend on one.
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

    def run(self) -> Report:
        """Do everything; the report is written whatever happens."""
        from rlinf_npu.smoke.verify import Verifier

        try:
            fixtures = self._fixtures()
            config = load_config(fixtures.config, self._settings())
            self._check(config)
            verifier = Verifier(fixtures, config, time.time() - 1)
            for step in STEPS:
                if not self._step(step, config, verifier):
                    break
        finally:
            self.report.write(self.workdir)
        return self.report

    def _settings(self) -> tuple[str, ...]:
        # Where hours are given, as under emulation, a step that works is silent for more than minutes.
        silence = round(self.timeout / 2)
        return (f"log_dir={self.workdir / 'runs'}", f"cards={self.cards}", f"watchdog.silence={silence}")

    def _fixtures(self) -> Fixtures:
        started = time.monotonic()
        fixtures = make_fixtures(self.workdir / "fixtures", self.say)
        self.report.cases.append(Case("fixtures", "passed", str(fixtures.root), time.monotonic() - started))
        return fixtures

    def _check(self, config: Config) -> None:
        """`recap check --full` must find the fixtures in order."""
        started = time.monotonic()
        found = run_checks(config, full=True)
        wrong = "; ".join(f"{finding.where}: {finding.what}" for finding in errors_of(found))
        warnings = sum(finding.level == "warning" for finding in found)
        detail = wrong or f"{len(found) - warnings} in order, {warnings} warnings"
        self.report.cases.append(
            Case("recap check --full", "failed" if wrong else "passed", detail, time.monotonic() - started)
        )

    def _step(self, step: str, config: Config, verifier: "Verifier") -> bool:
        self.say(f"step {TITLES[step]}")
        case = self._recap(step, config)
        self.report.cases.append(case)
        if case.status == "failed":
            return False
        for check in verifier.checks(step):
            try:
                self.report.cases.append(Case(check.name, "passed", check.run()))
            except Wrong as wrong:
                self.report.cases.append(Case(check.name, "failed", str(wrong)))
        self._device_proof(step, config)
        return not self.report.failed

    def _recap(self, step: str, config: Config) -> Case:
        """Run `recap step` with a call log of its own; judge by its exit code and the clock."""
        calls = self.workdir / "calls" / f"{step}.log"
        calls.parent.mkdir(exist_ok=True)
        calls.unlink(missing_ok=True)
        env = {**self.env, VARIABLE: str(calls)} if self.report.simulated else self.env
        settings = [part for text in self._settings() for part in ("--set", text)]
        # Without the doctor: what is proved here is the image, whatever the machine lacks.
        options = ["--config", str(self.workdir / "fixtures/recap.yaml"), "--force", "--no-doctor"]
        command = [sys.executable, "-m", "rlinf_npu.recap.cli", "step", step, *options]
        log = self.workdir / f"recap-{step}.log"
        started = time.monotonic()
        with log.open("wb") as out:
            child = subprocess.Popen([*command, *settings], env=env, stdout=out, stderr=subprocess.STDOUT)
        peak, in_time = self._watch(child, run_mark(Run(config.run_dir)))
        seconds = time.monotonic() - started
        figures = {"seconds": round(seconds, 1), "peak_mb": peak}
        if not in_time:
            return Case(TITLES[step], "failed", f"not done within {self.timeout:.0f} s; {log}", seconds, figures)
        if child.returncode != 0:
            text = log.read_text(encoding="utf-8", errors="replace")
            detail = f"code {child.returncode}; {cured_by(text, self.cards)}{log}:\n{text[-3000:]}"
            return Case(TITLES[step], "failed", detail, seconds, figures)
        return Case(TITLES[step], "passed", f"peak {peak} MB", seconds, figures)

    def _watch(self, child: "subprocess.Popen[bytes]", mark: str) -> tuple[int, bool]:
        """Wait for the end; return peak memory in MB, and whether it came before the deadline."""
        peak, looked = 0, 0.0
        while child.poll() is None:
            now = time.monotonic()
            if now > self.deadline:
                child.kill()
                process.end_all(mark)
                child.wait()
                return peak, False
            if now - looked >= MEMORY_SECONDS:
                looked = now
                peak = max(peak, process.memory_mb(mark))
            time.sleep(POLL_SECONDS)
        return peak, True

    def _device_proof(self, step: str, config: Config) -> None:
        """Read the call log: step 3 must have taken device memory, steps 2 and 4 must have reduced over the cards."""
        name = f"{TITLES[step]} on the device"
        if step == "returns":
            return
        if not self.report.simulated:
            self.report.cases.append(Case(name, "skipped", "real CANN writes no call log; recap itself checks step 3"))
            return
        counts = count_calls(self.workdir / "calls" / f"{step}.log")
        figures = {call: number for call, number in counts.items() if call.startswith("Hccl")}
        problem = proof_problem(step, counts, self.cards)
        told = f"{allocations(counts)} allocations, {counts['HcclAllReduce']} HcclAllReduce"
        detail = f"{cured_by(problem)}{problem}" if problem else told
        self.report.cases.append(Case(name, "failed" if problem else "passed", detail, figures=figures))


def cured_by(text: str, cards: int | None = None) -> str:
    """Name the NPU fixes that would cure what a text shows, with a semicolon behind; empty when there is none."""
    told = advice(text, cards)
    return f"{told}; " if told else ""


def proof_problem(step: str, counts: Counter[str], cards: int) -> str | None:
    """Say what the call log lacks; None when it proves that the step used its cards."""
    if allocations(counts) == 0:
        return "no device memory was taken: it ran on the CPU"
    if step in COLLECTIVE_STEPS and cards > 1 and counts["HcclAllReduce"] == 0:
        return "no HcclAllReduce: the cards did not train together"
    return None
