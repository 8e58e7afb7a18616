"""Split a text into lines as Python and bash count them (str.splitlines knows form feeds and more as line ends)."""

import io


def split_lines(text: str, keepends: bool = False) -> list[str]:
    r"""Lines of a text; only \n, \r\n and \r end one."""
    kept = list(io.StringIO(text, newline=""))
    return kept if keepends else [line.rstrip("\r\n") for line in kept]
