"""The list of rules, filled by the `rule` decorator when the modules of `rlinf_npu.doctor.rules` are imported."""

from collections.abc import Callable

from rlinf_npu.doctor.model import BOTH, Check, Rule, Severity

_RULES: dict[str, Rule] = {}


def rule(
    id: str,
    title: str,
    *,
    meaning: str,
    fix: str,
    link: str,
    where: str = BOTH,
    needs: tuple[str, ...] = (),
    severity: Severity = Severity.ERROR,
    imports: bool = False,
) -> Callable[[Check], Check]:
    """Register a check as a rule.

    Raises:
        ValueError: the id is taken.
    """

    def register(check: Check) -> Check:
        if id in _RULES:
            raise ValueError(f"two rules are called {id}")
        _RULES[id] = Rule(id, title, where, needs, severity, meaning, fix, link, check, imports)
        return check

    return register


def all_rules() -> list[Rule]:
    """Every rule, in the order of their modules."""
    from rlinf_npu.doctor import rules  # noqa: F401  (importing it is what fills the list)

    return list(_RULES.values())
