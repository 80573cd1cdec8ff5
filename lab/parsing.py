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


def partition_offset(sfdisk_json: str, name: str) -> int:
    """Byte offset of the partition called `name` in `sfdisk --json`'s answer."""
    table = json.loads(sfdisk_json)["partitiontable"]
    for partition in table["partitions"]:
        if partition.get("name") == name:
            return int(partition["start"]) * int(table.get("sectorsize", 512))
    raise ValueError(f"the image has no partition named {name}")


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
