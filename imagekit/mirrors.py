"""Which set of mirrors a user wants. Asked before anything is installed, too: standard library only."""

from collections.abc import Iterable

from imagekit.errors import Problem


def pick(name: str, use_mirrors: str, known: Iterable[str]) -> str:
    """Return the name of a set of mirrors, empty for none.

    Args:
        name: MIRROR.
        use_mirrors: USE_MIRRORS; anything but empty and 0 means the first that is known.
        known: names in images.toml, in their order.

    Raises:
        Problem: MIRROR names none of them.
    """
    names = list(known)
    if not name and use_mirrors not in ("", "0"):
        return names[0]
    if name and name not in names:
        raise Problem(f"no mirrors called {name!r}", f"known: {', '.join(names)}", usage=True)
    return name
