"""Simulated trainings: start them, disturb them at a chosen moment, look at what they have made."""

from pathlib import Path
from typing import Any

from tests.e2e.compose_kit import RUN, Failed, Project

TRAIN_SECONDS = 1500  # two minutes on an idle machine with two cores

# Rows and digests of the results; a checkpoint counts when its weights load and are finite.
PROBE = f"""
import hashlib, json, os, pathlib
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import pyarrow.parquet as pq, torch
run, tables, checkpoints = pathlib.Path("{RUN}"), {{}}, {{}}
for path in sorted(run.glob("data/*/*/meta/*.parquet")):
    table = pq.read_table(path)
    name = "/".join(path.parts[-3::2])
    tables[name] = [table.num_rows, table.column_names, hashlib.sha256(path.read_bytes()).hexdigest()]
for path in sorted(run.glob("logs/*/*/*/checkpoints/global_step_*")):
    weights = torch.load(path / "actor/model_state_dict/full_weights.pt", map_location="cpu", weights_only=True)
    finite = all(bool(torch.isfinite(t).all()) for t in weights.values() if t.is_floating_point())
    checkpoints[path.parts[-5] + "/" + path.name] = [len(weights), finite]
states = {{p.stem: json.loads(p.read_text()) for p in (run / "state").glob("*.json")}}
status = {{name: [s["status"], s["attempts"], s["resumed_from"]] for name, s in states.items()}}
print(json.dumps({{"tables": tables, "checkpoints": checkpoints, "states": status}}))
"""


def new_project(folder: Path) -> Project:
    """A simulated project, on a host without cards."""
    project = Project(folder)
    project.generate(root=folder / "a host without cards")
    return project.simulated()


def look(project: Project) -> dict[str, Any]:
    """Tables, checkpoints and states of a run."""
    found: dict[str, Any] = project.python(PROBE)
    return found


def finish(project: Project) -> dict[str, Any]:
    """`up train` to its end; returns what the run has made.

    Raises:
        Failed: it did not end with 0; with its log.
    """
    project.compose("up", "train", seconds=TRAIN_SECONDS)
    if code := project.exit_code("train"):
        raise Failed(f"train ended with {code}:\n{project.logs('train')[-3000:]}")
    return look(project)


def running(step: str) -> str:
    """Shell condition: the step has begun."""
    return f"""grep -qs '"status": "running"' {RUN}/state/{step}.json"""


def exists(pattern: str) -> str:
    """Shell condition: something below the run's folder matches."""
    return f"compgen -G '{RUN}/{pattern}' >/dev/null"


def kill_when(project: Project, condition: str) -> None:
    """`up train`; at the very moment that `condition` holds, kill -9 to every process in its container but pid 1.

    Raises:
        Failed: the training ended in another way, for instance because the moment never came.
    """
    started = project.compose("up", "-d", "train", seconds=300)
    if started.returncode:
        raise Failed(started.stdout)
    script = f"until {condition}; do sleep 0.01; done; kill -9 -1"
    project.compose("exec", "-T", "train", "bash", "-c", script, seconds=TRAIN_SECONDS)
    project.ended("train", 60)
    if (code := project.exit_code("train")) != 128 + 9:
        raise Failed(f"train ended with {code} while waiting for {condition}:\n{project.logs('train')[-3000:]}")
