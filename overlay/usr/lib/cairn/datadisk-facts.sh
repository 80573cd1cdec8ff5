# shellcheck shell=sh disable=SC2154 # root, work, tab are set by who sources it
# What datadisk.awk decides on: disks, partitions and their labels, from sysfs and udev. Sourced by
# cairn-boot-files, cairn-boot-slot, cairn-datadisk, cairn-data-format, cairn-trial, cairn-update
# and node-update, which set root (prefix of all paths); cairn-datadisk sets work (its folder) and
# tab, too. Mounts nothing and writes to no disk. What stands on a disk is anybody's text: printable
# ASCII is kept, no tabs.

# property NAME KEY: a property that udev has of a device, "" if there is none
property() {
	udevadm info --query=property --name="/dev/$1" 2>/dev/null | sed -n "s/^$2=//p" |
		head -n 1 | ascii
}

# Blanks and underscores at the ends are the maker's padding.
ascii() { LC_ALL=C tr -cd ' -~' | sed 's/^[ _]*//; s/[ _]*$//' | cut -c1-64; }

# properties NAME KEY...: several properties at once, each followed by a tab. A KEY may have
# alternatives, A|B: the first one counts that is there. =NAME is a variable.
properties() {
	property_of=$1
	shift
	udevadm info --query=property --name="/dev/$property_of" 2>/dev/null |
		DATADISK_KEYS="$*" LC_ALL=C awk '
		{ at = index($0, "="); value[substr($0, 1, at - 1)] = substr($0, at + 1) }
		END {
			count = split(ENVIRON["DATADISK_KEYS"], keys, " ")
			for (i = 1; i <= count; i++) {
				text = ""
				n = split(keys[i], names, "|")
				for (j = 1; j <= n && text == ""; j++) {
					text = names[j] ~ /^=/ ? ENVIRON[substr(names[j], 2)] : value[names[j]]
					gsub(/[^ -~]/, "", text); sub(/^[ _]+/, "", text); sub(/[ _]+$/, "", text)
				}
				printf "%s\t", substr(text, 1, 64)
			}
		}'
}

# attribute FILE: sets attribute to the first line of a file of sysfs, as it is
attribute() {
	attribute=""
	{ read -r attribute <"$1"; } 2>/dev/null || :
}

# datadisk_system_disk: name of the whole disk that the root file system is on
datadisk_system_disk() {
	number=$(awk '$5 == "/" { number = $3 } END { print number }' "$root/proc/self/mountinfo")
	[ -n "$number" ] || return 1
	path=$(readlink -f "$root/sys/dev/block/$number") || return 1
	[ -d "$path" ] || return 1
	[ ! -e "$path/partition" ] || path=${path%/*}
	echo "${path##*/}"
}

# datadisk_is_on DISK POINT: whether that is mounted from one of the disk's partitions
datadisk_is_on() {
	number=$(awk -v point="$2" '$5 == point { number = $3 } END { print number }' \
		"$root/proc/self/mountinfo")
	[ -n "$number" ] || return 1
	path=$(readlink -f "$root/sys/dev/block/$number") || return 1
	path=${path%/*}
	[ "${path##*/}" = "$1" ]
}

# datadisk_boot: prints whose partition is mounted at /boot: own if it is on the disk of the root
# file system, other, or none. It is found by its name, and another node's disk has one of the
# same.
datadisk_boot() {
	if ! awk '$5 == "/boot" { yes = 1 } END { exit !yes }' "$root/proc/self/mountinfo"; then
		echo none
	elif disk=$(datadisk_system_disk) && ! datadisk_is_on "$disk" /boot; then
		echo other
	else
		echo own
	fi 2>/dev/null
}

# partitions DISK: their names, one a line
partitions() {
	for folder in "$root/sys/class/block/$1/$1"*; do
		[ ! -e "$folder/partition" ] || echo "${folder##*/}"
	done
}

# partition_label PART: its name in the partition table. Of one that was added to a disk in use, as
# systemd-repart does, the kernel does not know it; udev reads the table.
partition_label() {
	part_name=$(sed -n 's/^PARTNAME=//p' "$root/sys/class/block/$1/uevent" | ascii)
	if [ -z "$part_name" ]; then
		udevadm wait --timeout=600 --initialized=yes "/dev/$1" || :
		part_name=$(property "$1" ID_PART_ENTRY_NAME)
	fi
	printf '%s' "$part_name"
}

# datadisk_find DISK LABEL: the disk's first partition of that name
datadisk_find() {
	for partition in $(partitions "$1"); do
		if [ "$(partition_label "$partition")" = "$2" ]; then
			echo "$partition"
			return 0
		fi
	done
	return 1
}

# magic PART OFFSET: two bytes of it, in hexadecimal
magic() {
	dd if="$root/dev/$1" bs=1 skip="$2" count=2 2>/dev/null | od -An -tx1 | tr -d ' \n'
}

# datadisk_system_fact PART: the line `system`. A superblock whose checksum is wrong, as a power cut
# in the middle of writing the marker leaves it, is not shown by udev; the label is read all the
# same (ext4: magic number at 1080, label at 1144).
datadisk_system_fact() {
	udevadm info --query=property --name="/dev/$1" >"$work/properties" 2>/dev/null || :
	fs_type=$(sed -n 's/^ID_FS_TYPE=//p' "$work/properties" | ascii)
	fs_label=$(sed -n 's/^ID_FS_LABEL=//p' "$work/properties" | ascii)
	if [ -z "$fs_type" ] && [ "$(magic "$1" 1080)" = 53ef ]; then
		fs_label=$(dd if="$root/dev/$1" bs=1 skip=1144 count=16 2>/dev/null | ascii)
	fi
	fs_uuid=$(sed -n 's/^ID_PART_ENTRY_UUID=//p' "$work/properties" | ascii)
	printf 'system\t%s\t%s\t%s\t%s\n' "$1" "$fs_uuid" "$fs_type" "$fs_label"
}

# datadisk_names SYSTEM_DISK: the whole disks that may hold data
datadisk_names() {
	for folder in "$root"/sys/class/block/*; do
		name=${folder##*/}
		case $name in
		sd* | vd* | nvme*n* | mmcblk*) ;;
		*) continue ;;
		esac
		case $name in mmcblk*boot* | mmcblk*rpmb* | "$1") continue ;; esac
		[ ! -e "$folder/partition" ] || continue
		# the one path of a multipath NVMe disk is hidden
		attribute "$folder/hidden"
		[ "$attribute" != 1 ] || continue
		# A reader without a card has no size.
		attribute "$folder/size"
		case $attribute in '' | 0 | *[!0-9]*) continue ;; esac
		echo "$name"
	done
}

# datadisk_facts SYSTEM_DISK: the lines `disk` and `part` of all other disks
datadisk_facts() {
	for disk in $(datadisk_names "$1"); do
		folder=$root/sys/class/block/$disk
		attribute "$folder/device/serial"
		device_serial=$attribute
		attribute "$folder/serial"
		own_serial=$attribute
		attribute "$folder/device/model"
		device_model=$attribute
		export device_serial own_serial device_model
		identity=$(properties "$disk" \
			'ID_SERIAL_SHORT|=device_serial|=own_serial|ID_SERIAL' 'ID_MODEL|=device_model|ID_NAME')
		serial=${identity%%"$tab"*}
		attribute "$folder/diskseq"
		state=""
		{ read -r state <"$work/probe.$disk.$attribute"; } 2>/dev/null || :
		for holder in "$folder"/holders/* "$folder/$disk"*/holders/*; do
			[ ! -e "$holder" ] || state=busy
		done
		attribute "$folder/ro"
		[ "$attribute" != 1 ] || state=busy
		attribute "$folder/size"
		printf 'disk\t%s\t%s%s\t%s\t%s\n' "$disk" "$identity" "$attribute" \
			"$(serial_sum "$serial")" "$state"
		for partition in $(partitions "$disk"); do
			part_name=$(partition_label "$partition")
			export part_name
			printf 'part\t%s\t%s\t%s\n' "$disk" "$partition" \
				"$(properties "$partition" ID_PART_ENTRY_UUID =part_name ID_FS_TYPE ID_FS_LABEL)"
		done
	done
}

# serial_sum SERIAL: four digits that go into the marker while a disk is made
serial_sum() {
	sum=$(printf %s "$1" | cksum | cut -d' ' -f1)
	printf '%04x' "$((sum % 65536))"
}

# only_byte FILE OCTAL SIZE: is each of the file's SIZE bytes this one? They are counted, as nothing
# is found in a file that could not be read either.
only_byte() { [ "$(LC_ALL=C tr -cd "\\$2" <"$1" | wc -c)" -eq "$3" ]; }

# datadisk_probe DISK: notes whether the disk is blank. All signatures count that util-linux knows.
# An encrypted disk may have none (dm-crypt without LUKS): the first MiB must be empty, too.
datadisk_probe() {
	found=unread
	head=$work/head
	if signatures=$(wipefs --no-act --noheadings --output TYPE "/dev/$1" 2>/dev/null) &&
		dd if="$root/dev/$1" of="$head" bs=64k count=16 2>/dev/null &&
		[ "$(wc -c <"$head")" -eq 1048576 ]; then
		found=used
		if [ -z "$signatures" ]; then
			for byte in 000 377; do ! only_byte "$head" $byte 1048576 || found=blank; done
		elif others=$(printf '%s\n' "$signatures" | sed -E '/^ *(gpt|PMBR) *$/d') &&
			[ -z "$others" ] && tail -c +65537 "$head" >"$head.rest"; then
			for byte in 000 377; do ! only_byte "$head.rest" $byte 983040 || found=table; done
		fi
	fi
	rm -f "$head" "$head.rest"
	attribute "$root/sys/class/block/$1/diskseq"
	echo "$found" >"$work/probe.$1.$attribute"
}
