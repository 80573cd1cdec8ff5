"""Robot Framework library: damages the node's databases, and finds out how a boot ends.

Times are in seconds; time-outs are multiplied by TIMEOUT_FACTOR, as in the library CairnVM.
"""

from __future__ import annotations

import time

from robot.api.deco import keyword, library

from lab.parsing import sectors_of
from lab.under_test import Need
from tests.robot.lib.session import ERRORS, session

DATA = "/var/lib/bitcoind"
#: What fills the data partition.
FILLER = f"{DATA}/filler"
#: Flips a bit in the middle of each 4 KiB, of at most 80, of these files below a folder. Two pages
#: are left out of LMDB's: its meta pages; of LevelDB's tables no more than a block is lost.
FLIP = """\
cd {folder} || exit 1
for f in {files}; do
	[ -f "$f" ] || continue
	n=$(($(wc -c <"$f") / 4096))
	[ $n -lt 80 ] || n=80
	p=0
	case $f in *.mdb) p=2 ;; esac
	while [ $p -le $n ]; do
		at=$((p * 4096 + 2048))
		p=$((p + 1))
		b=$(dd if="$f" bs=1 skip=$at count=1 2>/dev/null | od -An -tu1)
		[ -n "$b" ] || continue
		printf "\\\\$(printf %o $((b ^ 4)))" | dd of="$f" bs=1 seek=$at conv=notrunc 2>/dev/null
		echo flipped
	done
done
"""
#: Overwrites LevelDB's manifest, and LMDB's pages behind the two meta pages, where there are any.
RUIN = """\
cd {folder} || exit 1
for f in MANIFEST-*; do
	[ ! -e "$f" ] || printf garbage | dd of="$f" bs=1 seek=8 conv=notrunc 2>/dev/null
done
[ ! -e lmdb/data.mdb ] ||
	dd if=/dev/urandom of=lmdb/data.mdb bs=4096 seek=2 count=64 conv=notrunc 2>/dev/null
"""


def boot_end(console: str, answers: bool) -> str:
    """What a boot has ended in, by the console's log and whether the node answers.

    up: it answers; rebuilt: so it does, after a damaged database; held: it waits for its owner and
    says why; no boot: the data partition cannot be used, and the console says so. Empty: none yet.
    """
    if "! The node cannot start" in console:
        return "no boot"
    if answers:
        return "rebuilt" if "! A database is damaged" in console else "up"
    return "held" if "stays stopped" in console else ""


@library(scope="GLOBAL", auto_keywords=False)
class Damage:
    """Keywords that break what is stored, and those that look what became of it."""

    @keyword
    def flip_bits_in(self, *files: str) -> None:
        """Stops bitcoind, flips a bit in each 4 KiB of these files, and starts it again.

        ``files``: below the data folder; patterns of the shell, too. At most 80 bits of a file, and
        none of LMDB's meta pages. What is read next comes from the disk. Does not wait for the
        start. Fails if there are no such files.

        Example:
        | Flip Bits In    chainstate/lmdb/data.mdb
        """
        session.need(Need.DATA)
        session.run("systemctl stop bitcoind")
        output = session.run(FLIP.format(folder=DATA, files=" ".join(files)))
        if "flipped" not in output:
            raise AssertionError(f"there was nothing to flip in {' '.join(files)}")
        session.run("sync; echo 3 >/proc/sys/vm/drop_caches")
        session.run("systemctl --no-block start bitcoind")

    @keyword
    def leave_room_on_the_data_disk(self, mebibytes: int) -> None:
        """Fills the data partition with one file, so that this much is free.

        `Give Room Back` removes the file. Fails if less was free before.

        Example:
        | Leave Room On The Data Disk    30
        """
        session.need(Need.DATA)
        free = int(session.run(f"df -Pm {DATA} | awk 'NR == 2 {{ print $4 }}'"))
        if free <= mebibytes:
            raise AssertionError(f"only {free} MiB are free")
        session.run(f"fallocate -l {free - mebibytes}M {FILLER} && sync")

    @keyword
    def give_room_back(self) -> None:
        """Removes what `Leave Room On The Data Disk` has written.

        Example:
        | Give Room Back
        """
        session.run(f"rm -f {FILLER} && sync")

    @keyword
    def ruin_the_coins(self) -> None:
        """Overwrites what the coins' database cannot do without; bitcoind must be stopped.

        Fails if it cannot be written.

        Example:
        | Ruin The Coins
        """
        session.need(Need.DATA)
        session.run(RUIN.format(folder=f"{DATA}/chainstate"))

    @keyword
    def note_a_rebuild(self) -> None:
        """Has the node believe that it has begun a rebuild by itself just now.

        Example:
        | Note A Rebuild
        """
        session.need(Need.DATA)
        session.run("printf 'begun=%s\\nwhat=x\\n' $(date +%s) >/var/lib/cairn/rebuild")

    @keyword
    def sectors_of_files(self, pattern: str, partition: str = "vda4") -> list[int]:
        """A sector of the disk in each 4 KiB of some files, for `Break Disk`.

        ``pattern``: of the shell, for absolute paths. ``partition``: on which they lie, default the
        data partition. Returns numbers of sectors of 512 bytes, from the disk's beginning. Fails if
        the files have none.

        Example:
        | ${sectors}=    Sectors Of Files    /var/lib/bitcoind/chainstate/*.ldb
        """
        session.need(Need.DISK)
        start = int(session.run(f"cat /sys/class/block/{partition}/start"))
        sectors = sectors_of(session.run(f"filefrag -e -b512 {pattern}"), start)
        if not sectors:
            raise AssertionError(f"{pattern} has no sectors on the disk")
        return sectors

    @keyword
    def what_the_boot_ends_in(self) -> str:
        """Waits until a boot has ended, and returns how.

        up: the node answers. rebuilt: so it does, after a damaged database. held: it waits for its
        owner, and says why. no boot: the data partition cannot be used, and the console says so.

        Looks each 5 s, 60 times. Fails if the machine neither came up nor said why.

        Example:
        | Power On    wait=False
        | ${end}=    What The Boot Ends In
        """
        session.need(Need.CONSOLE)
        for _ in range(60):
            time.sleep(5)
            console = session.machine.serial_log()
            end = boot_end(console, answers=False)
            # The question is for a machine that may be up: it waits up to 10 s for the answer.
            if end != "no boot" and self._answers():
                end = boot_end(console, answers=True)
            if end:
                return end
        raise AssertionError("the machine neither came up nor said why")

    @staticmethod
    def _answers() -> bool:
        try:
            session.run("node-cli getblockcount", 10)
        except ERRORS:
            return False
        return True
