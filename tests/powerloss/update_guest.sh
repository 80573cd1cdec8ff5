#!/bin/sh
# Init of the machine in which updates are recorded and repeated: the real scripts of overlay/, the
# kernel's vfat, and a RAUC that is played. update_guest.py makes the initramfs.
# Files: /modules (in order), /plan (lines `NUMBER OFFSET SLOT VERSION LINE`, with the
# kernel's command line as the boot loader gave it; for trial only LINE), /board, /sizes
# (NAME=BYTES from the beginning of a disk). Says on the serial port: MARK JSON, RESULT NUMBER WHAT.
set -u
PATH=/usr/bin:/bin
export PATH
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1 </dev/null
while read -r module; do insmod "/modules.d/$module" || echo "no module $module"; done </modules
mkdir -p /run /tmp /boot /var /dev/cairn
echo 5000.00 1.00 >/run/uptime
mount --bind /run/uptime /proc/uptime
place() { sed -n "s/^$1=//p" /sizes; }

# begin OFFSET SLOT VERSION LINE: the disk's part from there on is the node's, which has booted
begin() {
	count=0
	for name in boot root-a root-b data; do
		losetup -d "/dev/loop$count" 2>/dev/null
		losetup -o $(($1 + $(place "$name"))) "/dev/loop$count" /dev/vda || return 1
		echo "loop$count" >"/parts/$name"
		count=$((count + 1))
	done
	node "$2" "$3" "$4"
}
# whole SLOT VERSION LINE: the same for a disk with a partition table
whole() {
	count=1
	for name in boot root-a root-b data; do
		echo "vda$count" >"/parts/$name"
		count=$((count + 1))
	done
	node "$1" "$2" "$3"
}
node() {
	rm -rf /run/cairn /run/reboot
	mkdir -p /run/cairn
	printf 'chain main\nnetwork on\n' >/run/cairn/node-conf.records
	printf 'IMAGE_VERSION=%s\nVARIANT_ID=%s\n' "$2" "$(cat /board)" >/usr/lib/os-release
	printf '%s\n' "$3" >/run/cmdline
	umount /proc/cmdline 2>/dev/null
	mount --bind /run/cmdline /proc/cmdline
	mount -t ext4 -o rw,noatime "/dev/$(cat /parts/data)" /var || return 1
	# /etc/fstab of the image
	mount -t vfat -o ro,noatime,nodev,nosuid,noexec,umask=0022,errors=continue \
		"/dev/$(cat /parts/boot)" /boot
}
end() {
	umount /boot
	umount /var
}
trial() {
	CAIRN_TRIAL_TIME=0 CAIRN_TRIAL_LONGEST=0 CAIRN_TRIAL_STEADY=0 cairn-trial --pause 0
}
mark() { echo "MARK $1"; }
# Is version 2.0.0 in b, and does it stay?
done_with_it() { [ "$(cairn-boot-slot get-current)" = b ] && cairn-boot-slot committed; }

read -r mode </mode
case $mode in
install)
	whole a 1.0.0 "root=PARTLABEL=root-a rauc.slot=a quiet" || echo "RESULT 0 no mount"
	mark '{"stage": "install"}'
	node-update install /bundle.raucb || echo "RESULT 0 failed"
	end
	mark '{"restart": true}'
	echo "RESULT 0 reboot $(cat /run/reboot)"
	;;
trial)
	whole b 2.0.0 "$(cat /plan)" || echo "RESULT 0 no mount"
	trial
	if done_with_it; then
		mark '{"version": "2.0.0"}'
		echo "RESULT 0 done"
	fi
	end
	mark '{"end": true}'
	;;
repeat)
	while read -r number offset slot version line; do
		echo "STATE $number"
		if ! begin "$offset" "$slot" "$version" "$line"; then
			echo "RESULT $number no mount"
			umount /var 2>/dev/null
			continue
		fi
		trial
		if [ -e /run/reboot ]; then
			:
		elif ! done_with_it; then
			node-update install --again /bundle.raucb || echo "RESULT $number failed"
		fi
		if [ -e /run/reboot ]; then
			echo "RESULT $number reboot $(cat /run/reboot)"
		elif done_with_it; then
			echo "RESULT $number done"
		fi
		end
	done </plan
	;;
esac
sync
echo FINISHED
poweroff -f
