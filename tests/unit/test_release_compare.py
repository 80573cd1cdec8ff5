"""support/release-compare: where two images, bundles or folders differ."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import captured, program

PROGRAM = str(ROOT / ".venv/bin/python"), str(ROOT / "support/release-compare")


def compare(a: Path, b: Path, tools: Path | None = None) -> tuple[int, list[str], str]:
    """Exit status, the table's rows, and what went wrong; programs in `tools` come first."""
    path = f"{f'{tools}:' if tools else ''}{os.environ['PATH']}"
    done = captured(*PROGRAM, str(a), str(b), env={**os.environ, "PATH": path})
    return done.returncode, done.stdout.splitlines(), done.stderr


def image(tmp_path: Path, name: str, files: dict[str, str], root: dict[str, str]) -> Path:
    """An image as board/common makes it, but small, with those files in it."""
    work = tmp_path / f"work-{name}"
    work.mkdir()
    for file in ("genimage.cfg", "boot-partition.sh"):
        text = (ROOT / "board/common" / file).read_text()
        (work / file).write_text(text.replace("256M", "40M").replace("512M", "1M"))
    for folder, texts in (("files/boot", files), ("root", root)):
        for file, text in texts.items():
            path = work / folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        # folders, too, as post-image.sh does
        for path in (work / folder).rglob("*"):
            os.utime(path, (1_700_000_000, 1_700_000_000))
    (work / "input").mkdir()
    erofs = ["mkfs.erofs", "-T0", "-U", "6f1d2c1e-0ca1-4b0e-9a67-c0ffee000001"]
    subprocess.run(
        [*erofs, str(work / "input/root.erofs"), str(work / "root")],
        check=True,
        capture_output=True,
    )
    (tmp_path / name).mkdir()
    command = ["genimage", "--config", str(work / "genimage.cfg")]
    command += ["--rootpath", str(work / "files"), "--inputpath", str(work / "input")]
    command += ["--outputpath", str(tmp_path / name), "--tmppath", str(work / "tmp")]
    environment = os.environ | {
        "CAIRN_IMAGE": "cairn-x.img",
        "CAIRN_ROOT_TYPE": "b921b045-1df0-41c3-af44-4c6f280d3fae",
        "SOURCE_DATE_EPOCH": "1700000000",
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
    }
    boot = ["sh", str(work / "boot-partition.sh"), str(work / "files/boot")]
    boot.append(str(work / "input/boot.vfat"))
    for words in (boot, command):
        subprocess.run(words, check=True, capture_output=True, env=environment)
    return tmp_path / name


BOOT = {"node.conf": "# settings\n", "slot-a/linux": "kernel " * 900}
FILES = {"usr/bin/bitcoind": "program " * 1000, "etc/hostname": "cairn\n"}


def test_images(tmp_path: Path) -> None:
    """Each file that differs is named with its partition; xz makes no difference."""
    a = image(tmp_path, "a", BOOT, FILES)
    b = image(tmp_path, "b", BOOT, FILES)
    assert compare(a, b) == (0, ["the same: 1 files"], "")
    changed = FILES | {"usr/bin/bitcoind": "program " * 600 + "Program " * 400}
    c = image(tmp_path, "c", BOOT | {"slot-a/linux": "Kernel " * 900}, changed)
    assert compare(a / "cairn-x.img", b / "cairn-x.img")[0] == 0
    status, rows, error = compare(a, c)
    assert (status, error) == (1, "")
    found = [row.split(maxsplit=2) for row in rows]
    assert [row[:2] for row in found] == [
        ["cairn-x.img", "boot"],
        ["cairn-x.img", "boot:/slot-a/linux"],
        ["cairn-x.img", "root-a"],
        ["cairn-x.img", "root-a:/usr/bin/bitcoind"],
    ]
    assert found[1][2] == "first at byte 0, 900 bytes differ"
    assert found[3][2] == "first at byte 4800, 400 bytes differ"
    for folder in (a, c):
        subprocess.run(["xz", "-0", str(folder / "cairn-x.img")], check=True)
    assert [row.split(maxsplit=2)[1:] for row in compare(a, c)[1]] == [row[1:] for row in found]


def test_names_modes_and_links(tmp_path: Path) -> None:
    """What has no other bytes can differ, too: a mode, a missing file."""
    a = image(tmp_path, "a", BOOT, FILES)
    b = image(tmp_path, "b", BOOT | {"slot-a/more": "x"}, FILES)
    status, rows, _ = compare(a, b)
    assert status == 1
    assert rows[-1].split(maxsplit=2)[1:] == ["boot:/slot-a/more", "only in B"]


def test_bundles(tmp_path: Path) -> None:
    """A signature of another time is told from another content."""

    def bundle(name: str, content: bytes, signature: bytes) -> Path:
        path = tmp_path / f"{name}.raucb"
        path.write_bytes(content + signature + len(signature).to_bytes(8, "big"))
        return path

    a = bundle("a", b"hsqs" * 2000, b"monday")
    assert compare(a, bundle("b", b"hsqs" * 2000, b"tuesday"))[1] == [
        "a.raucb  signature  only the signature differs"
    ]
    assert compare(a, bundle("c", b"hsqs" * 1999 + b"HSQS", b"monday"))[1] == [
        "a.raucb  what is signed  first at byte 7996, 4 bytes differ"
    ]
    assert compare(a, bundle("d", b"hsqs" * 1999, b"monday"))[1] == [
        "a.raucb  what is signed  8000 and 7996 bytes"
    ]


def test_folders(tmp_path: Path) -> None:
    """A file that only one has, and one that is longer; diffoscope is asked if it is there."""
    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        folder.mkdir()
        (folder / "same").write_text("same")
        (folder / "notes.md").write_text("long" if folder == a else "longer")
    (a / "left").touch()
    (b / "right").touch()
    expected = [
        "left                only in A",
        "notes.md            first at byte 4, 2 bytes differ, 4 and 6 bytes long",
        "right               only in B",
    ]
    tools = tmp_path / "tools"
    tools.mkdir()
    assert [" ".join(row.split()) for row in compare(a, b)[1][:3]] == [
        " ".join(row.split()) for row in expected
    ]
    program(tools / "diffoscope", 'shift 4; echo "asked about $*"')
    assert compare(a, b, tools)[1][-1] == f"asked about {a}/notes.md {b}/notes.md"


@pytest.mark.parametrize("fault", ["missing", "mixed", "damaged", "one"])
def test_what_cannot_be_read(tmp_path: Path, fault: str) -> None:
    """One sentence, and a status that is not that of a difference."""
    a, b = tmp_path / "a.img.xz", tmp_path / "b.img.xz"
    a.write_bytes(b"\xfd7zXZ\x00")
    b.write_bytes(b"\xfd7zXZ\x00\x00")
    if fault == "missing":
        a.unlink()
    elif fault == "mixed":
        b = tmp_path
    command = [*PROGRAM, str(a), *([] if fault == "one" else [str(b)])]
    done = captured(*command)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("release-compare: ")
    assert done.stdout == ""
