"""Robot Framework library: the guest's firewall and its name in the local network.

Times are in seconds; time-outs are multiplied by TIMEOUT_FACTOR, as in the library CairnVM.
"""

from __future__ import annotations

import re

from robot.api.deco import keyword, library

from tests.robot.lib.session import session

#: A rule that opens ports, as `nft list chain` shows it
OPEN = re.compile(r"^\s*(tcp|udp) dport \{? ?([\d, ]+?) ?\}? accept$", re.MULTILINE)


def opened(chain: str) -> set[str]:
    """The ports that a chain opens, as ``tcp 8333``."""
    return {
        f"{protocol} {port}"
        for protocol, ports in OPEN.findall(chain)
        for port in ports.split(", ")
    }


@library(scope="GLOBAL", auto_keywords=False)
class Network:
    """Who can connect to the guest, and by which name."""

    @keyword
    def firewall_should_open(self, who: str, *ports: str) -> None:
        """These ports are open, and no others, in the rules that the guest's kernel has.

        ``who``: everybody, or neighbours (the local network). Fails if incoming packets are not
        dropped by default.

        Example:
        | Firewall Should Open    everybody    tcp 8333
        """
        if "policy drop" not in session.run("nft list chain inet cairn input"):
            raise AssertionError("what no rule lets in is not dropped")
        found = opened(session.run(f"nft list chain inet cairn {who}"))
        if found != set(ports):
            raise AssertionError(f"open to {who}: {', '.join(sorted(found)) or 'nothing'}")

    @keyword
    def unit_should_have_come_before(self, first: str, second: str) -> None:
        """A unit was active before another one was started. Fails, too, if one never was.

        Example:
        | Unit Should Have Come Before    cairn-firewall    systemd-networkd
        """
        show = "systemctl show --value -p"
        times = [
            int(session.run(f"{show} ActiveEnterTimestampMonotonic {first}")),
            int(session.run(f"{show} InactiveExitTimestampMonotonic {second}")),
        ]
        if not 0 < times[0] <= times[1]:
            raise AssertionError(f"{first} was active at {times[0]}, {second} begun at {times[1]}")

    @keyword
    def links_should_announce(self, announced: bool = True) -> None:
        """At least one link of the guest has mDNS on, or with ``False`` none has.

        Example:
        | Links Should Announce    False
        """
        links = session.run("resolvectl mdns --no-pager").splitlines()
        on = [line for line in links if line.startswith("Link") and line.endswith("yes")]
        glob = any(re.fullmatch(r"Global: *yes", line) for line in links)
        if (bool(on) and glob) != announced:
            raise AssertionError("mDNS: " + ", ".join(links))
