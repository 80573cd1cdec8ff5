"""What the Robot libraries share: one machine, one feeder, and how they are asked.

Robot makes an instance of each library; all of them use the one Session of this module.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import time
from collections.abc import Callable
from typing import Any, TypeVar

from robot.api import SkipExecution, logger
from robot.libraries.BuiltIn import BuiltIn

from lab.board import Board, Words
from lab.guest_shell import GuestShellError, Result
from lab.machine import Machine, run_host
from lab.paths import ROOT
from lab.set_aside import is_machines, key_of
from lab.under_test import Need, UnderTest

T = TypeVar("T")
#: What a question to the guest raises if it is answered with an error, or not at all.
ERRORS = (AssertionError, GuestShellError)


def poll(
    ask: Callable[[], T | None],
    seconds: float,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T | None:
    """Asks until there is an answer other than None; returns it, None if ``seconds`` have passed.

    Asking takes an emulated processor's time from what is waited for: it is left alone twice as
    long as the answer took, at least a second.
    """
    deadline = now() + seconds
    while True:
        begin = now()
        answer = ask()
        if answer is not None or now() > deadline:
            return answer
        sleep(max(1.0, 2 * (now() - begin)))


def decode(answer: str) -> Any:  # noqa: ANN401
    """An answer of bitcoin-cli: JSON if it is, else the text itself."""
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def said(result: Result) -> str:
    """What a command had to say about its failure."""
    return (result.stderr or result.stdout).strip()


def needs_of(node_conf: str) -> list[Need]:
    """What a machine must have that gets this text as its node.conf, see `Put Node Conf`."""
    lines = [line for line in node_conf.splitlines() if is_machines(line)]
    disk = {"filesystem", "datadisk", "erase"}
    if node_conf.startswith("hex:") or any(key_of(line) in disk for line in lines):
        return [Need.DISK]
    return [Need.DATA, *([Need.NETWORK] if lines else [])]


class Session:
    """One machine and one feeder."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self.feeder_options: list[str] = []
        self.figures: dict[str, dict[str, float | str]] = {}

    @functools.cached_property
    def machine(self) -> UnderTest:
        """The machine: a board if BOARD_HOST= names one, otherwise a virtual one."""
        words = Words.read(os.environ)
        return Board(words) if words.host else Machine()

    @property
    def virtual(self) -> Machine:
        """The virtual machine, for what only such a one can do; `need` comes before."""
        assert isinstance(self.machine, Machine), "this is no virtual machine"
        return self.machine

    def need(self, *needs: Need) -> None:
        """Skips the test, with the reason, if the machine lacks one of these."""
        for need in needs:
            if reason := self.machine.lacks(need):
                raise SkipExecution(f"it needs {need.value}: {reason}")

    @staticmethod
    def variable(name: str, default: str) -> str:
        """A variable of Robot."""
        return str(BuiltIn().get_variable_value(f"${{{name}}}", default))

    def seconds(self, seconds: float) -> float:
        """A time-out as it is on this host: TIMEOUT_FACTOR times as long, default 1."""
        return float(seconds) * float(self.variable("TIMEOUT_FACTOR", "1"))

    def result(self, script: str, timeout: float = 120) -> Result:
        """What a shell script in the guest did. Raises GuestShellError without an answer."""
        result = self.machine.shell.run(script, self.seconds(timeout))
        logger.debug(f"{script}\n-> {result.status}\n{result.stdout}\n{result.stderr}")
        return result

    def run(self, script: str, timeout: float = 120) -> str:
        """Output of a shell script in the guest. Raises AssertionError if it fails."""
        result = self.result(script, timeout)
        if result.status:
            raise AssertionError(f"exit status {result.status} of '{script}': {said(result)}")
        return result.stdout.rstrip("\n")

    def until(self, script: str, seconds: float) -> str:
        """Output of a shell script once it succeeds. Raises AssertionError if it never does."""
        last = Result(0, "", "")

        def ask() -> str | None:
            nonlocal last
            last = self.result(script)
            return None if last.status else last.stdout.rstrip("\n")

        output = poll(ask, self.seconds(seconds))
        if output is None:
            raise AssertionError(f"'{script}' did not succeed in {seconds} s: {said(last)}")
        return output

    def rpc(self, method: str, *arguments: str, timeout: float = 120) -> Any:  # noqa: ANN401
        """The answer of the node in the guest; JSON is decoded."""
        quoted = " ".join("'" + str(argument) + "'" for argument in arguments)
        return decode(self.run(f"node-cli {method} {quoted}", timeout))

    def feeder(self, method: str, *arguments: str, text: str = "") -> Any:  # noqa: ANN401
        """The answer of the feeder; with ``-stdin``, ``text`` is an argument, too."""
        info = run_host(str(ROOT / "support/feeder"), "info", *self.feeder_options)
        command = dict(line.split("=", 1) for line in info.splitlines())["cli"]
        return decode(run_host(*shlex.split(command), method, *arguments, text=text).strip())


#: The one that all libraries use.
session = Session()
