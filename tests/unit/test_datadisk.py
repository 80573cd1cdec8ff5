"""cairn-datadisk with disks in a folder: facts from sysfs and udev, steps, and what is written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import program

SCRIPT = ROOT / "overlay/usr/lib/cairn/cairn-datadisk"
MIB = 1 << 20
#: What the kernel does after the signatures of a disk, $d in /sys, have gone
FORGET = "rm -rf $block/$d/$d?*"


class Node:
    """A root folder with sysfs, the udev properties of disks, and tools that note what they do.

    A partition's file system is a folder ``fs/NAME``; its label is the property ID_FS_LABEL.
    """

    def __init__(self, root: Path) -> None:
        """A machine with the system on mmcblk0."""
        self.root = root
        self.log = root / "log"
        self.log.touch()
        self.note = f'echo "${{0##*/}} $*" | sed "s,{root},,g" >>{root}/log'
        self.write("proc/uptime", "100.00 1.00\n")
        self.write("sys/class/tty/console/active", "tty1\n")
        self.write("dev/tty1", "")
        self.write("sys/kernel/uevent_seqnum", "1\n")
        (root / "sys/dev/block").mkdir(parents=True)
        self.disk("mmcblk0", "CARD", "179")
        for number, name in enumerate(("boot", "root-a", "root-b", "data"), 1):
            self.partition("mmcblk0", number, name)
        self.udev("mmcblk0p4", ID_FS_TYPE="ext4", ID_FS_LABEL="data")
        mounts = "1 0 179:2 / / ro - erofs /dev/root ro\n2 1 179:1 / /boot rw - vfat /dev/x rw\n"
        self.write("proc/self/mountinfo", mounts)
        self.node_conf("")
        self.tools()

    def write(self, path: str, text: str) -> None:
        """A file below the root folder."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def node_conf(self, text: str) -> None:
        """What the owner wrote."""
        self.write("boot/node.conf", text)

    # -- disks ---------------------------------------------------------------------------

    def disk(self, name: str, serial: str, major: str = "8", model: str = "Fast_SSD") -> None:
        """A whole, empty disk."""
        folder = self.root / "sys/devices" / name
        folder.mkdir(parents=True)
        (folder / "size").write_text("2000000\n")
        (folder / "uevent").write_text(f"DEVNAME={name}\n")
        (folder / "diskseq").write_text("1\n")
        self.class_link(folder, f"{major}:{0 if name[-1] != 'b' else 16}")
        self.udev(name, ID_SERIAL_SHORT=serial, ID_MODEL=model)
        with (self.root / "dev" / name).open("wb") as file:
            file.truncate(4 * MIB)

    def class_link(self, folder: Path, number: str) -> None:
        """The places where sysfs shows a device."""
        for place in (f"class/block/{folder.name}", f"dev/block/{number}"):
            link = self.root / "sys" / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)

    def partition(self, disk: str, number: int, label: str, **udev: str) -> str:
        """A partition of a disk; returns its name."""
        name = f"{disk}p{number}" if disk[-1].isdigit() else f"{disk}{number}"
        folder = self.root / "sys/devices" / disk / name
        folder.mkdir()
        (folder / "partition").write_text(f"{number}\n")
        (folder / "uevent").write_text(f"DEVNAME={name}\nPARTNAME={label}\n")
        major = "179" if disk == "mmcblk0" else "8"
        self.class_link(folder, f"{major}:{number + (16 if disk[-1] == 'b' else 0)}")
        self.udev(name, ID_PART_ENTRY_UUID=f"0a0b-{disk.encode().hex()}-{number}", **udev)
        (self.root / "dev" / name).write_bytes(bytes(8192))
        (self.root / "fs" / name).mkdir(parents=True)
        return name

    def data_disk(self, disk: str, serial: str, node: str = "0123abcd", **udev: str) -> str:
        """A disk with a node's complete data."""
        self.disk(disk, serial)
        labels = {"ID_FS_TYPE": "ext4", "ID_FS_LABEL": f"cairn-{node}", **udev}
        name = self.partition(disk, 1, f"cairn-data-{node}", **labels)
        self.write(f"fs/{name}/lib/bitcoind/wallets/w", "coins of " + serial)
        return name

    def udev(self, name: str, **properties: str) -> None:
        """What udev knows of a device."""
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        file = self.root / "udev" / name
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as stream:
            stream.write(lines)

    def label(self, name: str) -> str:
        """The label of its file system, as udev has it: the last one counts."""
        lines = (self.root / "udev" / name).read_text().splitlines()
        found = [line.split("=", 1)[1] for line in lines if line.startswith("ID_FS_LABEL=")]
        return found[-1] if found else ""

    # -- tools ---------------------------------------------------------------------------

    def wipefs(self, kernel: str = FORGET) -> None:
        """A wipefs that erases, after which the kernel does that with a whole disk."""
        program(
            self.root / "bin/wipefs",
            f"""case $1 in
            -a) {self.note}; d=${{2#/dev/}} block={self.root}/sys/class/block
                [ -e $block/$d/partition ] || {{ {kernel}; }} ;;
            *) cat {self.root}/signatures ;; esac""",
        )

    def tools(self) -> None:
        """Each writes down how it was called; what they change is in the folder."""
        root, tools, note = self.root, self.root / "bin", self.note
        program(
            tools / "udevadm",
            f"""
            case $1 in
            info) name=${{3#--name=/dev/}}
                tac {root}/udev/$name 2>/dev/null | awk -F= '!seen[$1]++' ;;
            trigger) {note}
                name=$(sed -n 's/.*KERNEL=="\\([a-z0-9]*\\)".*/\\1/p' \\
                    {root}/run/udev/rules.d/90-cairn-data.rules 2>/dev/null)
                [ -z "$name" ] || {{ mkdir -p {root}/dev/cairn
                    ln -sfn ../$name {root}/dev/cairn/data; }} ;;
            esac""",
        )
        program(
            tools / "sleep",
            f"""awk -v s="$1" '{{ $1 += s; print }}' {root}/proc/uptime >{root}/proc/uptime.new
            mv {root}/proc/uptime.new {root}/proc/uptime
            [ ! -e {root}/bin/later ] || sh {root}/bin/later
            awk '{{ exit $1 >= 300 }}' {root}/proc/uptime || kill -9 $PPID""",
        )
        self.wipefs()
        self.write("signatures", "")
        for name in ("fsck.ext4", "fsck.f2fs"):
            program(tools / name, note)
        for name in ("e2label", "f2fslabel"):
            program(tools / name, f'{note}; echo "ID_FS_LABEL=$2" >>{root}/udev/${{1#/dev/}}')
        # the file system of a partition is a folder, and what is mounted a link to it
        program(
            tools / "mount",
            f'{note}; rmdir "$4" && ln -s {root}/fs/${{3#/dev/}} "$4"',
        )
        program(tools / "umount", 'rm "$1" && mkdir "$1"')
        program(tools / "df", f'{tools}/du "$2"')
        program(
            tools / "du",
            f"""echo head; free=$(cat {root}/free 2>/dev/null || echo 9000000)
            echo x x $(/usr/bin/du -sk "$1/" | cut -f1) $free x""",
        )
        program(
            tools / "systemd-repart",
            f"""{note}
            for disk; do :; done; disk=${{disk#/dev/}}
            label=$(sed -n 's/^Label=//p' {root}/run/cairn/datadisk.*/repart.d/data.conf)
            format=$(sed -n 's/^Format=//p' {root}/run/cairn/datadisk.*/repart.d/data.conf)
            rm -rf {root}/sys/devices/$disk/${{disk}}[0-9]*
            part={root}/sys/devices/$disk/${{disk}}1; mkdir -p $part {root}/fs/${{disk}}1
            echo 1 >$part/partition; echo "PARTNAME=$label" >$part/uevent
            rm -f {root}/sys/class/block/${{disk}}1; ln -s $part {root}/sys/class/block/${{disk}}1
            : >{root}/dev/${{disk}}1
            {{ echo ID_PART_ENTRY_UUID=aa-bb; echo ID_FS_TYPE=$format
              echo "ID_FS_LABEL=$(echo $label | cut -c1-16)"; }} >{root}/udev/${{disk}}1""",
        )

    def run(self, shell: str = "dash", status: int = 0) -> str:
        """Runs it; returns its output. It must end with this status."""
        path = f"{self.root}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        command = [*shell.split(), str(SCRIPT), "--root", str(self.root)]
        result = subprocess.run(
            command, check=False, capture_output=True, text=True, env={"PATH": path}, timeout=120
        )
        assert result.returncode == status, result.stdout + result.stderr
        return result.stdout

    def data(self) -> str:
        """Which partition is called the data; "" if none is."""
        link = self.root / "dev/cairn/data"
        return link.resolve().name if link.is_symlink() else ""

    def calls(self, tool: str) -> list[str]:
        """How a tool was called."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if line.split()[0] == tool]

    def report(self) -> str:
        """What the status screen shows later."""
        file = self.root / "run/cairn/datadisk.report"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A card with a new, empty data partition."""
    return Node(tmp_path)


@pytest.fixture(params=["dash", "busybox sh"])
def shell(request: pytest.FixtureRequest) -> str:
    """The shells that run it."""
    return str(request.param)


KILLED = -9  # it would wait for ever: the fake `sleep` ends it after a while


def test_the_main_road(node: Node, shell: str) -> None:
    """The partition of the system's own disk; nothing is mounted, checked or labelled."""
    node.data_disk("sda", "OLD")
    node.partition("sda", 2, "data", ID_FS_TYPE="ext4")
    assert node.run(shell) == ""
    assert node.data() == "mmcblk0p4"
    assert {line.split()[0] for line in node.log.read_text().splitlines()} == {"udevadm"}
    rule = (node.root / "run/udev/rules.d/90-cairn-data.rules").read_text()
    assert 'KERNEL=="mmcblk0p4"' in rule
    assert 'ENV{ID_PART_ENTRY_UUID}=="0a0b-6d6d63626c6b30-4"' in rule


def test_a_blank_disk(node: Node, shell: str) -> None:
    """It is made, gets its label when all is there, and the system's partition the marker."""
    node.disk("sda", "S1")
    node.node_conf("datadisk=S1\n")
    said = node.run(shell)
    assert node.data() == "sda1"
    assert "Waiting 30 s for other disks" in said
    assert "is ready" in said
    assert float((node.root / "proc/uptime").read_text().split()[0]) >= 130
    (repart,) = node.calls("systemd-repart")
    assert "--empty=require" in repart
    labels = [line.split()[1:] for line in node.calls("e2label")]
    making, made, marker = labels
    number = making[1][3:11]
    assert making[0] == "/dev/mmcblk0p4"
    assert making[1].startswith("mk-")
    assert len(making[1]) == 16
    assert made == ["/dev/sda1", f"cairn-{number}"]
    # with the sum of the same serial number
    assert marker == ["/dev/mmcblk0p4", f"at-{number}{making[1][11:]}"]
    # and at the next boot
    node.log.write_text("")
    node.run(shell)
    assert node.data() == "sda1"
    assert node.calls("e2label") == node.calls("systemd-repart") == []


def test_the_data_move_along(node: Node, shell: str) -> None:
    """All but what belongs to the file system; the old ones stay."""
    node.write("fs/mmcblk0p4/lib/bitcoind/wallets/w", "coins")
    node.write("fs/mmcblk0p4/lost+found/x", "")
    node.write("fs/mmcblk0p4/.hidden file ", "dot")
    node.disk("sda", "S1")
    node.node_conf("datadisk=S1\nfilesystem=f2fs\n")
    node.run(shell)
    new = node.root / "fs/sda1"
    assert (new / "lib/bitcoind/wallets/w").read_text() == "coins"
    assert (new / ".hidden file ").read_text() == "dot"
    assert not (new / "lost+found").exists()
    assert (node.root / "fs/mmcblk0p4/lib/bitcoind/wallets/w").exists()
    assert node.calls("f2fslabel") == [f"f2fslabel /dev/sda1 {node.label('sda1')}"]
    assert node.calls("mount")[0].startswith("mount -o nodev,nosuid,noexec,noatime,ro ")


@pytest.mark.parametrize("held", [True, False])
def test_no_room(node: Node, held: bool) -> None:
    """The node goes on with the data that it has; without any it waits."""
    if held:
        node.write("fs/mmcblk0p4/lib/bitcoind/wallets/w", "coins")
    node.write("free", "1000")
    node.disk("sda", "S1")
    node.node_conf("datadisk=S1\n")
    said = node.run(status=0 if held else KILLED)
    assert "There is no room for the data on the disk sda (serial S1)" in said
    assert node.data() == ("mmcblk0p4" if held else "")
    assert ("The data are where they were." in node.report()) == held
    assert not node.label("sda1").startswith("cairn-0")


@pytest.mark.parametrize(
    ("name", "noticed"),
    [
        ("lib/bitcoind/wallets/blocks/wallet.dat", True),
        ("lib/cairn/name", True),
        ("lib/bitcoind/blocks/blk00000.dat", False),
    ],
)
def test_a_copy_with_other_content(node: Node, shell: str, name: str, noticed: bool) -> None:
    """Same size and time: noticed in what nobody else has; the data stay. Of blocks it is not."""
    node.write("proc/sys/vm/drop_caches", "")
    node.write("fs/mmcblk0p4/lib/bitcoind/settings.json", "{}")
    node.write(f"fs/mmcblk0p4/{name}", "coins")
    node.disk("sda", "S1")
    node.node_conf("datadisk=S1\n")
    copy = node.root / "fs/sda1" / name
    program(
        node.root / "bin/cp",
        f'/usr/bin/cp "$@" && touch -r {copy} {node.root}/time && echo -n c0ins >{copy} &&'
        f" touch -r {node.root}/time {copy}",
    )
    assert ("the copy is not what was to be copied" in node.run(shell)) == noticed
    assert node.data() == ("mmcblk0p4" if noticed else "sda1")
    assert (node.root / "proc/sys/vm/drop_caches").read_text() == "3\n"


def find_fails(node: Node, arguments: str) -> None:
    """`find` says that the disk fails, where its arguments match the shell's pattern."""
    program(
        node.root / "bin/find",
        f'case $* in {arguments}) echo "find: Input/output error" >&2; exit 1 ;; esac\n'
        'exec /usr/bin/find "$@"',
    )


def test_a_copy_that_cannot_be_looked_at(node: Node, shell: str) -> None:
    """Two lists that are empty because of an error are not two that are the same."""
    node.write("fs/mmcblk0p4/lib/bitcoind/wallets/w", "coins")
    node.disk("sda", "S1")
    node.node_conf("datadisk=S1\n")
    find_fails(node, "*-type*")
    assert "failed: find: Input/output error" in node.run(shell)
    assert node.data() == "mmcblk0p4"


def test_data_that_cannot_be_read_are_held(node: Node, shell: str) -> None:
    """A failing card whose folder gives an error is not taken for an empty one."""
    node.write("fs/mmcblk0p4/lib/bitcoind/wallets/w", "coins")
    node.data_disk("sda", "S1")
    node.node_conf("datadisk=S1\n")
    find_fails(node, "*/old*")
    said = node.run(shell, status=KILLED)
    assert "Both the system's disk and" in said
    assert node.data() == ""
    assert node.calls("e2label") == []


def test_what_is_found_on_it_is_not_touched(node: Node, shell: str) -> None:
    """A signature, a partition, or content of the first MiB: it waits, and writes nothing."""
    node.node_conf("datadisk=S1\n")
    node.disk("sda", "S1")
    disk = node.root / "dev/sda"
    content = bytearray(disk.read_bytes())
    content[700_000] = 1
    disk.write_bytes(content)
    assert "add erase=S1 to node.conf" in node.run(shell, KILLED)
    assert disk.read_bytes() == bytes(content)
    assert node.calls("systemd-repart") == node.calls("e2label") == node.calls("wipefs") == []
    assert "add erase=S1" in (node.root / "dev/tty1").read_text()
    assert node.data() == ""


@pytest.mark.parametrize(
    ("signature", "first", "made"),
    [
        ("", b"\0", True),
        ("", b"\xff", True),
        ("", b"\0\xff", False),
        ("LVM2_member\n", b"\0", False),
        ("gpt\nPMBR\n", b"\0", False),
    ],
)
def test_what_blank_is(node: Node, signature: str, first: bytes, made: bool) -> None:
    """No signature, and the first MiB all of one kind."""
    node.node_conf("datadisk=auto\n")
    node.disk("sda", "S1")
    (node.root / "dev/sda").write_bytes(first * (4 * MIB // len(first)))
    node.write("signatures", signature)
    node.run(status=0 if made else KILLED)
    assert bool(node.calls("systemd-repart")) == made


def test_a_disk_that_cannot_be_read(node: Node) -> None:
    """Is not blank."""
    node.node_conf("datadisk=S1\n")
    node.disk("sda", "S1")
    (node.root / "dev/sda").write_bytes(bytes(MIB - 1))
    assert "cannot be read" in node.run(status=KILLED)
    program(node.root / "bin/wipefs", "exit 1")
    assert "cannot be read" in node.run(status=KILLED)
    assert node.calls("systemd-repart") == []


@pytest.mark.parametrize(
    ("tool", "signature", "at"),
    [
        *((tool, "", 700_000) for tool in ("dd", "tr", "wc")),
        *((tool, "gpt\nPMBR\n", 700_000) for tool in ("tail", "tr")),
        *((tool, "ext4\n", 1080) for tool in ("grep", "sed")),
    ],
)
def test_a_disk_that_cannot_be_looked_at(
    node: Node, shell: str, tool: str, signature: str, at: int
) -> None:
    """One with content is neither blank nor half made because a command fails."""
    node.disk("sda", "S1")
    content = bytearray(MIB)
    content[at] = 1
    (node.root / "dev/sda").write_bytes(content)
    node.write("signatures", signature)
    (node.root / "work").mkdir()
    command = f"root=$1 work=$1/work; . {SCRIPT.parent}/datadisk-facts.sh; datadisk_probe sda"
    path = f"{node.root}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    for broken in (False, True):
        if broken:
            program(node.root / "bin" / tool, "exit 1")
        subprocess.run(
            [*shell.split(), "-euc", command, "probe", str(node.root)],
            check=not broken,
            stderr=subprocess.DEVNULL,
            env={"PATH": path},
        )
        found = node.root / "work/probe.sda.1"
        assert not found.exists() or found.read_text() in ("used\n", "unread\n")
        found.unlink(missing_ok=True)


def test_system_disk_that_is_not_known(node: Node, shell: str) -> None:
    """Then no disk is taken: each could be the system's."""
    node.write("proc/self/mountinfo", "")
    node.disk("sda", "S1")
    node.node_conf("datadisk=auto\n")
    assert "the disk of the root file system is not known" in node.run(shell, status=1)


def test_held_data_whatever_fails(node: Node, shell: str) -> None:
    """The system's data are not taken for nothing because no names could be compared."""
    node.write("fs/mmcblk0p4/lib/bitcoind/wallets/w", "coins")
    node.data_disk("sda", "S1")
    node.node_conf("datadisk=S1\n")
    program(node.root / "bin/grep", 'case $* in *old/lib*) exit 2 ;; esac\nexec /usr/bin/grep "$@"')
    assert "Both the system's disk and" in node.run(shell, status=KILLED)
    assert node.calls("e2label") == []


def test_erase(node: Node) -> None:
    """By its serial number, all signatures first; then the screen asks to take the line out."""
    node.node_conf("datadisk=S1\nerase=S1\n")
    node.disk("sda", "S1")
    node.partition("sda", 1, "photos", ID_FS_TYPE="ntfs")
    node.run()
    assert node.calls("wipefs") == ["wipefs -a /dev/sda1", "wipefs -a /dev/sda"]
    assert "--empty=force" in node.calls("systemd-repart")[0]
    assert node.data() == "sda1"
    assert "Put a # in front of erase= in node.conf" in node.report()


def test_erase_until_the_kernel_has_forgotten(node: Node) -> None:
    """udev looks at a partition when wipefs asks the kernel to forget it: asked again."""
    node.node_conf("datadisk=S1\nerase=S1\n")
    node.disk("sda", "S1")
    node.partition("sda", 1, "photos", ID_FS_TYPE="ntfs")
    asked = node.root / "asked"
    node.wipefs(kernel=f"if [ -e {asked} ]; then {FORGET}; fi; touch {asked}")
    node.run()
    assert len(node.calls("wipefs")) == 4
    assert len(node.calls("systemd-repart")) == 1
    assert node.data() == "sda1"


def test_erase_of_a_disk_in_use(node: Node) -> None:
    """The kernel never forgets its partition: nothing is made, and the screen says why."""
    node.node_conf("datadisk=S1\nerase=S1\n")
    node.disk("sda", "S1")
    node.partition("sda", 1, "photos", ID_FS_TYPE="ntfs")
    node.wipefs(kernel="false")
    said = node.run(status=KILLED)
    assert "The old partitions of the disk sda (serial S1) are still in use. Restart" in said
    assert node.calls("systemd-repart") == []


def test_an_old_node_conf_with_a_new_card(node: Node) -> None:
    """erase= never erases a node's data: they are adopted."""
    node.data_disk("sda", "S1")
    node.node_conf("datadisk=S1\nerase=S1\n")
    node.run()
    assert node.calls("wipefs") == node.calls("systemd-repart") == []
    assert node.label("mmcblk0p4") == "at-0123abcd-b441"
    assert node.data() == "sda1"
    assert (node.root / "fs/sda1/lib/bitcoind/wallets/w").read_text() == "coins of S1"


def test_a_missing_disk(node: Node, shell: str) -> None:
    """The node waits, and goes on without a restart when the disk is there, on any port."""
    node.udev("mmcblk0p4", ID_FS_LABEL="at-0123abcd")
    node.node_conf("datadisk=S1\n")
    said = node.run(shell, KILLED)
    assert "The disk with the node's data (0123abcd) is missing. node.conf asks for S1." in said
    # once a minute, not each time something is looked at
    assert 2 <= said.count("is missing") <= 5
    assert node.data() == ""
    node.write("proc/uptime", "100.00 1.00\n")
    node.data_disk("sdb", "S1")
    node.run(shell)
    assert node.data() == "sdb1"


def test_a_disk_that_appears(node: Node) -> None:
    """The wait ends when it is plugged in."""
    node.udev("mmcblk0p4", ID_FS_LABEL="at-0123abcd")
    node.data_disk("sda", "S1")
    hidden = node.root / "hidden"
    hidden.mkdir()
    for name in ("sda", "sda1"):
        (node.root / "sys/class/block" / name).rename(hidden / name)
    node.write("bin/later", f"mv {hidden}/* {node.root}/sys/class/block/ 2>/dev/null || :\n")
    said = node.run()
    assert "There is no other disk" in said
    assert node.data() == "sda1"


def test_two_copies(node: Node) -> None:
    """Both serial numbers, and no data."""
    node.udev("mmcblk0p4", ID_FS_LABEL="at-0123abcd")
    node.data_disk("sda", "S1")
    node.data_disk("sdb", "S2")
    said = node.run(status=KILLED)
    assert "serial S1" in said
    assert "serial S2" in said
    assert node.data() == ""


def test_a_torn_marker_counts(node: Node) -> None:
    """Of a superblock with a wrong checksum udev knows nothing; its label is read all the same."""
    node.data_disk("sda", "S1")
    (node.root / "udev/mmcblk0p4").write_text("ID_PART_ENTRY_UUID=0a-4\n")
    block = bytearray(8192)
    block[1080:1082] = b"\x53\xef"
    block[1144:1155] = b"at-0123abcd"
    (node.root / "dev/mmcblk0p4").write_bytes(block)
    node.run()
    assert node.data() == "sda1"


def test_an_unreadable_system_partition_is_repaired_first(node: Node) -> None:
    """Then the boot says what it always says, when it is not mounted."""
    (node.root / "udev/mmcblk0p4").write_text("ID_PART_ENTRY_UUID=0a-4\n")
    node.run()
    assert node.calls("fsck.ext4") == ["fsck.ext4 -y /dev/mmcblk0p4"]
    assert node.data() == "mmcblk0p4"


@pytest.mark.parametrize("held", ["", "lib"])
def test_back_to_the_system(node: Node, shell: str, held: str) -> None:
    """What was there is set aside; the disk keeps its copy, which counts no more."""
    node.data_disk("sda", "S1")
    node.udev("mmcblk0p4", ID_FS_LABEL="at-0123abcd")
    if held:
        node.write("fs/mmcblk0p4/lib/old", "stale")
        node.write("fs/mmcblk0p4/before-move/older", "staler")
    node.node_conf("datadisk=system\n")
    node.run(shell)
    system = node.root / "fs/mmcblk0p4"
    assert node.data() == "mmcblk0p4"
    assert (system / "lib/bitcoind/wallets/w").read_text() == "coins of S1"
    assert node.label("mmcblk0p4") == "data"
    assert node.label("sda1") == "old-0123abcd"
    if held:
        assert (system / "before-move+/lib/old").read_text() == "stale"
        assert (system / "before-move/older").read_text() == "staler"
        assert not (system / "lib/old").exists()
    # the disk's label goes first: the marker still names it until the last step
    assert [line.split()[1] for line in node.calls("e2label")] == ["/dev/sda1", "/dev/mmcblk0p4"]


def test_no_room_on_the_system(node: Node) -> None:
    """The disk's data go on being used."""
    node.data_disk("sda", "S1")
    node.udev("mmcblk0p4", ID_FS_LABEL="at-0123abcd")
    node.write("free", "1000")
    node.write("fs/mmcblk0p4/lib/old", "stale")
    node.node_conf("datadisk=system\n")
    node.run()
    assert node.data() == "sda1"
    assert "no room for the data on the system's disk" in node.report()
    assert (node.root / "fs/mmcblk0p4/lib/old").read_text() == "stale"
    assert node.calls("e2label") == []


def test_the_rest_of_a_copy_is_taken_away(node: Node) -> None:
    """Of this move only: an older flag is no reason to remove anything."""
    for flag, aside in (("0123abcd", False), ("76543210", True)):
        shutil.rmtree(node.root / "fs/mmcblk0p4")
        if flag == "0123abcd":
            node.data_disk("sda", "S1")
        node.udev("mmcblk0p4", ID_FS_LABEL="at-0123abcd")
        node.udev("sda1", ID_FS_LABEL="cairn-0123abcd")
        node.write("fs/mmcblk0p4/.cairn-moving", flag + "\n")
        node.write("fs/mmcblk0p4/lib/part", "half")
        node.node_conf("datadisk=system\n")
        node.run()
        system = node.root / "fs/mmcblk0p4"
        assert not (system / "lib/part").exists()
        assert (system / "before-move/lib/part").exists() == aside
        assert (system / "lib/bitcoind/wallets/w").exists()


def test_node_conf_of_another_disk(node: Node) -> None:
    """An old card in a reader has a partition `boot`, too: its wishes do not count."""
    node.disk("sda", "S1")
    node.disk("sdb", "S2")
    node.partition("sdb", 1, "boot")
    mounts = "1 0 179:2 / / ro - erofs /dev/root ro\n2 1 8:17 / /boot rw - vfat /dev/x rw\n"
    node.write("proc/self/mountinfo", mounts)
    node.node_conf("datadisk=S1\nerase=S1\n")
    node.run()
    assert node.data() == "mmcblk0p4"
    assert node.calls("systemd-repart") == []


@pytest.mark.parametrize(
    "line", ["datadisk=", "datadsk=auto", "datadisk=\x01", "datadisk=a\ndatadisk=b"]
)
def test_a_line_that_cannot_be_used(node: Node, line: str) -> None:
    """Makes nothing anywhere, and begins no chain in the wrong place."""
    node.disk("sda", "S1")
    node.node_conf(line + "\n")
    assert "no chain is begun elsewhere" in node.run(status=KILLED)
    assert node.data() == ""
    assert node.calls("systemd-repart") == node.calls("e2label") == []
    node.write("proc/uptime", "100.00 1.00\n")
    node.write("fs/mmcblk0p4/lib/bitcoind/wallets/w", "coins")
    node.run()
    assert node.data() == "mmcblk0p4"


def test_foreign_words_on_the_screen(node: Node) -> None:
    """Printable ASCII only, whatever a disk calls itself."""
    node.disk("sda", "S\x1b[2J\u202e1", model="\x9bM\x07")
    node.node_conf("datadisk=S9\n")
    said = node.run(status=KILLED) + (node.root / "dev/tty1").read_text()
    assert "S[2J1" in said
    assert all(" " <= letter <= "~" or letter in "\r\n" for letter in said)


def test_no_partition_no_name(node: Node) -> None:
    """Where repart made none the boot stops with a sentence."""
    shutil.rmtree(node.root / "sys/devices/mmcblk0/mmcblk0p4")
    (node.root / "sys/class/block/mmcblk0p4").unlink()
    assert "no data partition" in node.run(status=1)
    assert node.data() == ""


def test_a_label_that_cannot_be_written(node: Node) -> None:
    """The copy may count or not: nothing goes on, as the next start finds out."""
    node.disk("sda", "S1")
    node.node_conf("datadisk=S1\n")
    label = (
        f'case $2 in cairn-*) exit 1 ;; esac; echo "ID_FS_LABEL=$2" >>{node.root}/udev/${{1#/dev/}}'
    )
    program(node.root / "bin/e2label", label)
    assert "Switch off and on to try again" in node.run(status=1)
    assert node.data() == ""
    # and it begins again
    node.tools()
    node.run()
    assert node.data() == "sda1"
    assert len(node.calls("systemd-repart")) == 2
    assert "--empty=force" in node.calls("systemd-repart")[1]
