"""Robot Framework library: the guest's memory, processes, sockets and kernel settings.

Times are in seconds; time-outs are multiplied by TIMEOUT_FACTOR, as in the library CairnVM.
"""

from __future__ import annotations

import re
import shlex

from robot.api.deco import keyword, library

from lab.parsing import (
    disk_settings,
    jemalloc_option,
    kernel_options_lost,
    kibibytes,
    listening_sockets,
    listens_on,
    memory_in_use,
    name_servers,
)
from lab.paths import ROOT
from lab.under_test import Need
from tests.robot.lib.session import session


def path_of(setting: str) -> str:
    """The file of a kernel setting; its name may be a pattern, such as `net.ipv4.conf.*.x`."""
    return f"/proc/sys/{setting.replace('.', '/')}"


def other_values(text: str, value: str) -> list[str]:
    """The lines `FILE:VALUE` (grep -H) with another value."""
    return [line for line in text.splitlines() if line.rpartition(":")[2] != value]


def names_matched(text: str, patterns: tuple[str, ...]) -> bool:
    """Whether each pattern of a setting has at least one line `FILE:VALUE`."""
    files = [line.rpartition(":")[0] for line in text.splitlines()]
    forms = [re.escape(path_of(pattern)).replace(r"\*", "[^/]*") for pattern in patterns]
    return all(any(re.fullmatch(form, file) for file in files) for form in forms)


@library(scope="GLOBAL", auto_keywords=False)
class Kernel:
    """What the guest's kernel shows in /proc and /sys."""

    @keyword
    def kernel_should_have_said(self, *words: str) -> None:
        """The kernel's messages since the boot have each of the words.

        Example:
        | Kernel Should Have Said    RAMDISK:    Freeing initrd memory
        """
        said = session.run("dmesg")
        if missing := [word for word in words if word not in said]:
            raise AssertionError(f"the kernel has not said {missing}")

    # -- time and memory -------------------------------------------------------------

    @keyword
    def seconds_since_boot(self) -> int:
        """How long the guest has run, in whole seconds.

        Example:
        | ${seconds}=    Seconds Since Boot
        """
        return int(float(session.run("cat /proc/uptime").split()[0]))

    @keyword
    def watchdog_should_be_fed(self) -> None:
        """The init system holds the watchdog device, which it has found and started.

        Example:
        | Watchdog Should Be Fed
        """
        files = session.run("ls -l /proc/1/fd")
        if "/dev/watchdog" not in files:
            raise AssertionError(f"systemd has no watchdog open:\n{files}")

    @keyword
    def hang_the_init_system(self) -> None:
        """Makes systemd crash; it then stands still and feeds no watchdog.

        Example:
        | Hang The Init System
        """
        session.need(Need.CRASH)
        session.run("kill -SEGV 1")

    @keyword
    def total_memory(self) -> int:
        """The memory that the guest has, in MiB.

        Example:
        | ${total}=    Total Memory
        """
        return kibibytes(session.run("cat /proc/meminfo"), "MemTotal") // 1024

    @keyword
    def memory_in_use(self) -> dict[str, int]:
        """Memory of the guest that is neither free nor a cache of files, in MiB.

        Returns ``daemon`` (bitcoind's own pages), ``used`` (by all), and ``others`` (by all but
        bitcoind, without free pages on the processors' lists). Fails if bitcoind does not run, or
        if it seems to use more than all.

        Example:
        | ${memory}=    Memory In Use
        """
        status = session.run("cat /proc/$(systemctl show bitcoind -p MainPID | cut -d= -f2)/status")
        meminfo = session.run("cat /proc/meminfo")
        memory = memory_in_use(meminfo, session.run("cat /proc/zoneinfo"), status)
        if not memory["used"] > memory["daemon"] > 0:
            raise AssertionError(f"these figures cannot be right: {memory}")
        return memory

    @keyword
    def memory_of_units_should_be_at_most(self, mebibytes: float, *units: str) -> float:
        """Memory of all processes of these units, in MiB; what several share counts in part.

        Returns it. Fails if it is more, or if one of the units has no process.

        Example:
        | ${memory}=    Memory Of Units Should Be At Most    15    cairn-status    cairn-page
        """
        kib = 0
        for unit in units:
            group = "/sys/fs/cgroup$(systemctl show --value -p ControlGroup " + unit + ")"
            processes = f"$(sed 's,.*,/proc/&/smaps_rollup,' {group}/cgroup.procs)"
            # A script's program may end between the list and the look: then once more.
            shares = session.until(f"grep -h ^Pss: {processes}", 30)
            kib += sum(int(line.split()[1]) for line in shares.splitlines())
        if kib > mebibytes * 1024:
            raise AssertionError(f"{kib / 1024:.1f} MiB for {', '.join(units)}")
        return round(kib / 1024, 1)

    @keyword
    def swap_should_be_on(self, *devices: str) -> None:
        """The guest swaps to these devices, and to nothing else.

        Example:
        | Swap Should Be On    /dev/zram0
        """
        lines = session.run("cat /proc/swaps").splitlines()[1:]
        found = [line.split()[0] for line in lines]
        if found != list(devices):
            raise AssertionError(f"the guest swaps to {found}, not to {list(devices)}")

    # -- settings --------------------------------------------------------------------

    @keyword
    def kernel_setting(self, name: str) -> str:
        """The value of a setting, by its name as in sysctl(8).

        Example:
        | ${bytes}=    Kernel Setting    vm.dirty_bytes
        """
        return session.run(f"cat {path_of(name)}")

    @keyword
    def kernel_settings_should_be(self, value: str, *names: str) -> None:
        """These settings have this value.

        ``names``: as in sysctl(8), or patterns of them, of which each needs to match a setting.
        Fails with the files of those that have another value.

        Example:
        | Kernel Settings Should Be    0    net.ipv4.conf.*.accept_redirects
        """
        text = session.run(f"grep -H . {' '.join(path_of(name) for name in names)}")
        if not names_matched(text, names):
            raise AssertionError(f"not each of {', '.join(names)} is a setting of this kernel")
        if other := other_values(text, value):
            raise AssertionError(f"not all are {value}: {' '.join(other)}")

    @keyword
    def kernel_options_lost(self) -> list[str]:
        """Options of board/*/kernel.config that the running kernel does not have as written.

        Fails if the image names no board that there is here.

        Example:
        | ${lost}=    Kernel Options Lost
        """
        board = session.run(". /etc/os-release && echo $VARIANT_ID")
        files = (ROOT / "board" / name / "kernel.config" for name in ("common", board))
        wanted = "".join(file.read_text() for file in files)
        return kernel_options_lost(wanted, session.run("zcat /proc/config.gz"))

    @keyword
    def disk_should_have_the_settings_of_its_kind(self, path: str) -> None:
        """The disk that holds a mount point has the scheduler and read-ahead that are ours for it.

        They are those of 60-cairn-storage.rules, which judges by the kernel's name and the bus.
        Fails if they are others, if nothing is mounted there, or if the disk is of no known kind.

        Example:
        | Disk Should Have The Settings Of Its Kind    /var
        """
        number = session.run(f"awk '$5 == \"{path}\" {{ print $3 }}' /proc/self/mountinfo")
        if not number:
            raise AssertionError(f"nothing is mounted on {path}")
        partition = session.run(f"readlink -f /sys/dev/block/{number}")
        disk = partition.rpartition("/")[0]
        read = f"cd {shlex.quote(disk)}/queue && cat rotational scheduler read_ahead_kb"
        rotational, schedulers, ahead = session.run(read).splitlines()
        wanted = disk_settings(disk, rotational == "1")
        found = (re.sub(r".*\[(.*)\].*", r"\1", schedulers), int(ahead))
        if found != wanted:
            raise AssertionError(f"{disk} has {found}, not {wanted}")

    @keyword
    def forget_cached_files(self) -> None:
        """Has the guest's kernel drop its cache of files: what is read next comes from the disk.

        Example:
        | Forget Cached Files
        """
        session.run("sync; echo 3 >/proc/sys/vm/drop_caches")

    # -- processes -------------------------------------------------------------------

    @keyword
    def no_process_should_be_named(self, *names: str) -> None:
        """No process of the guest has one of these names.

        Fails with those that run.

        Example:
        | No Process Should Be Named    getty    login
        """
        # a process may end while it is looked at, which is no failure
        found = session.result("cat /proc/[0-9]*/comm").stdout.split("\n")
        if "systemd" not in found:
            raise AssertionError("the guest does not show its processes")
        if running := sorted(set(found) & set(names)):
            raise AssertionError(f"these run: {', '.join(running)}")

    @keyword
    def memory_mappings_of(self, program: str) -> list[str]:
        """The lines of a running program's /proc/PID/maps.

        Fails if it does not run, or runs twice.

        Example:
        | ${mappings}=    Memory Mappings Of    bitcoind
        """
        return session.run(f"cat /proc/$(pidof {shlex.quote(program)})/maps").splitlines()

    @keyword
    def jemalloc_option(self, name: str) -> str:
        """The value of an option of jemalloc, as bitcoind starts with it, without the ``opt.``.

        Fails if bitcoind runs without jemalloc.

        Example:
        | ${arenas}=    Jemalloc Option    narenas
        """
        # What it says counts, not its status: without a home folder it ends with an error.
        text = session.run("MALLOC_CONF=stats_print:true bitcoind -version 2>&1 || true")
        return jemalloc_option(text, name)

    # -- network ---------------------------------------------------------------------

    @keyword
    def listening_sockets(self) -> list[str]:
        """All listening sockets of the guest as ``tcp any 8333``, ``tcp loopback 8332``.

        UDP ports that the kernel hands out for questions do not count.

        Example:
        | ${sockets}=    Listening Sockets
        """
        found: list[str] = []
        for protocol in ("tcp", "udp"):
            for family in ("", "6"):
                table = session.run(f"cat /proc/net/{protocol}{family}")
                found += listening_sockets(protocol, table)
        return sorted(set(found))

    @keyword
    def sockets_should_listen(self, *sockets: str) -> None:
        """These sockets listen. Fails with those that do not.

        Example:
        | Sockets Should Listen    tcp any 22    tcp loopback 8332
        """
        if missing := set(sockets) - set(self.listening_sockets()):
            raise AssertionError(f"these do not listen: {', '.join(sorted(missing))}")

    @keyword
    def sockets_should_not_listen(self, *sockets: str) -> None:
        """None of these sockets listens. Fails with those that do.

        Example:
        | Sockets Should Not Listen    tcp any 22
        """
        if found := set(sockets) & set(self.listening_sockets()):
            raise AssertionError(f"these listen: {', '.join(sorted(found))}")

    @keyword
    def nothing_else_should_listen(self, *sockets: str) -> None:
        """No other sockets listen than these, which need not. Fails with those that do.

        SSH on a board, by which the tests reach it, does not count.

        Example:
        | Nothing Else Should Listen    tcp any 8333    udp any 68
        """
        known = session.machine.ways_in | set(sockets)
        if found := set(self.listening_sockets()) - known:
            raise AssertionError(f"these listen: {', '.join(sorted(found))}")

    @keyword
    def should_listen_on(self, address: str) -> None:
        """A TCP socket listens on an address with port; IPv4 only.

        Example:
        | Should Listen On    10.0.2.15:8333
        """
        if not listens_on(session.run("cat /proc/net/tcp"), address):
            raise AssertionError(f"nothing listens on {address}")

    @keyword
    def wait_for_address(self, address: str, timeout: float = 30) -> None:
        """Waits until the guest has an address, with the length of its network.

        ``timeout``: seconds, default 30. Fails if it has not by then.

        Example:
        | Wait For Address    10.0.2.77/24
        """
        session.until(f"ip -o addr show | grep -F {shlex.quote(address)}", timeout)

    @keyword
    def name_servers(self) -> list[str]:
        """The name servers that systemd-resolved has from the guest's links.

        Example:
        | ${servers}=    Name Servers
        """
        return name_servers(session.run("resolvectl dns"))
