"""Step 1: discounted returns of every frame, into meta/returns.parquet of every dataset."""

from pathlib import Path
from typing import Any

from rlinf_npu.recap.atomic import write_text
from rlinf_npu.recap.compose import compose, returns_settings, views
from rlinf_npu.recap.fingerprint import file_digest, flatten
from rlinf_npu.recap.layout import CONFIG_NAMES, LOG_NAMES
from rlinf_npu.recap.state import StepState
from rlinf_npu.recap.steps.base import (
    Context,
    Step,
    dataset_inputs,
    launcher,
    make_view,
    publish,
    require_table,
    result_name,
    sort_table,
    source_inputs,
    total_frames,
)

COLUMNS = ("episode_index", "frame_index", "return", "reward", "prompt")


class ReturnsStep(Step):
    """Runs upstream's compute_returns.py or our driver."""

    name = "returns"
    free = ("settings.data.num_workers", "rlinf.")

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

    def collect(self, context: Context, state: StepState) -> dict[str, str]:
        """Check, sort and publish the tables."""
        name = result_name("returns", context.config.tag)
        outputs, rows = {}, 0
        for dataset, view in views(context.config, context.run):
            path = view / "meta" / name
            require_table(path, COLUMNS, total_frames(view), ("return", "reward"))
            rows += sort_table(path)
            publish(view, dataset.path, [name, "stats.json", "info.json"])
            outputs[str(path)] = file_digest(path)
        state.figures = {"frames": rows}
        return outputs

    def damaged(self, context: Context, state: StepState) -> list[str]:
        """Put a lost published copy back; only the view's own file counts."""
        found = super().damaged(context, state)
        if not found:
            for dataset, view in views(context.config, context.run):
                publish(view, dataset.path, [result_name("returns", context.config.tag)])
        return found
