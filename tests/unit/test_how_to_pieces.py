"""Python on the pages can be copied: every piece parses, and what a page calls whole runs as it stands."""

from __future__ import annotations

import ast
import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_PIECE = re.compile(r"^ *```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def pieces(page: Path) -> list[str]:
    return _PIECE.findall(page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if pieces(page)], ids=lambda page: page.name)
def test_pieces__are_python(page: Path) -> None:
    for piece in pieces(page):
        read: object = compile(piece, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        assert isinstance(read, ast.Module)


@pytest.mark.parametrize(
    ("page", "count", "declared"),
    [
        ("do-an-effect-once", 3, ["account.pay", "payment.charge"]),
        ("cpu-bound-jobs", 1, ["report.render"]),
        ("hand-over-large-outputs", 2, ["report.make"]),
    ],
)
def test_pieces__that_are_whole_declare_what_they_show(
    monkeypatch: pytest.MonkeyPatch, page: str, count: int, declared: list[str]
) -> None:
    for own in ("psp", "sales"):  # the reader's own
        monkeypatch.setitem(sys.modules, own, types.ModuleType(own))
    module = types.ModuleType("pieces")
    monkeypatch.setitem(sys.modules, "pieces", module)
    found = pieces(ROOT / "docs" / "how-to" / f"{page}.md")

    for piece in found:
        exec(compile(piece, page, "exec"), module.__dict__)  # text of this project

    assert (len(found), sorted(vars(module)["app"].types)) == (count, declared)
