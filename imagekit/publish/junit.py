"""JUnit files: pytest's, as they come and as they are read again from a registry."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Literal

from imagekit.registry import Altered


@dataclass(frozen=True)
class Outcome:
    """One test. `test` is `package.module.function[parameters]`; an error counts as a failure."""

    test: str
    result: Literal["passed", "failed", "skipped"]
    reason: str = ""


def outcomes(data: bytes) -> list[Outcome]:
    """Read a JUnit file.

    Raises:
        Altered: it is none.
    """
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:  # pytest writes none; they are what XML attacks are made of
        raise Altered("a JUnit file with declarations is not from pytest", "gate the image again")
    try:
        tree = ET.fromstring(data)  # noqa: S314  (declarations are refused above)
    except ET.ParseError as error:
        raise Altered(f"a JUnit file cannot be read: {error}", "gate the image again") from None
    return [_outcome(case) for case in tree.iter("testcase")]


def _outcome(case: ET.Element) -> Outcome:
    test = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
    for kind in ("failure", "error"):
        if (found := case.find(kind)) is not None:
            return Outcome(test, "failed", found.get("message", ""))
    if (found := case.find("skipped")) is not None:
        return Outcome(test, "skipped", found.get("message", ""))
    return Outcome(test, "passed")
