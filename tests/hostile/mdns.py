"""Asks by multicast DNS for a name and prints who answers. For two_names.sh.

usage: mdns.py NAME
Prints NAME and address for each A record, NAME and instance for each PTR record; sorted, each once.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

GROUP, PORT = "224.0.0.251", 5353
#: The computer's own address, and seconds in which answers may come
OWN, WAIT = "192.168.1.2", 5.0
A, PTR = 1, 12


def packed(name: str) -> bytes:
    """A name in a message."""
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def unpacked(data: bytes, at: int) -> tuple[str, int]:
    """The name at this place of a message, and where it ends."""
    parts, end = [], 0
    while data[at]:
        if data[at] >= 0xC0:
            end = end or at + 2
            at = struct.unpack_from("!H", data, at)[0] & 0x3FFF
        else:
            parts.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
    return ".".join(parts), end or at + 1


def answers(data: bytes) -> set[str]:
    """The A and PTR records of a message, as lines."""
    flags, questions, records = struct.unpack_from("!HHH", data, 2)
    if not flags & 0x8000:
        return set()
    at, found = 12, set()
    for _ in range(questions):
        at = unpacked(data, at)[1] + 4
    for _ in range(records):
        name, at = unpacked(data, at)
        kind, _, ttl, size = struct.unpack_from("!HHIH", data, at)
        at += 10
        if ttl and kind == A and size == 4:
            found.add(f"{name} {socket.inet_ntoa(data[at : at + 4])}")
        if ttl and kind == PTR:
            found.add(f"{name} {unpacked(data, at)[0]}")
        at += size
    return found


def main(name: str) -> None:
    """Asks three times, and prints what concerns the name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("", PORT))
        group = socket.inet_aton(GROUP) + socket.inet_aton(OWN)
        one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(OWN))
        one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
        one.settimeout(0.5)
        found: set[str] = set()
        question = struct.pack("!6H", 0, 0, 1, 0, 0, 0) + packed(name)
        question += struct.pack("!HH", PTR if name.startswith("_") else A, 1)
        end, later = time.monotonic() + WAIT, 0.0
        while time.monotonic() < end:
            if time.monotonic() > later:
                one.sendto(question, (GROUP, PORT))
                later = time.monotonic() + WAIT / 3
            try:
                found |= answers(one.recv(9000))
            except TimeoutError:
                continue
        print("\n".join(sorted(line for line in found if line.startswith(f"{name} "))))


main(sys.argv[1])
