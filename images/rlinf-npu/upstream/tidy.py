"""Look at the environment that this is run in, and take the build's network out of it. Standard library only.

tidy.py site                  print its site-packages
tidy.py match PATTERN...      print the installed packages that match one of the patterns
tidy.py origins               where a package was installed from GitHub through a mirror, say GitHub
tidy.py promised NAME==VERSION...  exit 1 when one is missing or of another release
"""

import base64
import csv
import fnmatch
import hashlib
import importlib.metadata
import io
import re
import sys
import sysconfig
from pathlib import Path

SITE = Path(sysconfig.get_path("purelib"))
# What install.sh --use-mirror puts before GitHub's address.
MIRROR = re.compile(r"https?://[^\s\"]+/(?=https://github\.com/)")


def installed() -> dict[str, str]:
    """Return version by normalised name of what is in this environment's site-packages."""
    found = importlib.metadata.distributions(path=[str(SITE)])
    return {re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower(): each.version for each in found}


def match(patterns: list[str]) -> list[str]:
    """Return the installed packages that match one of the patterns."""
    return sorted(name for name in installed() if any(fnmatch.fnmatch(name, pattern) for pattern in patterns))


def clean_origins(site: Path) -> None:
    """Rewrite each direct_url.json that names a mirror, with its line in RECORD."""
    for path in sorted(site.glob("*.dist-info/direct_url.json")):
        text = path.read_text(encoding="utf-8")
        clean = MIRROR.sub("", text)
        if clean != text:
            path.write_text(clean, encoding="utf-8")
            _record(path, site)


def _record(path: Path, site: Path) -> None:
    """Bring the line of a rewritten file in its package's RECORD up to date."""
    record = path.with_name("RECORD")
    digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    name = path.relative_to(site).as_posix()
    rows = list(csv.reader(io.StringIO(record.read_text(encoding="utf-8"))))
    fresh = [[name, f"sha256={digest}", str(path.stat().st_size)] if row and row[0] == name else row for row in rows]
    with record.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(fresh)


def broken_promises(promised: list[str]) -> list[str]:
    """Return a line for each NAME==VERSION that is not what is installed; a local part (+cpu) does not matter."""
    have, lines = installed(), []
    for requirement in promised:
        name, _, version = requirement.partition("==")
        found = have.get(name, "nothing")
        if found.partition("+")[0] != version:
            lines.append(f"error: RLinf's installer left {name} {found}, images.toml promises {version}")
    return lines


def main(command: str, arguments: list[str]) -> int:
    """Run one command; return the exit code."""
    if command == "site":
        print(SITE)
    elif command == "match":
        sys.stdout.writelines(f"{name}\n" for name in match(arguments))
    elif command == "origins":
        clean_origins(SITE)
    elif command == "promised" and (lines := broken_promises(arguments)):
        print(*lines, "  fix: build.py bump, or INSTALLER=lock", sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
