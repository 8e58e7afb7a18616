"""docs/npufix.md shows the catalogue as it is."""

from pathlib import Path

from rlinf_npu.npufix import report

PAGE = Path(__file__).parents[3] / "docs/npufix.md"


def test_page_holds_the_catalogue() -> None:
    assert report.catalogue_markdown() in PAGE.read_text(encoding="utf-8"), "run `npufix list --markdown` and paste it"
