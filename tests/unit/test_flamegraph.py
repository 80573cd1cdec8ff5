"""Stacks of `perf script`, folded and drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from support.flamegraph import draw, fold

SCRIPT = """\
b-msghand   412 12.345678:    5025125 cpu-clock:u:
\t    7f01 CSHA256::Write(unsigned char const*, unsigned long)+0x51 (/usr/bin/bitcoind)
\t    7f02 ConnectBlock<int>+0x10 (/usr/bin/bitcoind)

b-msghand   412 12.350000:    5025125 cpu-clock:u:
\t    7f02 ConnectBlock<int>+0x10 (/usr/bin/bitcoind)

b-scriptch.0   413/414 12.360000:    5025125 cpu-clock:u:
\tffffffff8100 [unknown] ([kernel.kallsyms])
"""


def test_fold() -> None:
    """Callers first, offsets and modules dropped, threads kept apart."""
    write = "CSHA256::Write(unsigned char const*, unsigned long)"
    assert fold(SCRIPT) == {
        ("b-msghand", "ConnectBlock<int>", write): 1,
        ("b-msghand", "ConnectBlock<int>"): 1,
        ("b-scriptch.0", "[unknown]"): 1,
    }


def test_draw() -> None:
    """Well-formed, names escaped, a callee above its caller and no wider."""
    svg = ET.fromstring(draw(fold(SCRIPT), "a <title>"))
    name = "{http://www.w3.org/2000/svg}"
    boxes = {}
    for group in svg.iter(f"{name}g"):
        rect = group.find(f"{name}rect")
        title = group.find(f"{name}title")
        assert rect is not None
        assert title is not None
        boxes[str(title.text).split(":")[0]] = rect
    caller, callee = boxes["ConnectBlock<int>"], boxes["CSHA256"]
    assert float(callee.get("y", "0")) < float(caller.get("y", "0"))
    assert float(callee.get("width", "0")) < float(caller.get("width", "0"))
    assert len(boxes) == 5


def test_empty() -> None:
    """No samples: a graph without frames, not an error."""
    assert fold("") == {}
    ET.fromstring(draw(fold("# nothing\n"), "empty"))
