"""Real bundles and a real RAUC: what support/bundle makes, a node installs; and what it refuses.

RAUC is this machine's (support/host-packages.txt), on loop devices in a mount namespace. Where the
kernel has no device mapper, a bundle of format `verity` can be made and its signature checked, but
not mounted: those that are installed here are of format `plain` then, made of the same content.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.certificates import new_pair, openssl
from tests.shared.commands import captured, program
from tests.shared.update_node import BOARDS, FILES, UpdateNode

STAGE = ROOT / "tests/shared/rauc_stage.sh"
NEEDS = ("rauc", "mksquashfs", "openssl", "unshare", "dbus-run-session", "losetup")
VERITY = "device-mapper" in Path("/proc/misc").read_text()
pytestmark = pytest.mark.skipif(
    not all(shutil.which(name) for name in NEEDS), reason=f"needs {', '.join(NEEDS)}"
)


def keys(folder: Path) -> dict[str, str]:
    """An authority and a key that it has signed; the words of support/bundle's environment."""
    new_pair(folder)
    return {
        "CAIRN_BUNDLE_KEY": str(folder / "bundle.key"),
        "CAIRN_BUNDLE_CERT": str(folder / "bundle.pem"),
        "CAIRN_KEYRING": str(folder / "ca.pem"),
    }


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The authority that the node trusts."""
    return keys(tmp_path_factory.mktemp("keys") / "node")


def images(folder: Path, board: str, version: str = "2.0.0", **release: str) -> Path:
    """What Buildroot leaves of a board, as far as support/bundle reads it."""
    root = os.urandom(300_000)
    slot = folder / "boot/slot-a"
    slot.mkdir(parents=True)
    (folder / "rootfs.erofs").write_bytes(root)
    values = {
        "version": version,
        "board": board,
        "data-format": "1",
        "data-reads": "1",
        "root-size": str(len(root)),
        "root-sha256": hashlib.sha256(root).hexdigest(),
        **{key.replace("_", "-"): value for key, value in release.items()},
    }
    (slot / "release").write_text("".join(f"{k}={v}\n" for k, v in values.items()))
    (slot / "cmdline").write_text("ro quiet\n")
    if board == "rpi5":
        shutil.copy(ROOT / "board/rpi5/config.txt", slot)
        (slot / "cmdline.txt").write_text("root=PARTLABEL=root-a ro quiet\n")
        (slot / "overlays").mkdir()
        for name in FILES["rpi5"]:
            (slot / name).write_bytes(os.urandom(5000))
    else:
        (slot / "linux").write_bytes(os.urandom(5000))
        (folder / "boot/licenses").mkdir()
        (folder / "boot/licenses/some.txt").write_text("as is\n")
    return folder


def bundle(tmp_path: Path, board: str, signer: dict[str, str], plain: bool, **release: str) -> Path:
    """A bundle by support/bundle; ``plain``: of that format."""
    out = tmp_path / "cairn.raucb"
    env = {**os.environ, **signer, "HOME": str(tmp_path)}
    if plain:
        env["CAIRN_RAUC"] = str(
            program(
                tmp_path / "rauc-plain",
                """for word; do
                    [ ! -f "$word/manifest.raucm" ] ||
                        sed -i s/format=verity/format=plain/ "$word/manifest.raucm"
                done
                exec rauc "$@" """,
            )
        )
    else:
        env["CAIRN_RAUC"] = "rauc"
    folder = images(tmp_path / "images", board, **release)
    made = captured(str(ROOT / "support/bundle"), board, str(folder), str(out), env=env)
    assert made.returncode == 0, made.stderr
    assert "made " in made.stderr
    return out


@pytest.mark.parametrize("named", ["", "rauc"])
def test_programs_of_buildroot(tmp_path: Path, signer: dict[str, str], named: str) -> None:
    """What shapes a bundle is Buildroot's where there is one; a RAUC that is named is that one."""
    repo = tmp_path / "repo"
    for name in ("support", "board", "patches"):
        shutil.copytree(ROOT / name, repo / name)
    for name in ("rauc", "mksquashfs"):
        program(
            repo / "out/rpi5/build/host/bin" / name,
            f'echo {name} >>{tmp_path}/log\nexec {shutil.which(name)} "$@"',
        )
    env = {**os.environ, **signer, "HOME": str(tmp_path), "CAIRN_RAUC": named}
    folder = images(tmp_path / "images", "rpi5")
    words = ["rpi5", str(folder), str(tmp_path / "x.raucb")]
    done = captured(str(repo / "support/bundle"), *words, env=env)
    assert done.returncode == 0, done.stderr
    run = (tmp_path / "log").read_text().splitlines()
    assert run == (["mksquashfs"] if named else ["rauc", "mksquashfs"])


@pytest.fixture(params=["rpi5", "x86_64"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, signer: dict[str, str]) -> Path:
    """A folder for rauc_stage.sh: version 1.0.0 of that board runs in slot a."""
    if os.geteuid():
        pytest.skip("needs root, for loop devices and mounts")
    board = request.param
    folder = tmp_path / "stage"
    (folder / "boot/slot-a").mkdir(parents=True)
    shutil.copytree(ROOT / "overlay/usr/lib/cairn", folder / "lib")
    shutil.copy(ROOT / "board/common/rauc.conf", folder)
    shutil.copy(signer["CAIRN_KEYRING"], folder / "keyring.pem")
    shutil.copy(ROOT / "overlay/usr/share/cairn/data-format", folder)
    (folder / "board").write_text(board)
    (folder / "boot-backend").write_text(f"{BOARDS[board]}\n")
    (folder / "cmdline").write_text("root=PARTLABEL=root-a rauc.slot=a quiet\n")
    (folder / "os-release").write_text(f"IMAGE_VERSION=1.0.0\nVARIANT_ID={board}\n")
    if board == "rpi5":
        shutil.copy(ROOT / "board/rpi5/config.txt", folder / "boot")
        (folder / "boot/slot-a/good").touch()
    else:
        entries = folder / "boot/loader/entries"
        entries.mkdir(parents=True)
        (entries / "cairn-a.conf").write_text("title Cairn\nversion 1\nlinux /slot-a/linux\n")
    for slot in "ab":
        with (folder / f"root-{slot}").open("wb") as file:
            file.truncate(4 << 20)
    return folder


def install(stage: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """RAUC installs it there."""
    board = (stage / "board").read_text()
    formats = "verity" if VERITY else "plain verity"
    words = [str(stage), board, formats, str(path)]
    return captured("unshare", "-m", "dbus-run-session", "--", str(STAGE), *words)


def nothing_changed(stage: Path) -> None:
    """Neither the partition nor what boots."""
    assert not any((stage / "root-b").read_bytes())
    names = {path.name for path in (stage / "boot").rglob("*") if path.is_file()}
    assert names <= {"config.txt", "good", "cairn-a.conf"}


def test_installed(stage: Path, tmp_path: Path, signer: dict[str, str]) -> None:
    """Root, boot files and the one try; the partition is read-only again."""
    board = (stage / "board").read_text()
    path = bundle(tmp_path, board, signer, plain=not VERITY)
    said = install(stage, path)
    assert said.returncode == 0, said.stdout + said.stderr
    root = (tmp_path / "images/rootfs.erofs").read_bytes()
    assert (stage / "root-b").read_bytes()[: len(root)] == root
    slot = stage / "boot/slot-b"
    if board == "rpi5":
        assert "os_prefix=slot-b/" in (stage / "boot/tryboot.txt").read_text()
        assert "os_prefix=slot-a/" in (stage / "boot/config.txt").read_text()
        assert (
            (slot / "cmdline.txt")
            .read_text()
            .startswith("root=PARTLABEL=root-b rauc.slot=b cairn.version=2.0.0 ")
        )
    else:
        entry = (stage / "boot/loader/entries/cairn-b+1.conf").read_text()
        assert "options root=PARTLABEL=root-b rauc.slot=b cairn.version=2.0.0 ro quiet" in entry
        assert (slot / "license-some.txt").exists()
    made = tmp_path / "images/boot/slot-a"
    for file in made.rglob("*"):
        if file.is_file() and file.name not in {"cmdline.txt", "config.txt"}:
            assert (slot / file.relative_to(made)).read_bytes() == file.read_bytes()


def test_refused_by_our_rules(stage: Path, tmp_path: Path, signer: dict[str, str]) -> None:
    """The pre-install handler is asked by RAUC, too, and not only by our commands."""
    board = (stage / "board").read_text()
    said = install(stage, bundle(tmp_path, board, signer, plain=not VERITY, version="0.5"))
    assert said.returncode == 1
    assert "is older than 1.0.0" in said.stdout
    nothing_changed(stage)


@pytest.mark.parametrize("why", ["key", "board", "truncated", "changed", "no bundle"])
def test_refused_by_rauc(stage: Path, tmp_path: Path, signer: dict[str, str], why: str) -> None:
    """A stranger's signature, another board's, and files that are damaged."""
    board = (stage / "board").read_text()
    by = signer
    if why == "key":
        by = keys(tmp_path / "stranger")
    elif why == "board":
        board = "x86_64" if board == "rpi5" else "rpi5"
    path = bundle(tmp_path, board, by, plain=not VERITY)
    content = bytearray(path.read_bytes())
    if why == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif why == "changed":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif why == "no bundle":
        path.write_bytes(os.urandom(100_000))
    said = install(stage, path)
    assert said.returncode == 1, said.stdout
    assert "LastError" in said.stderr + said.stdout
    nothing_changed(stage)


@pytest.mark.slow
def test_expired(stage: Path, tmp_path: Path) -> None:
    """The signer's certificate ends before the installation; the authority's does not."""
    by = keys(tmp_path / "old")
    shutil.copy(by["CAIRN_KEYRING"], stage / "keyring.pem")
    folder = Path(by["CAIRN_BUNDLE_CERT"]).parent
    end = time.time() + 60
    (folder / "index").touch()
    (folder / "serial").write_text("77\n")
    (folder / "cnf").write_text(
        f"[ca]\ndatabase = {folder}/index\nserial = {folder}/serial\nnew_certs_dir = {folder}\n"
        "default_md = sha256\npolicy = any\ncopy_extensions = copy\n[any]\ncommonName = supplied\n"
    )
    openssl(
        *("ca", "-batch", "-config", folder / "cnf", "-name", "ca", "-notext"),
        *("-cert", folder / "ca.pem", "-keyfile", folder / "ca.key"),
        *("-in", folder / "bundle.csr", "-out", folder / "bundle.pem"),
        *("-enddate", time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end))),
    )
    path = bundle(tmp_path, (stage / "board").read_text(), by, plain=not VERITY)
    time.sleep(max(0, end + 2 - time.time()))
    said = install(stage, path)
    assert said.returncode == 1, said.stdout
    assert "expired" in said.stderr + said.stdout
    nothing_changed(stage)


def test_verity_bundle_says_what_it_is(tmp_path: Path, signer: dict[str, str]) -> None:
    """What node-update check reads; with another keyring it is nothing."""
    path = bundle(tmp_path, "rpi5", signer, plain=False, version="3.1.4")
    conf = tmp_path / "system.conf"
    text = (ROOT / "board/common/rauc.conf").read_text().replace("@BOARD@", "rpi5")
    conf.write_text(text.replace("/etc/rauc/keyring.pem", signer["CAIRN_KEYRING"]))
    info = ["rauc", f"--conf={conf}", "info", "--output-format=shell", str(path)]
    said = captured(*info)
    assert "RAUC_MF_COMPATIBLE='cairn-rpi5'" in said.stdout.splitlines()
    assert "RAUC_MF_VERSION='3.1.4'" in said.stdout.splitlines()
    stranger = keys(tmp_path / "stranger")["CAIRN_KEYRING"]
    conf.write_text(text.replace("/etc/rauc/keyring.pem", stranger))
    assert captured(*info).returncode != 0


def test_proxy_that_is_closed(tmp_path: Path, signer: dict[str, str]) -> None:
    """Nothing arrives at the server then; that it can be reached otherwise is tried, too."""
    node = UpdateNode(tmp_path / "node", "rpi5")
    conf = tmp_path / "system.conf"
    text = (ROOT / "board/common/rauc.conf").read_text().replace("@BOARD@", "rpi5")
    conf.write_text(text.replace("/etc/rauc/keyring.pem", signer["CAIRN_KEYRING"]))
    rauc = f"{shutil.which('rauc')} --conf={conf}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        server.settimeout(0.5)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.raucb"
        proxy = f"127.0.0.1:{closed.getsockname()[1]}"
        for way in (f"private proxy\noption - proxy={proxy}\n", ""):
            node.write("run/cairn/node-conf.records", f"network on\n{way}")
            asked: list[bytes] = []
            ended = threading.Event()
            answers = threading.Thread(target=answer, args=(server, asked, ended))
            answers.start()
            words = {"CAIRN_RAUC": rauc, "no_proxy": "127.0.0.1"}
            try:
                said = node.run("node-update", "check", url, status=1, **words)
            finally:
                ended.set()
                answers.join()
            assert "cannot be read" in said
            assert bool(asked) != bool(way), asked


def answer(server: socket.socket, asked: list[bytes], ended: threading.Event) -> None:
    """Notes what arrives, and says that there is no such file."""
    while not ended.is_set():
        try:
            with server.accept()[0] as connection:
                asked.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n")
        except TimeoutError:
            continue


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("rootfs.erofs", "build the image first"),
        ("boot/slot-a/release", "build the image first"),
        ("other root", "is of another root file system"),
        ("key", "run support/dev-keys"),
        ("cert", "run support/dev-keys"),
    ],
)
def test_no_bundle(tmp_path: Path, signer: dict[str, str], missing: str, words: str) -> None:
    """Said in one sentence, and no file is left."""
    folder = images(tmp_path / "images", "x86_64")
    env = {**os.environ, **signer, "CAIRN_RAUC": "rauc"}
    if missing == "other root":
        (folder / "rootfs.erofs").write_bytes(b"other")
    elif missing in {"key", "cert"}:
        env[f"CAIRN_BUNDLE_{missing.upper()}"] = str(tmp_path / "nowhere.pem")
    else:
        (folder / missing).unlink()
    out = tmp_path / "out"
    said = captured(
        str(ROOT / "support/bundle"), "x86_64", str(folder), str(out / "c.raucb"), env=env
    )
    assert said.returncode == 1
    assert words in said.stderr
    assert not out.exists() or not list(out.iterdir())
