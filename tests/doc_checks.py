"""Checks of the documentation, for tests/run.py's lint and for tests/unit/test_docs.py.

broken_links(ROOT, FILES)  links in Markdown to files or headings that are not there, and pages
                           of docs/ that any other text names and that are not there
unlisted_paths(ROOT)       files below /run and /var/lib/cairn that either overlay/ or
                           docs/design/files.md names, and not both
unlisted_patches(ROOT)     patches on Bitcoin Core that have no row, or more than one, in
                           docs/design/upstream.md, and rows of patches that are not there

Each returns one sentence a problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

#: [text](target) and ![text](target); a target without spaces, a title is not used here.
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"#{1,6} +(.+?) *#* *")
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.(?:md|svg|json|txt)\b")
#: Where a node keeps files of its own. Core's, below /var/lib/bitcoind, are left to Core.
STATE = re.compile(r"/(?:run|var/lib/cairn)/[\w.*/${}-]+")
#: `$run/NAME` and `$state/NAME` of the scripts that shorten the folders so.
SHORT = {
    "$run/": "/run/cairn/",
    "$update_state/": "/var/lib/cairn/update/",
    "$state/": "/var/lib/cairn/",
}


def prose(text: str) -> list[str]:
    """The lines of a page; those of code blocks, fenced or indented, are empty."""
    lines, fence, blank = [], "", True
    for line in text.splitlines():
        mark = re.match(r" {0,3}(```+|~~~+)", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            lines.append("")
            continue
        indented = line.startswith(("    ", "\t")) and blank
        lines.append("" if fence or indented else line)
        blank = not line.strip() or indented
    return lines


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as forges make them."""
    found: dict[str, int] = {}
    names = set()
    for line in prose(text):
        if not (heading := HEADING.fullmatch(line)):
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = found.get(name, 0)
        found[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def broken_links(root: Path, files: Iterable[Path]) -> list[str]:
    """Sentences about links and named pages that lead nowhere; files are below root."""
    problems = []
    for file in files:
        if file.is_symlink() or file.suffix in {".patch", ".xz", ".json", ".svg"}:
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        name = file.relative_to(root)
        problems += [
            f"{name} names {page}, which does not exist"
            for page in sorted(set(PAGE.findall(text)))
            if not (root / page).is_file()
        ]
        if file.suffix != ".md":
            continue
        for number, line in enumerate(prose(text), 1):
            for target in LINK.findall(CODE_SPAN.sub("``", line)):
                if re.match(r"[a-z][a-z+.-]*:", target):
                    continue
                path, _, anchor = unquote(target).partition("#")
                page = (file.parent / path).resolve() if path else file
                if not page.exists():
                    problems.append(f"{name}:{number}: {target} does not exist")
                elif anchor and (page.suffix != ".md" or anchor not in anchors(page.read_text())):
                    problems.append(f"{name}:{number}: {target}: there is no such heading")
    return problems


def state_paths(root: Path) -> dict[str, Path]:
    """Files below /run and /var/lib/cairn that overlay/ names, and where it names them.

    A variable at the end of a name is a chain's: prune.CHAIN.
    """
    paths: dict[str, Path] = {}
    for file in sorted((root / "overlay").rglob("*")):
        if file.is_symlink() or not file.is_file():
            continue
        text = file.read_text(errors="replace")
        for short, long in SHORT.items():
            text = text.replace(short, long)
        for found in STATE.findall(text):
            path = re.sub(r"\$\w*$|\$\{\w*\}?$|\$\(.*$", "CHAIN", found).rstrip(".}")
            if not re.search(r"[{*]|/$", path):
                paths.setdefault(path.removesuffix(".new"), file)
    return paths


def unlisted_paths(root: Path) -> list[str]:
    """Sentences about such files that are in one place only: overlay/, or the page's tables."""
    page = "docs/design/files.md"
    rows = re.findall(r"^\| `(/[^`\s]+)` \|", (root / page).read_text(), re.MULTILINE)
    used = state_paths(root)
    return [
        f"{file.relative_to(root)} names {path}, which {page} does not list"
        for path, file in used.items()
        if path not in rows
    ] + [f"{page} lists {path}, which overlay/ does not name" for path in rows if path not in used]


def unlisted_patches(root: Path) -> list[str]:
    """Sentences about patches on Bitcoin Core, and rows about them, of which there is one only.

    A row's first cell is `0001`, `0004, 0005`, or `0013 to 0015`.
    """
    page = "docs/design/upstream.md"
    text = (root / page).read_text()
    rows: list[int] = []
    for cell in re.findall(r"^\| (\d{4}(?:(?:, | to )\d{4})*) \|", text, re.MULTILINE):
        for first, last in re.findall(r"(\d{4})(?: to (\d{4}))?", cell):
            rows += range(int(first), int(last or first) + 1)
    queue = root / "patches/bitcoind-chainstate"
    patches = sorted(int(path.name[:4]) for path in queue.glob("*.patch"))
    return [
        f"{page} has {rows.count(number) or 'no'} rows for patch {number:04}"
        for number in patches
        if rows.count(number) != 1
    ] + [
        f"{page} has a row for patch {number:04}, which is not there"
        for number in rows
        if number not in patches
    ]
