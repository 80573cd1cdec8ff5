"""Robot Framework library: boots an image in QEMU and looks inside.

A machine (lab/machine.py) is the image copied (sparsely) to out/robot/vm/NAME. Only one machine
runs at a time; time-outs are for emulation (TCG) and are multiplied by TIMEOUT_FACTOR (Robot
variable, default 1).
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import shlex
import time
from pathlib import Path
from typing import Any

from robot.api import logger
from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn

from lab import boards
from lab.guest_shell import GuestShellError, Result, kernel_options
from lab.machine import Machine, run_host
from lab.parsing import exposure, kernel_options_lost, listening_sockets, mebibytes
from lab.paths import ROOT
from lab.volatile_disk import VolatileDisk
from tests.robot.lib import script_blocks


@library(scope="GLOBAL", auto_keywords=False)
class CairnVM:
    """Keywords for one virtual node and one feeder on the host."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self.machine = Machine()
        self.feeder_options: list[str] = []
        self.figures: dict[str, dict[str, float | str]] = {}

    # -- helpers ---------------------------------------------------------------------

    @staticmethod
    def _variable(name: str, default: str) -> str:
        return str(BuiltIn().get_variable_value(f"${{{name}}}", default))

    def _seconds(self, seconds: float) -> float:
        return float(seconds) * float(self._variable("TIMEOUT_FACTOR", "1"))

    # -- power -----------------------------------------------------------------------

    @keyword
    def start_vm(
        self,
        name: str,
        node_conf: str | None = None,
        memory: int = 1024,
        smp: int = 2,
        disk_size: str = "8G",
        feeder: int | str | None = None,
        volatile: bool = False,
        seed: int = 0,
        lies: bool = False,
        screen: bool = False,
        wait: bool = True,
    ) -> None:
        """Starts a fresh copy of the image and waits until its shell answers.

        ``node_conf`` is the text of node.conf (default: the image's own file), ``memory``
        is in MiB, ``disk_size`` what the disk grows to, ``feeder`` the port of a feeder, or the
        ports of its peers in one word.
        ``volatile``: the disk has a volatile write cache (lab/nbd_disk.py) with this
        ``seed``; ``lies``: it ignores flushes. ``screen``: the status screen is also drawn on
        tty1. ``wait``: for the shell's answer.
        """
        self.kill_vm()
        image = Path(self._variable("IMAGE", str(ROOT / "out/devimage/cairn-dev.img"))).resolve()
        if not image.is_file():
            raise AssertionError(f"the image {image} does not exist; run 'make devimage'")
        self.machine.new_disk(image, ROOT / "out/robot/vm" / name, disk_size)
        options = ["--memory", str(memory), "--smp", str(smp)]
        if board := boards.of_image(image):  # the copy's name does not say it
            options += ["--board", board.name]
        options += ["--append", kernel_options(screen)]
        if feeder is not None:
            options += ["--feeder", str(feeder)]
        self.machine.options = options
        disk = VolatileDisk(self.machine.image, self.machine.sockets, seed, lies=lies)
        self.machine.volatile = disk if volatile else None
        if node_conf is not None:
            self.put_node_conf(node_conf)
        self.power_on(wait)

    @keyword
    def power_on(self, wait: bool = True) -> None:
        """Starts the present machine again with the disk it has."""
        self.machine.power_on()
        if wait:
            self.wait_until_it_answers()

    @keyword
    def wait_until_it_answers(self) -> None:
        """Waits for the shell of a machine that has been switched on.

        On one with a feeder the timer that looks for the end of the initial sync is stopped: the
        tests' blocks, all of them old, are at their end from the first on, and ten minutes after
        boot the daemon would be restarted in the middle of some test.
        """
        self.machine.wait(self._seconds(180))
        if "--feeder" in self.machine.options:
            self.guest("systemctl stop node-sync-done.timer")

    @keyword
    def shut_down(self) -> None:
        """Shuts the guest down cleanly and waits until the machine is off."""
        self.machine.shut_down(self._seconds(180))

    @keyword
    def reboot(self, wait: bool = True) -> None:
        """Shuts down cleanly and starts the same disk again; ``wait``: for the shell."""
        self.shut_down()
        self.power_on(wait)

    @keyword
    def cut_power(self, policy: str = "drop-some") -> dict[str, Any]:
        """Ends the machine between two instructions, as a pulled plug does.

        On a volatile disk the policy says what happens to unflushed writes (see
        lab/volatile_cache.py); returns what did. On others all survives that the
        guest had handed to the disk, because the host's page cache keeps it.
        """
        outcome = self.machine.cut(policy)
        logger.info(f"cut: {outcome}")
        return outcome

    @keyword
    def cut_power_during(
        self, script: str, seconds: float, policy: str, repeat: bool = False
    ) -> list[str]:
        """Cuts the power so many seconds after a script was started in the guest.

        It is cut in the middle if it still runs; with ``repeat`` it is run again and again
        until then. Returns what it printed, for each run that ended successfully before and
        printed something.
        """
        finished: list[str] = []
        deadline = time.monotonic() + self._seconds(seconds)
        while (rest := deadline - time.monotonic()) > 0:
            with contextlib.suppress(GuestShellError):
                result = self.machine.shell.run(script, rest)
                if result.status == 0 and (said := result.stdout.strip()):
                    finished.append(said)
            if not repeat:
                break
        time.sleep(max(0.0, deadline - time.monotonic()))
        self.cut_power(policy)
        return finished

    @keyword
    def let_disk_lie(self, lies: bool = True) -> None:
        """From now on the volatile disk acknowledges flushes and ignores them, or not."""
        assert self.machine.volatile, "the machine has no volatile disk"
        self.machine.volatile.ask(f"lies {'yes' if lies else 'no'}")

    @keyword
    def kill_vm(self) -> None:
        """Ends the machine, if one runs. For teardowns."""
        self.machine.kill()

    # -- network ---------------------------------------------------------------------

    @keyword
    def plug_cable(self, plugged: bool = True) -> None:
        """Plugs the network's cable in, or pulls it; also of a machine that begins to boot."""
        self.machine.plug_cable(plugged, self._seconds(20))

    @keyword
    def pull_cable(self) -> None:
        """Pulls the network's cable."""
        self.plug_cable(False)

    # -- errors of the disk ----------------------------------------------------------

    @keyword
    def break_disk(self, kind: str, errno: int = 5, sectors: str = "") -> None:
        """From now on the disk fails: QEMU's blkdebug is put below the running machine.

        ``kind`` is read, write or flush; ``errno`` what the host says (5 EIO, 28 ENOSPC);
        ``sectors`` (of 512 bytes, one a line) limits it to requests that touch one of them.
        The next start has the healthy disk again.
        """
        self.machine.break_disk(kind, errno, [int(sector) for sector in sectors.split()])

    @keyword
    def erase_data_partition(self) -> None:
        """Zeroes the data partition; the machine must be off.

        All of it: of a file system whose beginning is lost, fsck finds the rest by itself.
        """
        self.machine.erase_data_partition()

    # -- configuration ---------------------------------------------------------------

    @keyword
    def put_node_conf(self, text: str) -> None:
        """Writes node.conf on the boot partition; the machine must be off.

        A text in the form ``hex:0001ff`` is written as these bytes.
        """
        hexadecimal = text.startswith("hex:")
        self.machine.put_node_conf(bytes.fromhex(text[4:]) if hexadecimal else text.encode())

    @keyword
    def delete_node_conf(self) -> None:
        """Removes node.conf from the boot partition; the machine must be off."""
        self.machine.delete_node_conf()

    # -- shell -----------------------------------------------------------------------

    @keyword
    def guest_result(self, script: str, timeout: float = 120) -> Result:
        """Runs a shell script in the guest; returns an object with status, stdout, stderr."""
        result = self.machine.shell.run(script, self._seconds(timeout))
        logger.debug(f"{script}\n-> {result.status}\n{result.stdout}\n{result.stderr}")
        return result

    @keyword
    def guest(self, script: str, timeout: float = 120) -> str:
        """Runs a shell script in the guest; returns its output, fails if it fails."""
        result = self.guest_result(script, timeout)
        if result.status:
            said = (result.stderr or result.stdout).strip()
            raise AssertionError(f"exit status {result.status} of '{script}': {said}")
        return result.stdout.rstrip("\n")

    @keyword
    def guest_should_succeed_within(self, seconds: float, script: str) -> str:
        """Repeats a shell script until it succeeds; returns its output.

        Asking takes an emulated processor's time from what is waited for: it is left alone
        twice as long as the answer took, at least a second.
        """
        deadline = time.monotonic() + self._seconds(seconds)
        while True:
            begin = time.monotonic()
            result = self.guest_result(script)
            if not result.status:
                return result.stdout.rstrip("\n")
            if time.monotonic() > deadline:
                said = (result.stderr or result.stdout).strip()
                raise AssertionError(f"'{script}' did not succeed in {seconds} s: {said}")
            time.sleep(max(1.0, 2 * (time.monotonic() - begin)))

    @keyword
    def property_of(self, unit: str, name: str) -> str:
        """A property of a unit; an empty unit name asks the service manager itself."""
        return self.guest(f"systemctl show {unit} -p {name}").partition("=")[2]

    @keyword
    def listening_sockets(self) -> list[str]:
        """All listening sockets of the guest as ``tcp any 8333``, ``tcp loopback 8332``."""
        found: list[str] = []
        for protocol in ("tcp", "udp"):
            for family in ("", "6"):
                table = self.guest(f"cat /proc/net/{protocol}{family}")
                found += listening_sockets(protocol, table)
        return sorted(set(found))

    @keyword
    def exposure_of(self, unit: str) -> float:
        """The score of `systemd-analyze security`: 0.0 (locked up) to 10.0."""
        return exposure(self.guest(f"systemd-analyze security {unit} --no-pager"))

    @keyword
    def kernel_options_lost(self) -> list[str]:
        """Options of board/*/kernel.config that the running kernel does not have."""
        board = self.guest(". /etc/os-release && echo $VARIANT_ID")
        files = (ROOT / "board" / name / "kernel.config" for name in ("common", board))
        wanted = "".join(file.read_text() for file in files)
        return kernel_options_lost(wanted, self.guest("zcat /proc/config.gz"))

    @keyword
    def largest_size_setting(self, text: str, names: str) -> float:
        """The last value of the given settings (a|b) in a configuration, largest, in MiB."""
        last = dict(re.findall(rf"(?m)^({names})=(.+)$", text))
        return max(mebibytes(value) for value in last.values())

    # -- serial console --------------------------------------------------------------

    @keyword
    def serial_log(self) -> str:
        """What the serial console has shown since the last power-on, without escapes."""
        return self.machine.serial_log()

    @keyword
    def wait_for_serial(self, words: str, timeout: float = 60) -> None:
        """Waits until the serial console has shown these words."""
        deadline = time.monotonic() + self._seconds(timeout)
        while words not in self.serial_log():
            if time.monotonic() > deadline:
                raise AssertionError(f"the serial console did not show '{words}'")
            time.sleep(0.5)

    # -- the node --------------------------------------------------------------------

    @keyword
    def node(self, method: str, *arguments: str, timeout: float = 120) -> Any:  # noqa: ANN401
        """Calls an RPC method of the node in the guest; JSON answers are decoded."""
        quoted = " ".join("'" + str(argument) + "'" for argument in arguments)
        return self._decode(self.guest(f"node-cli {method} {quoted}", timeout))

    @staticmethod
    def _decode(answer: str) -> Any:  # noqa: ANN401
        try:
            return json.loads(answer)
        except ValueError:
            return answer

    @keyword
    def wait_for_rpc(self, timeout: float = 120) -> None:
        """Waits until bitcoind's unit is active and its RPC answers."""
        self.guest_should_succeed_within(
            timeout, "systemctl is-active bitcoind && node-cli getblockcount"
        )

    @keyword
    def wait_for_height(self, height: int, timeout: float = 300) -> None:
        """Waits until the node's chain has at least this height."""
        self.guest_should_succeed_within(
            timeout, f'h=$(node-cli getblockcount) && echo "$h" && [ "$h" -ge {height} ]'
        )

    # -- feeder ----------------------------------------------------------------------

    def _start_feeder(self, directory: Path, port: int, network: str, *more: str) -> None:
        self.feeder_options = ["--dir", str(directory), "--port", str(port), "--network", network]
        run_host(str(ROOT / "support/feeder"), "start", *self.feeder_options, *more)

    @keyword
    def start_feeder(
        self, port: int = 18655, network: str = "main", peers: str = "", seed: int = 1
    ) -> None:
        """Starts the stock daemon on this machine's loopback.

        On network ``main`` it has the real blocks, on ``regtest`` an empty chain. ``peers``: ports
        on which peers hand on its blocks, out of order as ``seed`` says (support/feeder).
        """
        directory = ROOT / f"out/robot/feeder-{network}-{port}"
        self._start_feeder(directory, port, network, "--peers", peers, "--seed", str(seed))

    @keyword
    def start_bench_feeder(
        self, port: int, *options: str, peers: str = "", seed: int = 1
    ) -> dict[str, Any]:
        """Starts the stock daemon with a bench chain of these options (support/chaingen).

        Returns the chain's summary. Its scripts are open: no node has to skip them. ``peers``,
        ``seed``: see Start Feeder.
        """
        directory = ROOT / f"out/robot/feeder-bench-{port}"
        directory.mkdir(parents=True, exist_ok=True)
        blocks = directory / "chain.blk"
        command = [str(ROOT / "support/chaingen"), f"-out={blocks}", "-scripts=open", *options]
        chain: dict[str, Any] = json.loads(run_host(*command))
        more = ["--blocks", str(blocks), "--top", str(chain["height"])]
        more += ["--peers", peers, "--seed", str(seed)]
        self._start_feeder(directory, port, "regtest", *more)
        return chain

    @keyword
    def feed_script_heavy_blocks(self) -> int:
        """Gives the feeder (regtest) the blocks of script_blocks.py; returns their number."""
        chain = script_blocks.blocks()
        for number, block in enumerate(chain, 1):
            said = self.feeder_rpc("-stdin", "submitblock", text=block.hex())
            if said:
                raise AssertionError(f"the stock daemon refuses block {number}: {said}")
        return len(chain)

    @keyword
    def stop_feeder(self) -> None:
        """Stops the feeder, if one was started."""
        if self.feeder_options:
            run_host(str(ROOT / "support/feeder"), "stop", *self.feeder_options)

    @keyword("Feeder")
    def feeder_rpc(self, method: str, *arguments: str, text: str = "") -> Any:  # noqa: ANN401
        """Calls an RPC method of the feeder; with ``-stdin``, ``text`` is an argument, too."""
        info = run_host(str(ROOT / "support/feeder"), "info", *self.feeder_options)
        command = dict(line.split("=", 1) for line in info.splitlines())["cli"]
        return self._decode(run_host(*shlex.split(command), method, *arguments, text=text).strip())

    @keyword
    def random_number(self, seed: int, number: int, low: float, high: float) -> float:
        """A number in a range that depends on ``seed`` and ``number`` alone."""
        return random.Random(f"{seed} {number}").uniform(low, high)

    # -- figures ---------------------------------------------------------------------

    @keyword
    def record_figure(self, name: str, value: float, unit: str) -> None:
        """Adds a measurement to out/robot/figures.json; figures are not assertions."""
        self.figures[name] = {"value": float(value), "unit": unit}
        text = json.dumps(self.figures, indent=2, sort_keys=True)
        (ROOT / "out/robot/figures.json").write_text(text + "\n")
        logger.info(f"{name}: {value} {unit}")
