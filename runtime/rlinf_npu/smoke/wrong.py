"""The one exception of the checks."""


class Wrong(Exception):
    """An output is not what it must be."""


def require(condition: bool, text: str) -> None:
    """Raise Wrong unless the condition holds."""
    if not condition:
        raise Wrong(text)
