"""Robot Framework library: power cuts while another version is installed, tried and judged.

Each round is an update to a newer version, made of the image under test, and one cut in it. The
next start then is that of a node without power: of the Raspberry Pi's image the model of the
firmware reads what the cut has left of the boot partition (`Updates`). What became of each cut is
appended to the file of the Robot variable CUT_LOG (default out/robot/update-cuts.jsonl).
"""

from __future__ import annotations

import time
from pathlib import Path

from robot.api import logger
from robot.api.deco import keyword, library

from lab.paths import ROOT
from tests.robot.lib.CairnVM import CairnVM
from tests.robot.lib.CutLog import CutLog
from tests.robot.lib.Node import Node
from tests.robot.lib.PowerLoss import policy_of, random_number
from tests.robot.lib.session import ERRORS, poll, session
from tests.robot.lib.Units import Units
from tests.robot.lib.Updates import FOLDER, Updates, choose_slot, image_under_test

#: What a cut is to hit, in turn
STAGES = ("install", "restart", "trial", "verdict")
#: Ends once the boot partition can be written to, or the trial is over. The last word of a mount is
#: of its file system, whatever namespace the writer is in.
WRITING = """\
while /usr/lib/cairn/cairn-boot-slot on-trial; do
	! grep -q ' /boot .* rw[^ ]*$' /proc/self/mountinfo || break
	sleep 0.1
done
"""
#: Prints which slot that boots, or can, has not the root file system that its boot files are for.
WHOLE = """\
for slot in a b; do
	[ "$(/usr/lib/cairn/cairn-boot-slot get-state $slot)" = good ] || continue
	release=/boot/slot-$slot/release
	size=$(sed -n s/^root-size=//p $release)
	sum=$(head -c "$size" /dev/disk/by-partlabel/root-$slot | sha256sum)
	[ "${sum%% *}" = "$(sed -n s/^root-sha256=//p $release)" ] || echo "root-$slot is not whole"
done
"""


@library(scope="TEST", auto_keywords=False)
class UpdateCuts:
    """One test's cuts."""

    ROBOT_LISTENER_API_VERSION = 3

    def __init__(self) -> None:
        """No cut yet; the library listens for the end of the test."""
        self.ROBOT_LIBRARY_LISTENER = self
        default = str(ROOT / "out/robot/update-cuts.jsonl")
        self.log = CutLog(lambda: Path(session.variable("CUT_LOG", default)))
        self.number = 0
        self.seconds = 0.0

    def end_test(self, _data: object, result: object) -> None:
        """Of a recovery that did not end, the test's message is kept."""
        self.log.end_test(str(getattr(result, "message", "")))

    def _install(self, source: str, stage: str, moment: float, policy: str) -> None:
        """Writes a version to the other slot; in that stage, the power is cut in the middle."""
        Updates().node_has_been_up_for_an_hour()
        install = f"node-update install --no-reboot {source}"
        if stage == "install" and self.seconds:
            CairnVM().cut_power_during(install, moment * self.seconds, policy)
            return
        begin = time.monotonic()
        session.run(install, 900)
        self.seconds = (time.monotonic() - begin) / session.seconds(1)
        if stage == "install":  # the first of all: how long it takes is known only now
            CairnVM().cut_power(policy)

    def _cut(self, source: str, stage: str, policy: str, seed: int) -> None:
        """One update up to the cut."""
        moment = random_number(seed, self.number, 0.02, 1.0)
        self._install(source, stage, moment, policy)
        if stage == "install":
            return
        Updates().try_what_is_installed()
        if stage == "restart":
            time.sleep(2 + session.seconds(8) * moment)
            CairnVM().cut_power(policy)
            return
        Updates().restart_as_the_firmware_would()
        if stage == "trial":
            time.sleep(session.seconds(25) * moment)
        else:
            CairnVM().wait_until_it_answers()
            session.run(WRITING, 900)
            time.sleep(moment)
        CairnVM().cut_power(policy)

    def _goes_on(self) -> None:
        """Starts it without the restart's argument, and waits until a version stays."""
        board = image_under_test()[1]
        choose_slot(board)
        session.machine.power_on()
        CairnVM().wait_until_it_answers()

        def stays() -> bool | None:
            process = session.virtual.process
            if process is not None and process.poll() is not None:
                # The trial has given up, or was one that the power cut had not spent.
                logger.info("the machine has restarted", also_console=True)
                Updates().restart_as_the_firmware_would(1)
                CairnVM().wait_until_it_answers()
            try:
                session.run("/usr/lib/cairn/cairn-boot-slot committed")
            except ERRORS:
                return None
            return True

        if poll(stays, session.seconds(900)) is None:
            raise AssertionError("no version stays")

    def _is_whole(self, versions: tuple[str, str], conf: str) -> str:
        """What must hold of a node that is up; returns the version that runs."""
        Node().coins_should_equal_the_stock_nodes()
        Units().system_is_running()
        now = Updates().running_version()
        assert now in versions, f"version {now} runs, neither {versions[0]} nor {versions[1]}"
        Updates().version_should_be(now)
        told = session.run("cat /proc/cmdline").split()
        assert f"cairn.version={now}" in told, f"the kernel was told another version than {now}"
        wrong = session.run(WHOLE, 300)
        assert not wrong, wrong
        assert session.run("sha256sum </boot/node.conf") == conf, "node.conf has changed"
        return now

    @keyword
    def survive_a_power_cut_during_an_update(self, url: str, seed: int = 1) -> None:
        """One update to a newer version from ``url``, one power cut in it, and what must hold then.

        The stages in turn: while it is written; during the restart; during the start of the new
        version; while its verdict is written to the boot partition. The moment in it and what
        becomes of unflushed writes depend on ``seed``, default 1. The machine needs a volatile
        disk.

        The node starts by itself, with the old version or the new one, and that stays. Fails if it
        does not; if a slot that can boot has not the root file system that its boot files are for;
        if node.conf has changed, a block that was flushed is lost or the coins are not the stock
        node's; if a unit has failed.

        Example:
        | Survive A Power Cut During An Update    http://10.0.2.100:8334    seed=7
        """
        stage, policy = STAGES[self.number % len(STAGES)], policy_of(self.number // 4, seed)
        before = Updates().running_version()
        new = f"9.{self.number + 1}.0"
        file = Updates().make_update(new)
        flushed = Node().coins_should_equal_the_stock_nodes()
        conf = session.run("sha256sum </boot/node.conf")
        self._cut(f"{url}/{file}", stage, policy, seed)
        self.log.begin(
            engine=image_under_test()[1].name,
            stage=stage,
            policy=policy,
            seed=seed,
            number=self.number,
            flushed=flushed,
        )
        self._goes_on()
        Node().wait_for_rpc()
        height = int(session.rpc("getblockcount"))
        if height < flushed:
            self.log.end(height)
            raise AssertionError(f"{flushed} blocks were flushed, the node is at {height}")
        try:
            now = self._is_whole((before, new), conf)
        except AssertionError as error:
            self.log.wrong(str(error))
            raise
        self.log.end(height)
        logger.info(f"{self.number}: {stage}, {policy}: {now}", also_console=True)
        (FOLDER / file).unlink(missing_ok=True)
        self.number += 1
