"""Regtest blocks whose scripts are as heavy as consensus allows in each of several ways.

Made with Bitcoin Core's own Python test framework; the same bytes at each call. Stack use
is what they are for: musl gives a thread far less than the 8 MiB that Core is used to.

Run as a program, with the framework's folder in PYTHONPATH, it prints all blocks after regtest's
genesis block, in order, one a line in hexadecimal; made() is what they are made by.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import Any

from lab.paths import ROOT

FRAMEWORK = ROOT / "out/core/source/test/functional"
FIRST_TIME = 1_600_000_000
MATURE = 110
MULTISIGS = 60
HASHES = 200


def modules() -> tuple[Any, Any, Any, Any]:
    """Core's blocktools, key, messages and script modules."""
    names = ("blocktools", "key", "messages", "script")
    blocktools, key, messages, script = (
        importlib.import_module(f"test_framework.{name}") for name in names
    )
    return blocktools, key, messages, script


def heavy_scripts(key: Any, script: Any) -> list[bytes]:  # noqa: ANN401 (upstream's modules)
    """Scripts before segwit: at most 201 operations and 10,000 bytes."""
    c = script.CScript
    pairs = [key.ECKey() for _ in range(20)]
    for number, pair in enumerate(pairs):
        pair.set((number + 1).to_bytes(32, "big"), True)
    keys = [pair.get_pubkey().get_bytes() for pair in pairs]
    # A well-formed signature of something else: each of the twenty keys is tried in vain.
    signature = pairs[0].sign_ecdsa(bytes(32), rfc6979=True) + b"\x01"
    round_ = [0, signature, 1, *keys, 20, script.OP_CHECKMULTISIG, script.OP_NOT, script.OP_VERIFY]
    multisig = c([*round_ * 8, script.OP_TRUE])
    hashing = c([bytes(520), *[script.OP_HASH256] * 200])
    # The most elements there can be at once, and the deepest nesting
    stack = c([*[script.OP_1] * 1000])
    nested = c([*[script.OP_1, script.OP_IF] * 100, script.OP_1, *[script.OP_ENDIF] * 100])
    return [multisig] * MULTISIGS + [hashing] * HASHES + [stack] * 50 + [nested] * 50


def tapscripts(script: Any) -> list[bytes]:  # noqa: ANN401
    """Scripts of taproot: no limit but the block's weight."""
    c = script.CScript
    nested = c([*[script.OP_1, script.OP_IF] * 50_000, script.OP_1, *[script.OP_ENDIF] * 50_000])
    long = c([*[script.OP_1, script.OP_SHA256, script.OP_DROP] * 60_000, script.OP_1])
    return [nested, long]


def blocks() -> list[bytes]:
    """All blocks after regtest's genesis block, in order, serialized."""
    environment = {**os.environ, "PYTHONPATH": str(FRAMEWORK)}
    made_there = subprocess.run(
        [sys.executable, __file__], check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    return [bytes.fromhex(line) for line in made_there.stdout.splitlines()]


def made() -> list[bytes]:
    """What blocks() returns, made here: where Core's framework can be imported."""
    blocktools, key, messages, script = modules()
    anyone = script.CScript([script.OP_TRUE])
    chain: list[Any] = []
    tip = int("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206", 16)

    def add(transactions: list[Any]) -> None:
        nonlocal tip
        height = len(chain) + 1
        coinbase = blocktools.create_coinbase(height)
        coinbase.vout[0].scriptPubKey = anyone
        block = blocktools.create_block(
            tip, coinbase, ntime=FIRST_TIME + height * 600, height=height
        )
        block.vtx += transactions
        if any(not tx.wit.is_null() for tx in transactions):
            blocktools.add_witness_commitment(block)
        block.hashMerkleRoot = block.calc_merkle_root()
        block.solve()
        tip = block.hash_int
        chain.append(block)

    def spend(coins: list[tuple[Any, int]], outputs: list[bytes], value: int) -> Any:  # noqa: ANN401
        tx = messages.CTransaction()
        tx.vin = [
            messages.CTxIn(messages.COutPoint(source.txid_int, index)) for source, index in coins
        ]
        tx.vout = [messages.CTxOut(value, output) for output in outputs]
        return tx

    for _ in range(MATURE):
        add([])
    legacy = heavy_scripts(key, script)
    internal = key.compute_xonly_pubkey((7).to_bytes(32, "big"))[0]
    trees = [script.taproot_construct(internal, [("heavy", leaf)]) for leaf in tapscripts(script)]
    scripts = [*legacy, *(tree.scriptPubKey for tree in trees)]
    funding = spend([(chain[0].vtx[0], 0)], scripts, 1_000_000)
    add([funding])
    spending = spend([(funding, index) for index in range(len(legacy))], [anyone], 1_000_000)
    add([spending])
    for number, tree in enumerate(trees):
        tx = spend([(funding, len(legacy) + number)], [anyone], 900_000)
        leaf = tree.leaves["heavy"]
        control = bytes([leaf.version + tree.negflag]) + tree.internal_pubkey + leaf.merklebranch
        tx.wit.vtxinwit = [messages.CTxInWitness()]
        tx.wit.vtxinwit[0].scriptWitness.stack = [leaf.script, control]
        add([tx])
    return [block.serialize() for block in chain]


if __name__ == "__main__":
    for block in made():
        print(block.hex())
