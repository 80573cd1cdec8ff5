"""Robot Framework library: the guest's services and its journal.

Times are in seconds; time-outs are multiplied by TIMEOUT_FACTOR, as in the library CairnVM. Regular
expressions of the journal are grep's extended ones, because the guest looks for them.
"""

from __future__ import annotations

import re
import shlex
import time

from robot.api import logger
from robot.api.deco import keyword, library

from lab.parsing import comes_after, exposure, mebibytes
from tests.robot.lib.Figures import Figures
from tests.robot.lib.session import ERRORS, session

#: A drop-in that has cairn-sync-done ask a script of ours in place of the node.
DROP_IN = "/run/systemd/system/cairn-sync-done.service.d"
#: Answers as at the end of the sync, to user node-status (834) only.
ANSWER = """\
#!/bin/sh
[ $(id -u) = 834 ] || exit 1
printf "{\\n%2s\\"chain\\": \\"main\\",\\n%2s\\"initialblockdownload\\": false\\n"
"""
#: A drop-in with which cairn-probe has as much time as a busy host's emulator may need.
PATIENT = "/run/systemd/system/cairn-probe.service.d"
PATIENCE = """\
[Service]
ExecStart=
ExecStart=/usr/lib/cairn/cairn-probe
Environment=CAIRN_PROBE_SECONDS=300
TimeoutStartSec=600
"""
#: What journalctl prints in place of messages, if there are none.
NO_ENTRIES = "-- No entries --"


def unit_should_be_loaded(unit: str) -> None:
    """Fails if the guest has no such unit, or, for a pattern, has none loaded that matches."""
    found = session.run(f"systemctl show {shlex.quote(unit)} -p LoadState")
    if "LoadState=loaded" not in found.splitlines():
        raise AssertionError(f"there is no unit {unit}: {found or 'nothing matches'}")


def journal_of(unit: str) -> str:
    """The command that prints a unit's messages since boot; of all units for an empty name."""
    of_unit = f" -u {shlex.quote(unit)}" if unit else ""
    return f"journalctl -b --no-pager -o cat{of_unit}"


def counting(unit: str, pattern: str) -> str:
    """The command that counts the messages that a pattern matches; it fails if there are none."""
    return f"{journal_of(unit)} | grep -c -E -- {shlex.quote(pattern)}"


def largest_size(text: str, names: str) -> float:
    """The largest of some settings (a|b) in MiB; of each its last line in the text counts."""
    last = dict(re.findall(rf"(?m)^({names})=(.+)$", text))
    return max(mebibytes(value) for value in last.values())


def seconds_to_start(text: str) -> float:
    """From the two times of a unit, in microseconds, as `systemctl show` prints them."""
    times = dict(re.findall(r"(?m)^(\w+)TimestampMonotonic=(\d+)$", text))
    begin, end = int(times["InactiveExit"]), int(times["ActiveEnter"])
    if not 0 < begin <= end:
        raise AssertionError(f"the unit has not become active: {text}")
    return (end - begin) / 1e6


def missing_lines(text: str, lines: tuple[str, ...]) -> list[str]:
    """Those of the lines that the text has not, as whole lines."""
    return [line for line in lines if line not in text.splitlines()]


@library(scope="GLOBAL", auto_keywords=False)
class Units:
    """systemd in the guest: states, limits, messages."""

    # -- states ----------------------------------------------------------------------

    @keyword
    def system_is_running(self) -> None:
        """Boot has finished, no unit has failed and none had to be restarted.

        Waits for the end of the boot, at most 120 s. Fails with the names of these units.

        Example:
        | System Is Running
        """
        session.result("systemctl is-system-running --wait")
        failed = session.run(
            "systemctl list-units --all --state=failed,auto-restart --no-legend --plain --no-pager"
        )
        if failed:
            raise AssertionError(f"units have failed, or are restarted: {failed}")
        restarts = int(self.property_of("bitcoind", "NRestarts"))
        if restarts:
            raise AssertionError(f"bitcoind had to be restarted {restarts} times")

    @keyword
    def wait_for_unit(self, unit: str, timeout: float = 60) -> None:
        """Waits until a unit is active; ``timeout``: seconds, default 60.

        Example:
        | Wait For Unit    cairn-status    timeout=30
        """
        session.until(f"systemctl is-active {shlex.quote(unit)}", timeout)

    @keyword
    def wait_for_sub_state(self, unit: str, *states: str, timeout: float = 60) -> None:
        """Waits until a unit has one of these states, such as dead or failed.

        ``timeout``: seconds, default 60. Fails if it has none of them by then.

        Example:
        | Wait For Sub State    bitcoind    dead    failed    timeout=30
        """
        pattern = f"^SubState=({'|'.join(states)})$"
        command = f"systemctl show {shlex.quote(unit)} -p SubState"
        session.until(f"{command} | grep -E '{pattern}'", timeout)

    @keyword
    def wait_for_another_process(self, unit: str, pid: int, timeout: float = 60) -> None:
        """Waits until a unit is active and its main process is another one than this.

        ``timeout``: seconds, default 60. Fails if it is not by then.

        Example:
        | ${before}=    Property Of    bitcoind    MainPID
        | Guest    systemctl restart bitcoind
        | Wait For Another Process    bitcoind    ${before}    timeout=120
        """
        name = shlex.quote(unit)
        session.until(
            f"systemctl is-active {name} && pid=$(systemctl show {name} -p MainPID | cut -d= -f2)"
            f' && [ "$pid" -gt 0 ] && [ "$pid" != {pid} ]',
            timeout,
        )

    @keyword
    def property_of(self, unit: str, name: str) -> str:
        """A property of a unit; an empty unit name asks the service manager itself.

        Fails if there is no such unit: one that does not exist has properties, too.

        Example:
        | ${pid}=    Property Of    bitcoind    MainPID
        """
        if unit:
            unit_should_be_loaded(unit)
        return session.run(f"systemctl show {unit} -p {name}").partition("=")[2]

    @keyword
    def property_should_be(self, unit: str, name: str, value: str) -> None:
        """A property of a unit has this value, as `systemctl show` writes it.

        Example:
        | Property Should Be    bitcoind    OOMPolicy    stop
        """
        found = self.property_of(unit, name)
        if found != value:
            raise AssertionError(f"{name} of {unit or 'systemd'} is '{found}', not '{value}'")

    @keyword
    def property_should_be_at_least(self, unit: str, name: str, least: int) -> None:
        """A property of a unit is a whole number, and not less than this one.

        Example:
        | Property Should Be At Least    bitcoind    LimitNOFILE    4096
        """
        found = int(self.property_of(unit, name))
        if found < least:
            raise AssertionError(f"{name} of {unit} is {found}, less than {least}")

    @keyword
    def property_should_be_below(self, unit: str, name: str, bound: int) -> None:
        """A property of a unit is a whole number, and less than this one.

        Example:
        | Property Should Be Below    bitcoind    CPUWeight    100
        """
        found = int(self.property_of(unit, name))
        if found >= bound:
            raise AssertionError(f"{name} of {unit} is {found}, not below {bound}")

    @keyword
    def measure_the_disk_patiently(self) -> bool:
        """Has cairn-probe measure the disk now, if it was too slow at the boot.

        Its 20 seconds are a real machine's; an emulator on a busy host may need longer, at most
        600 s here. Returns whether it had been measured at the boot. Fails with the unit's messages
        if there is no result in the end.

        Example:
        | ${at boot}=    Measure The Disk Patiently
        """
        result = "test -s /var/lib/cairn/probe/result"
        if not session.result(result).status:
            return True
        drop_in = shlex.quote(PATIENCE)
        session.run(
            f"mkdir -p {PATIENT} && printf %s {drop_in} >{PATIENT}/patient.conf &&"
            " rm -f /var/lib/cairn/probe/tries && systemctl daemon-reload &&"
            " systemctl restart cairn-probe node-tune",
            600,
        )
        session.run(f"{result} || {{ {journal_of('cairn-probe')} >&2; false; }}")
        return False

    @keyword
    def seconds_to_start(self, unit: str) -> float:
        """How long a unit took to become active, in seconds.

        Fails if it is not, or was not yet.

        Example:
        | ${seconds}=    Seconds To Start    cairn-probe
        """
        text = session.run(
            f"systemctl show {shlex.quote(unit)}"
            " -p InactiveExitTimestampMonotonic -p ActiveEnterTimestampMonotonic"
        )
        return seconds_to_start(text)

    @keyword
    def exposure_should_be_at_most(self, unit: str, bound: float) -> None:
        """A service's score of `systemd-analyze security`, 0.0 (locked up) to 10.0; recorded, too.

        ``unit``: with or without ``.service``. Fails if the score is above ``bound``.

        Example:
        | Exposure Should Be At Most    node-config    3.0
        """
        service = unit if unit.endswith(".service") else f"{unit}.service"
        score = exposure(session.run(f"systemd-analyze security {service} --no-pager"))
        Figures().record_figure(f"exposure of {unit}", score, "of 10")
        if score > bound:
            raise AssertionError(f"{unit} has {score}, {bound} is the bound")

    # -- journal ---------------------------------------------------------------------

    @keyword
    def journal_of(self, unit: str) -> str:
        """All messages of a unit since boot.

        Example:
        | ${log}=    Journal Of    bitcoind
        """
        return session.run(journal_of(unit))

    @keyword
    def journal_lines(self, unit: str, words: str) -> str:
        """The messages of a unit since boot that contain these words.

        Fails if there are none.

        Example:
        | ${line}=    Journal Lines    bitcoind    SHA256 implementation
        """
        return session.run(f"{journal_of(unit)} | grep -F -- {shlex.quote(words)}")

    @keyword
    def journal_should_contain(self, unit: str, words: str) -> None:
        """A message of a unit since boot contains these words; of any unit for an empty name.

        Example:
        | Journal Should Contain    bitcoind    Shutdown done
        """
        if session.result(f"{journal_of(unit)} | grep -q -F -- {shlex.quote(words)}").status:
            raise AssertionError(f"the journal of {unit or 'the guest'} has no '{words}'")

    @keyword
    def journal_should_not_contain(self, unit: str, words: str) -> None:
        """No message of a unit since boot contains these words.

        Fails if there is no such unit, or if it has no messages, not even systemd's about it.

        Example:
        | Journal Should Not Contain    bitcoind    Wiping L
        """
        unit_should_be_loaded(unit)
        log = session.run(journal_of(unit))
        if log in {"", NO_ENTRIES}:
            raise AssertionError(f"the journal has nothing of {unit}")
        if words in log:
            raise AssertionError(f"the journal of {unit} has '{words}'")

    @keyword
    def journal_should_match(self, unit: str, pattern: str) -> None:
        """A message of a unit since boot matches this regular expression.

        Example:
        | Journal Should Match    bitcoind    ^A database is damaged
        """
        session.run(counting(unit, pattern))

    @keyword
    def wait_for_journal(
        self, unit: str, pattern: str, times: int = 1, timeout: float = 60
    ) -> None:
        """Waits until so many messages of a unit since boot match this regular expression.

        ``times``: default 1. ``timeout``: seconds, default 60. Fails if there are fewer by then.

        Example:
        | Wait For Journal    bitcoind    ^The node waits    times=2    timeout=240
        """
        session.until(f"[ $({counting(unit, pattern)}) -ge {times} ]", timeout)

    @keyword
    def no_more_messages_should_come(self, unit: str, pattern: str, seconds: float) -> None:
        """Some messages of a unit match this regular expression, and no more come for a while.

        ``seconds``: real ones, not multiplied. Fails if there are none, or if more came.

        Example:
        | No More Messages Should Come    bitcoind    Error: .*-reindex    seconds=15
        """
        before = int(session.run(counting(unit, pattern)))
        time.sleep(seconds)
        after = int(session.run(counting(unit, pattern)))
        if after != before:
            raise AssertionError(
                f"{unit} wrote {after - before} more messages that match '{pattern}'"
            )

    @keyword
    def messages_should_come_after(self, unit: str, pattern: str, words: str) -> None:
        """Messages of a unit match a regular expression (Python's) after these words, not before.

        Fails if the words are missing, if it matches before them, or not after them.

        Example:
        | Messages Should Come After    bitcoind    Started bitcoind    Done loading
        """
        if not comes_after(session.run(journal_of(unit)), pattern, words):
            raise AssertionError(f"'{pattern}' does not come in {unit}'s journal after '{words}'")

    @keyword
    def show_what_the_node_said(self) -> None:
        """Puts bitcoind's last 60 messages, and failed units, into the log. For teardowns.

        Never fails.

        Example:
        | Run Keyword If Test Failed    Show What The Node Said
        """
        try:
            result = session.result(
                "journalctl -b --no-pager -o short-monotonic -u bitcoind | tail -n 60;"
                " systemctl --failed --no-pager"
            )
            logger.info(result.stdout + result.stderr)
        except ERRORS as error:
            logger.info(f"the guest does not say anything: {error}")

    @keyword
    def largest_size_setting(self, text: str, names: str) -> float:
        """The largest of the given settings (a|b) in a configuration of systemd, in MiB.

        The last line of each counts. Fails if there are none, or if one is no size.

        Example:
        | ${size}=    Largest Size Setting    ${config}    RuntimeMaxUse|SystemMaxUse
        """
        return largest_size(text, names)

    # -- single services -------------------------------------------------------------

    @keyword("SSH Server Settings")
    def ssh_server_settings(self) -> str:
        """What the image's sshd reads from our file, a setting a line in lower case.

        Fails if sshd refuses the file, or if there is no host key.

        Example:
        | ${settings}=    SSH Server Settings
        """
        return session.run(
            "mkdir -p /run/sshd && $(command -v sshd || echo /usr/sbin/sshd) -T"
            " -f /usr/share/cairn/sshd_config"
        )

    @keyword("SSH Server Should Be Set To")
    def ssh_server_should_be_set_to(self, *settings: str) -> None:
        """The image's sshd has these settings, each as `sshd -T` writes the whole line.

        Fails with those that it has not.

        Example:
        | SSH Server Should Be Set To    maxsessions 4    permittunnel no
        """
        if missing := missing_lines(self.ssh_server_settings(), settings):
            raise AssertionError(f"sshd is not set to: {', '.join(missing)}")

    @keyword
    def node_answers_as_at_the_end_of_the_sync(self) -> None:
        """From now on cairn-sync-done hears that the initial sync has ended.

        Only if it asks as user node-status, without root's rights, and not after
        `Node Answers For Itself Again`.

        Example:
        | Node Answers As At The End Of The Sync
        """
        service = '[Service]\\nEnvironment="NODE_CLI=sh /run/answer"\\n'
        session.run(
            f"printf %s {shlex.quote(ANSWER)} >/run/answer && mkdir -p {DROP_IN}"
            f" && printf '{service}' >{DROP_IN}/t.conf && systemctl daemon-reload"
        )

    @keyword
    def node_answers_for_itself_again(self) -> None:
        """Ends `Node Answers As At The End Of The Sync`, and takes back that the sync has ended.

        The tests' own starts are no failures: their count (StartLimitBurst=) begins again.
        Fails if the end was not noted.

        Example:
        | Node Answers For Itself Again
        """
        session.run(
            f"rm -r {DROP_IN} /run/answer /var/lib/cairn/initial-sync-done"
            " && systemctl daemon-reload && systemctl reset-failed bitcoind"
        )

    @keyword
    def node_config_reads(self, text: str) -> None:
        """Has node-config read a node.conf with this text once; the file stays as it is.

        Returns when the units that follow it have done so. Fails if node-config does.

        Example:
        | Node Config Reads    \\# x
        """
        session.run(
            f"printf '%s\\n' {shlex.quote(text)} >/run/other"
            " && mount --bind /run/other /boot/node.conf"
            " && systemctl restart node-config && umount /boot/node.conf"
        )
        session.until("systemctl list-jobs --no-legend | grep -c . | grep -qx 0", 60)
