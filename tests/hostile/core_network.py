"""Where Bitcoin Core listens, and to whom it may send: a model for tests, behind core_model.py.

Written from Core's own source (init.cpp: AppInitMain; net.cpp: ThreadDNSAddressSeed,
ThreadOpenConnections, ConnectNode; mapport.cpp; torcontrol.cpp) and from nothing of Cairn's.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from tests.hostile.core_model import Core, Outcome

PORTS = {"main": 8333, "test": 18333, "testnet4": 48333, "signet": 38333, "regtest": 18444}
RPC_PORTS = {"main": 8332, "test": 18332, "testnet4": 48332, "signet": 38332, "regtest": 18443}
SOCKS, SAM, TOR_CONTROL, PCP = 9050, 7656, 9051, 5351
#: CNetAddr::IsRoutable: a peer with such an address is reached without the proxy.
UNROUTABLE = [
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "::1/128", "2001:10::/28", "2001:20::/28", "2001:db8::/32"),
        *("fc00::/8", "fd00::/8", "fe80::/64"),
    )
]


def is_address(host: str) -> bool:
    """Whether it needs no name server."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def split(text: str, port: int) -> tuple[str, int]:
    """SplitHostPort: host without brackets, port."""
    host, colon, digits = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, digits = text, ""
    host = host.strip("[]")
    if is_address(host):
        host = str(ipaddress.ip_address(host))
    return host, int(digits or port)


def shown(host: str, port: int) -> str:
    """Address and port as a list of sockets has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def direct(host: str, ways: dict[str, str]) -> bool:
    """Whether ConnectNode reaches that address without a proxy."""
    address = ipaddress.ip_address(host)
    unroutable = any(address in net for net in UNROUTABLE if net.version == address.version)
    return unroutable or not ways.get(f"ipv{address.version}")


@dataclass
class Network:
    """What a daemon with these settings may do."""

    active: bool
    listens: set[str] = field(default_factory=set)
    #: proxies and control ports: host, port
    servers: set[tuple[str, int]] = field(default_factory=set)
    #: the same, asked even without network
    own_servers: set[tuple[str, int]] = field(default_factory=set)
    #: networks to which it connects by itself, without a proxy
    automatic: set[str] = field(default_factory=set)
    #: peers that the settings name, reached without a proxy
    manual: set[str] = field(default_factory=set)
    #: whether the name server is asked
    names: bool = False
    #: whether the router is asked for an open port
    router: bool = False

    def may_send(self, protocol: str, host: str, port: int, resolver: str, gateway: str) -> bool:
        """Whether a packet to that address is explained by the settings."""
        if (host, port) == (resolver, 53):
            return self.names
        if protocol == "udp":
            return self.router and (host, port) == (gateway, PCP)
        if protocol != "tcp":
            return False
        if (host, port) in self.own_servers:
            return True
        net = "ipv6" if ":" in host else "ipv4"
        reached = net in self.automatic or host in self.manual or (host, port) in self.servers
        return self.active and reached

    def may_ask(self, host: str, port: int) -> bool:
        """The same for a server on this machine."""
        known = self.own_servers | (self.servers if self.active else set())
        return (host, port) in known or (self.active and host in self.manual)


def listening(core: Core, now: Outcome) -> set[str]:
    """AppInitMain and CConnman::InitBinds."""
    rpc = core.number("rpcport", RPC_PORTS[now.chain])
    port = core.number("port", PORTS[now.chain])
    found = {f"127.0.0.1:{rpc}", f"[::1]:{rpc}"} if core.flag("server", False) else set()
    found |= {shown(*split(address.removeprefix("tcp://"), 0)) for address in now.zmq}
    if not now.listen:
        return found
    binds, white = core.values("bind"), core.values("whitebind")
    plain = [bind for bind in binds if not bind.endswith("=onion")]
    onion = [bind.removesuffix("=onion") for bind in binds if bind not in plain]
    found |= {shown(*split(bind, port)) for bind in plain}
    found |= {shown(*split(bind, port + 1)) for bind in onion}
    found |= {shown(*split(bind.rpartition("@")[2], 0)) for bind in white}
    if not binds:
        # for an onion service, whether there is one or not
        found.add(f"127.0.0.1:{port + 1}")
    if not binds and not white:
        found |= {f"0.0.0.0:{port}", f"[::]:{port}"}
    return found


def network(core: Core, now: Outcome) -> Network:
    """What the settings in force make of the network."""
    result = Network(now.active, listening(core, now), router=now.natpmp and now.active)
    ways = dict(now.proxies)
    at_start = [split(way, SOCKS) for way in ways.values()]
    if now.onion not in (None, "", "0"):
        at_start.append(split(str(now.onion), SOCKS))
    result.servers |= set(at_start)
    if core.text("i2psam"):
        at_start.append(split(core.text("i2psam"), SAM))
        result.own_servers.add(at_start[-1])
    if now.listenonion:
        result.own_servers.add(split(core.text("torcontrol", "127.0.0.1"), TOR_CONTROL))
    name_proxy = ""
    for value in core.values("proxy"):
        address, equals, net = value.rpartition("=")
        if not equals or net.lower() in ("ipv4", "ipv6"):
            name_proxy = (address if equals else value).removeprefix("0")
    named = [*(now.connect or ())]
    if now.connect is None:
        named += core.values("seednode")
    # Core makes these connections beside connect=, too
    named += core.values("addnode")
    hosts = [split(peer, 0)[0] for peer in named]
    result.manual = {host for host in hosts if is_address(host) and direct(host, ways)}
    if any(not is_address(host) for host in hosts) and not name_proxy and now.dns:
        result.names = now.active
    # dns=0 is for names of peers that the settings have; seeds are asked for all the same
    result.names |= now.active and now.dnsseed and not name_proxy
    at_start += [split(value, 0) for value in core.values("externalip")]
    result.names |= now.dns and any(
        not is_address(host) and not host.startswith("unix:") for host, _ in at_start
    )
    if now.connect is None and core.number("maxconnections", 125) > 0:
        reachable = now.onlynet or {"ipv4", "ipv6"}
        result.automatic |= {net for net in ("ipv4", "ipv6") if net in reachable} - {
            net for net, way in ways.items() if way
        }
    return result
