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
    program(root / "bin/udevadm", f"[ $1 != info ] || echo 'ID_FS_TYPE={data}'")
    # Another card in a reader has a partition of that name, too.
    for disk, number, names in (
        ("mmcblk0", 179, ["root-a", *["data"] * bool(data)]),
        ("sda", 8, ["data"]),
    ):
        for part, name in enumerate(names, 1):
            folder = root / f"sys/devices/{disk}/{disk}p{part}"
            folder.mkdir(parents=True)
            (folder / "partition").touch()
            (folder / "uevent").write_text(f"PARTNAME={name}\n")
            for link in (f"class/block/{disk}p{part}", f"dev/block/{number}:{part}"):
                (root / "sys" / link).parent.mkdir(parents=True, exist_ok=True)
                (root / "sys" / link).symlink_to(folder)
        (root / f"sys/class/block/{disk}").symlink_to(root / f"sys/devices/{disk}")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("1 0 179:1 / / ro - erofs /dev/root ro\n")
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


SMALL = "SizeMinBytes=64M\nSizeMaxBytes=64M\nPaddingWeight=1000\n"


@pytest.mark.parametrize(
    "line", ["datadisk=auto", "datadisk=S1\nfilesystem=f2fs", "datadisk=", "datadsk=auto"]
)
@pytest.mark.parametrize("data", ["", "ext4"])
def test_small(tmp_path: Path, shell: str, line: str, data: str) -> None:
    """If the data are to be elsewhere, or may be meant to: room is left for them to come back."""
    made, report = run(tmp_path, line + "\n", shell, data)
    assert made == PARTITION.replace("SizeMinBytes=512M\n", SMALL)
    assert report == ""


def test_the_system_disk(tmp_path: Path, shell: str) -> None:
    """With datadisk=system it is as without the line."""
    assert run(tmp_path, "datadisk=system\n", shell, "ext4") == ("", "")


def test_records(tmp_path: Path, shell: str) -> None:
    """What cairn-datadisk needs, and no secret."""
    text = "datadisk=S1\nerase=S1\nrpcauth=me:secret$x\nfilesystem=f2fs\ndatadisk=S2\n"
    run(tmp_path, text, shell)
    records = (tmp_path / "run/cairn/datadisk.records").read_text().splitlines()
    assert sorted(records) == ["datadisk S1", "datadisk-doubt 1", "erase S1", "filesystem f2fs"]
