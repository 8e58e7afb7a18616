"""What the rules look at: the system, the facts, and probes that are made once."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rlinf_npu.doctor import importprobe, npusmi, versions, visible
from rlinf_npu.doctor.factsview import CannRow, Facts
from rlinf_npu.doctor.model import CONTAINER, HOST
from rlinf_npu.doctor.system import HttpAnswer, Identity, System
from rlinf_npu.doctor.tables import limits

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv", "/usr/share/rlinf-npu/facts.json")
_NODE = re.compile(r"(\d+)$")


def where_am_i(system: System) -> str:
    """CONTAINER in a container or our image, else HOST."""
    if any(system.exists(mark) for mark in _CONTAINER_MARKS):
        return CONTAINER
    return CONTAINER if re.search(r"docker|kubepods|containerd", system.read("/proc/1/cgroup") or "") else HOST


@dataclass
class Context:
    """One machine under examination."""

    system: System
    facts: Facts
    where: str
    recap_file: Path | None = None
    nodes: int = 1  # hosts of the job, 0 = unknown
    extra_mirrors: list[str] = field(default_factory=list)
    lock_file: Path | None = None  # images.lock of a checkout

    @cached_property
    def identity(self) -> Identity:
        """This process."""
        return self.system.identity()

    @cached_property
    def cards(self) -> dict[int, str]:
        """Card number -> device node, from the manifest's pattern; two-digit numbers too."""
        pattern = self.facts.devices.card.replace("{id}", "[0-9]*")
        found = {path: _NODE.search(path) for path in self.system.glob(pattern)}
        return dict(sorted((int(match[1]), path) for path, match in found.items() if match))

    @cached_property
    def smi(self) -> npusmi.SmiReport | None:
        """npu-smi's table, None when the tool is missing, fails without output or does not answer."""
        return npusmi.parse(self.smi_run.out + self.smi_run.err) if self.smi_run.out or self.smi_run.err else None

    @cached_property
    def smi_run(self) -> Any:
        """The run of npu-smi itself."""
        return self.system.run("npu-smi", "info", seconds=limits().command_seconds)

    @cached_property
    def driver_info(self) -> dict[str, str]:
        """The driver's version.info."""
        return versions.info_file(self.system.read(f"{self.facts.devices.driver}/version.info") or "")

    @cached_property
    def driver_library(self) -> str:
        """Where libascend_hal.so of the mounted driver belongs."""
        return f"{self.facts.devices.driver}/lib64/driver/libascend_hal.so"

    @cached_property
    def toolkit(self) -> str:
        """The toolkit's folder, empty when neither the facts nor the environment name one."""
        named = self.facts.paths.toolkit if self.facts.paths else ""
        return named or self.system.env.get("ASCEND_TOOLKIT_HOME") or self.system.env.get("ASCEND_HOME_PATH", "")

    @cached_property
    def python(self) -> str:
        """The Python that has torch: the facts', else the active environment's, else the first on PATH."""
        named = self.facts.paths.python if self.facts.paths else ""
        active = self.system.env.get("VIRTUAL_ENV", "")
        found = named or (f"{active}/bin/python3" if active else "python3")
        return found if self.system.which(found) else "python3"

    @cached_property
    def cann(self) -> str:
        """The CANN release inside, from the toolkit's own files; from the facts where there is no toolkit (host)."""
        for path in self.system.glob(f"{self.toolkit}/*/ascend_toolkit_install.info") if self.toolkit else ():
            found = versions.info_file(self.system.read(path) or "").get("version")
            if found:
                return found
        return self.facts.versions.cann

    @cached_property
    def cann_row(self) -> CannRow | None:
        """The compatibility table's row for it."""
        return versions.cann_row(self.cann, self.facts.compatibility)

    @cached_property
    def distributions(self) -> dict[str, str]:
        """Installed Python packages of the environment that `paths.python` belongs to, without running it."""
        program = self.system.which(self.python)
        if program is None:
            return {}
        prefix = "/" + str(Path(program).parent.parent.relative_to(self.system.root))
        folders = self.system.glob(f"{prefix}/lib/python3*/site-packages/*.dist-info")
        return versions.of_distributions([path.rpartition("/")[2] for path in folders])

    @cached_property
    def imported(self) -> importprobe.ImportResult:
        """torch and torch_npu, imported in a child process."""
        return importprobe.probe(self.system, self.python, self.distributions)

    def visible(self, variable: str) -> visible.Visible | None:
        """A visibility variable, None when it is not set."""
        text = self.system.env.get(variable)
        return None if text is None else visible.parse(variable, text)

    @cached_property
    def mirrors(self) -> dict[str, HttpAnswer]:
        """Answers of the mirrors a build would use, asked in parallel."""
        from concurrent.futures import ThreadPoolExecutor

        urls = list(dict.fromkeys([*self.facts.mirrors, *self.extra_mirrors]))
        with ThreadPoolExecutor(max(1, len(urls))) as pool:
            return dict(
                zip(urls, pool.map(lambda url: self.system.http(url, limits().network_seconds), urls), strict=True)
            )

    @cached_property
    def multi_node(self) -> bool:
        """Whether the job spans several hosts, as told or as the launcher's variables say."""
        env = self.system.env
        world, local = env.get("WORLD_SIZE", "1"), env.get("LOCAL_WORLD_SIZE", env.get("WORLD_SIZE", "1"))
        return self.nodes > 1 or env.get("NNODES", "1") not in ("", "1") or world != local

    @cached_property
    def simulated(self) -> list[str]:
        """Everything that says driver, cards or image are simulated."""
        marks = []
        if self.facts.base == "sim" and self.where == CONTAINER:  # on a host the facts speak of the image to build
            marks.append("facts.json: base = sim")
        if "simulated" in json.dumps(self.driver_info).lower():
            marks.append(f"{self.facts.devices.driver}/version.info")
        if self.system.exists(f"{self.facts.devices.driver}/simulated.info"):
            marks.append(f"{self.facts.devices.driver}/simulated.info")
        if self.smi and "simulated" in self.smi.text.lower():
            marks.append("npu-smi info")
        marks.extend(sorted(name for name in self.system.env if name.startswith("CANNSIM_")))
        return marks
