"""How Bitcoin Core reads its configuration file: a model for tests, written from Core's own
source (common/config.cpp, common/args.cpp, common/settings.cpp, init.cpp) and from nothing of
Cairn's. It answers what a daemon with that file would do: where it goes, what listens, what it
prunes or wipes, or why it would end."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

BLANKS = " \t\r\n"
CHAINS = ("main", "test", "testnet4", "signet", "regtest")
NETWORK_ONLY = {"addnode", "bind", "connect", "port", "rpcbind", "rpcport", "wallet", "walletdir"}
NETS = {"ipv4", "ipv6", "onion", "i2p", "cjdns"}

Value = str | bool


class CoreError(Exception):
    """Core would end at start, with this sentence."""


def atoi(text: str) -> int:
    """LocaleIndependentAtoi: what is in front, 0 if nothing is."""
    found = re.match(r"[+-]?\d+", text.strip(" \f\n\r\t\v"))
    return int(found.group()) if found and not text.startswith("+-") else 0


def interpret_bool(text: str) -> bool:
    """Core's InterpretBool; an empty value is true."""
    return text == "" or atoi(text) != 0


def read_stream(text: str) -> list[tuple[str, str]]:
    """GetConfigOptions: names with their section in front, and values."""
    options, prefix = [], ""
    for number, raw in enumerate(text.split("\n"), 1):
        line, hash_sign, _ = raw.partition("#")
        line = line.strip(BLANKS)
        if not line:
            continue
        if line[0] == "[" and line[-1] == "]":
            prefix = line[1:-1] + "."
        elif line[0] == "-":
            raise CoreError(f"line {number}: leading -")
        elif "=" in line:
            name, _, value = line.partition("=")
            name = prefix + name.strip(BLANKS)
            if hash_sign and "rpcpassword" in name:
                raise CoreError(f"line {number}: # in rpcpassword")
            options.append((name, value.strip(BLANKS)))
        else:
            raise CoreError(f"line {number}: no =")
    return options


@dataclass
class Core:
    """Settings as Core keeps them: section, name, values in their order."""

    known: set[str]
    # `true` and `false` as they read, not as 0: Cairn writes 1 and 0 for them
    words: bool = False
    config: dict[str, dict[str, list[Value]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    chain: str = "main"

    def read(self, text: str) -> None:
        """ReadConfigStream: one file, the main one or an included one."""
        for key, given in read_stream(text):
            value = given
            section, dot, rest = key.partition(".")
            name = rest if dot else key
            section = section if dot else ""
            negated = name.startswith("no")
            name = name[2:] if negated else name
            if name == "conf":
                raise CoreError("conf in the file")
            if name not in self.known:
                raise CoreError(f"Invalid configuration value {key}")
            if self.words and value in ("true", "false"):
                value = str(int(value == "true"))
            if negated:
                if name == "datadir":
                    raise CoreError("negated datadir")
                self.config[section][name].append(not interpret_bool(value))
            else:
                self.config[section][name].append(value)

    def _span(self, section: str, name: str) -> tuple[list[Value], list[Value], bool]:
        values = self.config.get(section, {}).get(name, [])
        last = max((i for i, value in enumerate(values) if value is False), default=-1)
        return values, values[last + 1 :], bool(values) and values[-1] is False

    def setting(self, name: str) -> Value | None:
        """GetSetting: the first value that counts, the chain's section first."""
        for section in (self.chain, ""):
            _, span, negated = self._span(section, name)
            if section == "" and name in NETWORK_ONLY and self.chain != "main" and not negated:
                continue
            if span:
                return span[0]
            if negated:
                return False
        return None

    def values(self, name: str) -> list[str]:
        """GetArgs: all values that count."""
        result: list[str] = []
        done = False
        negated_empty = False
        for section in (self.chain, ""):
            values, span, negated = self._span(section, name)
            if section == "" and name in NETWORK_ONLY and self.chain != "main":
                continue
            if not done or not negated_empty:
                result += [value if isinstance(value, str) else "1" for value in span]
            done |= any(value is False for value in values)
            negated_empty |= negated and not result
        return result

    def text(self, name: str, default: str = "") -> str:
        """GetArg for a string."""
        value = self.setting(name)
        if value is None:
            return default
        return value if isinstance(value, str) else str(int(value))

    def flag(self, name: str, default: bool) -> bool:
        """GetBoolArg."""
        value = self.setting(name)
        if value is None:
            return default
        return value if isinstance(value, bool) else interpret_bool(value)

    def number(self, name: str, default: int) -> int:
        """GetIntArg."""
        value = self.setting(name)
        if value is None:
            return default
        return atoi(value) if isinstance(value, str) else int(value)

    def select_chain(self) -> None:
        """GetChainArg: from above the sections, the last value of each."""
        wanted = []
        for name in ("regtest", "signet", "testnet", "testnet4"):
            _, span, negated = self._span("", name)
            if span and not negated:
                last = span[-1]
                if last if isinstance(last, bool) else interpret_bool(last):
                    wanted.append("test" if name == "testnet" else name)
        self.chain = "main"
        if self.setting("chain") is not None:
            wanted.append(self.text("chain"))
        if len(wanted) > 1:
            raise CoreError("Invalid combination of chains")
        self.chain = wanted[0] if wanted else "main"
        if self.chain not in CHAINS:
            raise CoreError(f"Unknown chain {self.chain}")


@dataclass
class Outcome:
    """What a daemon would do."""

    chain: str
    prune: int | None
    reindex: bool
    reindex_chainstate: bool
    active: bool
    proxies: tuple[tuple[str, str], ...]
    onion: str | None
    onlynet: frozenset[str]
    connect: tuple[str, ...] | None
    dnsseed: bool
    dns: bool
    listen: bool
    binds: tuple[str, ...]
    listenonion: bool
    natpmp: bool
    rpc: tuple[str, ...]
    zmq: tuple[str, ...]


def outcome(core: Core) -> Outcome:
    """InitParameterInteraction and the network part of AppInitMain; raises CoreError."""
    core.select_chain()
    if core.chain != "main":
        for name in NETWORK_ONLY:
            if core._span("", name)[1] and not core._span(core.chain, name)[1]:
                raise CoreError(f"{name} only applied in [{core.chain}]")
    soft: dict[str, bool] = {}

    def flag(name: str, default: bool) -> bool:
        return core.flag(name, soft.get(name, default))

    def soften(name: str, value: bool) -> None:
        if core.setting(name) is None:
            soft.setdefault(name, value)

    binds = (*core.values("bind"), *core.values("whitebind"))
    if binds:
        soften("listen", True)
    negated = core.setting("connect") is False
    connect = core.values("connect")
    if connect or negated or core.number("maxconnections", 125) <= 0:
        soften("dnsseed", False)
        soften("listen", False)
    if core.text("proxy") not in ("", "0"):
        for name in ("listen", "natpmp", "discover"):
            soften(name, False)
    if not flag("listen", True):
        for name in ("natpmp", "discover", "listenonion", "i2pacceptincoming"):
            soften(name, False)
    onlynet = frozenset(net.lower() for net in core.values("onlynet"))
    if onlynet and not onlynet & {"ipv4", "ipv6"}:
        soften("dnsseed", False)
    if onlynet - NETS:
        raise CoreError("Unknown network in onlynet")
    prune = core.number("prune", 0) if core.setting("prune") is not None else None
    if prune is not None and (prune < 0 or 1 < prune < 550):
        raise CoreError("prune")
    if prune and (core.flag("txindex", False) or core.flag("txospenderindex", False)):
        raise CoreError("Prune mode is incompatible with an index")
    if prune and core.flag("reindex-chainstate", False):
        raise CoreError("Prune mode is incompatible with -reindex-chainstate")
    if flag("forcednsseed", False) and not flag("dnsseed", True):
        raise CoreError("forcednsseed")
    if binds and not flag("listen", True):
        raise CoreError("bind with listen=0")
    if not flag("listen", True) and flag("listenonion", True):
        raise CoreError("listen=0 with listenonion=1")
    if core.flag("peerblockfilters", False) and core.text("blockfilterindex", "0") == "0":
        raise CoreError("peerblockfilters without an index")
    if core.number("peertimeout", 60) <= 0 or core.number("mocktime", 0) < 0:
        raise CoreError("peertimeout or mocktime")
    onion = core.text("onion")
    ways: dict[str, str] = {}
    for value in core.values("proxy"):
        address, equals, net = value.rpartition("=")
        if not equals:
            address, net = value, ""
        elif net.lower() not in ("ipv4", "ipv6", "onion", "cjdns"):
            raise CoreError("Unrecognized network in proxy")
        for name in [net.lower()] if net else ["ipv4", "ipv6", "onion", "cjdns"]:
            ways[name] = "" if address == "0" else address
    ways = {net: address for net, address in ways.items() if address}
    if "onion" in onlynet and (
        onion == "0" or not (onion or "onion" in ways or flag("listenonion", True))
    ):
        raise CoreError("onlynet=onion without a proxy")
    if "i2p" in onlynet and not core.text("i2psam"):
        raise CoreError("onlynet=i2p without i2psam")
    if "cjdns" in onlynet and core.setting("cjdnsreachable") is None:
        raise CoreError("onlynet=cjdns without cjdnsreachable")
    if onlynet and not onlynet & {"ipv4", "ipv6"} and core.flag("dnsseed", False):
        raise CoreError("dnsseed with onlynet")
    peers = None if not connect and not negated else tuple(p for p in connect if connect != ["0"])
    return Outcome(
        chain=core.chain,
        prune=prune,
        reindex=core.flag("reindex", False),
        reindex_chainstate=core.flag("reindex-chainstate", False),
        active=core.flag("networkactive", True),
        proxies=tuple(sorted(ways.items())),
        onion=onion or None,
        onlynet=onlynet,
        connect=peers,
        dnsseed=flag("dnsseed", True),
        dns=core.flag("dns", True),
        listen=flag("listen", True),
        binds=binds,
        listenonion=flag("listenonion", True),
        natpmp=flag("natpmp", False),
        rpc=(*core.values("rpcbind"), *core.values("rpcallowip")),
        zmq=tuple(
            address
            for topic in ("hashblock", "hashtx", "rawblock", "rawtx", "sequence")
            for address in core.values(f"zmqpub{topic}")
        ),
    )
