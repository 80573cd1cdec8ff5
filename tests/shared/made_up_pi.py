"""A Raspberry Pi made of files: what cairn-health reads below /proc, /sys and /run of one.

The unit tests run the collector on it here, the suite `health` in a guest.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from lab.paths import ROOT

SCHEMA = json.loads((ROOT / "docs/design/health.schema.json").read_text())
jsonschema.Draft202012Validator.check_schema(SCHEMA)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
COUNTS = "var/lib/cairn/health/counts"
BOOTS = [f"{n}{n}{n}{n}{n}{n}{n}{n}-1111-4111-8111-111111111111" for n in range(1, 6)]
DISK = "sys/devices/platform/soc/mmc1/mmc1:0001/block/mmcblk0"
ZONE = "sys/class/thermal/thermal_zone0"
LOADER = "sys/firmware/devicetree/base/chosen/bootloader/build-timestamp"
BITS = "sys/devices/platform/soc/soc:firmware/get_throttled"
#: A Raspberry Pi with its data on eMMC, and a USB disk beside it.
FILES = {
    f"{ZONE}/type": "cpu-thermal\n",
    f"{ZONE}/temp": "51250\n",
    f"{ZONE}/trip_point_0_type": "active\n",
    f"{ZONE}/trip_point_0_temp": "50000\n",
    f"{ZONE}/trip_point_1_type": "passive\n",
    f"{ZONE}/trip_point_1_temp": "82000\n",
    "sys/class/thermal/cooling_device0/type": "cpufreq-cpu0\n",
    "sys/class/thermal/cooling_device0/cur_state": "0\n",
    "sys/class/hwmon/hwmon0/name": "rpi_volt\n",
    "sys/class/hwmon/hwmon0/in0_lcrit_alarm": "0\n",
    "sys/fs/ext4/mmcblk0p4/errors_count": "0\n",
    "run/systemd/timesync/synchronized": "",
    "usr/share/cairn/built": "1700000000\n",
    f"{DISK}/size": "61071360\n",
    f"{DISK}/device/type": "MMC\n",
    f"{DISK}/device/serial": "0x1234abcd\n",
    f"{DISK}/device/life_time": "0x01 0x02\n",
    f"{DISK}/device/pre_eol_info": "0x01\n",
    f"{DISK}/mmcblk0p4/partition": "4\n",
    f"{DISK}/mmcblk0p4/size": "58720256\n",
    "sys/devices/pci0/usb2/2-1/host0/block/sda/device/ioerr_cnt": "0x1f\n",
    "sys/devices/pci0/usb2/2-1/host0/block/sda/device/iotmo_cnt": "0x0\n",
    "proc/self/mountinfo": "1 0 179:4 / /var rw - ext4 /dev/mmcblk0p4 rw\n",
}
LINKS = {
    "sys/block/mmcblk0": f"../../{DISK}",
    "sys/block/sda": "../devices/pci0/usb2/2-1/host0/block/sda",
    "sys/dev/block/179:4": f"../../../{DISK}/mmcblk0p4",
}


def moment(number: int = 0, uptime: int = 60, sectors: int = 0) -> dict[str, str]:
    """The files of a boot with this number, so many seconds after its start.

    ``sectors``: of 512 bytes, that were written to the data disk in it.
    """
    return {
        "proc/sys/kernel/random/boot_id": BOOTS[number] + "\n",
        "proc/uptime": f"{uptime}.37 12.00\n",
        f"{DISK}/stat": f"     1 2 3 4 5 6 {sectors} 8 9 10 11 12 13 14 15 16 17\n",
    }


def make(path: Path) -> None:
    """Makes the machine below a folder, in its first boot."""
    for name, text in {**FILES, **moment()}.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    (path / LOADER).parent.mkdir(parents=True, exist_ok=True)
    (path / LOADER).write_bytes((1726000000).to_bytes(4, "big"))
    for name, target in LINKS.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).symlink_to(target)
