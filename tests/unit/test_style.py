"""The rules for width, programs without a suffix and Robot's tables find what breaks them."""

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


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    FOR    ${x}    IN    a    b", "a control structure"),
        ("    IF    ${x}    RETURN    up", "a control structure"),
        ("    TRY", "a control structure"),
        ("    ${x}=    Evaluate    1 + 1", "a computation"),
        ("    ${x}=    BuiltIn.Evaluate    1 + 1", "a computation"),
        ("    Run Keyword If    ${x}    Guest    true", "a decision"),
        ("    Run Keyword And Ignore Error    Guest    true", "a decision"),
        ("    Wait Until Keyword Succeeds    9 s    1 s    Node Is Up", "a loop"),
        ("    RETURN    ${{ 1 + 1 }}", "Python"),
        ("&{CARD}    &{{dict(a=1)}}", "Python"),
        ("    Log    ${x.strip()}", "Python"),
        ("    Log    ${${x} + 5}", "Python"),
        ("    Guest    cat /x | grep -q y", "more than one command"),
        ("    Guest    test -e /x && test -e /y", "more than one command"),
        ("    Guest    kill $(pidof x)", "more than one command"),
        ("    ...    a; b", "more than one command"),
        ("    Guest    awk '{ print }' /x", "a program in a line"),
        ("    Guest    nice sed p /x", "a program in a line"),
        ("    Guest    test -e ${X}/a.b", ""),
        ("    Node    getblock    ${hash}[0]    text=(a|b)", ""),
        ("    Should Be True    ${mib} > 6000    # a; b", ""),
        ("    [Documentation]    This; that. IF not    FOR", ""),
        ("    # a | b", ""),
        ("Test Teardown    Run Keyword If Test Failed    Show What The Node Said", ""),
        ("Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder", ""),
    ],
)
def test_robot_logic(tmp_path: Path, line: str, kind: str) -> None:
    """What decides, repeats or computes is found; a sentence, prose and a comment are not."""
    path = tmp_path / "a.robot"
    path.write_text(f"Name\n{line}\n")
    found = style.robot_logic(tmp_path, [path])
    assert found == ([f"a.robot:2 has {kind}; make a keyword in tests/robot/lib"] if kind else [])


def test_robot_logic_in_what_is_no_suite(tmp_path: Path) -> None:
    """Only Robot's files are looked at; those that go on with a documentation are prose."""
    (tmp_path / "a.py").write_text("    FOR    x\n")
    (tmp_path / "a.resource").write_text("Documentation    One;\n...    IF    two; three\n")
    assert style.robot_logic(tmp_path, [tmp_path / "a.py", tmp_path / "a.resource"]) == []


def test_robot_logic_that_is_allowed_is_there(root: Path) -> None:
    """Each line that may stay is one of the file that it is named with."""
    for name, line in style.ROBOT_ALLOWED:
        assert line in (root / name).read_text()
