"""RLinf's SFTRunner with checkpoints that are whole or absent, an orderly stop, and a report of its progress."""

import json
import os
import shutil
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

from rlinf.runners.sft_runner import SFTRunner

from rlinf_npu.recap.checkpoint import PART_PREFIX, write_manifest
from rlinf_npu.recap.errors import EXIT_RESUMABLE

PROGRESS = "recap_progress.json"
FLUSH_SECONDS = 1.0


class StopRequested(Exception):
    """SIGTERM came in; raised between two steps."""


class _Watched:
    """A worker group that calls back before every step; all else passes through."""

    def __init__(self, actor: Any, before_step: Any) -> None:
        self._actor = actor
        self._before_step = before_step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name)

    def set_global_step(self, step: int) -> Any:
        """RLinf calls this at the start of every step, with the number of finished ones."""
        self._before_step(step)
        return self._actor.set_global_step(step)


class RecapRunner(SFTRunner):  # type: ignore[misc]
    """Used in place of SFTRunner, by upstream's scripts and by our driver."""

    def __init__(self, cfg: Any, actor: Any, run_timer: Any = None) -> None:
        """Arguments as of SFTRunner."""
        super().__init__(cfg=cfg, actor=actor, run_timer=run_timer)
        self._stop = False
        self._saved_step = -1
        self._flushed = 0.0
        self.actor = _Watched(actor, self._before_step)

    def run(self) -> None:
        """Train; on SIGTERM save a checkpoint after the current step and leave with code 75."""
        signal.signal(signal.SIGTERM, self._on_sigterm)  # now, because ray.init has set its own
        self._start_step = self.global_step
        try:
            super().run()
        except StopRequested:
            if self._saved_step != self.global_step and self.global_step > self._start_step:
                self._save_checkpoint()
            self.metric_logger.finish()
            self._report("stopped")
            raise SystemExit(EXIT_RESUMABLE) from None
        self._report("finished")

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        self._stop = True
        print(f"recap: stop requested, will save after step {self.global_step + 1}", flush=True)

    def _before_step(self, step: int) -> None:
        self._flush_curves()
        self._report("training")
        if self._stop:
            raise StopRequested

    def _flush_curves(self) -> None:
        """Write TensorBoard's buffer: its own two minutes would leave a hole in the curves of a killed run."""
        if time.monotonic() - self._flushed < FLUSH_SECONDS:
            return
        self._flushed = time.monotonic()
        for logger in getattr(self.metric_logger, "_all_loggers", []):
            if "tensorboard" in logger:
                logger["tensorboard"].writer.flush()

    def _save_checkpoint(self, is_best: bool = False) -> None:
        if is_best:
            super()._save_checkpoint(is_best=True)
            return
        logger = self.cfg.runner.logger
        root = Path(logger.log_path) / logger.experiment_name / "checkpoints"
        final = root / f"global_step_{self.global_step}"
        part = root / f"{PART_PREFIX}{final.name}"
        shutil.rmtree(part, ignore_errors=True)
        (part / "actor").mkdir(parents=True)
        self.actor.save_checkpoint(str(part / "actor"), self.global_step).wait()
        write_manifest(part, self.global_step)
        shutil.rmtree(final, ignore_errors=True)
        part.replace(final)
        self._saved_step = self.global_step

    def _report(self, status: str) -> None:
        path = Path(self.cfg.runner.logger.log_path) / PROGRESS
        part = path.with_name(f".{PROGRESS}.part")
        facts = {
            "status": status,
            "pid": os.getpid(),
            "time": time.time(),
            "global_step": self.global_step,
            "start_step": self._start_step,
            "max_steps": self.max_steps,
            "steps_per_epoch": self.num_steps_per_epoch,
        }
        part.write_text(json.dumps(facts), encoding="utf-8")
        part.replace(path)
