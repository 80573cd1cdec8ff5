"""The build helpers of support/: each wrong input gives one clear sentence."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.shared.commands import captured, program

ENV_FILE = "package/bitcoind-chainstate/source.env"
LMDB_VARIABLES = ("WITH_LMDB", "LMDB_ROOT", "DEFAULT_DBBACKEND")


def run(
    root: Path, *command: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a script of the repository and captures what it says."""
    return captured(str(root / command[0]), *command[1:], env={**os.environ, **(env or {})})


def fake_repo(root: Path, tmp_path: Path, source_env: str | None = None) -> Path:
    """A copy of support/, package/ and board/ with, if given, another source.env."""
    repo = tmp_path / "repo"
    for name in ("support", "package", "board"):
        shutil.copytree(root / name, repo / name)
    if source_env is not None:
        (repo / ENV_FILE).write_text(source_env)
    return repo


def settings(root: Path, file: str = ENV_FILE) -> dict[str, str]:
    """The NAME=value lines of a source.env."""
    lines = (root / file).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def make_sdist(tmp_path: Path, name: str, files: dict[str, str]) -> Path:
    """A tiny sdist with the given files below the directory of source.env."""
    path = tmp_path / name
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            source = tmp_path / "content"
            source.write_text(text)
            archive.add(source, arcname=file)
    return path


def test_source_archive_is_pinned_and_made_once(root: Path) -> None:
    """The archive that the build used has the hash that Buildroot will check."""
    result = run(root, "support/core-source")
    assert result.returncode == 0, result.stderr
    archive = Path(result.stdout.strip())
    pinned = (root / "package/bitcoind-chainstate/bitcoind-chainstate.hash").read_text()
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in pinned
    assert archive.name == f"bitcoind-chainstate-{settings(root)['CORE_COMMIT']}.tar.gz"


def test_source_archive_is_deterministic(root: Path, tmp_path: Path) -> None:
    """Made again from the sdist's files in another order and time: the same bytes."""
    archive = Path(run(root, "support/core-source").stdout.strip())
    values = settings(root)
    inner = tmp_path / Path(values["CORE_SDIST_DIR"]).parent
    inner.mkdir(parents=True)
    subprocess.run(["tar", "-C", str(inner), "-xzf", str(archive)], check=True)
    (inner / f"bitcoind-chainstate-{values['CORE_COMMIT']}").rename(inner / "bitcoin")
    sdist = tmp_path / values["CORE_SDIST_FILE"]
    with tarfile.open(sdist, "w:gz") as packed:
        packed.add(inner, arcname=str(Path(values["CORE_SDIST_DIR"]).parent))
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    text = (root / ENV_FILE).read_text().replace(values["CORE_SDIST_SHA256"], digest)
    repo = fake_repo(root, tmp_path, text)
    cache = {"CAIRN_CACHE": str(tmp_path / "cache")}
    result = run(repo, "support/core-source", "--sdist", str(sdist), env=cache)
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).read_bytes() == archive.read_bytes()


def test_wrong_sdist_hash_is_refused(root: Path, tmp_path: Path) -> None:
    """Other bytes stop with the file's name and both hashes."""
    sdist = make_sdist(tmp_path, "py_bitcoinkernel-0.1.0a5.tar.gz", {"a": "b"})
    result = run(
        root,
        "support/core-source",
        "--sdist",
        str(sdist),
        env={"CAIRN_CACHE": str(tmp_path / "cache")},
    )
    assert result.returncode == 1
    assert "wrong hash of py_bitcoinkernel-0.1.0a5.tar.gz" in result.stderr
    assert settings(root)["CORE_SDIST_SHA256"] in result.stderr
    assert not list((tmp_path / "cache").rglob("*.tar.gz"))


def test_missing_source_file_is_named(root: Path, tmp_path: Path) -> None:
    """An sdist with the right hash but without a file stops with that file's name."""
    values = settings(root)
    sdist = make_sdist(
        tmp_path, values["CORE_SDIST_FILE"], {f"{values['CORE_SDIST_DIR']}/CMakeLists.txt": ""}
    )
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    text = (root / ENV_FILE).read_text().replace(values["CORE_SDIST_SHA256"], digest)
    repo = fake_repo(root, tmp_path, text)
    result = run(
        repo,
        "support/core-source",
        "--sdist",
        str(sdist),
        env={"CAIRN_CACHE": str(tmp_path / "cache")},
    )
    assert result.returncode == 1
    assert "the source file src/bitcoind.cpp is missing" in result.stderr


@pytest.fixture(scope="session")
def upstream(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with the archive's files and the files known to be absent."""
    clone = tmp_path_factory.mktemp("clone")
    archive = run(root, "support/core-source").stdout.strip()
    subprocess.run(["tar", "-C", str(clone), "--strip-components=1", "-xzf", archive], check=True)
    absent = (root / "package/bitcoind-chainstate/absent-files.txt").read_text().split()
    for name in absent:
        path = clone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("upstream has this one\n")
    for command in (["init", "-q"], ["add", "-Af"], ["commit", "-q", "-m", "tree"]):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *command],
            cwd=clone,
            check=True,
            capture_output=True,
        )
    return clone


def test_verify_source_accepts_the_tree(root: Path, upstream: Path) -> None:
    """Equal blobs, the listed files absent: proven."""
    result = run(root, "support/verify-source", str(upstream), "HEAD")
    assert result.returncode == 0, result.stderr
    assert "2933 files equal, 11 of upstream left out as listed, 0 wrong" in result.stdout


def test_verify_source_names_each_difference(root: Path, upstream: Path) -> None:
    """A changed, a missing and an added file are each named."""
    (upstream / "src/coins.cpp").write_text("changed\n")
    (upstream / "src/coins.h").rename(upstream / "src/coins2.h")
    subprocess.run(["git", "add", "-A"], cwd=upstream, check=True)
    tree = subprocess.run(
        ["git", "write-tree"], cwd=upstream, check=True, capture_output=True, text=True
    ).stdout.strip()
    result = run(root, "support/verify-source", str(upstream), tree)
    assert result.returncode == 1
    assert "differs: src/coins.cpp" in result.stdout
    assert "added: src/coins.h" in result.stdout
    assert "missing: src/coins2.h" in result.stdout


def test_verify_source_without_the_commit(root: Path, upstream: Path) -> None:
    """A clone that lacks the pinned commit gives one sentence."""
    result = run(root, "support/verify-source", str(upstream))
    assert result.returncode == 1
    assert f"has no commit {settings(root)['CORE_COMMIT']}" in result.stderr


def test_bad_patch_is_named(root: Path, tmp_path: Path) -> None:
    """A patch that does not apply stops the build with its name."""
    patches = tmp_path / "patches"
    patches.mkdir()
    (patches / "0001-broken.patch").write_text(
        "--- a/src/coins.h\n+++ b/src/coins.h\n@@ -1,1 +1,1 @@\n-no such line\n+other\n"
    )
    repo = fake_repo(root, tmp_path)
    archive = Path(run(root, "support/core-source").stdout.strip())
    result = run(
        repo,
        "support/core-build",
        env={"CAIRN_PATCHES": str(patches), "CAIRN_CACHE": str(archive.parents[1])},
    )
    assert result.returncode == 1
    assert "the patch 0001-broken.patch does not apply" in result.stderr


def test_patched_core_gets_lmdb(root: Path, tmp_path: Path) -> None:
    """A source that knows WITH_LMDB is configured with the library of support/lmdb-build."""
    words = " ".join(f"{name}=${{{name}}}" for name in LMDB_VARIABLES)
    patches = tmp_path / "patches"
    patches.mkdir()
    (patches / "0001-stop.patch").write_text(
        "--- a/CMakeLists.txt\n+++ b/CMakeLists.txt\n@@ -1,0 +2,1 @@\n"
        f'+message(FATAL_ERROR "{words}")\n'
    )
    repo = lane(root, tmp_path)
    (repo / ".venv").symlink_to(root / ".venv")
    cache = Path(run(root, "support/core-source").stdout.strip()).parents[1]
    for backend in ("leveldb", "lmdb"):
        result = run(
            repo,
            "support/core-build",
            env={
                "CAIRN_PATCHES": str(patches),
                "CAIRN_CACHE": str(cache),
                "CAIRN_DBBACKEND": backend,
            },
        )
        assert result.returncode == 1
        said = " ".join((repo / "out/core/build.log").read_text().split())
        assert f"WITH_LMDB=ON LMDB_ROOT={repo}/out/lmdb DEFAULT_DBBACKEND={backend}" in said
    for name in ("lib/liblmdb.a", "lib/pkgconfig/lmdb.pc", "include/lmdb.h"):
        assert (repo / "out/lmdb" / name).is_file()


def test_lmdb_source_is_pinned(root: Path, tmp_path: Path) -> None:
    """Buildroot checks the same bytes; others are refused with the file's name."""
    pinned = settings(root, "package/liblmdb/source.env")
    hashes = (root / "package/liblmdb/liblmdb.hash").read_text()
    assert f"{pinned['LMDB_SDIST_SHA256']}  {pinned['LMDB_SDIST_FILE']}" in hashes
    sdist = make_sdist(tmp_path, pinned["LMDB_SDIST_FILE"], {"a": "b"})
    cache = {"CAIRN_CACHE": str(tmp_path / "cache")}
    result = run(root, "support/lmdb-source", "--sdist", str(sdist), env=cache)
    assert result.returncode == 1
    assert f"wrong hash of {pinned['LMDB_SDIST_FILE']}" in result.stderr
    assert not list((tmp_path / "cache").rglob("*.tar.gz"))


def test_npm_sources_are_pinned(root: Path, tmp_path: Path) -> None:
    """Buildroot checks the same bytes; others are refused with the file's name."""
    pinned = settings(root, "package/uplot/source.env")
    hashes = (root / "package/uplot/uplot.hash").read_text()
    assert f"{pinned['NPM_SHA256']}  {pinned['NPM_FILE']}" in hashes
    tarball = make_sdist(tmp_path, pinned["NPM_FILE"], {"a": "b"})
    cache = {"CAIRN_CACHE": str(tmp_path / "cache")}
    command = ["support/npm-source", "package/uplot/source.env", "--tarball", str(tarball)]
    result = run(root, *command, env=cache)
    assert result.returncode == 1
    assert f"wrong hash of {pinned['NPM_FILE']}" in result.stderr
    assert not list((tmp_path / "cache").rglob("*.tgz"))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["support/qemu"], "--image is missing"),
        (["support/qemu", "--image", "/nonexistent"], "the image /nonexistent does not exist"),
        (["support/qemu", "--colour", "red"], "unknown option '--colour'"),
        (["support/qemu", "--bus"], "--bus needs a value"),
        (["support/core-build", "--fast"], "unknown option '--fast'"),
        (["support/core-source", "--fast"], "unknown option '--fast'"),
        (["support/lmdb-source", "--fast"], "unknown option '--fast'"),
        (["support/npm-source"], "a source file is needed"),
        (["support/npm-source", "package/uplot/source.env", "--fast"], "unknown option '--fast'"),
        (["support/lmdb-build", "--fast"], "unknown option '--fast'"),
        (["support/verify-source"], "no clone given"),
        (["support/verify-source", "/"], "is no git clone"),
        (["support/feeder"], "--dir is missing"),
        (["support/feeder", "start", "--dir", "/tmp", "--network", "x"], "unknown network 'x'"),
    ],
)
def test_wrong_arguments(root: Path, command: list[str], sentence: str) -> None:
    """Wrong arguments: one sentence on stderr, exit status 1."""
    result = run(root, *command)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_accelerator_override(root: Path) -> None:
    """CAIRN_ACCEL skips the probe; nonsense is refused."""
    assert run(root, "support/qemu-accel", env={"CAIRN_ACCEL": "tcg"}).stdout == "tcg\n"
    assert (
        "set it to kvm or tcg" in run(root, "support/qemu-accel", env={"CAIRN_ACCEL": "x"}).stderr
    )


def test_too_little_disk(root: Path, tmp_path: Path) -> None:
    """Free space is checked before anything is installed; what is built counts."""
    repo = fake_repo(root, tmp_path)
    (repo / "out").mkdir()
    (repo / "out/built").write_bytes(bytes(5 << 20))
    tools = tmp_path / "bin"
    program(tools / "df", "echo header\necho fs 100 90 7 93% /")
    result = run(
        repo,
        "support/bootstrap",
        "--disk-only",
        env={"PATH": f"{tools}:{os.environ['PATH']}"},
    )
    assert result.returncode == 1
    assert "only 7 MiB are free" in result.stderr
    # 5 MiB and, on some file systems, a bit for the folder
    assert re.search("799[45] MiB are needed", result.stderr)


def test_no_network(root: Path, tmp_path: Path) -> None:
    """Without a registry the download stops with one sentence."""
    repo = fake_repo(root, tmp_path)
    error = "echo 'ERROR: No matching distribution found' >&2"
    program(repo / ".venv/bin/pip", f"{error}\nexit 1")
    result = run(repo, "support/core-source", env={"CAIRN_CACHE": str(tmp_path / "cache")})
    assert result.returncode == 1
    assert "could not be downloaded; check the network" in result.stderr


def test_missing_tool(root: Path, tmp_path: Path) -> None:
    """A missing command is named, with the way to get it."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "uname"):
        (tools / name).symlink_to(Path("/usr/bin") / name)
    result = run(root, "support/devimage", env={"PATH": str(tools)})
    assert result.returncode == 1
    assert "the command 'mmdebstrap' is missing; run 'make bootstrap'" in result.stderr


def test_damaged_block_file(root: Path, tmp_path: Path) -> None:
    """The feeder refuses blocks that are not the documented bytes."""
    repo = fake_repo(root, tmp_path)
    data = repo / "tests/data"
    data.mkdir(parents=True)
    bin_dir = repo / "out/core-stock/bin"
    bin_dir.mkdir(parents=True)
    for name in ("bitcoind", "bitcoin-cli"):
        program(bin_dir / name, "exit 1")
    packed = subprocess.run(["xz", "-c"], input=b"no blocks", check=True, capture_output=True)
    (data / "mainnet-0-14131.blk.xz").write_bytes(packed.stdout)
    result = run(repo, "support/feeder", "start", "--dir", str(tmp_path / "f"))
    assert result.returncode == 1
    assert "wrong hash of the unpacked" in result.stderr


def test_make_targets(root: Path) -> None:
    """`make help` has one line for each target; an unknown target gets one sentence."""
    listing = subprocess.run(
        ["make", "-C", str(root), "help"], check=True, capture_output=True, text=True
    ).stdout
    for target in ("run", "test", "verify-source", "devimage", "clean"):
        assert f"\n  {target} " in f"\n{listing}"
    result = subprocess.run(
        ["make", "-C", str(root), "flsh"], check=False, capture_output=True, text=True
    )
    assert result.returncode == 2
    assert "there is no target 'flsh'; 'make help' lists them" in result.stderr


def test_buildroot_is_no_tree(root: Path, tmp_path: Path) -> None:
    """BUILDROOT= names something else."""
    repo = lane(root, tmp_path)
    result = run(repo, "support/buildroot-tree", env={"BUILDROOT": str(tmp_path)})
    assert result.returncode == 1
    assert "is not a Buildroot tree; unpack release 2026.05.1 there" in result.stderr


def test_buildroot_of_another_release(root: Path, tmp_path: Path) -> None:
    """One changed file is enough; the tree in out/ is not touched."""
    repo = lane(root, tmp_path)
    tree = tmp_path / "buildroot"
    (tree / "support/kconfig").mkdir(parents=True)
    (tree / "support/kconfig/merge_config.sh").write_text("#!/bin/sh\n")
    result = run(repo, "support/buildroot-tree", env={"BUILDROOT": str(tree)})
    assert result.returncode == 1
    assert "differs from Buildroot 2026.05.1" in result.stderr
    assert not (repo / "out/buildroot").exists()


@pytest.mark.parametrize("name", ["", "rpi4", "../rpi5"])
def test_unknown_board(root: Path, tmp_path: Path, name: str) -> None:
    """The boards there are, are named."""
    result = run(lane(root, tmp_path), "support/buildroot-config", *([name] if name else []))
    assert result.returncode == 1
    assert "BOARD is one of: rpi5 x86_64" in result.stderr


def test_unknown_fragment(root: Path, tmp_path: Path) -> None:
    """So is a fragment that does not exist."""
    result = run(lane(root, tmp_path), "support/buildroot-config", "rpi5", "fast")
    assert result.returncode == 1
    assert "there is no fragment 'fast'" in result.stderr


def test_no_image_to_run(root: Path, tmp_path: Path) -> None:
    """make qemu before make."""
    result = run(lane(root, tmp_path), "support/run-image", "rpi5")
    assert result.returncode == 1
    assert "build it with 'make rpi5'" in result.stderr


def lane(root: Path, tmp_path: Path) -> Path:
    """A copy of what Buildroot's scripts read."""
    repo = fake_repo(root, tmp_path)
    for name in ("buildroot-external", "patches"):
        shutil.copytree(root / name, repo / name)
    return repo
