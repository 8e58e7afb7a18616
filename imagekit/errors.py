"""The one exception a user is meant to see."""


class Problem(Exception):
    """Something is wrong, said in one line, with what to do about it.

    `usage` problems exit with 2 (the command was called wrongly), all others with 1.
    """

    def __init__(self, what: str, fix: str = "", *, usage: bool = False) -> None:
        """Keep `what` is wrong and the `fix` apart, so that the terminal can show them apart."""
        super().__init__(f"{what}; {fix}" if fix else what)
        self.what, self.fix, self.usage = what, fix, usage

    @property
    def exit_code(self) -> int:
        """2 for usage, 1 for failure."""
        return 2 if self.usage else 1
