"""Tor in a private Tor network: two nodes, a wallet, and what leaves (tor_stage.py).

Five minutes on a machine that has nothing else to do, most of it waiting for Tor.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostile.stage import played

pytestmark = pytest.mark.slow
#: Where relays and authorities of the stage listen.
RELAYS = {port + at for port in (7000, 7010, 7020, 7100, 7110, 7120) for at in (0, 1)}


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What the stage saw: it is played once."""
    return played("tor_stage", seconds=1800)


def test_two_nodes_by_their_onions(seen: dict[str, Any]) -> None:
    """One connection each way, both by Tor; the address outlives a restart."""
    assert seen["report"] == ""
    assert [tuple(peer) for peer in seen["peers"]] == [("onion", False), ("onion", True)]
    assert seen["same onion"] is True


def test_rpc_by_the_onion(seen: dict[str, Any]) -> None:
    """With the client's key and the password, what is on the list; else nothing."""
    assert seen["with key"].startswith("0 ") and seen["with key"].endswith(" 200")
    assert seen["not on the list"] == "0  403"
    assert seen["wrong password"] == "0  401"
    # no HTTP at all: the Tor without the key cannot read where the service is
    assert not seen["without key"].startswith("0 ") and seen["without key"].endswith(" 000")


def test_nothing_leaves_outside_of_tor(seen: dict[str, Any]) -> None:
    """Each packet is Tor's, or answers the owner's own network; without rules more is seen."""
    assert ["udp", "198.51.100.1", 9] in seen["without rules"]
    strangers = [
        packet
        for packet in seen["left"]
        if packet[0] != "tcp" or packet[1] != "198.51.100.1" or packet[2] not in RELAYS
    ]
    assert {(kind, address) for kind, address, _ in strangers} == {("tcp", "192.168.77.1")}
    assert len(seen["left"]) > 3


def test_who_is_answered(seen: dict[str, Any]) -> None:
    """The owner's own network, and nobody else."""
    assert seen["answered"] == ["hello", ""]


def test_nobody_is_listened_to(seen: dict[str, Any]) -> None:
    """Bitcoin's port is on loopback, for Tor; so are Tor's."""
    addresses = {listener.rsplit(":", 1)[0] for listener in seen["listens"]}
    assert addresses <= {"127.0.0.1", "[::1]"}
