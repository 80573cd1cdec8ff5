"""Pure helpers of the library: texts in, values out. Unit-tested in tests/unit."""

from __future__ import annotations

import json
import re

# TCP listening, and UDP bound without a peer, as /proc/net shows them
LISTEN_STATES = {"tcp": "0A", "udp": "07"}
# net.ipv4.ip_local_port_range: who asks gets a port of it, a server never
EPHEMERAL = range(32768, 61000)


def listening_sockets(protocol: str, table: str) -> list[str]:
    """Listening sockets of a /proc/net/{tcp,udp}{,6} table as `protocol scope port`.

    The scope is `loopback` or `any`: every address that is not loopback counts as
    reachable from outside. UDP ports that the kernel hands out are left out: musl's
    resolver does not connect the socket it asks a name server with.
    """
    found = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 4 or fields[3] != LISTEN_STATES[protocol]:
            continue
        address, port = fields[1].split(":")
        if protocol == "udp" and int(port, 16) in EPHEMERAL:
            continue
        # words of four bytes, each in the machine's (little-endian) order
        octets = bytes.fromhex(address)
        ordered = b"".join(octets[i : i + 4][::-1] for i in range(0, len(octets), 4))
        mapped = ordered[-4:] if ordered[:12] == bytes(10) + b"\xff\xff" else ordered
        loopback = mapped[0] == 127 if len(mapped) == 4 else mapped == bytes(15) + b"\x01"
        found.add(f"{protocol} {'loopback' if loopback else 'any'} {int(port, 16)}")
    return sorted(found)


def partition_span(sfdisk_json: str, name: str) -> tuple[int, int]:
    """Byte offset and size of the partition called `name` in `sfdisk --json`'s answer."""
    table = json.loads(sfdisk_json)["partitiontable"]
    sector = int(table.get("sectorsize", 512))
    for partition in table["partitions"]:
        if partition.get("name") == name:
            return int(partition["start"]) * sector, int(partition["size"]) * sector
    raise ValueError(f"the image has no partition named {name}")


def partition_offset(sfdisk_json: str, name: str) -> int:
    """Byte offset of the partition called `name` in `sfdisk --json`'s answer."""
    return partition_span(sfdisk_json, name)[0]


def exposure(text: str) -> float:
    """The overall score in the output of `systemd-analyze security UNIT`."""
    match = re.search(r"Overall exposure level for \S+: ([0-9.]+)", text)
    if not match:
        raise ValueError("systemd-analyze security gave no overall exposure level")
    return float(match.group(1))


def mebibytes(text: str) -> float:
    """A systemd size such as 32M or 1.5G in MiB."""
    match = re.fullmatch(r"([0-9.]+)([KMGT]?)B?", text.strip())
    if not match:
        raise ValueError(f"not a size: {text}")
    return (
        float(match.group(1))
        * {"": 2**-20, "K": 2**-10, "M": 1, "G": 2**10, "T": 2**20}[match.group(2)]
    )


def kernel_options_lost(wanted: str, config: str) -> list[str]:
    """Options of a fragment that the kernel's configuration does not have as written."""
    last: dict[str, str] = {}
    for line in wanted.splitlines():
        if match := re.match(r"# (CONFIG_\w+) is not set$", line):
            last[match[1]] = "n"
        elif match := re.match(r"(CONFIG_\w+)=(.+)$", line):
            last[match[1]] = match[2]
    found = dict(re.findall(r"(?m)^(CONFIG_\w+)=(.+)$", config))
    return [f"{name}={value}" for name, value in last.items() if found.get(name, "n") != value]


def is_mounted(mounts: str, point: str, mode: str, kind: str = "") -> bool:
    """Whether /proc/mounts has a file system at a path in a mode (ro, rw), of that kind if given.

    A kind with a dot or dash, such as `fuse.x`, is no disk's: it does not count.
    """
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 4 or fields[1] != point or fields[3].split(",")[0] != mode:
            continue
        if fields[2] == kind if kind else re.fullmatch("[a-z0-9]+", fields[2]):
            return True
    return False


def file_system_mebibytes(df: str) -> int:
    """Size in MiB of the one file system in the output of `df -Pm PATH`."""
    lines = df.splitlines()
    if len(lines) != 2:
        raise ValueError(f"df shows {max(0, len(lines) - 1)} file systems instead of one")
    return int(lines[1].split()[1])


def kibibytes(text: str, name: str) -> int:
    """The field `NAME:  N kB` of a file in /proc, such as meminfo or PID/status, in KiB."""
    match = re.search(rf"(?m)^{re.escape(name)}:\s+([0-9]+) kB$", text)
    if not match:
        raise ValueError(f"the kernel shows no {name}")
    return int(match[1])


def memory_in_use(meminfo: str, zoneinfo: str, status: str) -> dict[str, int]:
    """Memory in MiB that is in use: `daemon`, `used` (by all), and `others`.

    In use is what is neither free nor the cache of files. Pages on the processors' own lists are
    free, too, although MemFree leaves them out: they count in `used`, not in `others`. Of the
    daemon (/proc/PID/status), its own pages count.
    """
    used = kibibytes(meminfo, "MemTotal")
    for name in ("MemFree", "Buffers", "Cached", "SReclaimable"):
        used -= kibibytes(meminfo, name)
    # pages of 4 KiB
    lists = sum(int(pages) for pages in re.findall(r"(?m)^ +count: +([0-9]+)", zoneinfo)) * 4
    daemon = kibibytes(status, "RssAnon") // 1024
    others = used // 1024 - lists // 1024 - daemon
    return {"daemon": daemon, "used": used // 1024, "others": others}


def listens_on(table: str, address: str) -> bool:
    """Whether a socket of /proc/net/tcp listens on an address such as `10.0.2.15:8333` (IPv4)."""
    host, _, port = address.partition(":")
    octets = bytes(int(octet) for octet in host.split("."))
    # a word in the machine's (little-endian) order
    wanted = f"{octets[::-1].hex().upper()}:{int(port):04X}"
    rows = (line.split() for line in table.splitlines()[1:])
    return any(fields[1] == wanted and fields[3] == LISTEN_STATES["tcp"] for fields in rows)


def value_of(text: str, name: str) -> str:
    """The value of the one line `NAME=VALUE` of a configuration."""
    found = re.findall(rf"(?m)^{re.escape(name)}=(.*)$", text)
    if len(found) != 1:
        raise ValueError(f"{name}= is there {len(found)} times instead of once")
    return str(found[0])


def lines_without(text: str, names: tuple[str, ...]) -> list[str]:
    """The lines of a configuration but for the settings of these names."""
    return [line for line in text.splitlines() if line.partition("=")[0] not in names]


def user_options(text: str) -> list[str]:
    """Lines of a bitcoin.conf that come from node.conf.

    What every node has does not count: comments, includes, the chain, and what is switched off.
    """
    ours = re.compile(r"#|includeconf|chain=|.*=0$")
    return [line for line in text.splitlines() if not ours.match(line)]


def cache_mebibytes(log: str) -> int:
    """bitcoind's database caches, as its log adds them up (`* Using N MiB for ...`), in MiB."""
    caches = re.findall(r"\* Using ([0-9.]+) MiB for ", log)
    if not caches:
        raise ValueError("the log names no cache")
    return int(sum(float(cache) for cache in caches) + 0.5)


def disk_settings(disk: str, rotational: bool) -> tuple[str, int]:
    """Scheduler and read-ahead in KiB that a disk has by our rules of udev.

    ``disk``: its folder below /sys/devices. Raises ValueError for one of no known kind.
    """
    name = disk.rpartition("/")[2]
    if re.match("mmcblk[0-9]", name):
        return "bfq", 64
    if re.match("nvme[0-9]", name) or re.match("vd[a-z]", name):
        return "none", 64
    if re.match("sd[a-z]", name):
        if "/usb" in disk:
            return "bfq", 128
        return "mq-deadline", 512 if rotational else 64
    raise ValueError(f"there are no rules for the disk {name}")


def sectors_of(extents: str, start: int, step: int = 8) -> list[int]:
    """One sector of the disk in each `step` of those that files have.

    `extents` is what `filefrag -e -b512` shows of files on a partition that begins at the sector
    `start`. Sectors have 512 bytes: by default one in 4 KiB.
    """
    rows = re.findall(r"(?m)^ *\d+: *\d+\.\. *\d+: *(\d+)\.\. *(\d+):", extents)
    return [
        start + sector for first, last in rows for sector in range(int(first), int(last) + 1, step)
    ]


def open_accounts(shadow: str) -> list[str]:
    """Accounts of /etc/shadow that are not locked: with a password, or without the need of one."""
    accounts = (line.split(":") for line in shadow.splitlines() if line)
    return [fields[0] for fields in accounts if fields[1][:1] not in ("!", "*")]


def login_shell(passwd: str, user: str) -> str:
    """The shell of a user in /etc/passwd."""
    for line in passwd.splitlines():
        fields = line.split(":")
        if fields[0] == user:
            return fields[6]
    raise ValueError(f"there is no user {user}")


def name_servers(text: str) -> list[str]:
    """Name servers in the output of `resolvectl dns`, of all links."""
    return [word for line in text.splitlines() for word in line.partition(":")[2].split()]


def comes_after(text: str, pattern: str, words: str) -> bool:
    """Whether a regular expression matches after the first of these words, and not before."""
    before, found, after = text.partition(words)
    return bool(found and not re.search(pattern, before) and re.search(pattern, after))


def jemalloc_option(text: str, name: str) -> str:
    """An option in the statistics that jemalloc prints at a program's end."""
    found = re.findall(rf"(?m)^ *opt\.{re.escape(name)}: *(.*)$", text)
    if len(found) != 1:
        raise ValueError(f"jemalloc shows {len(found)} values of {name} instead of one")
    return str(found[0])
