"""Parts that Cairn's scripts share: heads say who has them, and no name is taken twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.paths import ROOT

LIBRARY = ROOT / "overlay/usr/lib/cairn"
SHELL = {
    path.name: path.read_text()
    for path in (*LIBRARY.iterdir(), *(ROOT / "overlay/usr/bin").iterdir())
    if path.suffix in ("", ".sh")
}
PARTS = sorted(name for name in SHELL if name.endswith(".sh"))
PROGRAMS = sorted(name for name in SHELL if not name.endswith(".sh"))


def sourced(name: str) -> set[str]:
    """The parts that a script sources itself."""
    return {Path(found).name for found in re.findall(r"# shellcheck source=(\S+)", SHELL[name])}


def all_sourced(name: str) -> set[str]:
    """Those, and what they source."""
    return set().union(*({part} | all_sourced(part) for part in sourced(name)))


def functions(name: str) -> set[str]:
    """The functions that a script defines."""
    return set(re.findall(r"(?m)^(\w+)\(\) [{(]", SHELL[name]))


@pytest.mark.parametrize("part", PARTS)
def test_the_head_names_who_sources_it(part: str) -> None:
    """All of them, where it names programs at all."""
    lines = SHELL[part].split("\n\n", maxsplit=1)[0].splitlines()
    head = " ".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
    found = re.search(r"Sourced by ((?:[^.]|\.(?=\w))*)", head)
    if not found or not re.search(r"\b(node|cairn)-[a-z]", found[1]):
        return  # "most scripts", "what shows the version"
    users = {name for name in SHELL if part in sourced(name)}
    if part.startswith("boot-"):  # by the board's name, in slot_loader
        users = {name for name in PROGRAMS if "\nslot_loader" in SHELL[name]}
    assert not [name for name in sorted(users) if name not in found[1]]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_function_is_defined_twice(program: str) -> None:
    """The later one would take the place of the other, also for who relies on that."""
    names = [name for part in sorted(all_sourced(program)) for name in functions(part)]
    names += functions(program)
    assert not {name for name in names if names.count(name) > 1}
