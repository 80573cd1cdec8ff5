"""Robot Framework library: two wallets of the node, and whether they are whole.

One has keys (savings), one watches a key of block 9 (watch), whose coins move in the real blocks.
The library remembers one test's addresses.
"""

from __future__ import annotations

import json

from robot.api.deco import keyword, library

from tests.robot.lib.session import session


@library(scope="TEST", auto_keywords=False)
class Wallets:
    """What the wallets must not lose."""

    def __init__(self) -> None:
        """There are no wallets yet."""
        self.addresses: list[str] = []
        self.watched = ""

    @keyword
    def make_wallet(self) -> None:
        """Makes the first wallet, which is loaded at each start, and an address in it.

        Fails with the node's error.

        Example:
        | Make Wallet
        """
        session.rpc("-named createwallet", "wallet_name=savings", "load_on_startup=true")
        self.use_wallet()

    @keyword
    def make_wallets(self) -> None:
        """Makes both wallets, which are loaded at each start, and an address in the first.

        The node must have stored all blocks that it has, and the feeder the real ones. Fails with
        the node's error.

        Example:
        | Make Wallets
        """
        self.make_wallet()
        block = session.feeder("getblock", session.feeder("getblockhash", "9"), "2")
        self.watched = block["tx"][0]["vout"][0]["scriptPubKey"]["desc"]
        session.rpc(
            "-named createwallet",
            *("wallet_name=watch", "disable_private_keys=true", "blank=true"),
            "load_on_startup=true",
        )
        request = json.dumps([{"desc": self.watched, "timestamp": 0}])
        answer = session.rpc("-rpcwallet=watch importdescriptors", request)
        if answer[0]["success"] is not True:
            raise AssertionError(f"the node does not watch the descriptor: {answer}")

    @keyword
    def use_wallet(self) -> None:
        """Asks for a new address of the first wallet; the answer says that it is kept.

        Fails with the node's error.

        Example:
        | Use Wallet
        """
        self.addresses.append(session.rpc("-rpcwallet=savings getnewaddress"))

    @keyword
    def wallets_should_be_whole(self) -> None:
        """The first wallet knows all addresses that it ever gave in this test.

        Fails with the first that it has lost, or if it never gave one.

        Example:
        | Wallets Should Be Whole
        """
        assert self.addresses, "there are no wallets in this test"
        for address in self.addresses:
            info = session.rpc("-rpcwallet=savings getaddressinfo", address)
            if info["ismine"] is not True:
                raise AssertionError(f"the wallet has lost the address {address}")

    @keyword
    def balance_should_be_that_of_the_coins(self) -> None:
        """The second wallet's balance is what the stock node's coins give the same key.

        Fails if it is another one.

        Example:
        | Balance Should Be That Of The Coins
        """
        coins = session.feeder("scantxoutset", "start", json.dumps([self.watched]))
        balances = session.rpc("-rpcwallet=watch getbalances")
        ours, theirs = balances["mine"]["trusted"], coins["total_amount"]
        if ours != theirs:
            raise AssertionError(f"the balance is {ours}, the coins are {theirs}")
