"""node-status: one screen from canned answers, by way of cairn-status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.shared.commands import program

STATE = {
    "chain": "main",
    "blocks": 14131,
    "headers": 900000,
    "bestblockhash": "00",
    "verificationprogress": 0.2512,
    "initialblockdownload": True,
    "size_on_disk": 7340032,
    "pruned": True,
    "warnings": ["none"],
}


#: An RPC command for a node that tells of its chain and peers only.
ANSWERS = """case $1 in
getblockchaininfo) cat {tree}/state.json ;;
getpeerinfo) cat {tree}/peers.json ;;
*) exit 1 ;;
esac"""


def peers(tree: Path, count: int = 8) -> None:
    """getpeerinfo's answer."""
    answer = [{"id": number, "network": "ipv4", "inbound": False} for number in range(count)]
    (tree / "peers.json").write_text(json.dumps(answer, indent=2))


def health(*attention: str, uptime: str = "7300", **figures: str) -> str:
    """health.json as cairn-health writes it."""
    lines = [f'  "{key}": {value},' for key, value in figures.items()]
    words = ", ".join(f'"{word}"' for word in attention)
    return "\n".join(
        [
            "{",
            '  "schema": 1,',
            f'  "uptime_seconds": {uptime},',
            *lines,
            f'  "attention": [{words}],',
            '  "disks": []',
            "}\n",
        ]
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that node-status reads."""
    files = {
        "proc/sys/kernel/hostname": "attic\n",
        "proc/uptime": "7325.10 1.0\n",
        "proc/meminfo": "MemTotal: 1024000 kB\nMemAvailable: 512000 kB\n",
        "run/cairn/health.json": health(temperature_celsius="51.2"),
        "run/cairn/node-conf.records": "chain test\noption - prune=99\noption test prune=777\n",
        "run/bitcoind/tuned.conf": "prune=550\ndbcache=289\npar=4\n",
        "run/cairn/node-conf.report": 'node.conf line 2: "x": no; the line is ignored.\n',
        "run/cairn/node-tune.report": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "var").mkdir()
    (tmp_path / "run/cairn/status").mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def systemctl(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up systemctl, first in the search path."""
    tools = tmp_path_factory.mktemp("bin")
    state(tools, "active", "running")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tools


def state(tools: Path, active: str, sub: str, text: bytes = b"") -> None:
    """Sets what the made-up systemctl says of bitcoind."""
    said = f"ActiveState={active}\nSubState={sub}\nStatusText=".encode() + text + b"\n"
    (tools / "said").write_bytes(said)
    program(tools / "systemctl", f"cat {tools}/said")


def shown(root: Path, tree: Path, shell: str, cli: str) -> subprocess.CompletedProcess[bytes]:
    """One screen with a made-up RPC command, and what is on standard error."""
    collect(root, tree, shell, cli)
    return subprocess.run(
        [*shell.split(), str(root / "overlay/usr/bin/node-status"), "--once", "--root", str(tree)],
        check=True,
        capture_output=True,
    )


def collect(root: Path, tree: Path, shell: str, cli: str) -> None:
    """One look of the collector, which says nothing on standard error."""
    script = root / "overlay/usr/lib/cairn/cairn-status"
    result = subprocess.run(
        [*shell.split(), str(script), "--once", "--root", str(tree)],
        check=True,
        capture_output=True,
        env={**os.environ, "NODE_CLI": str(program(tree / "cli", cli))},
    )
    assert result.stderr == b""


def screen(root: Path, tree: Path, shell: str, cli: str) -> str:
    """The text of a screen, with nothing on standard error."""
    result = shown(root, tree, shell, cli)
    assert result.stderr == b""
    return result.stdout.decode()


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_running(root: Path, tree: Path, shell: str) -> None:
    """What a syncing node shows, within 80x24."""
    peers(tree)
    (tree / "state.json").write_text(json.dumps(STATE, indent=2))
    (tree / "usr/lib").mkdir(parents=True, exist_ok=True)
    (tree / "usr/lib/os-release").write_text("VERSION_ID=12\nIMAGE_VERSION=0.1.0\n")
    text = screen(
        root,
        tree,
        shell,
        ANSWERS.format(tree=tree),
    )
    for words in (
        "Cairn node attic",
        "main, pruned",
        "14131 of 900000 headers",
        "[##########..............................] 25.12 %",
        "initial sync",
        "peers       8",
        "block files 7 MiB",
        "500 of 1000 MiB free",
        "temperature 51 C",
        "prune 777 MiB, dbcache 289 MiB, par 4",
        "2:02 h, Cairn 0.1.0",
        "! node.conf line 2",
    ):
        assert words in text
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_starting(root: Path, tree: Path, systemctl: Path, shell: str) -> None:
    """A daemon that cannot answer yet is starting, which is no error."""
    state(systemctl, "activating", "start")
    answer = (
        "printf 'error code: -28\\nerror message:\\nVerifying blocks\342\200\246\\n' >&2; exit 28"
    )
    assert "starting    Verifying blocks..." in screen(root, tree, shell, answer)
    assert "starting    please wait" in screen(root, tree, shell, "echo 'error: x' >&2; exit 1")


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_rebuilding(root: Path, tree: Path, shell: str) -> None:
    """A rebuild is shown until the chain is there again, and not twice."""
    words = "! A damaged database is being rebuilt (Corruption: x)"
    cairn = tree / "var/lib/cairn"
    cairn.mkdir(parents=True)
    (cairn / "rebuild").write_text("begun=1\nwhat=Corruption: x\n")
    answer = tree / "state.json"
    answer.write_text(json.dumps(STATE, indent=2))
    assert words in screen(root, tree, shell, f"cat {answer}")
    answer.write_text(json.dumps(STATE | {"initialblockdownload": False}, indent=2))
    assert words not in screen(root, tree, shell, f"cat {answer}")
    assert words in screen(root, tree, shell, "exit 1")
    report = tree / "run/cairn/bitcoind.report"
    report.write_text("A database is damaged\n")
    assert words not in screen(root, tree, shell, "exit 1")
    report.unlink()
    (cairn / "initial-sync-done").touch()
    assert words not in screen(root, tree, shell, "exit 1")


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_not_running(root: Path, tree: Path, systemctl: Path, shell: str) -> None:
    """A daemon that is down is shown as such, with the reason."""
    state(systemctl, "inactive", "dead")
    (tree / "run/cairn/bitcoind.report").write_text("The data partition is full.\n")
    text = screen(root, tree, shell, "echo 'error: x' >&2; exit 1")
    assert "the node is not running" in text
    state(systemctl, "deactivating", "stop")
    assert "do not pull the plug" in screen(root, tree, shell, "exit 1")
    assert "! The data partition is full." in text


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize(
    ("said", "part"),
    [("writing\n", "writing"), ("reading\n", "reading"), ("\x1b[2J" * 1000, "reading")],
)
def test_the_disk_is_measured(
    root: Path, tree: Path, systemctl: Path, shell: str, said: str, part: str
) -> None:
    """That the node is not there yet has a reason, in words of the screen's own."""
    state(systemctl, "inactive", "dead")
    doing = tree / "run/cairn/probe/doing"
    doing.parent.mkdir()
    doing.write_text(said)
    text = screen(root, tree, shell, "exit 1")
    line = f"starting    measuring the data disk, once, 20 seconds at most: {part}"
    assert line in text.splitlines()
    assert "not running" not in text


@pytest.mark.parametrize(
    ("headers", "words"), [(14131, "at the tip"), (14231, "100 blocks behind")]
)
def test_after_the_initial_sync(root: Path, tree: Path, headers: int, words: str) -> None:
    """A node that was off for a while says how far behind it is."""
    answer = STATE | {"initialblockdownload": False, "headers": headers}
    (tree / "state.json").write_text(json.dumps(answer, indent=2))
    assert words in screen(root, tree, "dash", f"cat {tree}/state.json")


def test_redraw_keeps_the_last_line(root: Path, tree: Path) -> None:
    """What follows the last line's end is cleared, not the line."""
    script = root / "overlay/usr/bin/node-status"
    collect(root, tree, "dash", "exit 1")
    command = ["timeout", "8", str(script), "--root", str(tree), "--interval", "60"]
    frame = subprocess.run(command, check=False, capture_output=True).stdout
    assert frame.startswith(b"\x1b[2J\x1b[H=== Cairn node attic")
    assert frame.endswith(b"the line is ignored.\x1b[K\r\n\x1b[J")


def test_many_reports_fit(root: Path, tree: Path) -> None:
    """A file full of mistakes does not push the state off the screen."""
    (tree / "run/cairn/node-conf.report").write_text("node.conf line 1: " + "x " * 400 + "\n")
    text = screen(root, tree, "dash", "exit 1")
    assert len(text.splitlines()) <= 24


#: A new title, a cleared screen, an 8-bit CSI, its UTF-8 form, a bell, other letters, a reversed
#: text direction, a way back to the line's begin, a NUL.
HOSTILE = (
    b"\x1b]0;owned\x07\x1b[2J\x9b31m\xc2\x9b1A\xc3\xa4\xe2\x80\xae\rroot@attic\x00\x08\t\x0e\x7f"
)


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize("source", ["files", "systemd", "rpc", "error", "starting", "ip"])
def test_nothing_steers_the_terminal(
    root: Path, tree: Path, systemctl: Path, shell: str, source: str
) -> None:
    """Whatever a source says, the screen is printable ASCII of 80x24."""
    hostile = HOSTILE.replace(b"\x00", b"") if source in ("rpc", "ip") else HOSTILE
    answer = json.dumps(STATE, indent=2).encode()
    fails = ""
    if source == "files":
        for name in (
            "hostname",
            "bitcoin.conf",
            "tuned.conf",
            "report",
            "rebuild",
            "health",
            "meminfo",
        ):
            path = {
                "hostname": "proc/sys/kernel/hostname",
                "report": "run/cairn/data-format.report",
                "rebuild": "var/lib/cairn/rebuild",
                "health": "run/cairn/health.json",
                "meminfo": "proc/meminfo",
            }.get(name, f"run/bitcoind/{name}")
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            prefix = {"rebuild": b"what=", "meminfo": b"MemTotal: ", "report": b""}.get(
                name, b"prune="
            )
            (tree / path).write_bytes(prefix + hostile * 9 + b"\n" + hostile + b"\n! x" * 30)
    elif source == "systemd":
        state(systemctl, "active", "running", hostile * 9)
    elif source == "rpc":
        for field in (b'"main"', b"14131", b"900000", b"0.2512", b"7340032", b"true", b"none"):
            answer = answer.replace(field, field[:-1] + hostile + field[-1:])
    elif source == "ip":
        (systemctl / "said-ip").write_bytes(b"2: eth0 inet " + hostile + b"/24 scope\n")
        program(systemctl / "ip", f"cat {systemctl}/said-ip")
    else:
        if source == "starting":
            state(systemctl, "activating", "start")
        answer, fails = b"error code: -28\nerror message:\n" + hostile, "; exit 1"
    (tree / "answer").write_bytes(answer)
    drawn = shown(root, tree, shell, f"cat {tree}/answer{fails}").stdout
    assert re.fullmatch(rb"[ -~\n]*", drawn), drawn
    assert len(drawn.splitlines()) <= 24
    assert max(map(len, drawn.splitlines())) <= 79
    assert b"up          " in drawn


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_warnings_of_core_are_shown(root: Path, tree: Path, shell: str) -> None:
    """Core's own warnings stand among the sentences, each as one."""
    answer = STATE | {"warnings": ['Unknown new "rules" activated', "The disk is full."]}
    (tree / "state.json").write_text(json.dumps(answer, indent=2))
    text = screen(root, tree, shell, f"cat {tree}/state.json")
    assert '! Bitcoin Core warns: Unknown new "rules" activated\n' in text
    assert "! Bitcoin Core warns: The disk is full.\n" in text
    (tree / "state.json").write_text(json.dumps(STATE | {"warnings": []}, indent=2))
    assert "warns" not in screen(root, tree, shell, f"cat {tree}/state.json")


DAY = 86400


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize(
    ("built", "tip", "more", "words"),
    [
        (-30 * DAY, -3600, {}, ""),
        (10 * DAY, -3600, {}, "before this image was made"),
        (None, 4 * 3600, {}, "the newest blocks are of"),
        (-30 * DAY, -40 * DAY, {"headers": 14131}, "either the clock is wrong, or"),
        # in the initial sync, on a test chain, or without an answer old blocks say nothing
        (-30 * DAY, -40 * DAY, {}, ""),
        (-30 * DAY, -40 * DAY, {"headers": 14131, "chain": "regtest"}, ""),
        (-30 * DAY, None, {}, ""),
    ],
)
def test_a_wrong_clock_is_shown(
    root: Path,
    tree: Path,
    shell: str,
    built: int | None,
    tip: int | None,
    more: dict[str, object],
    words: str,
) -> None:
    """The clock is compared with the image's date and with the chain."""
    now = int(time.time())
    if built is not None:
        (tree / "usr/share/cairn").mkdir(parents=True)
        (tree / "usr/share/cairn/built").write_text(f"{now + built}\n")
    answer = STATE | ({} if tip is None else {"mediantime": now + tip}) | more
    (tree / "state.json").write_text(json.dumps(answer, indent=2))
    peers(tree)
    text = (
        screen(
            root,
            tree,
            shell,
            ANSWERS.format(tree=tree),
        )
        .replace("\n", " ")
        .replace("  ", " ")
    )
    assert ("clock" in text) == bool(words)
    assert words in text


HEALTH = {
    "undervoltage": "The power supply was too weak for a moment since the start (under-voltage)",
    "throttled": "The processor is slowed down because of heat or a weak power supply",
    "hot": "The processor is hot (85 C)",
    "clock": "The clock has not been set since the start",
    "filesystem-errors": "The file system of the data disk had errors (count: 3)",
    "disk-timeouts": "The data disk did not answer in time",
    "disk-worn:mmcblk0": "The disk mmcblk0 is nearly worn out",
    "link": "The router did not answer for a while although the cable was in;"
    " the link was restarted 2 times, last 12 minutes ago.",
}


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize("what", HEALTH)
def test_health(root: Path, tree: Path, shell: str, what: str) -> None:
    """A sentence for what deserves attention, and none for the rest."""
    file = tree / "run/cairn/health.json"
    figures = {
        "temperature_celsius": "85.9",
        "filesystem_errors": "3",
        "gateway_silent_seconds": "0",
        "link_restarts": "2",
        "last_link_restart_seconds_ago": "730",
    }
    file.write_text(health(what, **figures))
    text = " ".join(screen(root, tree, shell, "exit 1").split())
    assert [name for name, words in HEALTH.items() if words in text] == [what]
    file.write_text(health(**figures))
    text = screen(root, tree, shell, "exit 1")
    assert not [name for name, words in HEALTH.items() if words[:30] in text]


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_name_in_the_network(root: Path, tree: Path, shell: str) -> None:
    """Beside the addresses, where it is announced; as text."""
    assert ".local" not in screen(root, tree, shell, "exit 1")
    (tree / "run/cairn/mdns-name").write_bytes(b"cairn7\x1b[2J\nx\n")
    assert "\naddress     cairn7?[2J.local" in screen(root, tree, shell, "exit 1")


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_boot_firmware(root: Path, tree: Path, shell: str) -> None:
    """Its date stands beside the temperature, or alone."""
    file = tree / "run/cairn/health.json"
    date = '"2024-09-10"'
    file.write_text(health(temperature_celsius="51.2", boot_firmware_date=date))
    words = "temperature 51 C, boot firmware of 2024-09-10\n"
    assert words in screen(root, tree, shell, "exit 1")
    file.write_text(health(temperature_celsius="null", boot_firmware_date=date))
    assert "temperature boot firmware of 2024-09-10\n" in screen(root, tree, shell, "exit 1")


@pytest.mark.parametrize("uptime", ["7000", "7326", "0", "99999999"])
def test_old_health(root: Path, tree: Path, uptime: str) -> None:
    """Figures of more than five minutes ago, or of another boot, are not shown."""
    (tree / "run/cairn/health.json").write_text(health("hot", uptime=uptime))
    assert "hot" not in screen(root, tree, "dash", "exit 1")


def test_no_time_server_with_the_lock(root: Path, tree: Path) -> None:
    """Where none is asked, none has failed to answer; a wrong clock has another remedy."""
    (tree / "usr/share/cairn").mkdir(parents=True)
    (tree / "run/cairn/node-conf.records").write_text("chain main\nnetwork on\nlock 1\n")
    (tree / "run/cairn/health.json").write_text(health("clock"))
    assert "clock" not in screen(root, tree, "dash", "exit 1")
    (tree / "usr/share/cairn/built").write_text("9999999999\n")
    said = " ".join(screen(root, tree, "dash", "exit 1").split())
    assert "no time server is asked with tor=only: write tor=1 in its place" in said
    (tree / "run/cairn/node-conf.records").write_text("chain main\nnetwork off\nlock 1\n")
    said = " ".join(screen(root, tree, "dash", "exit 1").split())
    assert "no time server is asked while the network is off" in said
    assert "tor=" not in said


def test_one_sentence_about_the_clock(root: Path, tree: Path) -> None:
    """If it is known how the clock is wrong, this is said and nothing else."""
    (tree / "usr/share/cairn").mkdir(parents=True)
    (tree / "usr/share/cairn/built").write_text("9999999999\n")
    (tree / "run/cairn/health.json").write_text(health("clock"))
    text = screen(root, tree, "dash", "exit 1")
    assert "before this image was made" in text.replace("\n", " ")
    assert "has not been set" not in text


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_forged_health(root: Path, tree: Path, shell: str) -> None:
    """The file is the collector's: a link there shows nothing of what it leads to."""
    file = tree / "run/cairn/health.json"
    secret = tree / "cookie"
    for text in (
        "__cookie__:0123456789abcdef\n",
        health("disk-worn:$(reboot)", "nonsense", "__cookie__:0123"),
        health("hot", temperature_celsius='"__cookie__:0123"'),
        health("link", link_restarts="08", last_link_restart_seconds_ago="a[$(reboot)]"),
        health(boot_firmware_date='"__cookie__"'),
        health("hot", temperature_celsius="9" * 400),
    ):
        secret.write_text(text)
        file.unlink()
        file.symlink_to(secret)
        shown = screen(root, tree, shell, "exit 1")
        assert "cookie" not in shown
        assert "reboot" not in shown
        assert "999" not in shown
        assert "up          " in shown


def test_wrong_option(root: Path) -> None:
    """Usage errors end with 2."""
    for arguments in (["--fast"], ["--interval"]):
        command = [str(root / "overlay/usr/bin/node-status"), *arguments]
        assert subprocess.run(command, check=False, capture_output=True).returncode == 2
