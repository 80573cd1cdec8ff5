"""How long the stages of tests/run.py take: measured by a whole run, told by the next one.

The file, out/test/times.json, has the seconds of each stage, and of all together ("all"), for
each kind of run ("test" for `make test`, "check" for `make check`). It belongs to the machine and
to what is compiled on it already; `make clean` removes it. Without it, or where it cannot be read,
no figure is shown.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path


def read(path: Path, kind: str) -> dict[str, float]:
    """Seconds by stage that the last whole run of this kind took; none if nobody knows."""
    try:
        times = json.loads(path.read_text())[kind]
        return {
            stage: float(seconds)
            for stage, seconds in times.items()
            if math.isfinite(seconds) and seconds >= 0
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def keep(path: Path, kind: str, seconds: dict[str, float]) -> None:
    """Stores the seconds of a whole run; those of other kinds of run stay.

    Seconds of a stage that this run could not carry out are left out: `seconds` has none. Where
    the file cannot be written, the next run says no figure; the results of this one matter more.
    """
    try:
        times = json.loads(path.read_text())
    except (OSError, ValueError):
        times = {}
    if not isinstance(times, dict):
        times = {}
    times[kind] = {stage: round(spent, 1) for stage, spent in seconds.items()}
    with contextlib.suppress(OSError):
        path.write_text(json.dumps(times, indent=2) + "\n")


def duration(seconds: float) -> str:
    """Seconds in words: full minutes from two minutes on."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def announce(stages: list[str], times: dict[str, float]) -> str:
    """The line in front of a run: its stages, and how long each took the last time."""
    words = [f"{stage} ({duration(times[stage])})" if stage in times else stage for stage in stages]
    line = f"stages: {', '.join(words)}"
    if len(stages) == 1 or not {*stages, "all"} <= set(times):
        return line
    return f"{line}; {duration(times['all'])} in all in the last whole run here"
