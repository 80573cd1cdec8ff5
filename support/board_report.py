"""What support/board-report finds out about a machine, and the page it makes of it.

The machine is asked through a shell of root's. Nothing is left on it, and nothing private is taken
from it: no address, no key, no name of a wallet or of the machine, no serial number.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import lzma
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from lab.board import Board
from lab.guest_shell import GuestShellError, Result
from lab.paths import ROOT
from lab.under_test import Shell

BLOCKS = ROOT / "tests/data/mainnet-0-14131.blk.xz"
TOP = 14131
#: A folder of the data partition, for the time of the measurement
FOLDER = "/var/lib/cairn-report"
#: Seconds between two looks at temperature and fan
STEP = 15

VERSIONS = """\
. /etc/os-release
echo "image: ${PRETTY_NAME:-unknown}${VARIANT_ID:+, for $VARIANT_ID}"
echo "Bitcoin Core: $(bitcoin-cli -version | head -n 1 | sed 's/.*version //')"
echo "kernel: $(uname -s -r -m)"
"""
MODEL = """\
if [ -r /proc/device-tree/model ]; then
	tr -d '\\0' </proc/device-tree/model
	[ ! -r /proc/device-tree/system/linux,revision ] ||
		printf ', revision %s' "$(od -An -tx1 /proc/device-tree/system/linux,revision | tr -d ' ')"
	echo
elif [ -r /sys/class/dmi/id/product_name ]; then
	echo "$(cat /sys/class/dmi/id/sys_vendor) $(cat /sys/class/dmi/id/product_name)"
fi
"""
PROCESSOR = """\
echo "$(grep -c ^processor /proc/cpuinfo) cores$(sed -n 's/^model name[^:]*: */, /p' /proc/cpuinfo |
	head -n 1), $(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo) MiB"
"""
#: systemd-analyze says nothing before the boot has finished: its first line is an error then.
BOOT = "systemd-analyze time --no-pager"
SLOWEST = "systemd-analyze blame --no-pager | head -n 8"
UP = "systemctl show bitcoind -p ActiveEnterTimestampMonotonic -p NRestarts"
DISK = """\
. /usr/lib/cairn/storage-class.sh
storage_class "" /var/lib/bitcoind
disk=/sys/block/$storage_device
name=$(cat $disk/device/name 2>/dev/null || cat $disk/device/model 2>/dev/null || echo "no name")
echo "$storage_class, $name, $(($(cat $disk/size) / 2048)) MiB, data partition $storage_mib MiB," \\
	"$(awk '$2 == "/var" { print $3 }' /proc/mounts)," \\
	"scheduler $(sed 's/.*\\[\\(.*\\)\\].*/\\1/' $disk/queue/scheduler)"
"""
#: One line: temperature in thousandths of a degree, turns of the fan a minute, step of the fan's
#: cooling device, clock of the first processor in kHz; a dash for what is not there.
SAMPLE = """\
. /usr/lib/cairn/storage-class.sh
. /usr/lib/cairn/cairn-health-facts.sh
first() { for f in "$@"; do if [ -r "$f" ]; then cat "$f" && return; fi; done; echo -; }
step=-
for d in /sys/class/thermal/cooling_device*; do
	case $(cat $d/type 2>/dev/null) in *fan*) step=$(cat $d/cur_state)/$(cat $d/max_state) ;; esac
done
t=$(health_temperature "" | sed -n 's/^temperature //p')
echo "${t:--} $(first /sys/class/hwmon/hwmon*/fan1_input) $step" \\
	"$(first /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq)"
"""
#: Ends by itself: a connection that is lost leaves nothing running for long.
LOAD = """\
n=$(grep -c ^processor /proc/cpuinfo)
: >/run/cairn-report.pids
while [ $n -gt 0 ]; do
	nice -n 19 timeout {seconds} sha256sum /dev/zero >/dev/null 2>&1 </dev/null &
	echo $! >>/run/cairn-report.pids
	n=$((n - 1))
done
echo begun
"""
#: timeout hands the signal on to what it runs.
UNLOAD = "kill $(cat /run/cairn-report.pids) 2>/dev/null; rm -f /run/cairn-report.pids; echo ended"
#: A second daemon beside the owner's, without network and wallets, takes the blocks from a file,
#: checks every signature, and ends. When memory is short, it is the first to go.
SYNC = f"""\
set -eu
folder={FOLDER}
chown -R bitcoin:bitcoin $folder
set -- bitcoind -datadir=$folder -loadblock=$folder/real.blk -stopafterblockimport=1 -server=0 \\
	-connect=0 -listen=0 -dnsseed=0 -networkactive=0 -disablewallet=1 -assumevalid=0 \\
	-minimumchainwork=0x00 -maxtipage=2000000000 -dbcache=100 -maxmempool=5 -logtimemicros=1 \\
	-printtoconsole=0
if command -v chpst >/dev/null; then
	set -- chpst -u bitcoin:bitcoin "$@"
else
	set -- setpriv --reuid=bitcoin --regid=bitcoin --clear-groups -- "$@"
fi
before=$(cut -d ' ' -f 1 /proc/uptime)
( echo 1000 >/proc/self/oom_score_adj; exec timeout 3600 "$@" ) >$folder/said 2>&1 ||
	{{ echo "the second daemon ended: $(grep -i -m 1 error $folder/said)" >&2; exit 1; }}
echo "$before $(cut -d ' ' -f 1 /proc/uptime)"
grep -E 'UpdateTip: .* height=(1|{TOP}) ' $folder/debug.log
"""


class NotAvailableError(Exception):
    """A figure is not there; the text says why."""


@dataclass(frozen=True)
class Sample:
    """One look at temperature and fan; what is not there is None."""

    celsius: float | None
    turns: int | None
    step: str | None
    megahertz: int | None

    @classmethod
    def parse(cls, line: str) -> Sample:
        """The line that SAMPLE prints. Raises ValueError for another one."""
        celsius, turns, step, kilohertz = line.split()
        return cls(
            None if celsius == "-" else int(celsius) / 1000,
            None if turns == "-" else int(turns),
            None if step == "-" else step,
            None if kilohertz == "-" else int(kilohertz) // 1000,
        )


@dataclass(frozen=True)
class Cut:
    """One power cut: seconds until SSH and RPC answered, heights, and what was wrong then."""

    ssh: float
    rpc: float
    before: int
    after: int
    wrong: str


def ask(shell: Shell, script: str, timeout: float = 120) -> str:
    """Output of a script. Raises NotAvailableError with its words if it fails, or has none."""
    try:
        result = shell.run(script, timeout)
    except GuestShellError as error:
        raise NotAvailableError(str(error)) from error
    text = result.stdout.strip("\n")
    if result.status or not text.strip():
        said = (result.stderr.strip().splitlines() or ["the machine has no answer"])[0]
        raise NotAvailableError(said)
    return text


def or_why(figure: Callable[[], str]) -> str:
    """A figure, or `not available:` and the reason."""
    try:
        return figure()
    except NotAvailableError as error:
        return f"not available: {error}"


def block(text: str) -> str:
    """Lines as they are, in Markdown; a reason in its place stays a sentence."""
    if text.startswith("not available:"):
        return text
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


# -- single figures ------------------------------------------------------------------


def answer_time(text: str) -> str:
    """When bitcoind answered, by systemd's properties."""
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    when, restarts = int(found["ActiveEnterTimestampMonotonic"]), int(found["NRestarts"])
    if not when:
        raise NotAvailableError("bitcoind has not come up since the boot")
    seconds = f"{when / 1_000_000:.0f} s after the kernel's start"
    return f"{seconds}, after {restarts} restarts" if restarts else seconds


def temperature_table(phases: dict[str, list[Sample]]) -> str:
    """A row for each phase: least, middle and largest temperature, and the fan."""
    rows = ["| Phase | Looks | °C, least | middle | most | Fan, turns/min | Step | MHz |"]
    rows.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, samples in phases.items():
        heat = [sample.celsius for sample in samples if sample.celsius is not None]
        if heat:
            middle = statistics.median(heat)
            degrees = [f"{value:.1f}" for value in (min(heat), middle, max(heat))]
        else:
            degrees = ["—"] * 3
        turns = [str(sample.turns) for sample in samples if sample.turns is not None]
        steps = [sample.step for sample in samples if sample.step]
        clock = [sample.megahertz for sample in samples if sample.megahertz is not None]
        cells = [name, str(len(samples)), *degrees, spread(turns), spread(steps)]
        cells.append(str(min(clock)) if clock else "—")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def spread(values: list[str]) -> str:
    """First and last of some values in the order of time, or the one that all have."""
    if not values:
        return "—"
    return values[0] if len(set(values)) == 1 else f"{values[0]} → {values[-1]}"


def missing(samples: list[Sample]) -> list[str]:
    """A sentence for each figure that no look had."""
    reasons = {
        "temperature": (
            any(sample.celsius is not None for sample in samples),
            "the kernel has no sensor of the processor's",
        ),
        "fan": (
            any(sample.turns is not None or sample.step for sample in samples),
            "the kernel has neither a fan with a counter nor one that it switches",
        ),
    }
    return [f"{name}: not available: {why}" for name, (there, why) in reasons.items() if not there]


def chain_rate(first: dict[str, object], last: dict[str, object], seconds: float) -> str:
    """How fast the node itself syncs, by two answers of getblockchaininfo."""
    if not last["initialblockdownload"]:
        raise NotAvailableError("the node is at the tip of its chain")
    blocks = int(str(last["blocks"])) - int(str(first["blocks"]))
    ways = [float(str(answer["verificationprogress"])) for answer in (first, last)]
    # the whole grows, too: at the first blocks the share may go back
    part = max(0.0, ways[1] - ways[0]) * 100
    return (
        f"{blocks} blocks in {seconds:.0f} s ({blocks * 3600 / seconds:.0f} an hour) at height"
        f" {last['blocks']}; {part * 3600 / seconds:.3f} % of the chain's transactions an hour"
    )


def block_rate(text: str) -> str:
    """How fast the real blocks were taken, by what SYNC prints."""
    lines = text.splitlines()
    stamps = {
        int(match[2]): datetime.datetime.fromisoformat(match[1])
        for line in lines[1:]
        if (match := re.match(r"(\S+Z) .* height=(\d+) ", line))
    }
    if set(stamps) != {1, TOP}:
        raise NotAvailableError(f"the second daemon did not come to block {TOP}")
    seconds = (stamps[TOP] - stamps[1]).total_seconds()
    begin, end = (float(word) for word in lines[0].split())
    return (
        f"{TOP} blocks in {seconds:.1f} s, {TOP / max(seconds, 0.001):.0f} a second;"
        f" {end - begin:.0f} s from the daemon's start to its end, with the last flush"
    )


def cuts_table(cuts: list[Cut]) -> str:
    """A row a cut."""
    rows = ["| Cut | SSH after | RPC after | Height before | after | Result |"]
    rows.append("|--:|--:|--:|--:|--:|---|")
    for number, cut in enumerate(cuts, 1):
        cells = [str(number), f"{cut.ssh:.0f} s", f"{cut.rpc:.0f} s", str(cut.before)]
        cells += [str(cut.after), cut.wrong or "came back by itself, no failed unit"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def private(text: str, names: list[str]) -> str:
    """The page without addresses and without these names. A last look: none should be in it."""
    for name in names:
        # The image's own name is no secret, and a part of ours
        if name and name.lower() not in ("cairn", "localhost"):
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "(left out)", text)

    def address(match: re.Match[str]) -> str:
        word = match[0]
        try:
            ipaddress.ip_address(word)
        except ValueError:
            mac = re.fullmatch(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", word)
            return "(left out)" if mac else word
        return "(left out)"

    numbers = r"\d+(?:\.\d+){3}|[0-9a-fA-F]*(?::[0-9a-fA-F]*){2,7}"
    return re.sub(rf"(?<![\w.:])(?:{numbers})", address, text)


# -- what takes time -----------------------------------------------------------------


def samples(shell: Shell, seconds: float, say: Callable[[str], None]) -> list[Sample]:
    """Looks at temperature and fan for so long. Raises NotAvailableError."""
    end = time.monotonic() + seconds
    found = []
    while True:
        try:
            found.append(Sample.parse(ask(shell, SAMPLE)))
        except ValueError as error:
            raise NotAvailableError(f"the figures cannot be read: {error}") from error
        say(f"{found[-1].celsius or '?'} °C, fan {found[-1].turns or found[-1].step or '?'}")
        if time.monotonic() + STEP > end:
            return found
        time.sleep(STEP)


def under_load(shell: Shell, seconds: float, say: Callable[[str], None]) -> list[Sample]:
    """The same while every core computes hashes, with less right to it than all else."""
    ask(shell, LOAD.format(seconds=int(seconds) + 120))
    try:
        return samples(shell, seconds, say)
    finally:
        ask(shell, UNLOAD)


def info(shell: Shell) -> dict[str, object]:
    """getblockchaininfo."""
    answer: dict[str, object] = json.loads(ask(shell, "node-cli getblockchaininfo"))
    return answer


def sync_of_real_blocks(shell: Shell) -> str:
    """Has a second daemon take the real blocks. Raises NotAvailableError."""
    free = int(ask(shell, "df -Pm /var | awk 'NR == 2 { print $4 }'"))
    if free < 1000:
        raise NotAvailableError(f"only {free} MiB are free on the data partition, 1000 are needed")
    ask(shell, f"rm -rf {FOLDER} && mkdir -m 700 {FOLDER} && echo made")
    try:
        shell.send(lzma.decompress(BLOCKS.read_bytes()), f"{FOLDER}/real.blk", 600)
        return block_rate(ask(shell, SYNC, 3700))
    except GuestShellError as error:
        raise NotAvailableError(str(error)) from error
    finally:
        ask(shell, f"rm -rf {FOLDER} && echo gone")


def cut_once(board: Board, now: Callable[[], float] = time.monotonic) -> Cut:
    """Cuts the power, and waits until the node is up again. AssertionError if it does not come."""
    before = int(ask(board.ssh, "node-cli getblockcount"))
    board.cut("")
    begin = now()
    board.power_on()
    board.wait(1800)
    ssh = now() - begin
    while True:
        result = Result(1, "", "")
        try:
            result = board.ssh.run("systemctl is-active bitcoind && node-cli getblockcount", 120)
        except GuestShellError:
            board.ssh.close()
        if not result.status:
            break
        if now() - begin > 7200:
            raise AssertionError("the node does not answer two hours after a power cut")
        time.sleep(2)
    rpc = now() - begin
    after = int(ask(board.ssh, "node-cli getblockcount"))
    failed = "systemctl list-units --all --state=failed --no-legend --plain --no-pager"
    units = board.ssh.run(failed, 120).stdout.split()
    errors = board.ssh.run("cat /sys/fs/ext4/*/errors_count 2>/dev/null", 60).stdout.split()
    wrong = [f"failed: {unit}" for unit in units if unit.endswith((".service", ".mount"))]
    wrong += ["errors of the file system"] if any(int(count) for count in errors) else []
    return Cut(ssh, rpc, before, after, ", ".join(wrong))
