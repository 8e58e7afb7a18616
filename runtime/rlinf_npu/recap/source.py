"""Where RLinf is, and what it brings: upstream's example scripts, or only the package."""

import importlib.util
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rlinf_npu.facts import load_facts
from rlinf_npu.recap.errors import UsageError

DEFAULT_HOME = Path("/opt/rlinf")
EXAMPLES = Path("examples/offline_rl")
CONFIG = EXAMPLES / "config"
SCRIPTS = {
    "returns": EXAMPLES / "advantage_labeling/recap/process/compute_returns.py",
    "value_sft": EXAMPLES / "advantage_labeling/recap/train_value.py",
    "advantages": EXAMPLES / "advantage_labeling/recap/process/compute_advantages.py",
    "cfg_rl": EXAMPLES / "policy_optimization/cfg_rl/train_cfg.py",
}


@dataclass(frozen=True)
class Source:
    """An RLinf tree: `home` holds the package folder `rlinf`."""

    home: Path

    def script(self, step: str) -> Path | None:
        """Upstream's script of a step, None where this source has none."""
        path = self.home / SCRIPTS[step]
        return path if path.is_file() else None

    @property
    def config_dir(self) -> Path | None:
        """Upstream's Hydra configurations, None where this source has none."""
        path = self.home / CONFIG
        return path if path.is_dir() else None

    @property
    def kind(self) -> str:
        """`examples` (upstream's scripts) or `package` (our thin drivers)."""
        return "examples" if all(self.script(step) for step in SCRIPTS) else "package"

    @property
    def value_model_type(self) -> str:
        """Name under which RLinf registers the value model; it changed when a second one came."""
        renamed = self.home / "rlinf/models/embodiment/value_model/recap"
        return "recap_value_model" if renamed.is_dir() else "value_model"

    def describe(self) -> dict[str, str | None]:
        """Kind, folder, version and revision, for the record of a run."""
        return {"kind": self.kind, "home": str(self.home), "version": _version(), "revision": self._revision()}

    def _revision(self) -> str | None:
        """A checkout's commit; in the image, what the facts say."""
        head = self.home / ".git" / "HEAD"
        if head.is_file():
            return head.read_text(encoding="utf-8").strip()
        if self.home != DEFAULT_HOME:
            return None
        try:
            return str(load_facts()["rlinf"]["revision"])
        except (FileNotFoundError, ValueError, KeyError):
            return None


def find_source(configured: Path | None = None) -> Source:
    """Look at the configuration, RLINF_HOME, /opt/rlinf and the installed package, in this order.

    Raises:
        UsageError: RLinf is nowhere, or the named folder does not hold it.
    """
    named = configured or (Path(os.environ["RLINF_HOME"]) if os.environ.get("RLINF_HOME") else None)
    if named is not None:
        if not (named / "rlinf").is_dir():
            raise UsageError(f"{named} does not hold RLinf (no folder rlinf in it); check rlinf_home or RLINF_HOME")
        return Source(named.resolve())
    if (DEFAULT_HOME / "rlinf").is_dir():
        return Source(DEFAULT_HOME)
    spec = importlib.util.find_spec("rlinf")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("RLinf is not installed: set RLINF_HOME to its folder or run inside the rlinf-npu image")
    return Source(Path(next(iter(spec.submodule_search_locations))).parent)


def _version() -> str | None:
    try:
        return metadata.version("rlinf")
    except metadata.PackageNotFoundError:
        return None
