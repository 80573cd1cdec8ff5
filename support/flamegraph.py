"""Folds the stacks of `perf script` and draws them as a flame graph.

Plain SVG with a title per frame (the browser shows it under the pointer); nothing to
install on the machine that looks at it. Width of a frame is its share of the samples;
the y axis is the depth of the stack, callers below.
"""

from __future__ import annotations

import html
import re
import zlib
from collections import Counter
from dataclasses import dataclass, field

WIDTH, ROW, MARGIN = 1600, 17, 10
# Narrower frames than this many pixels are left out; their time is in the caller's.
NARROWEST = 0.3
FRAME = re.compile(r"^\s+[0-9a-f]+ (.+?)(?:\+0x[0-9a-f]+)? \(([^)]*)\)$")


def fold(script: str) -> Counter[tuple[str, ...]]:
    """Samples of `perf script` by stack: thread's name first, then callers to callee."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for sample in script.split("\n\n"):
        lines = sample.strip("\n").splitlines()
        if not lines or lines[0].startswith((" ", "\t", "#")):
            continue
        name = re.split(r"\s+\d+(?:/\d+)?\s", lines[0], maxsplit=1)[0].strip()
        frames = [match[1] for line in lines[1:] if (match := FRAME.match(line))]
        stacks[(name, *reversed(frames))] += 1
    return stacks


@dataclass
class Node:
    """A frame with the samples in it and below it."""

    samples: int = 0
    children: dict[str, Node] = field(default_factory=dict)


def draw(stacks: Counter[tuple[str, ...]], title: str) -> str:
    """The SVG text of folded stacks."""
    root = Node()
    for stack, samples in stacks.items():
        node = root
        node.samples += samples
        for name in stack:
            node = node.children.setdefault(name, Node())
            node.samples += samples
    scale = (WIDTH - 2 * MARGIN) / max(1, root.samples)
    boxes: list[str] = []
    deepest = 0

    def place(node: Node, x: float, depth: int) -> None:
        nonlocal deepest
        for name, child in sorted(node.children.items()):
            width = child.samples * scale
            if width >= NARROWEST:
                deepest = max(deepest, depth)
                boxes.append(box(name, child.samples, x, depth, width))
                place(child, x, depth + 1)
            x += width

    def box(name: str, samples: int, x: float, depth: int, width: float) -> str:
        share = f"{name}: {samples} samples, {100 * samples / root.samples:.1f} %"
        # Colour by name, so that a function looks the same in two graphs.
        hue = zlib.crc32(name.encode()) % 50
        label = name[: int(width / 7)] if width > 30 else ""
        y = f"@{depth}@"
        return (
            f"<g><title>{html.escape(share)}</title>"
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" '
            f'fill="hsl({hue},75%,62%)"/>'
            f'<text x="{x + 3:.1f}" y="{y}" dy="12">{html.escape(label)}</text></g>'
        )

    place(root, MARGIN, 0)
    height = (deepest + 3) * ROW + 2 * MARGIN
    body = "\n".join(boxes)
    for depth in range(deepest, -1, -1):
        body = body.replace(f"@{depth}@", str(height - MARGIN - (depth + 1) * ROW))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="monospace" font-size="11">'
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{MARGIN}" y="20" font-size="14">{html.escape(title)}</text>\n{body}\n</svg>\n'
    )
