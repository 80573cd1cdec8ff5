"""Robot Framework library: power cuts while another version is installed, tried and judged.

Each round is an update to a newer version, made of the image under test, and one cut in it. The
next start then is that of a node without power: of the Raspberry Pi's image the model of the
firmware reads what the cut has left of the boot partition (`Updates`). What became of each cut is
appended to the file of the Robot variable CUT_LOG (default out/robot/update-cuts.jsonl).
"""

from __future__ import annotations

import re
import time

from robot.api import logger
from robot.api.deco import keyword, library

from tests.robot.lib.CairnVM import CairnVM
from tests.robot.lib.CutLog import LoggedCuts
from tests.robot.lib.Node import Node
from tests.robot.lib.PowerLoss import policy_of, random_number
from tests.robot.lib.session import ERRORS, poll, session
from tests.robot.lib.Units import Units
from tests.robot.lib.Updates import FOLDER, RESTART, Updates, choose_slot, image_under_test

#: What a cut is to hit, in turn. How long an installation takes is known when it comes to that.
STAGES = ("restart", "boot", "trial", "verdict", "install")
#: In the background, with its status in a file, so that a refusal is no installation that was cut.
INSTALL = """\
rm -f /run/install.status
setsid sh -c 'node-update install --no-reboot {source}; echo $? >/run/install.status' \\
	>/run/install.log 2>&1 </dev/null &
"""
#: Succeeds unless that has ended with an error, which it prints.
NOT_REFUSED = """\
case $(cat /run/install.status 2>/dev/null) in '' | 0) exit 0 ;; esac
cat /run/install.log
exit 1
"""
#: Ends once the boot partition can be written to, or the trial is over; it has to run when this
#: begins. The last word of a mount is of its file system, whatever namespace the writer is in.
WRITING = """\
/usr/lib/cairn/cairn-boot-slot on-trial || exit 1
while /usr/lib/cairn/cairn-boot-slot on-trial; do
	! grep -q ' /boot .* rw[^ ]*$' /proc/self/mountinfo || break
	sleep 0.1
done
"""
#: Prints what is not whole of the slots that boot, or can: the root file system that the boot files
#: are for, and boot files other than those of the slot that runs. All versions here are of one
#: image, so only those that name the slot or the version differ, and licenses, which an image has
#: elsewhere.
WHOLE = """\
current=$(/usr/lib/cairn/cairn-boot-slot get-current)
for slot in a b; do
	[ "$(/usr/lib/cairn/cairn-boot-slot get-state $slot)" = good ] || continue
	release=/boot/slot-$slot/release
	size=$(sed -n s/^root-size=//p $release)
	sum=$(head -c "$size" /dev/disk/by-partlabel/root-$slot | sha256sum)
	[ "${sum%% *}" = "$(sed -n s/^root-sha256=//p $release)" ] || echo "root-$slot is not whole"
	(cd /boot/slot-$current && find . -type f) | while read -r file; do
		case ${file##*/} in
		release | cmdline | cmdline.txt | config.txt | good | license-*) continue ;;
		esac
		cmp -s /boot/slot-$current/$file /boot/slot-$slot/$file || echo "slot-$slot/$file differs"
	done
done
"""


@library(scope="TEST", auto_keywords=False)
class UpdateCuts(LoggedCuts):
    """One test's cuts."""

    def __init__(self) -> None:
        """No cut yet; the library listens for the end of the test."""
        super().__init__("update-cuts.jsonl")
        self.seconds = 0.0
        self.stayed = 0

    def _cut_while_it_is_written(self, source: str, moment: float, policy: str) -> None:
        """The power is cut at that part of the time that the last installation took."""
        deadline = time.monotonic() + moment * self.seconds
        session.run(INSTALL.format(source=source))
        time.sleep(max(0.0, deadline - time.monotonic()))
        session.run(NOT_REFUSED)
        CairnVM().cut_power(policy)

    def _system_has_begun(self, version: str, seconds: float) -> bool:
        """Whether systemd has greeted within so many seconds; fails if another version has."""
        deadline = time.monotonic() + seconds
        while True:
            log = session.virtual.serial_log()
            greeting = re.search(r"Welcome to Cairn (\S+)!", log)
            if greeting:
                assert greeting[1] == version, f"version {greeting[1]} is started, not {version}"
                return True
            if time.monotonic() >= deadline:
                return False
            self._still_runs()
            time.sleep(0.1)

    def _still_runs(self) -> None:
        """Else what is cut is a machine that has restarted or crashed by itself."""
        process = session.virtual.process
        assert process is not None and process.poll() is None, "it had ended before the cut"

    def _cut(self, stage: str, source: str, new: str, policy: str, seed: int) -> None:
        """One update up to the cut."""
        moment = random_number(seed, self.number, 0.02, 1.0)
        Updates().node_has_been_up_for_an_hour()
        if stage == "install":
            self._cut_while_it_is_written(source, moment, policy)
            return
        begin = time.monotonic()
        session.run(f"node-update install --no-reboot {source}", 900)
        self.seconds = time.monotonic() - begin
        Updates().try_what_is_installed()
        if stage == "restart":
            # Two seconds until it is asked for; what is shut down takes longer than the rest.
            time.sleep(2 + session.seconds(2) * moment)
            self._still_runs()
            CairnVM().cut_power(policy)
            return
        Updates().restart_as_the_firmware_would()
        if stage == "boot":
            self._system_has_begun(new, session.seconds(10) * moment)
        elif stage == "trial":
            assert self._system_has_begun(new, session.seconds(300)), f"version {new} has not begun"
            time.sleep(session.seconds(20) * moment)
        else:
            CairnVM().wait_until_it_answers()
            running = Updates().running_version()
            assert running == new, f"version {running} is started, not {new}"
            session.run(WRITING, 900)
            time.sleep(moment)
        self._still_runs()
        CairnVM().cut_power(policy)

    def _goes_on(self) -> None:
        """Starts it without the restart's argument, and waits until a version stays."""
        choose_slot(image_under_test()[1])
        session.machine.power_on()
        CairnVM().wait_until_it_answers()
        restarts = 0

        def stays() -> bool | None:
            nonlocal restarts
            process = session.virtual.process
            if process is not None and process.poll() is not None:
                restarts += 1
                log = session.virtual.serial_log()
                assert restarts == 1, "the node restarts again and again"
                assert RESTART.split(" with")[0] in log, "the node has switched itself off"
                logger.info("the node has restarted by itself", also_console=True)
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

        The stages in turn: during the restart; while the firmware, the loader or the kernel starts,
        at the latest when systemd greets; while the new version's system does; while its verdict is
        written to the boot partition; while a version is written. The moment in it and what becomes
        of unflushed writes depend on ``seed``, default 1. The machine needs a volatile disk.

        The node starts by itself, with the old version or the new one, and that stays. Fails if it
        does not; if a slot that can boot is not whole; if node.conf has changed, a block that was
        flushed is lost or the coins are not the stock node's; if a unit has failed; or if the stage
        was not hit.

        Example:
        | Survive A Power Cut During An Update    http://10.0.2.100:8334    seed=7
        """
        stage = STAGES[self.number % len(STAGES)]
        # Each stage with another policy in each round of five, as there are four.
        policy = policy_of(self.number, seed)
        before = Updates().running_version()
        new = f"9.{self.number + 1}.0"
        # One that a run before has left is of another image.
        for left in FOLDER.glob(f"cairn-{new}-*.raucb"):
            left.unlink()
        file = Updates().make_update(new)
        flushed = Node().coins_should_equal_the_stock_nodes()
        conf = session.run("sha256sum </boot/node.conf")
        self._cut(stage, f"{url}/{file}", new, policy, seed)
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
        except ERRORS as error:
            self.log.wrong(str(error))
            raise
        self.log.end(height)
        logger.info(f"{self.number}: {stage}, {policy}: {now}", also_console=True)
        (FOLDER / file).unlink(missing_ok=True)
        self.number += 1
        self.stayed += now == new

    @keyword
    def a_version_should_have_stayed(self) -> None:
        """After at least one of the cuts the new version stayed: else none was ever tried.

        Example:
        | Survive A Power Cut During An Update    http://10.0.2.100:8334
        | A Version Should Have Stayed
        """
        assert self.stayed, "no version stayed"
