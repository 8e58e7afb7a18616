"""Step 1: discounted returns of every frame, into meta/returns.parquet of every dataset."""

from pathlib import Path
from typing import Any

from rlinf_npu.recap.atomic import write_text
from rlinf_npu.recap.compose import compose, returns_settings, views
from rlinf_npu.recap.config import Dataset
from rlinf_npu.recap.fingerprint import flatten
from rlinf_npu.recap.layout import CONFIG_NAMES, LOG_NAMES
from rlinf_npu.recap.steps.base import (
    Context,
    TableStep,
    dataset_inputs,
    launcher,
    make_view,
    result_name,
    source_inputs,
)

COLUMNS = ("episode_index", "frame_index", "return", "reward", "prompt")


class ReturnsStep(TableStep):
    """Runs upstream's compute_returns.py or our driver."""

    name = "returns"
    columns, finite, companions = COLUMNS, ("return", "reward"), ("stats.json", "info.json")
    free = ("settings.data.num_workers", "rlinf.")

    def targets(self, context: Context) -> list[tuple[Dataset, Path]]:
        """All datasets: evaluation needs returns too."""
        return views(context.config, context.run)

    def inputs(self, context: Context) -> dict[str, Any]:
        """Gamma, failure reward, types and contents of the datasets."""
        settings = flatten(returns_settings(context.config, context.run), "settings")
        return {**settings, **dataset_inputs(context, videos=False), **source_inputs(context)}

    def prepare(self, context: Context, log_dir: Path, resume: Path | None) -> tuple[list[str], Path]:
        """Make the views fresh: this step starts the chain."""
        for dataset, view in views(context.config, context.run):
            make_view(dataset, view)
            (view / "meta" / result_name("returns", context.config.tag)).unlink(missing_ok=True)
        config_file = log_dir / f"{CONFIG_NAMES[self.name]}.yaml"
        settings = returns_settings(context.config, context.run)
        write_text(config_file, compose(context.source, self.name, settings, {}))
        return launcher(self.name, config_file, context.source.script(self.name)), log_dir / LOG_NAMES[self.name]
