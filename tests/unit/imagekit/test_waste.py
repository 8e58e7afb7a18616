"""The count of wasted bytes, on layers made by hand."""

import io

from tests.images.support.layers import Entry
from tests.images.support.waste import Ledger


def ledger(**layers: dict[str, int]) -> Ledger:
    made = Ledger()
    for layer, files in layers.items():
        for path, size in files.items():
            made.note(Entry(layer, path, True, size, io.BytesIO()))
    return made


def test_a_file_that_is_replaced_or_removed_is_wasted() -> None:
    made = ledger(low={"/a": 10, "/d/b": 20, "/d/c": 1}, mid={"/a": 11, "/d/.wh.b": 0}, top={"/a": 12})
    assert made.wasted(["low", "mid", "top"]) == {"/a": 21, "/d/b": 20}
    assert made.total(["low", "mid", "top"]) == 54


def test_a_folder_that_is_removed_or_emptied_is_wasted_whole() -> None:
    made = ledger(
        low={"/d/b": 20, "/dd": 2, "/e/f/g": 5, "/e/h": 6}, top={"/.wh.d": 0, "/e/.wh..wh..opq": 0, "/e/h": 7}
    )
    assert made.wasted(["low", "top"]) == {"/d/b": 20, "/e/f/g": 5, "/e/h": 6}


def test_nothing_is_wasted_where_nothing_meets() -> None:
    assert ledger(low={"/a": 1}, top={"/b": 2}).wasted(["low", "top"]) == {}
