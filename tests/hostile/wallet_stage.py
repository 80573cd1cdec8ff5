"""A wallet against the real node: node.conf, scripts, bitcoind, sshd, at their own paths.

usage: unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc \\
           python3 -m tests.hostile.wallet_stage REPOSITORY BITCOIND     (as root)

The tree is the image's where it matters, as in cage.py, and nothing leaves: the network namespace
has loopback only. The wallet's computer is the same machine, at the other end of an SSH connection.
Writes one JSON object to standard output: what each step has seen.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.hostile import cage

#: What the image's sysusers.d makes.
USERS = """node-status:x:834:834::/:/bin/false
cairn-tor:x:840:840::/:/bin/false
wallet:x:841:841::/:/bin/false
sshd:x:74:74::/run/sshd:/bin/false
"""
GROUPS = "node-status:x:834:\ncairn-tor:x:840:\nwallet:x:841:\nsshd:x:74:\n"
SHADOW = "root:*:20000::::::\nbitcoin:!*:20000::::::\nwallet:*:20000::::::\n"
RPC = 18443
FORWARDED = 18999
Answer = tuple[int, Any]


def furnish(root: Path, bitcoind: Path) -> None:
    """As cage.furnish, with the accounts of the image."""
    cage.ETC["passwd"] += USERS
    cage.ETC["group"] += GROUPS
    cage.ETC["shadow"] = SHADOW
    cage.furnish(root, bitcoind)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def folders() -> None:
    """What systemd and tmpfiles.d make before node-config."""
    for path, owner, mode in (
        ("/run", 0, 0o755),
        ("/run/cairn", 0, 0o755),
        ("/run/bitcoind", 0, 0o755),
        ("/run/bitcoind/rpc", cage.UID, 0o750),
        ("/var/lib/cairn", 0, 0o755),
        ("/var/lib/cairn/ssh", 0, 0o700),
        ("/var/lib/cairn/wallet", 0, 0o700),
        ("/var/lib/bitcoind", cage.UID, 0o710),
        # As systemd makes the main chain's: there, Core makes no folder for the wallets.
        ("/var/lib/bitcoind/regtest", cage.UID, 0o710),
        ("/run/sshd", 0, 0o755),
    ):
        Path(path).mkdir(parents=True, exist_ok=True)
        Path(path).chmod(mode)
        os.chown(path, owner, owner)


def settle() -> None:
    """node-config, node-tune and cairn-wallet, as at a boot."""
    for script in ("/usr/bin/node-config", "/usr/bin/node-tune", "/usr/lib/cairn/cairn-wallet"):
        subprocess.run([script], check=True, capture_output=True)


def daemon(*options: str) -> subprocess.Popen[bytes]:
    """bitcoind with the unit's command, user and groups; returns when it answers."""
    drop = ["setpriv", f"--reuid={cage.UID}", f"--regid={cage.UID}", "--groups=840"]
    drop += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    Path("/run/ran").write_text("")
    Path("/run/ran").chmod(0o666)
    process = subprocess.Popen(
        [*drop, *cage.command(), *options],
        stdin=subprocess.DEVNULL,
        stdout=Path("/run/bitcoind.log").open("wb"),  # noqa: SIM115 - the daemon's from here on
        stderr=subprocess.STDOUT,
        env={"PATH": "/usr/bin:/usr/sbin", "CAIRN_RAN": "/run/ran"},
        preexec_fn=cage.limits,
        cwd="/",
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while "systemd-notify --ready" not in Path("/run/ran").read_text():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(Path("/run/bitcoind.log").read_text()[-2000:])
        time.sleep(0.1)
    return process


def stopped(process: subprocess.Popen[bytes]) -> None:
    """Stops the daemon by RPC, and then ends what is left of its unit, as systemd does.

    bitcoind's -shutdownnotify leaves a child that watches it: until that sees its end, up to a
    second later, it holds the sockets that it has inherited, and no other daemon gets the ports.
    """
    cookie("stop")
    process.wait(120)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def call(login: str, method: str, *params: object, port: int = RPC, wallet: str = "") -> Answer:
    """One call over HTTP: status, and the result or the error."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"id": 1, "method": method, "params": params})
    path = f"/wallet/{wallet}" if wallet else "/"
    key = base64.b64encode(login.encode()).decode()
    client.request("POST", path, body, {"Authorization": f"Basic {key}"})
    response = client.getresponse()
    text = response.read()
    if response.status in (401, 403):
        return response.status, None
    answer = json.loads(text)
    return response.status, answer["error"] or answer["result"]


def cookie(method: str, *params: object, wallet: str = "") -> Any:  # noqa: ANN401 - JSON
    """The same as the node's own user; the result."""
    login = Path("/run/bitcoind/rpc/cookie").read_text()
    status, result = call(login, method, *params, wallet=wallet)
    if status != 200:
        raise RuntimeError(f"{method}: {status} {result}")
    return result


def mine(count: int) -> str:
    """A spending wallet of the owner's on the node, with coins; an address of another key."""
    if "owner" not in cookie("listwallets"):
        cookie("createwallet", "owner")
    address = cookie("getnewaddress", wallet="owner")
    cookie("generatetoaddress", count, address)
    return str(address)


# -- the wallet's calls ------------------------------------------------------------------------
def sparrow(login: str, port: int) -> list[tuple[str, int, Any]]:
    """Sparrow's calls in its order, for a wallet that watches the owner's first coins."""
    seen: list[tuple[str, int, Any]] = []

    def ask(method: str, *params: object, wallet: str = "") -> Any:  # noqa: ANN401 - JSON
        status, result = call(login, method, *params, port=port, wallet=wallet)
        seen.append((method, status, result))
        return result

    ask("uptime")
    ask("getnetworkinfo")
    tip = ask("getblockchaininfo")["blocks"]
    ask("listwalletdir")
    ask("listwallets")
    ask("createwallet", "cormorant", True, True, "", True, True, True)
    ask("getwalletinfo", wallet="cormorant")
    ask("listdescriptors", False, wallet="cormorant")
    spending = cookie("listdescriptors", False, wallet="owner")["descriptors"]
    watched = [
        {"desc": entry["desc"], "timestamp": 0, "active": False, "range": [0, 20]}
        for entry in spending
        if entry["desc"].startswith("wpkh(")
    ]
    ask("importdescriptors", watched, wallet="cormorant")
    since = ask("listsinceblock", "", 1, True, wallet="cormorant")
    first = since["transactions"][0]["txid"]
    ask("gettransaction", first, True, wallet="cormorant")
    block = ask("getblockhash", tip)
    ask("getblockheader", block)
    ask("getblockstats", tip)
    ask("getmempoolinfo")
    ask("getrawmempool", True)
    ask("estimatesmartfee", 6)
    ask("getbalances", wallet="cormorant")
    # a payment, signed elsewhere: by the owner's wallet here
    target = cookie("getnewaddress", wallet="owner")
    draft = cookie("walletcreatefundedpsbt", [], {target: 1}, 0, {"fee_rate": 5}, wallet="owner")
    signed = cookie("walletprocesspsbt", draft["psbt"], wallet="owner")["hex"]
    sent = ask("sendrawtransaction", signed)
    ask("getmempoolentry", sent)
    ask("getrawtransaction", sent, True)
    ask("unloadwallet", "cormorant")
    ask("loadwallet", "cormorant")
    return seen


def refused(login: str, port: int) -> dict[str, int]:
    """The status of each method that bitcoind has and the list has not."""
    listed = re.search(
        r"(?m)^rpcwhitelist=wallet:(.+)$", Path("/run/bitcoind/wallet.conf").read_text()
    )
    assert listed
    allowed = set(listed[1].split(","))
    names = [line.split()[0] for line in cookie("help").splitlines() if line and line[0] not in "="]
    hidden = [
        "dumpprivkey",
        "dumpwallet",
        "importprivkey",
        "generatetoaddress",
        "addpeeraddress",
        "echo",
    ]
    return {
        name: call(login, name, port=port)[0]
        for name in sorted({*names, *hidden, "stop", "sendtoaddress"} - allowed)
    }


def paths(login: str, port: int) -> dict[str, Answer]:
    """What the user may do with paths in place of a wallet's name."""
    seen = {
        f"create {name}": call(login, "createwallet", name, True, True, port=port)
        for name in ("/run/bitcoind/rpc/w", "../../w", "../settings.json.tmp", "/usr/w", "/tmp/w")
    }
    for name in ("/nowhere", "/etc/ssl", "../blocks"):
        seen[f"load {name}"] = call(login, "loadwallet", name, port=port)
    return seen


# -- SSH ---------------------------------------------------------------------------------------
def keys() -> dict[str, str]:
    """Two SSH keys of the owner's computer: root's and the wallet's; their public halves."""
    made = {}
    for name in ("root", "wallet"):
        file = f"/tmp/{name}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
        made[name] = Path(f"{file}.pub").read_text().strip()
    return made


def serve_ssh() -> None:
    """sshd with the image's configuration."""
    subprocess.run(["/usr/lib/cairn/cairn-ssh-hostkey"], check=True, capture_output=True)
    subprocess.Popen(
        ["/usr/sbin/sshd", "-D", "-E", "/run/sshd.log", "-f", "/usr/share/cairn/sshd_config"],
        stdin=subprocess.DEVNULL,
    )


def ssh(key: str, user: str, *words: str) -> list[str]:
    """The command of a client with this key."""
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes"]
    options += ["ExitOnForwardFailure=yes", "BatchMode=yes", "ConnectTimeout=20", "LogLevel=ERROR"]
    command = ["ssh", "-i", f"/tmp/{key}"]
    for option in options:
        command += ["-o", option]
    return [*command, *words, f"{user}@127.0.0.1"]


def tries(key: str) -> dict[str, tuple[int, str]]:
    """What a key may not do: exit status, and what came back."""
    seen = {}
    for name, command in {
        "shell": [*ssh(key, "wallet")],
        "command": [*ssh(key, "wallet"), "id"],
        "root": [*ssh(key, "root"), "id"],
        "terminal": [*ssh(key, "wallet", "-tt")],
        "back": ssh(key, "wallet", "-N", "-R", "19000:127.0.0.1:22"),
        "port": ssh(key, "wallet", "-W", "127.0.0.1:22"),
        "zmq": ssh(key, "wallet", "-W", "127.0.0.1:28332"),
        "elsewhere": ssh(key, "wallet", "-W", "192.168.1.1:80"),
        "sftp": ["sftp", *ssh(key, "wallet")[1:-1], "wallet@127.0.0.1"],
    }.items():
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
            )
            seen[name] = (done.returncode, done.stdout + done.stderr)
        except subprocess.TimeoutExpired:
            seen[name] = (0, "stayed open")
    return seen


def main() -> None:
    """All steps."""
    furnish(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    folders()
    public = keys()
    conf = f"regtest=1\nwalletkey={public['wallet']}\nfilters=1\nlisten=0\n[regtest]\nprune=0\n"
    Path("/boot/node.conf").write_text(conf)
    settle()
    seen: dict[str, Any] = {"report": Path("/run/cairn/node-conf.report").read_text()}
    process = daemon("-fallbackfee=0.0001")
    # the subsidy of the first 100 blocks may be spent after 100 more
    mine(110)
    login = f"wallet:{Path('/var/lib/cairn/wallet/rpc-password').read_text().strip()}"
    serve_ssh()
    seen["ssh"] = tries("wallet")
    words = ["/usr/sbin/sshd", "-T", "-f", "/usr/share/cairn/sshd_config"]
    words += ["-C", "user=wallet,host=x,addr=::1"]
    seen["sshd"] = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    seen["root's key"] = subprocess.run(
        [*ssh("root", "root"), "id"], capture_output=True, text=True, check=False
    ).returncode
    forward = ssh("wallet", "wallet", "-N", "-L", f"{FORWARDED}:127.0.0.1:{RPC}")
    tunnel = subprocess.Popen(forward, stdin=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while subprocess.run(["bash", "-c", f"</dev/tcp/127.0.0.1/{FORWARDED}"], stderr=-3).returncode:
        if time.monotonic() > end:
            raise RuntimeError(Path("/run/sshd.log").read_text()[-2000:])
        time.sleep(0.2)
    seen["sparrow"] = sparrow(login, FORWARDED)
    seen["refused"] = refused(login, FORWARDED)
    seen["paths"] = paths(login, FORWARDED)
    seen["folders"] = sorted(
        {
            str(file.parent.parent)
            for top in ("/var", "/run", "/tmp")
            for file in Path(top).rglob("wallet.dat")
        }
    )
    seen["wrong"] = call("wallet:0" * 1, "uptime", port=FORWARDED)[0]
    seen["cookie"] = cookie("getpeerinfo") == [] and cookie("getindexinfo")
    seen["files"] = {
        name: oct(Path(name).stat().st_mode & 0o7777)
        for name in ("/run/bitcoind/wallet.conf", "/var/lib/cairn/wallet/rpc-password")
    }
    tunnel.terminate()
    # a second start finds the same password; without the lines nobody gets in
    before = Path("/var/lib/cairn/wallet/rpc-password").read_text()
    settle()
    seen["same"] = before == Path("/var/lib/cairn/wallet/rpc-password").read_text()
    stopped(process)
    Path("/boot/node.conf").write_text("regtest=1\nlisten=0\n[regtest]\nprune=0\n")
    settle()
    process = daemon()
    seen["after"] = call(login, "uptime")[0]
    seen["keys after"] = Path("/run/cairn/wallet_keys").exists()
    process.kill()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
