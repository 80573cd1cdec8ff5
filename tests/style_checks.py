"""Rules for the shape of the repository's text, which tests/run.py checks in its lint stage.

`wide_lines` finds lines that are too wide, `python_files` the Python programs without a suffix.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

#: Characters in a line of any language; a tab counts as one.
COLUMNS_MAX = 100
#: Files that are exempt as a whole: pattern of the path, and why.
EXEMPT_FILES = {
    "*.patch": "text of upstream's files",
    "*.py": "ruff checks these (E501)",
    "*.json": "data, one record a line",
    "*.svg": "drawn by a script",
    "*.xz": "not text",
    "*.hash": "Buildroot's format: hash and file name in one line",
    "docs/reports/*": "generated, with tables of figures",
    "board/*/cmdline": "the kernel's command line is one line",
    "overlay/etc/fstab": "a mount is one line",
}
#: Lines that are exempt: pattern of the path, of the line, and why.
EXEMPT_LINES = [
    ("*.tsv", r".*\t", "a row of a table is one line"),
    ("*.md", r"\s*\|", "a row of a table is one line"),
    ("*.md", r"    \S", "an indented block shows a line as it is"),
    ("Makefile", r"[\w-]+:.* ## ", "`make help` prints the end of this line"),
    ("*/configs/*", r'BR2_\w+=".*"$', "Kconfig's values are one line"),
    ("*/sshd_config", r"PermitOpen ", "sshd uses only the first of several lines"),
]


def splittable(line: str) -> bool:
    """Whether a line has no single word that is too long by itself, such as an address."""
    words = re.sub(r"\]\([^)]*\)|`[^`]*`", lambda code: code[0].replace(" ", "_"), line).split()
    return all(len(word) < COLUMNS_MAX - 10 for word in words)


def wide_lines(root: Path, files: list[Path]) -> list[str]:
    """Lines wider than the limit, other than those that cannot be wrapped."""
    wide = []
    for path in files:
        name = str(path.relative_to(root))
        if path.is_symlink() or any(fnmatch(name, pattern) for pattern in EXEMPT_FILES):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if len(line) <= COLUMNS_MAX or not splittable(line):
                continue
            if any(fnmatch(name, glob) and re.match(form, line) for glob, form, _ in EXEMPT_LINES):
                continue
            wide.append(f"{name}:{number} has {len(line)} columns, {COLUMNS_MAX} are the limit")
    return wide


def python_files(files: list[Path]) -> list[Path]:
    """Python programs without a suffix, which ruff does not find by itself."""
    found = []
    for path in files:
        if path.suffix or path.is_symlink():
            continue
        with path.open("rb") as stream:
            first = stream.readline()
        if first.startswith(b"#!") and b"python" in first:
            found.append(path)
    return found
