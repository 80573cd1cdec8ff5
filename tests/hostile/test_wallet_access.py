"""A wallet's whole way to the real daemon: SSH, password, list of methods (wallet_stage.py)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostile.stage import played


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What the stage saw: it is played once."""
    return played("wallet_stage")


def test_nothing_to_say(seen: dict[str, Any]) -> None:
    """Each line of the file could be used."""
    assert seen["report"] == ""


def test_sparrows_calls(seen: dict[str, Any]) -> None:
    """All of them pass, in Sparrow's order, through SSH and the list."""
    assert {(method, status) for method, status, _ in seen["sparrow"] if status != 200} == set()
    results = {method: result for method, _, result in seen["sparrow"]}
    assert all(entry["success"] for entry in results["importdescriptors"])
    # the owner's subsidies, watched: 10 of 110 blocks may be spent
    assert results["getbalances"]["mine"]["trusted"] == 500
    assert results["getmempoolentry"]["vsize"] > 100


def test_everything_else_is_refused(seen: dict[str, Any]) -> None:
    """Whatever is not on the list, by name, is forbidden (403)."""
    assert {name: status for name, status in seen["refused"].items() if status != 403} == {}
    spends = {
        "stop",
        "sendtoaddress",
        "dumpprivkey",
        "walletprocesspsbt",
        "signrawtransactionwithkey",
    }
    assert spends | {"addnode", "getpeerinfo", "setban", "walletpassphrase"} <= set(seen["refused"])
    assert len(seen["refused"]) > 100
    assert seen["wrong"] == 401


def test_paths_in_place_of_names(seen: dict[str, Any]) -> None:
    """-walletdironly: no name leads out of the wallets' folder, or tells whether a path exists."""
    for what, (status, answer) in seen["paths"].items():
        assert status == 500, what
        assert "path below the wallet directory" in answer["message"], what
    assert len(seen["paths"]) == 8


def test_the_wallets_have_a_folder(seen: dict[str, Any]) -> None:
    """Wherever bitcoind may write: all that was made lies in it."""
    assert seen["folders"] == ["/var/lib/bitcoind/regtest/wallets"]


def test_the_nodes_own_user_goes_on(seen: dict[str, Any]) -> None:
    """rpcwhitelistdefault=0: the screen and node-cli may ask all."""
    assert seen["cookie"]["basic block filter index"]["best_block_height"] == 110


def test_a_wallets_key_reaches_rpc_only(seen: dict[str, Any]) -> None:
    """No shell, no command, no terminal, no file, no other port, and not root."""
    for what, (status, said) in seen["ssh"].items():
        assert status != 0, (what, said)
        assert "uid=" not in said, (what, said)
    for line in ("maxsessions 0", "allowstreamlocalforwarding no", "permittunnel no"):
        assert line in seen["sshd"].splitlines(), line
    assert seen["root's key"] != 0  # nobody gave sshkey=


def test_what_lies_where(seen: dict[str, Any]) -> None:
    """The password is root's alone, its hash bitcoind's; they outlive the boot, and end."""
    assert seen["files"] == {
        "/run/bitcoind/wallet.conf": "0o640",
        "/var/lib/cairn/wallet/rpc-password": "0o600",
    }
    assert seen["same"] is True
    assert (seen["after"], seen["keys after"]) == (401, False)
