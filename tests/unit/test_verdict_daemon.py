"""The words of verdict.tsv are the real daemon's: it says them, and the verdict follows."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.shared.verdict import Unit

# as overlay/usr/share/cairn/defaults.conf, which a message about the log's name depends on
LOG = ["-printtoconsole=1", "-nodebuglogfile", "-logtimestamps=0"]


@pytest.fixture(scope="session")
def bitcoind(root: Path) -> Path:
    """The patched daemon of this repository."""
    path = Path(os.environ.get("CAIRN_BITCOIND", root / "out/core/bin/bitcoind"))
    assert path.exists(), "bitcoind is not built; run 'make core'"
    return path


@pytest.fixture(scope="session")
def chain(bitcoind: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder on regtest with a short chain, flushed and closed."""
    data = tmp_path_factory.mktemp("chain")
    options = [f"-datadir={data}", "-regtest", "-listen=0", "-rpcport=18943", *LOG]
    with subprocess.Popen([str(bitcoind), *options], stdout=subprocess.DEVNULL) as daemon:
        cli = [str(bitcoind.parent / "bitcoin-cli"), f"-datadir={data}", "-regtest"]
        cli += ["-rpcport=18943", "-rpcwait", "-rpcwaittimeout=120"]
        generate = [*cli, "generatetodescriptor", "20", "raw(51)"]
        try:
            subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
            subprocess.run([*cli, "stop"], check=True, stdout=subprocess.DEVNULL)
            assert daemon.wait(120) == 0
        finally:
            daemon.kill()  # or the end of `with` would wait for it for ever
    return data


def last_words(bitcoind: Path, unit: Unit, *options: str) -> str:
    """Lets the daemon fail before it is up, and the verdict see it; returns the report."""
    data = unit.path("var/lib/bitcoind/x").parent
    records = "chain regtest\nchain-directory /regtest\noption - dbcache=400\n"
    unit.path("run/cairn/node-conf.records").write_text(records)
    arguments = [f"-datadir={data}", "-regtest", "-rpcport=18944", "-listenonion=0", *LOG]
    with subprocess.Popen(
        [str(bitcoind), *arguments, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as daemon:
        deadline = time.monotonic() + 120
        while daemon.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        ended = daemon.poll()
        daemon.kill()  # as above
        assert ended == 1, "it should have failed"
        assert daemon.stderr
        assert daemon.stdout
        words = daemon.stderr.read()
        unit.path("log").write_bytes(daemon.stdout.read())
    unit.starts()
    return unit.ends(words)


@pytest.mark.parametrize(
    "option",
    [
        "-bind=192.0.2.1",
        "-bind=[2001:db8::1]:18450",
        "-bind=fe80::1%eth7",
        "-whitebind=noban@192.0.2.1:18450",
        "-externalip=no.such.name.invalid",
        "-externalip=fe80::1%eth7",
        "-proxy=no.such.name.invalid:9050",
        "-proxy=no.such.name.invalid:9050=tor",
        "-onion=no.such.name.invalid:9050",
        "-i2psam=no.such.name.invalid:7656",
    ],
)
def test_address_that_is_not_there_yet(bitcoind: Path, tmp_path: Path, option: str) -> None:
    """The node waits; nothing is refused."""
    unit = Unit(tmp_path)
    assert last_words(bitcoind, unit, option).startswith("The node waits for its network: ")
    assert not unit.refused
    assert unit.path("run/cairn/bitcoind.retry").exists()


@pytest.mark.parametrize(
    "option",
    [
        "-bind=no.such.name.invalid",
        "-externalip=1.2.3.4.5",
        "-proxy=1.2.3.4.5:9050",
        "-rpcbind=192.0.2.1",
        "-maxuploadtarget=abc",
    ],
)
def test_option_that_is_refused(bitcoind: Path, tmp_path: Path, option: str) -> None:
    """What never helps to wait for."""
    unit = Unit(tmp_path)
    more = ["-rpcallowip=127.0.0.1"] if "rpcbind" in option else ["-bind=127.0.0.1:18451"]
    if option.startswith("-bind"):
        more = []
    last_words(bitcoind, unit, option, *more)
    assert unit.refused


@pytest.mark.parametrize(
    ("name", "content"),
    [("peers.dat", b"garbage" * 100), ("settings.json", b'{"wallet": ["pu')],
)
def test_damaged_file(bitcoind: Path, tmp_path: Path, name: str, content: bytes) -> None:
    """Is set aside, and the daemon starts."""
    unit = Unit(tmp_path)
    file = unit.path(f"var/lib/bitcoind/regtest/{name}")
    file.write_bytes(content)
    assert "may be damaged: it is checked" in last_words(bitcoind, unit, "-listen=0")
    assert "is set aside" in unit.starts()
    assert file.with_name(f"{name}.damaged").read_bytes() == content


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bitcoin.conf", "The node's data have a bitcoin.conf, "),
        ("regtest/settings.json.tmp", "bitcoind cannot write the list of wallets to load; "),
        ("regtest/anchors.dat", "A folder, perhaps a wallet's, has the name of a file "),
    ],
)
def test_wallet_in_the_place_of_a_file(
    bitcoind: Path, tmp_path: Path, name: str, said: str
) -> None:
    """A wallet's name may be a path. It is said what to move away; node.conf is not blamed."""
    unit = Unit(tmp_path)
    unit.path(f"var/lib/bitcoind/{name}/wallet.dat").write_bytes(b"")
    conf = unit.path("run/bitcoind/bitcoin.conf")
    conf.write_text("")
    options = ["-listen=0", "-dnsseed=0", "-fixedseeds=0", f"-conf={conf}"]
    assert last_words(bitcoind, unit, *options).startswith(said)
    assert unit.path("run/cairn/bitcoind.hold").exists()
    assert not unit.refused


def flip(file: Path, begin: int, step: int) -> None:
    """One bit in a byte now and then."""
    data = bytearray(file.read_bytes())
    for at in range(begin, len(data), step):
        data[at] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("files", "begin", "words"),
    [
        ("chainstate/MANIFEST-*", 8, "Error opening coins database."),
        ("blocks/index/MANIFEST-*", 8, "Error opening block database."),
        ("blocks/blk00000.dat", 500, "Corrupted block database detected."),
    ],
)
def test_damaged_chain(
    bitcoind: Path, chain: Path, tmp_path: Path, files: str, begin: int, words: str
) -> None:
    """Is looked at, or is seen a second time, before anything is rebuilt."""
    unit = Unit(tmp_path)
    data = unit.path("var/lib/bitcoind/x").parent
    shutil.copytree(chain / "regtest", data / "regtest")
    for file in (data / "regtest").glob(files):
        flip(file, begin, 100)
    unit.check = (3, "chainstate: Fatal LevelDB error: Corruption: x\n", "")
    assert f"damaged ({words})" in last_words(bitcoind, unit, "-listen=0")
    assert not unit.wanted
    if "block database detected" in words:
        assert "A database is damaged" in last_words(bitcoind, unit, "-listen=0")
    else:
        unit.starts()
    assert unit.wanted


@pytest.mark.parametrize(
    ("option", "begun"),
    [
        ("-bind=192.0.2.1", True),
        ("-bind=fe80::1%eth7", True),
        ("-whitebind=noban@[fe80::1%eth7]:18450", True),
        ("-i2psam=no.such.name.invalid:7656", True),
        ("-externalip=fe80::1%eth7", False),
        ("-externalip=no.such.name.invalid", False),
        ("-proxy=no.such.name.invalid:9050", False),
        ("-onion=no.such.name.invalid:9050", False),
    ],
)
def test_reindex_and_late_network(
    bitcoind: Path, chain: Path, tmp_path: Path, option: str, begun: bool
) -> None:
    """The request is kept exactly where the daemon has wiped nothing yet."""
    unit = Unit(tmp_path)
    data = unit.path("var/lib/bitcoind/x").parent
    shutil.copytree(chain / "regtest", data / "regtest")
    once = unit.path("run/bitcoind/once.conf")
    once.write_text("reindex=1\n")
    more = [] if "bind" in option else ["-bind=127.0.0.1:18451"]
    report = last_words(bitcoind, unit, "-reindex", option, *more)
    assert report.startswith("The node waits for its network: ")
    assert ("Wiping LevelDB in " in unit.path("log").read_text()) is begun
    assert once.read_text() == ("" if begun else "reindex=1\n")
