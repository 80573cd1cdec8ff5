"""support/profile in a copy of the tree, where support/qemu is a guest that only plays a sync."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab import boards
from lab.paths import ROOT
from tests.shared.commands import captured, program
from tests.unit.test_flamegraph import SCRIPT

BOARD = boards.host_lane()
#: Listens on --shell, answers each script by what it has in it, and writes down its arguments.
GUEST = f"""
import base64, pathlib, socket, sys
pathlib.Path("out/qemu").write_text("\\n".join(sys.argv[1:]))
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[sys.argv.index("--shell") + 1])
server.listen()
heights = iter([7, 9])
said = {{
    "systemctl is-active": lambda: "active",
    "perf report": lambda: "_Z3addii",
    "perf script": lambda: {SCRIPT!r},
    "node-cli getblockcount": lambda: str(next(heights)),
}}
connection, _ = server.accept()
for line in connection.makefile("rb"):
    if len(words := line.split()) == 2:
        script = base64.b64decode(words[1]).decode()
        answer = next((say() for key, say in said.items() if key in script), "")
        print(script, file=sys.stderr, flush=True)
        text = base64.b64encode(answer.encode()).decode()
        connection.sendall(f"{{words[0].decode()}} 0 {{text}}  .\\n".encode())
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A copy of the tree with that guest, and with programs that only say that they were run."""
    repo = tmp_path / "repo"
    for name in ("support", "board", "lab"):
        shutil.copytree(ROOT / name, repo / name)
    (repo / "out").mkdir()
    for name in ("core-build", "feeder", "image"):
        program(repo / "support" / name, 'echo "${0##*/} $*" >>out/run')
    (repo / "guest").write_text(GUEST)
    program(repo / "support/qemu", f"exec '{sys.executable}' guest \"$@\"")
    return repo


@pytest.fixture
def image(repo: Path) -> Path:
    """An image of the host lane's board, with an empty boot partition."""
    image = repo / "out" / BOARD.image
    with image.open("wb") as stream:
        stream.truncate(8 << 20)
    table = "label: gpt\nfirst-lba: 2048\nsize=4M,name=boot\n"
    path = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    subprocess.run(["sfdisk", "-q", str(image)], input=table, text=True, check=True, env=path)
    boot = ["-i", f"{image}@@1M", "-T", "8192"]
    subprocess.run(["mformat", *boot, "::"], check=True)
    return image


def profile(repo: Path, image: Path) -> subprocess.CompletedProcess[str]:
    """Runs it up to block 9; whatever it makes outside its checkout is gone at the end."""
    command = [sys.executable, "support/profile", "--image", str(image), "--height", "9"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(repo), "TMPDIR": folder}
        result = captured(*command, folder=repo, env=environment)
        assert not list(Path(folder).iterdir())
    return result


def test_profile(repo: Path, image: Path) -> None:
    """A copy of the image boots with our node.conf; what perf said becomes the three files."""
    folder = repo / "out/profile"
    (folder / "feeder").mkdir(parents=True)
    (folder / "feeder/kept").touch()
    result = profile(repo, image)
    assert result.returncode == 0, result.stderr
    assert (folder / "perf.txt").read_text() == "add(int, int)"
    assert "b-msghand;ConnectBlock<int> 1\n" in (folder / "perf.folded").read_text()
    assert "sync to block 9, 3 samples" in (folder / "flame.svg").read_text()
    disk = folder / "vm/disk.img"
    asked = (repo / "out/qemu").read_text().split("\n")
    assert asked[asked.index("--image") + 1] == str(disk)
    assert asked[asked.index("--board") + 1] == BOARD.name
    assert asked[asked.index("--feeder") + 1] == "18755"
    assert "systemd.wants=guest-shell.service" in asked[asked.index("--append") + 1]
    assert disk.stat().st_size == 8 << 30
    conf = ["mtype", "-i", f"{disk}@@1M", "::node.conf"]
    assert "connect=10.0.2.100:8333\n" in captured(*conf).stdout
    scripts = (folder / "vm/qemu.log").read_text()
    assert scripts.index("perf record") < scripts.index("setnetworkactive true")
    assert scripts.index("setnetworkactive true") < scripts.index("kill -INT")
    feeder = f"--dir {folder}/feeder --port 18755"
    run = (repo / "out/run").read_text().splitlines()
    assert run == ["core-build --stock", f"feeder start {feeder}", f"feeder stop {feeder}"]
    assert (folder / "feeder/kept").exists(), "the feeder's chain is not made again each time"


def test_what_goes_wrong(repo: Path, image: Path) -> None:
    """One sentence each; the feeder is stopped."""
    missing = profile(repo, repo / "no.img")
    assert missing.returncode == 1
    assert "no.img" in missing.stderr
    program(repo / "support/qemu", "exit 1")
    text = (repo / "support/profile").read_text()
    (repo / "support/profile").write_text(text.replace("machine.wait(300)", "machine.wait(1)"))
    ended = profile(repo, image)
    assert ended.returncode == 1
    assert "profile: the guest did not come up (QEMU ended)" in ended.stderr
    assert "logs of QEMU and the console are in out/profile/vm" in ended.stderr
    assert len(ended.stderr.splitlines()) == 2, ended.stderr
    program(repo / "support/core-build", "exit 1")
    assert "support/core-build failed" in profile(repo, image).stderr
    assert (repo / "out/run").read_text().splitlines()[-1].startswith("feeder stop")
