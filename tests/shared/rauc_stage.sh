#!/bin/sh
# Plays a node for a real RAUC, in a mount namespace of its own (tests/unit/test_rauc.py): the paths
# are those of an image, what is at them is of the test. RAUC is Debian's, which has a service on a
# bus; the one in the images does the same in one process.
#
# usage: unshare -m dbus-run-session -- rauc_stage.sh FOLDER BOARD FORMATS BUNDLE
#   FOLDER   has lib/ (overlay/usr/lib/cairn), rauc.conf, keyring.pem, boot/ and root-a, root-b
#   FORMATS  bundle-formats= of system.conf
# Prints what RAUC says; leaves boot/ and root-b as they are then. Exit status: RAUC's.
set -eu
folder=$1 board=$2 formats=$3 bundle=$4
# Nothing of the machine's own may be written; these are made if they are missing.
mkdir -p /usr/lib/cairn /usr/share/cairn /run/cairn /var/lib/cairn /etc/rauc /dev/cairn
mount --bind "$folder/lib" /usr/lib/cairn
# /boot is a folder of the machine's here, and no partition of one disk with the root file system.
{ cat "$folder/lib/datadisk-facts.sh" && echo 'datadisk_is_on() { :; }'; } >"$folder/facts.sh"
mount --bind "$folder/facts.sh" /usr/lib/cairn/datadisk-facts.sh
for place in /usr/share/cairn /run/cairn /var/lib/cairn /etc/rauc /dev/cairn; do
	mount -t tmpfs tmpfs "$place"
done
mkdir /var/lib/cairn/update
mount --bind "$folder/boot" /boot
mount -o remount,bind,ro /boot
cp "$folder/data-format" "$folder/boot-backend" /usr/share/cairn/
mount --bind "$folder/cmdline" /proc/cmdline
mount --bind "$folder/os-release" /usr/lib/os-release
trap 'losetup -d $(readlink /dev/cairn/root-a) $(readlink /dev/cairn/root-b)' EXIT
for slot in a b; do
	ln -s "$(losetup -f --show "$folder/root-$slot")" "/dev/cairn/root-$slot"
done
sed "s/@BOARD@/$board/; s/^bundle-formats=.*/bundle-formats=$formats/" "$folder/rauc.conf" \
	>/etc/rauc/system.conf
cp "$folder/keyring.pem" /etc/rauc/
export DBUS_STARTER_BUS_TYPE=session
rauc service &
service=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
	! rauc status >/dev/null 2>&1 || break
	sleep 1
done
status=0
rauc install "$bundle" || status=1
cat /run/cairn/update.why 2>/dev/null || :
kill "$service" || :
exit $status
