"""Write docs/before-after.md from reports/before-after.json: `python -m tests.images.unfixed.render`."""

import json
import sys
from typing import Any

from imagekit.manifest import ROOT

REPORT = ROOT / "reports" / "before-after.json"
PAGE = ROOT / "docs" / "before-after.md"
HEAD = """# Before and after the NPU fixes

Seen in two images that differ in the fixes only: one built with `make image NO_FIXES=1` (tags `-unfixed`, never
publishable), and the normal one. RLinf from {source}, revision `{revision}`.

Both ran on **simulated** cards: that shows that the code asks the right device, not how a real one behaves. torchcodec
and tensorflow, which the images do not hold, were put there as packages that fail in the documented way. torch's error
texts are those of the build under test; on aarch64 the first one reads `module 'torch._C' has no attribute
'_cuda_setDevice'`, the third `Distributed package doesn't have NCCL built in`.

Made by `tests/images/unfixed`; do not edit.

| what | fix (`npufix explain ID`) | without fixes | with fixes |
|---|---|---|---|
"""


def render(report: dict[str, Any]) -> str:
    """The page."""
    lines = [HEAD.format(**report["rlinf"])]
    for row in report["rows"]:
        fixes = ", ".join(f"`{fix}`" for fix in row["fixes"])
        lines.append(f"| {row['title']} | {fixes} | {cell(row['seen_before'])} | {cell(row['seen_after'])} |\n")
    return "".join(lines)


def cell(text: str) -> str:
    """Text as code in a table's cell."""
    return "`" + text.replace("|", "\\|").replace("`", "'") + "`"


def main() -> int:
    """Write it."""
    if not REPORT.is_file():
        print(f"{REPORT.relative_to(ROOT)} is missing: pytest tests/images/unfixed", file=sys.stderr)
        return 1
    PAGE.write_text(render(json.loads(REPORT.read_text(encoding="utf-8"))), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
