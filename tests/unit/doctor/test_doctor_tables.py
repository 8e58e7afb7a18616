"""The tables are complete, sourced and consistent."""

import re
from pathlib import Path

from doctor_machine import MANIFEST, facts
from rlinf_npu.doctor import tables, versions
from rlinf_npu.doctor.factsview import facts_view
from rlinf_npu.doctor.model import Severity
from rlinf_npu.doctor.needs import NEEDS
from rlinf_npu.doctor.registry import all_rules

FACTS = facts_view(facts())
URL = re.compile(r"https://[\w.-]+/\S+$")


def test_every_code_has_meaning_advice_and_a_page() -> None:
    for code in tables.codes().values():
        assert code.meaning and code.fix and code.name, code.code
        assert URL.match(tables.sources()[code.source]), code.code
        assert all(URL.match(report) for report in code.seen), code.code
    for family in tables.families():
        assert URL.match(tables.sources()[family.source])


def test_no_source_is_unused() -> None:
    used = {entry.source for entry in [*tables.codes().values(), *tables.families()]}
    assert used == set(tables.sources())


def test_codes_that_people_meet_are_there() -> None:
    wanted = ["-8005", "-8020", "EJ0003", "EI0006", "EI0014", "107001", "207001", "507033", "507899", "E39007"]
    assert set(wanted) <= set(tables.codes())


def test_the_images_own_versions_are_a_listed_combination() -> None:
    mine = MANIFEST["versions"]
    row = versions.cann_row(mine["cann"], FACTS.compatibility)
    assert row and mine["torch_npu"] in row.torch_npu[mine["torch"]]
    assert versions.at_least(mine["driver"], row.oldest)
    assert mine["chip"] in {chip.tag for chip in FACTS.chip}


def test_rows_are_sourced() -> None:
    for row in FACTS.compatibility:
        assert row.sources and all(URL.match(source) for source in row.sources)


def test_chip_names_do_not_overlap() -> None:
    names = {
        "910B3": "910b",
        "910B4-1": "910b",
        "Ascend910_9392": "a3",
        "310P3": "310p",
        "910A": "910",
        "910ProB": "910",
    }
    for name, tag in names.items():
        assert [chip.tag for chip in FACTS.chip if re.match(chip.names, name)] == [tag], name


def test_rules_are_complete() -> None:
    rules = all_rules()
    assert len(rules) > 45
    for rule in rules:
        assert set(rule.needs) <= set(NEEDS), rule.id
        assert rule.meaning and rule.fix and URL.match(rule.link), rule.id
        assert rule.check.__doc__, rule.id
        assert rule.severity in Severity


def test_versions_sort_as_people_read_them() -> None:
    ordered = ["24.1.rc1", "24.1.RC2", "24.1.0", "24.1.0.1", "25.0.RC1", "25.3.rc1", "25.3.rc1.2", "25.3.0", "25.5.1"]
    assert sorted(ordered, key=versions.key) == ordered
    assert versions.at_least("v0.13.1", "0.13") and not versions.at_least("0.9.1", "0.13")


def test_a_series_row_serves_its_patch_releases_and_nothing_else() -> None:
    assert (
        versions.cann_row("9.0.1", FACTS.compatibility) == versions.cann_row("9.0.0", FACTS.compatibility) is not None
    )
    assert versions.cann_row("90.1", FACTS.compatibility) is None
    assert (
        versions.cann_row("8.3.rc1", FACTS.compatibility)
        == versions.cann_row("8.3.RC1", FACTS.compatibility)
        is not None
    )


def test_fixes_named_in_signatures_exist() -> None:
    """Read as text: the doctor does not import npufix."""
    folder = Path(tables.__file__).parents[1] / "npufix/fixes"
    known = {found[1] for path in folder.glob("*.py") if (found := re.search(r'^ID = "(.+)"', path.read_text(), re.M))}
    named = {fix for signature in tables.signatures() for fix in signature.npufix}
    assert known and named and named <= known


def test_signatures_are_sourced() -> None:
    for signature in tables.signatures():
        assert URL.match(signature.link) and signature.meaning and signature.fix
