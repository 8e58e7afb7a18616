"""Result of a smoke run: a table, JSON, and JUnit XML for a CI."""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rlinf_npu.recap.atomic import write_json, write_text


@dataclass
class Case:
    """One thing that was tried: passed, failed or skipped, with the seconds it took and figures worth keeping."""

    name: str
    status: str
    detail: str = ""
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """All cases of a run."""

    name: str
    simulated: bool
    cases: list[Case] = field(default_factory=list)
    started: float = field(default_factory=time.time)

    @property
    def failed(self) -> list[Case]:
        """Cases that failed."""
        return [case for case in self.cases if case.status == "failed"]

    def write(self, folder: Path) -> None:
        """Write report.json and junit.xml."""
        facts = {
            "name": self.name,
            "simulated": self.simulated,
            "passed": not self.failed,
            "seconds": round(time.time() - self.started, 1),
            "cases": [asdict(case) for case in self.cases],
        }
        write_json(folder / "report.json", facts)
        write_text(folder / "junit.xml", ElementTree.tostring(self._junit(), encoding="unicode"))

    def _junit(self) -> ElementTree.Element:
        counts = {status: sum(c.status == status for c in self.cases) for status in ("failed", "skipped")}
        suite = ElementTree.Element(
            "testsuite",
            name=self.name,
            tests=str(len(self.cases)),
            failures=str(counts["failed"]),
            skipped=str(counts["skipped"]),
            time=f"{time.time() - self.started:.1f}",
        )
        for case in self.cases:
            element = ElementTree.SubElement(
                suite, "testcase", name=case.name, classname=self.name, time=f"{case.seconds:.1f}"
            )
            if case.status == "failed":
                ElementTree.SubElement(element, "failure", message=case.detail[:200]).text = case.detail
            elif case.status == "skipped":
                ElementTree.SubElement(element, "skipped", message=case.detail)
        return suite

    def show(self, console: Console | None = None) -> None:
        """Print the table."""
        title = f"{self.name} ({'simulated NPUs' if self.simulated else 'NPUs'})"
        table = Table("", "check", "s", "detail", title=title, title_justify="left")
        colours = {"passed": "green", "failed": "red", "skipped": "yellow"}
        for case in self.cases:
            seconds = f"{case.seconds:.0f}" if case.seconds else ""
            table.add_row(f"[{colours[case.status]}]{case.status}[/]", escape(case.name), seconds, escape(case.detail))
        (console or Console(soft_wrap=True)).print(table)
