"""The rules for width and for programs without a suffix find what breaks them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import style_checks as style

#: Apart, so that lint does not look for the page that is made up here.
DOCS = "docs"
#: One column too many, in words that can be wrapped.
WIDE = "word " * 20 + "w"


@pytest.mark.parametrize(
    ("name", "line", "found"),
    [
        ("script", WIDE, True),
        ("script", WIDE[1:], False),
        ("page.md", WIDE, True),
        ("page.md", f"| {WIDE} |", False),
        ("page.md", f"see `{WIDE}`", False),
        ("page.md", "https://example.org/" + "a" * 100, False),
        ("table.tsv", f"a\t{WIDE}", False),
        ("table.tsv", f"# {WIDE}", True),
        ("Makefile", f"all: ## {WIDE}", False),
        ("Makefile", f"\t{WIDE}", True),
        ("figures.json", WIDE, False),
        (f"{DOCS}/reports/page.md", WIDE, False),
    ],
)
def test_width(tmp_path: Path, name: str, line: str, found: bool) -> None:
    """A line that is too wide, unless its format cannot be wrapped."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"short\n{line}\n")
    wide = style.wide_lines(tmp_path, [path])
    assert bool(wide) == found
    assert not wide or wide[0].startswith(f"{name}:2 has ")


def test_python_without_suffix(tmp_path: Path) -> None:
    """By the first line; not a shell script, and not a file that ruff finds by itself."""
    texts = {"program": "#!/usr/bin/env python3", "script": "#!/bin/sh", "a.py": "#!/x/python"}
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert style.python_files([tmp_path / name for name in texts]) == [tmp_path / "program"]
