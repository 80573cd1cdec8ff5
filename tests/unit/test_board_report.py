"""support/board_report.py on made-up answers: each figure, each reason, and nothing private."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from lab.guest_shell import GuestShellError, Result
from lab.paths import ROOT
from support import board_report as report
from support.board_report import Cut, NotAvailableError, Sample
from tests.shared.commands import captured, program


class Fixed:
    """A shell with one answer."""

    def __init__(self, result: Result | None) -> None:
        """None: it does not answer."""
        self.result = result
        self.asked: list[str] = []

    def run(self, script: str, timeout: float) -> Result:
        """The answer."""
        self.asked.append(script)
        if self.result is None:
            raise GuestShellError("no answer")
        return self.result

    def wait(self, timeout: float) -> None:
        """It is there."""

    def close(self) -> None:
        """Nothing to do."""

    def send(self, data: bytes, path: str, timeout: float) -> None:
        """It goes nowhere."""

    def fetch(self, path: str, timeout: float) -> bytes:
        """Nothing."""
        return b""


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (None, "no answer"),
        (Result(1, "half an answer", "it is broken\nmore"), "it is broken"),
        (Result(0, "\n", ""), "the machine has no answer"),
    ],
)
def test_not_available(result: Result | None, why: str) -> None:
    """The reason stands where the figure would be."""
    assert report.or_why(lambda: report.ask(Fixed(result), "x")) == f"not available: {why}"
    assert report.block(f"not available: {why}") == f"not available: {why}"
    assert report.block("a\n\nb") == "    a\n\n    b"


def test_samples() -> None:
    """A dash is what is not there."""
    assert Sample.parse("54321 2400 2/4 1500000") == Sample(54.321, 2400, "2/4", 1500)
    assert Sample.parse("- - - -") == Sample(None, None, None, None)
    with pytest.raises(ValueError):
        Sample.parse("54321 2400")


def test_temperature_table() -> None:
    """Least, middle, most; how the fan went; the slowest clock."""
    calm = [Sample(50.0, 0, "0/4", 1500), Sample(52.0, 0, "0/4", 1500)]
    busy = [Sample(60.0, 0, "0/4", 2400), Sample(71.0, 2100, "2/4", 1800)]
    rows = report.temperature_table({"calm": calm, "busy": busy}).splitlines()
    assert rows[2] == "| calm | 2 | 50.0 | 51.0 | 52.0 | 0 | 0/4 | 1500 |"
    assert rows[3] == "| busy | 2 | 60.0 | 65.5 | 71.0 | 0 → 2100 | 0/4 → 2/4 | 1800 |"
    assert report.missing(busy) == []
    nothing = [Sample(None, None, None, None)]
    assert report.temperature_table({"x": nothing}).splitlines()[2] == (
        "| x | 1 | — | — | — | — | — | — |"
    )
    assert [line.partition(": not available: ")[0] for line in report.missing(nothing)] == [
        "temperature",
        "fan",
    ]


def test_load_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the looks fail."""
    shell = Fixed(Result(0, "garbage", ""))
    with pytest.raises(NotAvailableError, match="cannot be read"):
        report.under_load(shell, 1, lambda _: None)
    assert shell.asked[0] == report.LOAD.format(seconds=121)
    assert shell.asked[-1] == report.UNLOAD


def test_load_is_on_every_core_and_ends(tmp_path: Path) -> None:
    """The scripts, with a command in the place of what computes."""
    program(tmp_path / "bin/sha256sum", f"echo $$ >>{tmp_path}/running; exec sleep 60")
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    def run(script: str) -> str:
        script = script.replace("/run/", f"{tmp_path}/").replace("/proc/", f"{tmp_path}/")
        return subprocess.run(
            ["sh", "-c", script], check=True, capture_output=True, text=True, env=env
        ).stdout

    (tmp_path / "cpuinfo").write_text("processor\t: 0\nprocessor\t: 1\nmodel name\t: x\n")
    assert run(report.LOAD.format(seconds=50)) == "begun\n"
    pids = (tmp_path / "cairn-report.pids").read_text().split()
    assert len(pids) == 2
    assert run(report.UNLOAD) == "ended\n"
    deadline = time.monotonic() + 30
    while (left := running(pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    assert not (tmp_path / "cairn-report.pids").exists()


def running(pids: list[str]) -> list[str]:
    """Those of the processes that have not ended; one that nobody has waited for has."""
    states = {pid: captured("ps", "-o", "stat=", "-p", pid).stdout.strip() for pid in pids}
    return [pid for pid, state in states.items() if state and not state.startswith("Z")]


def test_chain_rate() -> None:
    """Blocks and transactions an hour; none at the tip."""
    first: dict[str, object] = {
        "blocks": 1000,
        "verificationprogress": 0.1,
        "initialblockdownload": True,
    }
    last = {**first, "blocks": 1100, "verificationprogress": 0.101}
    assert report.chain_rate(first, last, 360) == (
        "100 blocks in 360 s (1000 an hour) at height 1100;"
        " 1.000 % of the chain's transactions an hour"
    )
    with pytest.raises(NotAvailableError, match="at the tip"):
        report.chain_rate(first, {**last, "initialblockdownload": False}, 360)


def test_block_rate() -> None:
    """From the first block to the last, and the daemon's whole time."""
    line = "2026-11-25T02:00:{:09.6f}Z UpdateTip: new best=00 height={} version=0x1"
    text = "\n".join(["100.5 140.9", line.format(1, 1), line.format(29.262, 14131)])
    assert report.block_rate(text) == (
        "14131 blocks in 28.3 s, 500 a second;"
        " 40 s from the daemon's start to its end, with the last flush"
    )
    with pytest.raises(NotAvailableError, match="did not come to block 14131"):
        report.block_rate(text.replace("14131", "14130"))


def test_answer_time() -> None:
    """Since the kernel's start; not after restarts without saying so."""
    text = "NRestarts={}\nActiveEnterTimestampMonotonic={}"
    assert report.answer_time(text.format(0, 42_400_000)) == "42 s after the kernel's start"
    assert report.answer_time(text.format(2, 1)).endswith("after 2 restarts")
    with pytest.raises(NotAvailableError):
        report.answer_time(text.format(0, 0))


def test_cuts_table() -> None:
    """What was wrong, or that nothing was."""
    rows = report.cuts_table([Cut(20.4, 40.6, 5, 5, ""), Cut(1, 2, 5, 4, "failed: x.service")])
    assert rows.splitlines()[2:] == [
        "| 1 | 20 s | 41 s | 5 | 5 | came back by itself, no failed unit |",
        "| 2 | 1 s | 2 s | 5 | 4 | failed: x.service |",
    ]


@pytest.mark.parametrize(
    "word",
    [
        "192.168.1.50",
        "fe80::1",
        "2001:db8::1:2",
        "::1",
        "dc:a6:32:01:02:03",
        "attic",
        "Attic.lan",
    ],
)
def test_private(word: str) -> None:
    """Addresses and names, wherever they come from."""
    found = report.private(f"at {word}, and ({word})", ["attic", "Attic.lan"])
    assert found == "at (left out), and ((left out))"


def test_not_private() -> None:
    """Versions, times, and the image's own name, which a node has that was not given another."""
    text = "6.18.15, v30.0.0, 12:30:01, cairn-health.service 1.5s, 0x1f, a:b, attics, 999.1.1.1\n"
    assert report.private(text, ["cairn", "attic", ""]) == text


def test_says_what_it_needs() -> None:
    """Without a machine, or with a number that is none."""
    command = str(ROOT / "support/board-report")
    bare = {name: text for name, text in os.environ.items() if not name.startswith("BOARD_")}
    python = str(ROOT / ".venv/bin/python")
    done = captured(python, command, env=bare)
    assert done.returncode == 2 and "make board-report BOARD_HOST=NAME" in done.stderr
    done = captured(python, command, env={**bare, "BOARD_HOST": "attic", "CUTS": "many"})
    assert done.returncode == 1 and "CUTS=many is no whole number" in done.stderr
