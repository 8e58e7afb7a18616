"""The two variables that say which cards a process or container gets."""

import re
from dataclasses import dataclass, field

RUNTIME_VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"  # read by CANN in the process; counts the cards it sees
CONTAINER_VARIABLE = "ASCEND_VISIBLE_DEVICES"  # read by Ascend Docker Runtime and device plugins; the host's numbers

_NUMBER = re.compile(r"\d+$")
_HOST_ITEM = re.compile(r"(?:Ascend\w+-)?(\d+)(?:-(\d+))?$")
_NOT_USED = {"void", "none", "all", "no-one"}


@dataclass
class Visible:
    """A variable's value taken apart."""

    text: str
    ids: list[int] = field(default_factory=list)
    garbage: list[str] = field(default_factory=list)

    @property
    def duplicates(self) -> list[int]:
        """Numbers that occur more than once."""
        return sorted({number for number in self.ids if self.ids.count(number) > 1})

    @property
    def ascending(self) -> bool:
        """Whether the numbers are sorted."""
        return self.ids == sorted(self.ids)


def parse(variable: str, text: str) -> Visible:
    """Take a value apart. CANN reads plain numbers and commas only; the container's variable has ranges "
    "and names too."""
    value = Visible(text)
    if variable == CONTAINER_VARIABLE and text.strip().lower() in _NOT_USED:
        return value
    for item in text.split(","):
        strict = _NUMBER.match(item)
        loose = _HOST_ITEM.match(item.strip()) if variable == CONTAINER_VARIABLE else None
        if strict:
            value.ids.append(int(item))
        elif loose and int(loose[2] or loose[1]) >= int(loose[1]):
            value.ids.extend(range(int(loose[1]), int(loose[2] or loose[1]) + 1))
        else:
            value.garbage.append(item)
    return value
