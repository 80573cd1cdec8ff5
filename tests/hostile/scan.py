"""Listens on ports, or looks which ports of a machine can be reached. For test_firewall_scan.py.

usage: scan.py listen TCP,TCP,... UDP,UDP,...
       scan.py scan NAME ADDRESS [SOURCE-PORT]   TCP ports of FIRST and LATER, and UDP
       scan.py ping NAME ADDRESS COUNT           echo requests at once; how many were answered
       scan.py connect NAME ADDRESS PORT COUNT [SOURCE]   at once; with SOURCE, an address of
                                                 this machine, one more from there at the same time
Several of them with a lone + in between are done in this order.
Prints lines for the test: NAME KIND PORT ANSWER.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import time

#: Seconds without any further answer after which the rest counts as silent
WAIT = 2.0
#: Every port up to here, and LATER
FIRST = 1024
LATER = [3389, 8080, 8332, 8333, 8334, 9050, 9051, 18332, 18333, 18443, 18444, 28332, 28333]
LATER += [38333, 48333, 50001, 65535]
#: A state of the kernel's TCP_INFO
SYN_SENT = 2
UDP = [53, 67, 68, 69, 80, 111, 123, 137, 161, 323, 500, 546, 547, 1900, 5353, 5355, 8333, 51820]


def family_of(address: str) -> socket.AddressFamily:
    """IPv6 addresses have a colon."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def target(address: str, port: int) -> tuple[object, ...]:
    """As sockets want it; a zone comes behind a %."""
    host, _, zone = address.partition("%")
    if ":" in host:
        return (host, port, 0, socket.if_nametoindex(zone) if zone else 0)
    return (host, port)


def listen(tcp: list[int], udp: list[int]) -> None:
    """Accepts and closes, and answers what comes with `yes`; for ever."""
    selector = selectors.DefaultSelector()
    for kind, ports in ((socket.SOCK_STREAM, tcp), (socket.SOCK_DGRAM, udp)):
        for port in ports:
            made = socket.socket(socket.AF_INET6, kind)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("::", port))
            if kind == socket.SOCK_STREAM:
                made.listen(512)
            selector.register(made, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            one = key.fileobj
            assert isinstance(one, socket.socket)
            if one.type == socket.SOCK_STREAM:
                one.accept()[0].close()
            else:
                one.sendto(b"yes", one.recvfrom(2048)[1])


def reached(address: str, ports: list[int]) -> dict[int, str]:
    """Which TCP ports are open, which refuse; the others say nothing."""
    selector = selectors.DefaultSelector()
    answers = {}
    for port in ports:
        one = socket.socket(family_of(address), socket.SOCK_STREAM)
        one.setblocking(False)
        one.connect_ex(target(address, port))
        selector.register(one, selectors.EVENT_WRITE, port)
    while selector.get_map() and (ready := selector.select(WAIT)):
        for key, _ in ready:
            ended = key.fileobj
            assert isinstance(ended, socket.socket)
            error = ended.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            answers[key.data] = "refused" if error else "open"
            selector.unregister(ended)
            ended.close()
    for key in list(selector.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]
    return answers


def answered(address: str, source: int) -> list[int]:
    """UDP ports that answer."""
    found = []
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as one:
        if source:
            one.bind(("", source))
        for port in UDP:
            one.sendto(b"hello", target(address, port))
        one.settimeout(WAIT)
        try:
            while True:
                found.append(one.recvfrom(64)[1][1])
        except OSError:
            return found


def pinged(address: str, count: int) -> int:
    """How many of so many echo requests are answered."""
    six = ":" in address
    protocol = socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP
    with socket.socket(family_of(address), socket.SOCK_RAW, protocol) as raw:
        for number in range(count):
            head = struct.pack("!BBHHH", 128 if six else 8, 0, 0, 77, number)
            if not six:
                words = struct.unpack("!4H", head)
                total = sum(words)
                total = (total & 0xFFFF) + (total >> 16)
                head = head[:2] + struct.pack("!H", ~total & 0xFFFF) + head[4:]
            raw.sendto(head, target(address, 0))
        raw.settimeout(WAIT)
        answers = 0
        try:
            while True:
                data = raw.recvfrom(256)[0]
                answers += (data[0] if six else data[20]) == (129 if six else 0)
        except OSError:
            return answers


def connected(address: str, port: int, count: int, source: str = "") -> list[socket.socket]:
    """So many connections that have been begun, after a wait."""
    tries = []
    for _ in range(count):
        tries.append(socket.socket(family_of(address), socket.SOCK_STREAM))
        if source:
            tries[-1].bind((source, 0))
        tries[-1].setblocking(False)
        tries[-1].connect_ex(target(address, port))
    time.sleep(WAIT)
    return tries


def taken(tries: list[socket.socket]) -> int:
    """How many of them the other side has answered."""
    states = [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] for one in tries]
    return sum(state != SYN_SENT for state in states)


def main(command: str, *words: str) -> None:
    """One of the commands above."""
    if command == "listen":
        tcp, udp = ([int(port) for port in ports.split(",")] for ports in words)
        listen(tcp, udp)
    name, address = words[:2]
    if command == "scan":
        ports = [*range(1, FIRST), *LATER]
        for port, answer in sorted(reached(address, ports).items()):
            print(name, "tcp", port, answer)
        for port in sorted(answered(address, int(words[2]) if len(words) > 2 else 0)):
            print(name, "udp", port, "answers")
    elif command == "ping":
        print(name, "ping", words[2], pinged(address, int(words[2])))
    elif command == "connect":
        port = int(words[2])
        tries = connected(address, port, int(words[3]))
        more = connected(address, port, 1, words[4]) if len(words) > 4 else []
        # before the second try of those that were dropped, or together with it
        print(name, "connect", port, taken(tries))
        if more:
            print(name, "other", port, taken(more))


def commands() -> None:
    """One after the other."""
    words: list[str] = []
    for word in [*sys.argv[1:], "+"]:
        if word != "+":
            words.append(word)
            continue
        main(*words)
        words = []


commands()
