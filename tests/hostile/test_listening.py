"""What the real daemon listens on with what node-config makes of a node.conf."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.rights import superuser

BITCOIND = Path(os.environ.get("CAIRN_BITCOIND") or ROOT / "out/core/bin/bitcoind")

ANY = {"0.0.0.0:8333", "[::]:8333"}
#: Lines of node.conf, and where the daemon listens for peers (RPC is on loopback always).
CASES = {
    # Core's own rule, spelled out: any address, and no port for an onion service
    "": ANY,
    "prune=600": ANY,
    "listen=1": ANY,
    "port=18000": {"0.0.0.0:18000", "[::]:18000"},
    "listen=1\nproxy=127.0.0.1:9": ANY,
    "listen=1\nconnect=127.0.0.1:9": ANY,
    "onlynet=ipv4": ANY,
    # a negation above the sections counts on a test chain, too
    "signet=1\nnoconnect=1": set(),
    "onion=127.0.0.1:9": ANY,
    "i2psam=127.0.0.1:9\ni2pacceptincoming=0": ANY,
    "maxconnections=20": ANY,
    "[main]\nmaxconnections=20": ANY,
    "[main]\nlisten=1": ANY,
    "[regtest]\nbind=127.0.0.1": ANY,
    "[test]\nlisten=0": ANY,
    # not to be made to listen by a line of ours
    "listen=0": set(),
    "[main]\nlisten=0": set(),
    "nolisten=1": set(),
    "proxy=127.0.0.1:9": set(),
    "[main]\nproxy=127.0.0.1:9": set(),
    "connect=127.0.0.1:9": set(),
    "[main]\nconnect=127.0.0.1:9": set(),
    "noconnect=1": set(),
    "maxconnections=0": set(),
    "proxy=127.0.0.1:9\nonlynet=onion": set(),
    # the owner's own choice
    "bind=127.0.0.1": {"127.0.0.1:8333"},
    "[main]\nbind=127.0.0.1": {"127.0.0.1:8333"},
    "bind=127.0.0.1:8400=onion": {"127.0.0.1:8400"},
    "bind=127.0.0.1\nproxy=127.0.0.1:9": {"127.0.0.1:8333"},
    # Core's rule for whitebind=: it replaces any address, but not the onion service's port
    "whitebind=noban@127.0.0.1:8500": {"127.0.0.1:8500", "127.0.0.1:8334"},
    # each chain has ports of its own, and does not look at bind= above the sections
    "regtest=1": {"0.0.0.0:18444", "[::]:18444"},
    "chain=regtest": {"0.0.0.0:18444", "[::]:18444"},
    "signet=1": {"0.0.0.0:38333", "[::]:38333"},
    "testnet=1": {"0.0.0.0:18333", "[::]:18333"},
    "testnet4=1": {"0.0.0.0:48333", "[::]:48333"},
    "testnet4=1\nmaxconnections=9\n[testnet4]\nport=48000": {"0.0.0.0:48000", "[::]:48000"},
    "regtest=1\n[regtest]\nbind=127.0.0.1": {"127.0.0.1:18444"},
    "regtest=1\n[regtest]\nlisten=0": set(),
    "regtest=1\nproxy=127.0.0.1:9": set(),
    "regtest=1\n[regtest]\nconnect=127.0.0.1:9": set(),
    "regtest=1\n[main]\nlisten=0": {"0.0.0.0:18444", "[::]:18444"},
}
#: In a network namespace of its own nothing leaves, and every port is free. The daemon listens for
#: peers before it is "Done loading".
LOOK = """
ip link set lo up
"$@" >log 2>&1 &
daemon=$!
for _ in $(seq 300); do
    grep -q 'Done loading' log && break
    kill -0 $daemon || { tail -n 3 log; exit 1; }
    sleep 0.1
done
grep -q 'Done loading' log
ss -Hltn | awk '{ print $4 }'
kill -KILL $daemon
"""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.replace("\n", " ") or "empty")
def test_listens_where_it_should(tmp_path: Path, case: str) -> None:
    """Nothing but RPC and what the lines ask for."""
    sudo = superuser()
    shutil.copytree(ROOT / "overlay/usr/share/cairn", tmp_path / "usr/share/cairn")
    for folder in ("boot", "run/bitcoind", "run/cairn", "data"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "run/bitcoind/tuned.conf").write_text("prune=550\nmaxconnections=20\ndbcache=4\n")
    (tmp_path / "boot/node.conf").write_text(case + "\n")
    made = subprocess.run(
        [
            str(ROOT / "overlay/usr/bin/node-config"),
            *("--root", str(tmp_path), "--bitcoind", str(BITCOIND)),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "ignored" not in made.stderr
    command = [*sudo, "unshare", "--net", "sh", "-euc", LOOK, "sh", str(BITCOIND)]
    command += [f"-conf={tmp_path}/run/bitcoind/bitcoin.conf", f"-datadir={tmp_path}/data"]
    command += [f"-rpccookiefile={tmp_path}/cookie", "-rpccookieperms=owner"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    if sudo:
        subprocess.run([*sudo, "chown", "-R", str(os.geteuid()), str(tmp_path)], check=True)
    assert result.returncode == 0, result.stdout + result.stderr
    chain = 18443 if "regtest" in case.split("[")[0] else 8332
    chain = {"signet": 38332, "testnet": 18332, "testnet4": 48332}.get(case.split("=")[0], chain)
    rpc = {f"127.0.0.1:{chain}", f"[::1]:{chain}"}
    assert set(result.stdout.split()) - rpc == CASES[case]
