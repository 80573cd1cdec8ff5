"""datadisk.awk: which partition is the data? Each situation has one row here."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from lab.paths import ROOT

SCRIPT = ROOT / "overlay/usr/lib/cairn/datadisk.awk"
AWKS = (("mawk",), ("busybox", "awk"))
OWN, OTHER = "0123abcd", "76543210"
#: The marker while a disk with the serial number S1 is made; 9f9f stands for that number.
MAKING = f"mk-{OWN}-9f9f"
MARKER = {"none": "data", "mk": MAKING, "at": f"at-{OWN}"}
GB = 2_000_000


@dataclass
class Disk:
    """A whole disk beside the system's, with what stands on it."""

    name: str
    serial: str
    content: str = "blank"
    model: str = "Model_X"
    probed: bool = True
    sum: str = "9f9f"

    #: content: label in the partition table, type and label of the file system
    PARTS: ClassVar[dict[str, list[tuple[str, str, str]]]] = {
        "own": [(f"cairn-data-{OWN}", "ext4", f"cairn-{OWN}")],
        "f2fs": [(f"cairn-data-{OWN}", "f2fs", f"cairn-{OWN}")],
        "begun": [(f"cairn-data-{OWN}", "ext4", f"cairn-data-{OWN}"[:16])],
        "unformatted": [(f"cairn-data-{OWN}", "", "")],
        "left": [(f"cairn-data-{OWN}", "ext4", f"old-{OWN}")],
        "another": [(f"cairn-data-{OTHER}", "ext4", f"cairn-{OTHER}")],
        "mixed": [(f"cairn-data-{OTHER}", "ext4", f"cairn-{OWN}")],
        "two": [
            (f"cairn-data-{OWN}", "ext4", f"cairn-{OWN}"),
            (f"cairn-data-{OTHER}", "ext4", f"cairn-{OTHER}"),
        ],
        "begun+": [(f"cairn-data-{OWN}", "", ""), ("photos", "ext4", "photos")],
        "foreign": [("Basic data partition", "ntfs", "photos")],
        "card": [("boot", "vfat", "CAIRN_BOOT"), ("root-a", "erofs", ""), ("data", "ext4", "data")],
        "moved": [
            ("boot", "vfat", ""),
            ("root-a", "erofs", ""),
            ("data", "ext4", f"at-{OTHER}-abab"),
        ],
        "crafted": [("cairn-data-0123ABCD", "ext4", "cairn-0123ABCD")],
    }
    WHOLE = ("blank", "table", "used", "unread", "busy")

    def lines(self) -> list[str]:
        """As the facts have it."""
        state = self.content if self.content in self.WHOLE else ""
        if not self.probed and state != "busy":
            state = ""
        sectors = 500 * GB
        lines = [f"disk\t{self.name}\t{self.serial}\t{self.model}\t{sectors}\t{self.sum}\t{state}"]
        for number, part in enumerate(self.PARTS.get(self.content, []), 1):
            device = f"{self.name}{number}"
            lines.append(f"part\t{self.name}\t{device}\tu-{device}\t" + "\t".join(part))
        return lines


@dataclass
class Facts:
    """All that the function is told."""

    want: str = "none"
    marker: str = "none"
    disks: list[Disk] = field(default_factory=list)
    held: str = ""
    erase: str = ""
    quiet: bool = True
    conf: str = "ok"
    system: str = "ext4"
    repaired: tuple[str, ...] = ()
    failed: str = ""

    def text(self) -> str:
        """Lines for the function."""
        kind, _, name = self.want.partition(":")
        lines = [f"want\t{kind}\t{name}", f"conf\t{self.conf}", f"erase\t{self.erase}"]
        lines.append(f"quiet\t{'yes' if self.quiet else 'no'}")
        lines += [f"held\t{self.held}"] if self.held else []
        lines += [f"failed\t{self.failed}"] if self.failed else []
        lines += [f"repaired\t{part}" for part in self.repaired]
        if self.system != "none":
            label = MARKER.get(self.marker, self.marker)
            lines.append(f"system\tvda4\tu-vda4\t{self.system}\t{label}")
        for disk in self.disks:
            lines += disk.lines()
        return "\n".join([*lines, ""])


def decide(facts: Facts, awk: tuple[str, ...] = AWKS[0]) -> tuple[str, str]:
    """Action with its arguments, and sentence."""
    command = [*awk, "-f", str(SCRIPT)]
    said = subprocess.run(
        command, input=facts.text(), check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert said[0].startswith("do\t")
    assert len(said) == 1 or (len(said) == 2 and said[1].startswith("say\t"))
    sentence = said[1][4:] if len(said) == 2 else ""
    return said[0][3:].replace("\t", " "), sentence


def named(content: str, **other: object) -> Facts:
    """datadisk=S1, and that disk."""
    return Facts(want="name:S1", disks=[Disk("sda", "S1", content)], **other)  # type: ignore[arg-type]


def two(first: str, second: str, serial: str = "S2") -> list[Disk]:
    """Two disks."""
    return [Disk("sda", "S1", first), Disk("sdb", serial, second, model="Model_Y", sum="abab")]


USE, WAIT = "use sda1 u-sda1", "wait"
#: facts, the action, words of the sentence
TABLE: list[tuple[Facts, str, str]] = [
    # -- serial numbers of digits are texts: awk knows 16 places of a number
    *(
        (
            Facts(want=f"name:{asked}", erase=asked, disks=[Disk("sda", found, "used")]),
            "wait",
            "is not here",
        )
        for asked, found in (
            ("575832314139383537323137", "575832314139383537399999"),
            ("201305231547000123", "201305231547000124"),
            ("1E5", "100000"),
            ("00123", "123"),
            ("0x10", "16"),
            ("1.0", "1"),
        )
    ),
    *(
        (
            Facts(want="name:M", erase=asked, disks=[Disk("sda", found, "used", model="M")]),
            "wait",
            "is not its serial number",
        )
        for asked, found in (("201305231547000123", "201305231547000124"), ("1E5", "100000"))
    ),
    (
        Facts(want="name:1000000", disks=[Disk("sda", "S1", "blank", model="1e6")]),
        "wait",
        "is not here",
    ),
    # -- erase= and a node's data that cannot be read at this moment
    (named("unformatted", erase="S1"), "repair sda1 ", ""),
    (named("unformatted", erase="S1", repaired=("sda1",)), "wait", "is not erased"),
    (named("unformatted"), "repair sda1 ", ""),
    (named("begun", erase="S1"), "erase sda", ""),
    (named("left", erase="S1"), "erase sda", ""),
    # -- a copy that is found before the disk itself: its serial number is another one
    (named("own", marker=f"at-{OWN}-9f9f", quiet=False), USE, ""),
    (named("own", marker=f"at-{OWN}-1234", quiet=False), "quiet", ""),
    (named("own", marker=f"at-{OWN}-1234"), USE, ""),
    (Facts(marker=f"at-{OWN}-12345", disks=[Disk("sda", "S1", "own")]), "system", ""),
    # -- a torn marker is mended before the data come back
    (
        Facts(want="system", marker="at", system="", disks=[Disk("sda", "S1", "own")]),
        f"repair vda4 at-{OWN}",
        "",
    ),
    # -- without a serial number no disk can be known again
    (Facts(want="auto", marker="mk", disks=[Disk("sda", "", "table")]), "wait", "blank disk only"),
    # -- the main road
    (Facts(), "system", ""),
    (Facts(conf="lost"), "system", ""),
    (Facts(erase="S1"), "system", ""),
    (Facts(want="system"), "system", ""),
    (Facts(disks=[Disk("sda", "S1", "own")]), "system", ""),
    (Facts(disks=[Disk("sda", "S1", "card")]), "system", ""),
    (Facts(system="none"), "fail", "no data partition"),
    (Facts(system=""), "repair vda4 ", ""),
    (Facts(system="", repaired=("vda4",)), "system", ""),
    # -- what cannot be understood
    (Facts(want="doubt"), "look", ""),
    (Facts(want="doubt", held="yes"), "system", "cannot be used"),
    (Facts(want="doubt", held="no"), WAIT, "no chain is begun elsewhere"),
    (Facts(want="doubt", held="yes", marker="mk"), "forget", ""),
    (Facts(want="name:S1", system=""), "repair vda4 ", ""),
    (Facts(want="name:S1", system="", repaired=("vda4",)), WAIT, "where the data are"),
    # -- a new data disk
    (named("blank", quiet=False), "quiet", ""),
    (named("blank"), "make sda", ""),
    (Facts(want="name:S1", disks=[Disk("sda", "S1", probed=False)]), "probe sda", ""),
    (Facts(want="name:Model X", disks=[Disk("sda", "S1")]), "make sda", ""),
    (Facts(want="name: Model_X_", disks=[Disk("sda", "S1")]), "make sda", ""),
    (Facts(want="name:S1"), WAIT, "is not here"),
    (Facts(want="name:S1", disks=[Disk("sda", "S2")]), WAIT, "Model_X (serial S2, 512 GB)"),
    (Facts(want="name:s1", disks=[Disk("sda", "S1")]), WAIT, "is not here"),
    (Facts(want="name:S", disks=[Disk("sda", "S1")]), WAIT, "is not here"),
    (Facts(want="name:Model_X", disks=[Disk("sda", ""), Disk("sdb", "")]), WAIT, "more than one"),
    (Facts(want="name:S1", disks=two("blank", "blank", "S1")), WAIT, "more than one disk"),
    (
        Facts(want="name:Model_X", disks=two("blank", "blank", "S1")),
        WAIT,
        "Two disks have the serial number S1",
    ),
    (named("used"), WAIT, "add erase=S1"),
    (named("unread"), WAIT, "cannot be read"),
    (named("busy"), WAIT, "in use"),
    (named("table"), WAIT, "add erase=S1"),
    (named("foreign"), WAIT, "nothing on it is touched"),
    (named("card"), WAIT, "is one that a node has started from"),
    (named("card", erase="S1"), WAIT, "save its wallets"),
    (named("moved", erase="S1"), "erase sda", ""),
    (named("begun"), WAIT, "nothing on it is touched"),
    (named("crafted"), WAIT, "nothing on it is touched"),
    (named("mixed"), WAIT, "nothing on it is touched"),
    (named("left"), WAIT, "add erase=S1"),
    (
        Facts(want="name:Model_X", disks=[Disk("sda", "", "foreign")]),
        WAIT,
        "erase it on another computer",
    ),
    # -- erase=
    (named("foreign", erase="S1"), "erase sda", ""),
    (named("used", erase="S1"), "erase sda", ""),
    (named("left", erase="S1"), "erase sda", ""),
    (named("foreign", erase="S1", quiet=False), "quiet", ""),
    (named("foreign", erase="S2"), WAIT, "erase=S2 is not its serial number"),
    (named("foreign", erase="s1"), WAIT, "not its serial number"),
    (named("foreign", erase="Model_X"), WAIT, "not its serial number"),
    (named("busy", erase="S1"), WAIT, "in use"),
    (named("unread", erase="S1"), WAIT, "cannot be read"),
    (named("blank", erase="S1"), "make sda", ""),
    (named("own", erase="S1", held="no"), f"mark {OWN} 9f9f", ""),
    (named("two", erase="S1"), WAIT, "the data of two nodes"),
    (Facts(want="auto", erase="S1", disks=[Disk("sda", "S1", "foreign")]), WAIT, "blank disk only"),
    (Facts(want="name:S2", erase="S1", disks=two("foreign", "foreign")), WAIT, "not its serial"),
    # -- a new card, and the disk of the old one
    (named("own"), "look", ""),
    (named("own", held="no"), f"mark {OWN} 9f9f", ""),
    (named("f2fs", held="no"), f"mark {OWN} 9f9f", ""),
    (named("own", held="yes"), WAIT, "Both the system's disk and"),
    (Facts(want="name:S1", held="no", disks=two("own", "own")), WAIT, "(serial S2"),
    (Facts(want="auto", held="no", disks=[Disk("sda", "S1", "own")]), f"mark {OWN} 9f9f", ""),
    (Facts(want="auto", held="no", quiet=False, disks=[Disk("sda", "S1", "own")]), "quiet", ""),
    (Facts(want="auto", held="no", disks=two("own", "own")), WAIT, "Unplug one"),
    (Facts(want="auto", held="no", disks=two("own", "another")), WAIT, "serial S2"),
    (Facts(want="auto", held="no", disks=two("blank", "another")), f"mark {OTHER} abab", ""),
    # -- auto
    (Facts(want="auto"), WAIT, "There is no other disk"),
    (Facts(want="auto", disks=[Disk("sda", "S1")]), "make sda", ""),
    (Facts(want="auto", disks=[Disk("sda", "S1", probed=False)]), "probe sda", ""),
    (Facts(want="auto", quiet=False, disks=[Disk("sda", "S1")]), "quiet", ""),
    (Facts(want="auto", disks=two("blank", "blank")), WAIT, "more than one disk"),
    (Facts(want="auto", disks=two("foreign", "blank")), "make sdb", ""),
    (Facts(want="auto", disks=two("used", "foreign")), WAIT, "blank disk only"),
    (Facts(want="auto", disks=[Disk("sda", "S1", "busy")]), WAIT, "blank disk only"),
    # -- a power cut while it was made
    (named("blank", marker="mk"), "make sda", ""),
    (named("begun", marker="mk"), "remake sda", ""),
    (named("unformatted", marker="mk"), "remake sda", ""),
    (named("begun+", marker="mk"), "repair sda1 ", ""),
    (named("another", marker="mk", held="no"), f"mark {OTHER} 9f9f", ""),
    (named("table", marker="mk"), "remake sda", ""),
    (
        Facts(want="name:S2", marker="mk", disks=two("blank", "table")),
        WAIT,
        "nothing on it is touched",
    ),
    (named("own", marker="mk"), f"mark {OWN} 9f9f", ""),
    (named("own", marker="mk", held="yes"), f"mark {OWN} 9f9f", ""),
    (named("foreign", marker="mk"), WAIT, "nothing on it is touched"),
    (Facts(want="auto", marker="mk", disks=[Disk("sda", "S1", "begun")]), "remake sda", ""),
    (Facts(want="auto", marker="mk", disks=[Disk("sda", "S1", "table")]), "remake sda", ""),
    (Facts(want="auto", marker="mk", disks=two("begun", "blank")), "remake sda", ""),
    (Facts(want="none", marker="mk"), "forget", ""),
    (Facts(want="system", marker="mk"), "forget", ""),
    (Facts(want="none", marker="mk", conf="lost"), WAIT, "node.conf is missing"),
    # -- what failed
    (named("blank", failed="No room."), "look", ""),
    (named("blank", failed="No room.", held="yes"), "system", "No room."),
    (named("blank", failed="No room.", held="no"), WAIT, "No room."),
    # -- the data are on another disk
    (named("own", marker="at"), USE, ""),
    (named("f2fs", marker="at"), USE, ""),
    (named("own", marker="at", erase="S1"), USE, "Put a # in front of erase="),
    (Facts(marker="at", disks=[Disk("sda", "S1", "own")]), USE, ""),
    (Facts(marker="at", conf="lost", disks=[Disk("sda", "S1", "own")]), USE, ""),
    (Facts(marker="at", want="auto", disks=[Disk("sda", "S1", "own")]), USE, ""),
    (Facts(marker="at", want="doubt", disks=[Disk("sda", "S1", "own")]), USE, "cannot be used"),
    (Facts(marker="at", system="", disks=[Disk("sda", "S1", "own")]), USE, ""),
    (Facts(marker="at", want="auto", disks=two("blank", "own")), "use sdb1 u-sdb1", ""),
    (Facts(marker="at", want="name:S9", disks=[Disk("sda", "S1", "own")]), USE, "is not the disk"),
    (Facts(marker="at", want="name:S2", disks=two("own", "blank")), USE, "is not the disk"),
    (
        Facts(marker="at", want="name:S2", disks=two("own", "another")),
        WAIT,
        "the data of another node",
    ),
    (Facts(marker="at", want="name:S1"), WAIT, "node.conf asks for S1"),
    (Facts(marker="at"), WAIT, f"({OWN}) is missing"),
    (Facts(marker="at", want="system"), WAIT, "is missing"),
    (named("blank", marker="at"), WAIT, "is missing"),
    (named("foreign", marker="at", erase="S1"), WAIT, "is missing"),
    (named("another", marker="at"), WAIT, "is missing"),
    (named("mixed", marker="at"), WAIT, "is missing"),
    (named("crafted", marker="at"), WAIT, "is missing"),
    (Facts(marker="at", want="auto", disks=two("blank", "another")), WAIT, "is missing"),
    (Facts(marker="at", disks=two("own", "own")), WAIT, "Model_Y (serial S2"),
    (Facts(marker="at", disks=two("own", "unformatted")), WAIT, "One is a copy"),
    (named("unformatted", marker="at"), f"repair sda1 cairn-{OWN}", ""),
    (named("begun", marker="at"), f"repair sda1 cairn-{OWN}", ""),
    (named("left", marker="at"), f"repair sda1 cairn-{OWN}", ""),
    (named("unformatted", marker="at", repaired=("sda1",)), WAIT, "cannot be read"),
    # -- and back
    (Facts(marker="at", want="system", disks=[Disk("sda", "S1", "own")]), f"back sda1 {OWN}", ""),
    (Facts(marker="at", want="system", disks=[Disk("sda", "S1", "left")]), f"back sda1 {OWN}", ""),
    (
        Facts(marker="at", want="system", disks=[Disk("sda", "S1", "own")], failed="No room."),
        USE,
        "No room.",
    ),
    (
        Facts(marker="at", want="system", disks=[Disk("sda", "S1", "left")], failed="No room."),
        f"repair sda1 cairn-{OWN}",
        "",
    ),
    # -- what only looks like a marker
    (Facts(marker="at-0123ABCD"), "system", ""),
    (Facts(marker="at-0123abcd0"), "system", ""),
    (Facts(marker="mk-0123abcd"), "system", ""),
]


@pytest.mark.parametrize("awk", AWKS, ids="-".join)
def test_table(awk: tuple[str, ...]) -> None:
    """Each situation has its one action."""
    wrong = []
    for facts, action, words in TABLE:
        did, said = decide(facts, awk)
        if did != action or words not in said or bool(words) != bool(said):
            wrong.append((facts, did, said))
    assert wrong == []


def situations() -> Iterator[Facts]:
    """All that can come together, with two disks of any content."""
    contents = [*Disk.WHOLE, *Disk.PARTS]
    seconds = ["blank", "table", "own", "begun", "another", "two", "foreign"]
    for want, marker, first, second in itertools.product(
        ("none", "auto", "system", "doubt", "name:S1", "name:S2"), MARKER, contents, seconds
    ):
        yield Facts(want, marker, two(first, second), held="no", erase="S1")


@pytest.fixture(scope="module")
def decisions() -> list[tuple[Facts, str, str]]:
    """What is done in each of them: one process decides them all."""
    everything = list(situations())
    text = "\n\f\n".join(facts.text().replace("\n", "\x1e") for facts in everything)
    split = f"""
    while IFS= read -r line; do
        printf %s "$line" | tr '\\036' '\\n' | mawk -f {SCRIPT} | tr '\\n' '\\001'
        echo
    done"""
    lines = [line for line in text.split("\n") if line != "\f"]
    said = subprocess.run(
        ["sh", "-c", split],
        input="\n".join([*lines, ""]),
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert len(said) == len(everything)
    result = []
    for facts, line in zip(everything, said, strict=True):
        do, _, say = line.partition("\x01")
        result.append((facts, do[3:].replace("\t", " "), say[4:].rstrip("\x01")))
    return result


def holds_data(disk: Disk) -> bool:
    """Complete data of some node."""
    return disk.content in ("own", "f2fs", "another", "two")


def test_nothing_that_holds_anything_is_made(decisions: list[tuple[Facts, str, str]]) -> None:
    """make: a blank disk only. remake: what this node has begun. erase: by exact serial number."""
    seen = set()
    for facts, action, _ in decisions:
        verb, _, device = action.partition(" ")
        if verb not in ("make", "remake", "erase"):
            continue
        seen.add(verb)
        disk = next(disk for disk in facts.disks if disk.name == device)
        assert not holds_data(disk), facts
        assert facts.marker != "at", facts
        assert facts.want == "auto" or facts.want == f"name:{disk.serial}", facts
        if verb == "make":
            assert disk.content == "blank", facts
        if verb == "remake":
            assert facts.marker == "mk", facts
            assert disk.content in ("begun", "unformatted", "table"), facts
            assert disk.content != "table" or disk.sum == "9f9f", facts
        if verb == "erase":
            assert facts.want != "auto", facts
            assert disk.serial == facts.erase, facts
    assert seen == {"make", "remake", "erase"}


def test_a_marker_leads_to_its_disk_or_nowhere(decisions: list[tuple[Facts, str, str]]) -> None:
    """Never to the system's partition, and never to another node's data."""
    for facts, action, _ in decisions:
        verb = action.split()[0]
        if facts.marker == "at":
            assert verb in ("use", "wait", "repair", "back"), facts
        if verb in ("use", "back"):
            assert facts.marker == "at", facts
            name = action.split()[1][:3]
            disk = next(disk for disk in facts.disks if disk.name == name)
            assert disk.content in ("own", "f2fs", "two", "left"), facts


def test_two_claimants_are_refused(decisions: list[tuple[Facts, str, str]]) -> None:
    """With both serial numbers, whoever is named."""
    claims = ("own", "f2fs")
    for facts, action, said in decisions:
        if all(disk.content in claims for disk in facts.disks):
            if facts.marker == "at" or facts.want == "auto":
                assert action == "wait", facts
                assert "serial S1" in said, facts
                assert "serial S2" in said, facts
            elif facts.marker == "none":
                assert action in ("wait", "system"), facts


def test_the_system_is_the_data_only_without_a_wish(
    decisions: list[tuple[Facts, str, str]],
) -> None:
    """An empty chain never begins where none was asked for."""
    for facts, action, _ in decisions:
        if action in ("system", "forget"):
            assert facts.want in ("none", "system"), facts


def test_each_wait_is_a_sentence(decisions: list[tuple[Facts, str, str]]) -> None:
    """Printable ASCII, and who waits says so."""
    for facts, action, said in decisions:
        assert (action == "wait") <= bool(said), facts
        assert all(" " <= letter <= "~" for letter in said), facts
        assert action != "fail", facts
