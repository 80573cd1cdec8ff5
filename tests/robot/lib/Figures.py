"""Robot Framework library: measurements of the suites, out/robot/figures.json.

Figures are not assertions.
"""

from __future__ import annotations

import json

from robot.api import logger
from robot.api.deco import keyword, library

from lab.limits import MIB, Traffic
from lab.paths import ROOT
from tests.robot.lib.session import session


def least_seconds(spent: Traffic, card: str) -> float:
    """The time in seconds that a card needs for writes at least, by requests and by bytes.

    `card`: its limits, as bench/plan.py has them: `iops-write=700,bps-write=25000000`, in requests
    and bytes a second. Raises KeyError without these two.
    """
    limits = dict(limit.split("=", 1) for limit in card.split(","))
    return max(spent.writes / int(limits["iops-write"]), spent.written / int(limits["bps-write"]))


@library(scope="GLOBAL", auto_keywords=False)
class Figures:
    """What is written down."""

    @keyword
    def record_figure(self, name: str, value: float, unit: str) -> None:
        """Adds a measurement; one of the same name is replaced.

        ``unit``: of the value, as it is to be read, such as s or MiB.

        Example:
        | Record Figure    boot to RPC, first boot    ${seconds}    s
        """
        session.figures[name] = {"value": float(value), "unit": unit}
        text = json.dumps(session.figures, indent=2, sort_keys=True)
        (ROOT / "out/robot/figures.json").write_text(text + "\n")
        logger.info(f"{name}: {value} {unit}")

    @keyword
    def traffic_of_the_disk(self) -> Traffic:
        """What the guest's disk was asked for up to now, with what the page cache still had.

        Example:
        | ${before}=    Traffic Of The Disk
        """
        return Traffic.parse(session.run("sync && cat /sys/block/vda/stat"))

    @keyword
    def record_traffic(self, name: str, before: Traffic, after: Traffic, card: str) -> None:
        """Adds what was written between two times, and shows it: MiB, requests, flushes, seconds.

        ``name``: of the figures, to which the unit is added. ``card``: limits of a card, as
        SLOW_LIMITS in bench/plan.py; the seconds are those that it needs at least. Fails if the
        limits have no iops-write or bps-write.

        Example:
        | Record Traffic    a sync on f2fs    ${before}    ${after}    ${SD}[SLOW_LIMITS]
        """
        spent = after - before
        figures = {
            "MiB": spent.written / MIB,
            "write requests": spent.writes,
            "flushes": spent.flushes,
            "s at least on a card": least_seconds(spent, card),
        }
        for unit, value in figures.items():
            self.record_figure(f"{name}, {unit}", value, unit)
            logger.console(f"\n{name}: {round(value)} {unit}", newline=False)
