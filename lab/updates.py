"""Bundles for tests, made of an image: another version of it, whole or broken in one way.

The image's root file system is unpacked, its version changed, and packed again; support/bundle
makes the bundle, as for a release. Needs root, for the owners of the files.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

from lab.machine import run_host
from lab.parsing import partition_offset, partition_span
from lab.paths import ROOT

UNITS = "usr/lib/systemd/system"
#: What a unit of a broken version runs. systemd stops doing anything after a crash, on purpose.
COMMANDS = {"unit": "/bin/false", "hang": "/bin/sh -c 'kill -SEGV 1'"}
BROKEN_UNIT = "[Service]\nType=oneshot\nExecStart={}\n"
#: What a trial has in a test, in seconds, for what owners' nodes have half an hour for
SHORT_TRIAL = "[Service]\nEnvironment=CAIRN_TRIAL_TIME={0} CAIRN_TRIAL_LONGEST={0}\n"
#: In bitcoind's place. node-config asks for its options while the machine starts, and is answered.
MUTE = """#!/bin/sh
case "$*" in *-help-debug*) exec /usr/bin/bitcoind.real "$@" ;; esac
exec sleep 1000000
"""
#: What the kernel's command line gets at its end
WORDS = {"panic": "init=/nowhere", "disk": "root=PARTLABEL=nowhere"}
#: How a version may be broken
WAYS = ("", "root", "bitcoind", *COMMANDS, *WORDS)


def partition(image: Path, name: str, target: Path) -> None:
    """Copies a partition of an image to a file."""
    start, size = partition_span(run_host("sfdisk", "--json", str(image)), name)
    command = ["dd", f"if={image}", f"of={target}", "bs=1M", "iflag=skip_bytes,count_bytes"]
    run_host(*command, f"skip={start}", f"count={size}", "conv=sparse")


def boot_files(image: Path, folder: Path) -> Path:
    """Copies all files of an image's boot partition to a new folder; returns it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    offset = partition_offset(run_host("sfdisk", "--json", str(image)), "boot")
    run_host("mcopy", "-s", "-n", "-i", f"{image}@@{offset}", "::/", str(folder))
    return folder


def unpack(image: Path, folder: Path) -> None:
    """An image's root file system and boot files, in ``root`` and ``boot`` of a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    partition(image, "root-a", folder / "root.erofs")
    command = ["fsck.erofs", f"--extract={folder / 'root'}", "--preserve-perms"]
    run_host(*command, str(folder / "root.erofs"))
    boot_files(image, folder / "boot")


def breaks(root: Path, way: str, seconds: int) -> None:
    """Changes an unpacked root file system; ``seconds``: what its trial may take."""
    drop_in = root / UNITS / "cairn-trial.service.d/test.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(SHORT_TRIAL.format(seconds))
    if way in COMMANDS:
        (root / UNITS / "broken.service").write_text(BROKEN_UNIT.format(COMMANDS[way]))
        wants = root / UNITS / "multi-user.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / "broken.service").symlink_to("../broken.service")
    elif way == "bitcoind":
        daemon = root / "usr/bin/bitcoind"
        daemon.rename(daemon.with_name("bitcoind.real"))
        daemon.write_text(MUTE)
        daemon.chmod(0o755)


def make(
    image: Path, board: str, version: str, out: Path, way: str = "", seconds: int = 900
) -> Path:
    """A bundle of that version, broken in one of WAYS; returns ``out``.

    unit: one fails. hang: PID 1 does nothing any more. bitcoind: it does not answer.
    panic: the kernel is told to start a program that is not there. root: the file system is none.
    disk: the kernel is told to wait for a partition that is not there, as it does when the driver
    of the disk is missing.
    """
    assert way in WAYS, f"{way} is none of {', '.join(WAYS)}"
    work = out.with_suffix(".work")
    unpack(image, work)
    release = work / "root/usr/lib/os-release"
    text = re.sub(
        r"(?m)^(VERSION|VERSION_ID|IMAGE_VERSION)=.*$", rf"\1={version}", release.read_text()
    )
    # What systemd greets with
    text = re.sub(r"(?m)^PRETTY_NAME=.*$", f'PRETTY_NAME="Cairn {version}"', text)
    release.write_text(text)
    breaks(work / "root", way, seconds)
    packed = work / "rootfs.erofs"
    run_host("mkfs.erofs", "-zlz4", "-T0", str(packed), str(work / "root"))
    if way == "root":
        packed.write_bytes(bytes(packed.stat().st_size))
    slot = work / "boot/slot-a"
    if way in WORDS:
        line = (slot / "cmdline").read_text().strip()
        (slot / "cmdline").write_text(f"{line} {WORDS[way]}\n")
    content = packed.read_bytes()
    values = dict(line.split("=", 1) for line in (slot / "release").read_text().splitlines())
    values |= {"version": version, "board": board, "root-size": str(len(content))}
    values["root-sha256"] = hashlib.sha256(content).hexdigest()
    (slot / "release").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    run_host(str(ROOT / "support/bundle"), board, str(work), str(out))
    shutil.rmtree(work)
    return out
