"""Rules for the shape of the repository's text, which tests/run.py checks in its lint stage.

`wide_lines` finds lines that are too wide, `python_files` the Python programs without a suffix,
`robot_logic` what is logic in Robot's tables.
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
    "*.png": "not text",
    "*.xz": "not text",
    "*/go.sum": "written by Go",
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
#: What a cell of a Robot table must not be, or have in it, and what to call it. A test is a list of
#: sentences; what has to be decided, repeated or computed is a keyword of tests/robot/lib.
ROBOT_CELLS = [
    (r"(FOR|WHILE|IF|ELSE|ELSE IF|TRY|EXCEPT|FINALLY)$", "a control structure"),
    (r"(?i)(builtin\.)?(evaluate|set ?variable ?if)$", "a computation"),
    (r"(?i)(builtin\.)?run ?keyword ?(and ?return ?)?(if|unless)$", "a decision"),
    (r"(?i)(builtin\.)?run ?keyword ?and ?(ignore|return ?status|expect)", "a decision"),
    (r"(?i)(builtin\.)?wait ?until ?keyword ?succeeds$", "a loop"),
    (r".*[$@&]\{\{", "Python"),
    (r".*[$@&]\{[^{}]*[.()+*/]|.*[$@&]\{[$@&]\{[^{}]*\} *[-+*/%]", "Python"),
    (r".* (\|\|?|&&) |.*\$\(|.*; ", "more than one command"),
    (r"(.* )?(awk|sed|perl|python3?|xargs) ", "a program in a line"),
]
#: Lines with logic that may stay: path, the line's cells with four blanks between, and why.
ROBOT_ALLOWED = {
    (
        "tests/robot/powerloss.robot",
        "Run Keyword If    ${TO_THE_TOP}    Go On To The Top",
    ): "a campaign (tests/powerloss) asks for it; what it asks for is a list of keywords, too",
}


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


def robot_logic(root: Path, files: list[Path]) -> list[str]:
    """Lines of Robot's tables that decide, repeat or compute something."""
    found = []
    for path in files:
        if path.suffix not in {".robot", ".resource"}:
            continue
        name, prose = str(path.relative_to(root)), False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            cells = re.split(r" {2,}|\t+", line.strip().partition("  # ")[0])
            if cells[0] == "...":
                del cells[0]
            else:
                prose = cells[0] in ("Documentation", "[Documentation]")
            if (
                prose
                or line.lstrip().startswith("#")
                or (name, "    ".join(cells)) in ROBOT_ALLOWED
            ):
                continue
            kinds = [kind for cell in cells for form, kind in ROBOT_CELLS if re.match(form, cell)]
            if kinds:
                found.append(f"{name}:{number} has {kinds[0]}; make a keyword in tests/robot/lib")
    return found
