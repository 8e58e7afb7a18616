"""The `smoke` command."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from rlinf_npu.recap.errors import RecapError
from rlinf_npu.smoke.report import Report

app = typer.Typer(
    help="Prove that this image can run RECAP: tiny fixtures, the four steps, one card.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def say(text: str) -> None:
    """Print progress."""
    print(f"smoke: {text}", flush=True)


@app.command()
def fixtures(
    folder: Annotated[Path, typer.Argument(help="an empty or new folder")],
    force: Annotated[bool, typer.Option(help="make them again")] = False,
) -> None:
    """Make the tiny test fixtures: datasets with real mp4, models, tokenizers, and a recap.yaml."""
    from rlinf_npu.smoke.fixtures import make_fixtures

    try:
        made = make_fixtures(folder, say, force)
    except (FileExistsError, RecapError) as error:
        print(f"smoke: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    print(f"recap run --config {made.config}")


@app.command()
def run(
    workdir: Annotated[
        Path | None, typer.Option(help="where to work; default: a new folder in the temporary one")
    ] = None,
    timeout: Annotated[float, typer.Option(help="seconds for everything")] = 900,
    cards: Annotated[int | None, typer.Option(min=1, help="default: two, or one where there is only one")] = None,
) -> None:
    """Run the four steps on tiny fixtures and check every output by content."""
    from rlinf_npu.smoke.run import Smoke

    folder = workdir or Path(tempfile.mkdtemp(prefix="rlinf-npu-smoke-"))
    try:
        report = Smoke(folder, say, timeout, cards).run()
    except (FileExistsError, RecapError) as error:
        print(f"smoke: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    report.show()
    print(f"{folder}/report.json")
    raise typer.Exit(1 if report.failed else 0)


@app.command()
def quick(device: Annotated[str, typer.Option(help="card to try")] = "npu:0") -> None:
    """Import, allocate and train a few steps on one card."""
    from rlinf_npu.smoke.calls import simulated
    from rlinf_npu.smoke.quick import quick as try_card

    with tempfile.TemporaryDirectory() as scratch:
        report = Report("smoke quick", simulated(Path(scratch)), try_card(device))
    report.show()
    raise typer.Exit(1 if report.failed else 0)


def main() -> None:
    """Entry point."""
    app()


if __name__ == "__main__":
    main()
