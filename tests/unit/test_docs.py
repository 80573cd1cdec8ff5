"""The checks of tests/doc_checks.py find what they are for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests import doc_checks as docs

#: Apart, so that lint does not look for the pages that are made up here.
DOCS = "docs"

PAGE = """# One page

[good](other.md#the-second-part), [itself](#one-page), [twice](#again-1), [far](https://example.org)

    [in code](nowhere.md)

`[in a span](nowhere.md)`

## Again

## Again
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A page, another one that it links to, and a script."""
    (tmp_path / "docs").mkdir()
    (tmp_path / DOCS / "page.md").write_text(PAGE)
    (tmp_path / DOCS / "other.md").write_text("# Other\n\n## The second `part`\n")
    (tmp_path / "script").write_text(f"# see {DOCS}/other.md\n")
    return tmp_path


def found(tree: Path) -> list[str]:
    """The check's sentences about all files."""
    return docs.broken_links(tree, [path for path in sorted(tree.rglob("*")) if path.is_file()])


def test_sound_links(tree: Path) -> None:
    """Nothing is said of links that resolve, of other sites, or of what stands in code."""
    assert found(tree) == []


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("gone.md", f"{DOCS}/page.md:1: gone.md does not exist"),
        ("other.md#gone", f"{DOCS}/page.md:1: other.md#gone: there is no such heading"),
        ("#again-2", f"{DOCS}/page.md:1: #again-2: there is no such heading"),
        ("../script#line", f"{DOCS}/page.md:1: ../script#line: there is no such heading"),
    ],
)
def test_broken_link(tree: Path, target: str, words: str) -> None:
    """The page, its line, and the link."""
    (tree / DOCS / "page.md").write_text(f"[text]({target})\n{PAGE}")
    assert found(tree) == [words]


def test_page_named_elsewhere(tree: Path) -> None:
    """A comment in a script names a page that was moved."""
    (tree / "script").write_text(f"# see {DOCS}/moved.md\n")
    assert found(tree) == [f"script names {DOCS}/moved.md, which does not exist"]


def test_files_of_a_node(tmp_path: Path) -> None:
    """Each file that overlay/ names needs a row, and each row a file."""
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay/script").write_text(
        'run=$root/run/cairn\nrm -f "$run/a.report.new" /run/x/*.conf\n'
        'cat "$1/var/lib/cairn/prune.$chain" "${state}/not" >"$root/run/y.$2"; # /run/z.\n'
    )
    (tmp_path / "docs/design").mkdir(parents=True)
    page = tmp_path / DOCS / "design/files.md"
    paths = ["/run/cairn", "/run/cairn/a.report", "/run/y.CHAIN", "/run/z"]
    paths += ["/var/lib/cairn/prune.CHAIN"]
    page.write_text("".join(f"| `{path}` | x |\n" for path in paths))
    assert docs.unlisted_paths(tmp_path) == []
    page.write_text("".join(f"| `{path}` | x |\n" for path in (*paths[:-1], "/run/old")))
    assert docs.unlisted_paths(tmp_path) == [
        f"overlay/script names {paths[-1]}, which {DOCS}/design/files.md does not list",
        f"{DOCS}/design/files.md lists /run/old, which overlay/ does not name",
    ]


def test_patches_of_core(tmp_path: Path) -> None:
    """Each patch has one row, alone or in a list, and each row a patch; others' numbers do not."""
    queue = tmp_path / "patches/bitcoind-chainstate"
    queue.mkdir(parents=True)
    for number in (1, 2, 3, 4, 5, 7):
        (queue / f"000{number}-x.patch").touch()
    (tmp_path / "docs/design").mkdir(parents=True)
    page = tmp_path / DOCS / "design/upstream.md"
    page.write_text("| 0001 | a |\n| 0002 to 0004, 0005 | b |\n| 0007 | c |\n| 34937 | d |\n")
    assert docs.unlisted_patches(tmp_path) == []
    page.write_text("| 0001 | a |\n| 0001, 0003 to 0006 | b |\n| 0007 | c |\n")
    assert docs.unlisted_patches(tmp_path) == [
        f"{DOCS}/design/upstream.md has 2 rows for patch 0001",
        f"{DOCS}/design/upstream.md has no rows for patch 0002",
        f"{DOCS}/design/upstream.md has a row for patch 0006, which is not there",
    ]


#: What writes sentences for the screen.
SPEAKERS = (
    *("bin/node-config", "bin/node-status", "bin/node-tune", "lib/cairn/cairn-bitcoind-look"),
    *("lib/cairn/cairn-bitcoind-verdict", "lib/cairn/cairn-data-format"),
    "lib/cairn/cairn-firewall",
    *("lib/cairn/node-conf-end.awk", "lib/cairn/node-conf.sh", "lib/cairn/cairn-emergency"),
    *("lib/cairn/cairn-tor", "lib/cairn/cairn-tor-firewall", "lib/cairn/cairn-wallet"),
    *("bin/node-update", "lib/cairn/cairn-trial", "lib/cairn/cairn-update", "lib/cairn/update.sh"),
    "lib/cairn/update-conf.sh",
    *("lib/cairn/filters.sh", "lib/cairn/prune-target.sh"),
    *("lib/cairn/recovery.sh", "lib/cairn/verdict.tsv"),
    *("lib/cairn/cairn-health-advice.sh", "lib/cairn/cairn-status-warnings.sh"),
    *("lib/cairn/cairn-status-bitcoind.awk", "lib/cairn/datadisk.awk"),
    *("lib/cairn/datadisk-move.sh", "lib/cairn/cairn-datadisk", "lib/cairn/trial-look.sh"),
    *("lib/cairn/update-failures.sh", "lib/cairn/update-ready.sh"),
    "lib/cairn/node-conf-rejected.awk",
)
#: A sentence in quotes, or of the table.
SENTENCE = re.compile(r"""(?:"(?:! )?|^say\t[^\t]+\t)((?:[A-Z]|bitcoind |node\.conf )[^"\n]*)""")


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_sentences_of_the_screen(speaker: str) -> None:
    """The owner's page has the beginning of each sentence that the screen may show."""
    page = re.sub(r"[*`]", "", (ROOT / DOCS / "use/troubleshoot.md").read_text())
    script = (ROOT / "overlay/usr" / speaker).read_text()
    # words after words, and text that is continued: one sentence
    script = re.sub(r' ?" \\\n\s*" ?', " ", script)
    script = re.sub(r'\b(\w+)=("[^"\n]*)"\n\s*\1="\$\1 ', r"\1=\2 ", script)
    for line in script.splitlines():
        # drop() says why a line of node.conf is left out
        if line.lstrip().startswith("#") or "drop(" in line:
            continue
        for sentence in SENTENCE.findall(line):
            beginning = re.split(r"[;:($\\%{]|\. ", sentence)[0].strip(" .")
            if len(beginning) >= 18:  # a sentence, and not a heading or a single word
                assert beginning in page, sentence
