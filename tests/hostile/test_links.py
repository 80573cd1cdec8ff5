"""What user bitcoin, taken over, can put into its folders must not steer root.

Really as other users: root drops its rights with what the script itself uses.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.rights import stranger, superuser
from tests.shared.commands import program

UNITS = ROOT / "overlay/usr/lib/systemd/system"
SHELLS = ["dash", "busybox sh"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are for its user alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("shell", SHELLS)
def test_root_asks_as_another_user(place: Path, shell: str) -> None:
    """node-cli, run by root, cannot read the file that a cookie's link leads to."""
    sudo = superuser()
    secret = place / "secret"
    secret.write_text("root:$y$hash")
    subprocess.run([*sudo, "chown", "0:0", secret], check=True)
    subprocess.run([*sudo, "chmod", "600", secret], check=True)
    (place / "cookie").symlink_to(secret)
    program(place / "bin/bitcoin-cli", f'cat {place}/cookie; id -u; id -g; id -G; echo "$@"')
    result = subprocess.run(
        [
            *sudo,
            "env",
            f"PATH={place}/bin:{os.environ['PATH']}",
            *shell.split(),
            str(ROOT / "overlay/usr/bin/node-cli"),
            *("getblock", "a b"),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert "root:" not in result.stdout + result.stderr
    assert result.stdout.splitlines()[:3] == ["834", "833", "833"]
    assert result.stdout.endswith("getblock a b\n")


def test_every_image_has_a_tool_for_it() -> None:
    """Debian has setpriv; busybox's has no --reuid, so the boards get chpst."""
    assert "\nCONFIG_CHPST=y\n" in (ROOT / "board/common/busybox.fragment").read_text()
    own = f"--reuid={os.geteuid()}"
    assert subprocess.run(["setpriv", own, "true"], check=False).returncode == 0


def test_other_users_ask_as_themselves(place: Path) -> None:
    """The status screen's user is left alone: it could not change its ids anyway."""
    program(place / "bin/bitcoin-cli", "id -u")
    shutil.copy(ROOT / "overlay/usr/bin/node-cli", place / "node-cli")
    command, user = stranger()
    command += ["env", f"PATH={place}/bin:{os.environ['PATH']}", str(place / "node-cli"), "x"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == f"{user}\n".encode()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("chain", "syncing", "over"),
    [("main", "false", True), ("main", "true", False), ("signet", "false", False)],
)
def test_the_question_changes_nothing(
    tmp_path: Path, shell: str, chain: str, syncing: str, over: bool
) -> None:
    """--ask only answers, and only a bare "yes" for mainnet is one."""
    answer = f'{{\n  "chain": "{chain}",\n  "initialblockdownload": {syncing},\n  "warnings": [\n'
    (tmp_path / "answer").write_text(
        answer + '    "  \\"chain\\": \\"main\\", \\"initialblockdownload\\": false,"\n  ]\n}\n'
    )
    script = ROOT / "overlay/usr/lib/cairn/cairn-sync-done"
    (tmp_path / "var/lib/cairn").mkdir(parents=True)
    environment = {**os.environ, "NODE_CLI": str(tmp_path / "cli")}
    program(tmp_path / "cli", f"cat {tmp_path}/answer")
    command = [*shell.split(), str(script), "--root", str(tmp_path), "--ask"]
    result = subprocess.run(command, check=False, env=environment, capture_output=True)
    assert (result.returncode == 0) == over
    assert not list((tmp_path / "var/lib/cairn").iterdir())


@pytest.mark.parametrize("shell", SHELLS)
def test_the_note_reads_nothing_of_the_daemon(tmp_path: Path, shell: str) -> None:
    """--note writes the marker and restarts, and asks nobody."""
    (tmp_path / "var/lib/cairn").mkdir(parents=True)
    program(tmp_path / "systemctl", f'echo "$@" >>{tmp_path}/said')
    program(tmp_path / "bin/node-cli", "exit 99")
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "CAIRN_SYSTEMCTL": str(tmp_path / "systemctl"),
    }
    script = str(ROOT / "overlay/usr/lib/cairn/cairn-sync-done")
    command = [*shell.split(), script, "--root", str(tmp_path), "--note"]
    subprocess.run(command, check=True, env=environment)
    assert re.match(r"\d{4}-", (tmp_path / "var/lib/cairn/initial-sync-done").read_text())
    assert (tmp_path / "said").read_text() == (
        "stop cairn-sync-done.timer\n--no-block restart bitcoind.service\n"
    )


def commands_as_root() -> list[tuple[str, str]]:
    """Unit and command line of all that our units run as root."""
    found = []
    for unit in sorted([*UNITS.glob("*.service"), *UNITS.glob("*/*.conf")]):
        text = unit.read_text().replace("\\\n", " ")
        user = re.search(r"(?m)^User=(.+)$", text)
        for line in re.findall(r"(?m)^Exec\w+=(.+)$", text):
            if not user or line.lstrip("-@:")[0] in "+!":
                found.append((unit.name, line.lstrip("-@:+!")))
    # acpid runs what its action file names, RAUC what its settings name, the owner this.
    found.append(("cairn-power-button@.service", "/usr/lib/cairn/cairn-power-button"))
    rauc = (ROOT / "board/common/rauc.conf").read_text()
    found += [("rauc", line) for line in re.findall(r"(?m)^[\w-]+=(/usr/lib/cairn/.+)$", rauc)]
    found.append(("a shell", "/usr/bin/node-update"))
    return found


#: Paths below folders that other users can write to, and questions to the daemon.
OF_OTHERS = re.compile(
    r"/var/lib/bitcoind|/run/bitcoind/rpc|node-cli|bitcoin-cli"
    r"|/var/lib/cairn/(tor|probe|health)(?![\w-])"
    r"|/run/cairn/(status|link|health|tor|probe)(?![\w-])"
)
#: Where scripts that root runs have to name them, each once, and what keeps that safe.
ALLOWED = {
    # a sentence for the owner
    "cairn-bitcoind-look": ["load each with node-cli loadwallet NAME true"],
    # writes the name down for the check, which user bitcoin makes
    "cairn-bitcoind-verdict": ['"$root/var/lib/bitcoind$(database_chain "$root")" "$said" |'],
    # by cairn-health alone, which has a user of its own; node-tune only takes health_disk
    "cairn-health-facts.sh": [
        'if health_ever "$1/run/cairn/health/undervoltage"',
        'if health_ever "$1/run/cairn/health/throttled"',
        '[ -f "$1/run/cairn/link/state" ]',
        'head -c 4096 "$1/run/cairn/link/state"',
    ],
    # with --ask, which is not root's
    "cairn-sync-done": ["${NODE_CLI:-node-cli} getblockchaininfo"],
    # follows no link, opens nothing but a short file, and takes seven lines of known forms
    "disk-speed.sh": ['disk_speed_result "$1/var/lib/cairn/probe/result"'],
    # a line for Tor, which runs as its own user
    "node-config": ["HiddenServiceDir /var/lib/cairn/tor/rpc"],
    # only asks whether files are there, and never opens them
    "node-tune": ["datadir=/var/lib/bitcoind\n"],
    # the room that is left; names and kinds of files, see test_wallet_names; a sentence
    "recovery.sh": [
        '${CAIRN_DF:-df} -Pk "$1/var/lib/bitcoind"',
        "\tdata=$1/var/lib/bitcoind\n",
        "root@NODE:/var/lib/bitcoind%s",
    ],
    # node-cli asks as another user, see test_root_asks_as_another_user; of its answer count a
    # number, known words, and whether it is another one than before
    "trial-look.sh": ["${NODE_CLI:-node-cli -rpcclienttimeout=20} getblockchaininfo"],
    "update.sh": ["${NODE_CLI:-node-cli -rpcclienttimeout=60} getblockchaininfo"],
}


def sourced(script: Path) -> set[Path]:
    """A script with all that it sources, wherever it does."""
    found: set[Path] = set()
    waiting = [script]
    while waiting:
        found.add(now := waiting.pop())
        for name in re.findall(r'(?m)^\s*\. ".*/([^/"]+)"$', now.read_text()):
            files = set((ROOT / "overlay/usr/lib/cairn").glob(re.sub(r"\$\w+", "*", name)))
            assert files, f"{now.name} sources {name}"
            waiting += files - found
    return found


def test_what_root_runs_stays_out_of_the_daemons_folders() -> None:
    """Scripts that root runs, and what they source, name no path that others can write to.

    Those that have to are listed with what keeps them safe; a new one has to be thought about.
    """
    ours = {"/usr/lib/cairn", "/usr/bin"}
    scripts: set[Path] = set()
    for unit, line in commands_as_root():
        command = Path(shlex.split(line)[0])
        script = ROOT / "overlay" / command.relative_to("/")
        if str(command.parent) not in ours or not script.exists():
            known = {"rm", "mount", "grep", "sshd", "kill", "test", "acpid"}
            assert command.name in known, (unit, line)
            continue
        assert "--ask" not in line, (unit, line)
        scripts |= sourced(script)
    assert {"boot-tryboot.sh", "boot-systemd-boot.sh"} | set(ALLOWED) <= {x.name for x in scripts}
    for script in sorted(scripts):
        code = re.sub(r"(?m)^\s*#.*", "", script.read_text())
        for words in ALLOWED.get(script.name, []):
            assert code.count(words) == 1, f"{script.name} names '{words}' another way now"
            code = code.replace(words, "")
        named = [line for line in code.splitlines() if OF_OTHERS.search(line)]
        assert not named, f"root runs {script.name}"


NAMES = [
    "x; rm -rf ~",
    "$(touch owned)",
    "`touch owned`",
    "a b",
    "new\nline",
    "\x1b[2Jx",
    "\x9bx",
    "'quote",
    '"double',
    "ümlaut",
    "-oProxyCommand=x",
    "a&b",
    "a\\b",
]


def wallet_advice(shell: str, root: Path) -> str:
    """What the owner is told to copy, run in a folder where an intruder's word would show."""
    library = ROOT / "overlay/usr/lib/cairn/recovery.sh"
    return subprocess.run(
        [*shell.split(), "-c", f". {library}; wallet_advice {root}"],
        check=True,
        capture_output=True,
        cwd=root,
        text=True,
    ).stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("above", ["", "wallets", "regtest/wallets"])
def test_wallet_names(tmp_path: Path, shell: str, name: str, above: str) -> None:
    """The advice that the owner pastes into a shell has no word of an intruder's."""
    folder = tmp_path / "var/lib/bitcoind" / above / name
    folder.mkdir(parents=True)
    (folder / "wallet.dat").touch()
    said = wallet_advice(shell, tmp_path)
    below = f"/{above}" if above else ""
    if name == "-oProxyCommand=x":  # behind a path it is no option, but = is not plain either
        assert "Proxy" not in said
    assert said == (
        f"First copy the wallet to another computer (scp -r root@NODE:/var/lib/bitcoind{below} .). "
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_wallets_of_a_test_chain_are_found(tmp_path: Path, shell: str) -> None:
    """Core keeps them below wallets/ of the chain's folder."""
    for name in ("wallets/a", "testnet4/wallets/b"):
        folder = tmp_path / "var/lib/bitcoind" / name
        folder.mkdir(parents=True)
        (folder / "wallet.dat").touch()
    said = wallet_advice(shell, tmp_path)
    assert "bitcoind/wallets root@NODE:/var/lib/bitcoind/testnet4/wallets ." in said


def test_the_owner_of_the_run_folder(place: Path) -> None:
    """tmpfiles.d keeps /run/bitcoind root's, so that nothing can be planted beside root's files.

    systemd makes only bitcoind/rpc (RuntimeDirectory=) the daemon's own, not what is above it:
    the suite `service` looks at it on a running node.
    """
    lines = (ROOT / "overlay/usr/lib/tmpfiles.d/cairn.conf").read_text().splitlines()
    fields = {line.split()[1]: line.split() for line in lines if line and line[0] != "#"}
    assert fields["/run/bitcoind"][:5] == ["d", "/run/bitcoind", "0750", "root", "bitcoin"]
    for path, words in fields.items():
        if words[0] == "L+":  # without a mode; without a user root's, who makes it
            assert words[3] in ("-", "root"), f"{path} is not root's"
            continue
        assert words[3] == "root", f"{path} is not root's"
        assert not int(words[2], 8) & 0o022, f"{path} can be written by others"
        assert not path.startswith(("/run/bitcoind/rpc", "/var/lib/bitcoind/")), path
