"""cairn-data-format: the file system of the data partition, before it is made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import program

SCRIPT = ROOT / "overlay/usr/lib/cairn/cairn-data-format"
PARTITION = "[Partition]\nType=linux-generic\nLabel=data\nFormat=ext4\nSizeMinBytes=512M\n"


def run(root: Path, text: str | None, shell: str, data: str = "") -> tuple[str, str]:
    """Runs it; `data` is the type of an existing partition. Returns drop-in and report."""
    (root / "boot").mkdir(exist_ok=True)
    if text is not None:
        (root / "boot/node.conf").write_text(text)
    repart = root / "usr/lib/repart.d"
    repart.mkdir(parents=True, exist_ok=True)
    (repart / "80-data.conf").write_text(PARTITION)
    program(root / "bin/udevadm", f"[ $1 = settle ] || echo '{data}'")
    if data:
        (root / "dev/disk/by-partlabel").mkdir(parents=True)
        (root / "dev/disk/by-partlabel/data").touch()
    path = f"{root}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    command = [*shell.split(), str(SCRIPT), "--root", str(root)]
    result = subprocess.run(
        command, check=False, capture_output=True, text=True, env={"PATH": path}
    )
    assert result.returncode == 0, result.stderr
    out, report = root / "run/repart.d/80-data.conf", root / "run/cairn/data-format.report"
    return (
        out.read_text() if out.exists() else "",
        report.read_text() if report.exists() else "",
    )


@pytest.fixture(params=["dash", "busybox sh"])
def shell(request: pytest.FixtureRequest) -> str:
    """The shells that run it."""
    return str(request.param)


@pytest.mark.parametrize(
    "text",
    [
        "filesystem=f2fs\n",
        "prune=600\n  filesystem = f2fs  # card\n",
        "filesystem=f2fs\r\n",
        "\ufefffilesystem=f2fs\n",
        "prune=600\rfilesystem=f2fs\r",
        "filesystem=f2fs",
    ],
)
def test_f2fs(tmp_path: Path, shell: str, text: str) -> None:
    """The drop-in differs from the shipped file in the format alone."""
    made, report = run(tmp_path, text, shell)
    assert made == PARTITION.replace("ext4", "f2fs")
    assert report == ""


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "filesystem=ext4\n",
        "#filesystem=f2fs\n",
        "filesystem=btrfs\n",
        "xfilesystem=f2fs\n",
        # node-config refuses these, too
        "[main]\nfilesystem=f2fs\n",
        "filesystem=f2fs\n\0",
        "filesystem=ext4\nfilesystem=f2fs\n",
    ],
)
def test_default(tmp_path: Path, shell: str, text: str | None) -> None:
    """Anything else is the shipped file; node-config reports what is wrong."""
    assert run(tmp_path, text, shell) == ("", "")


def test_too_late(tmp_path: Path, shell: str) -> None:
    """A partition that is there is not made anew, and the user is told."""
    made, report = run(tmp_path, "filesystem=f2fs\n", shell, data="ext4")
    assert made == ""
    assert "comes too late: the data partition is ext4 already" in report


def test_as_it_is(tmp_path: Path, shell: str) -> None:
    """The line may stay in node.conf."""
    assert run(tmp_path, "filesystem=f2fs\n", shell, data="f2fs") == ("", "")
