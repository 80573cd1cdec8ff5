"""Two nodes with the same name in one network: the second gets one of its own, and both a page.

By the real systemd-resolved, behind the firewall's rules, in network namespaces. Where that is not
installed (Debian has it as a package of its own, which would take over this machine's names), it is
unpacked somewhere and named by CAIRN_RESOLVED; otherwise the test is skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.rights import superuser

HERE = ROOT / "tests/hostile"
RESOLVED = Path(os.environ.get("CAIRN_RESOLVED") or "/usr/lib/systemd/systemd-resolved")


def test_two_nodes(tmp_path: Path) -> None:
    """cairn.local stays the first's; the second is found by a number behind it."""
    sudo = superuser()
    if not RESOLVED.exists():
        pytest.skip(f"there is no {RESOLVED}; CAIRN_RESOLVED names one")
    for name in ("run/cairn", "run/bitcoind"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "run/cairn/node-conf.records").write_text("network on\nmdns 1\n")
    (tmp_path / "run/bitcoind/bitcoin.conf").write_text("chain=main\n")
    firewall = [str(ROOT / "overlay/usr/lib/cairn/cairn-firewall"), "--root", str(tmp_path)]
    rules = subprocess.run([*firewall, "--print"], check=True, capture_output=True)
    (tmp_path / "rules").write_bytes(rules.stdout)
    tmp_path.chmod(0o755)
    command = [*sudo, "unshare", "--net", "--mount", "--uts", str(HERE / "two_names.sh")]
    command += [str(RESOLVED), str(tmp_path / "rules"), f"{sys.executable} {HERE}/mdns.py"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stderr) == (0, "")
    match = re.fullmatch(
        r"one node:\ncairn\.local 192\.168\.1\.50\n"
        r"two nodes:\ncairn (cairn\d+)\ncairn\.local 192\.168\.1\.50\n"
        r"(cairn\d+)\.local 192\.168\.1\.51\n"
        r"pages:\n((?:_http\._tcp\.local \S+\n)+)",
        result.stdout,
    )
    assert match, result.stdout
    assert match[1] == match[2]
    pages = {line.split()[1] for line in match[3].splitlines()}
    assert pages == {f"{name}._http._tcp.local" for name in ("cairn", match[1])}
