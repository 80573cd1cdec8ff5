# shellcheck shell=sh disable=SC2034 # its variables are for who sources it
# storage_class ROOT DIR: what kind of device holds DIR? Sourced by node-tune, cairn-health
# and cairn-probe.
# Sets   storage_class  sd emmc usb nvme virtio hdd sata unknown
#        storage_device name of the whole disk (mmcblk0, sda, ...), "" when unknown
#        storage_partition  name of the partition, as the file systems' folders in /sys/fs have it
#        storage_mib    size in MiB of the partition that holds DIR, 0 when unknown
# Reads only ROOT/proc/self/mountinfo and ROOT/sys, so it runs on made-up trees.

# The device number of the mount with the longest mount point that is a prefix of DIR;
# of equals the last, which covers the ones before it.
storage_number() {
	awk -v dir="$2" '
		{ point = $5
		  if (point == dir || point == "/" || index(dir, point "/") == 1)
			if (length(point) >= best) { best = length(point); number = $3 } }
		END { print number }' "$1/proc/self/mountinfo" 2>/dev/null
}

storage_class() {
	storage_class=unknown storage_device="" storage_partition="" storage_mib=0
	number=$(storage_number "$1" "$2") || number=""
	[ -n "$number" ] || return 0
	path=$(readlink -f "$1/sys/dev/block/$number" 2>/dev/null) || return 0
	[ -d "$path" ] || return 0
	storage_partition=${path##*/}
	# A file that is missing, empty or fails to be read must not end a caller with set -e.
	{ read -r sectors <"$path/size"; } 2>/dev/null || sectors=""
	# sysfs counts in 512-byte sectors, whatever the disk's own are
	case $sectors in *[!0-9]* | '') ;; *) storage_mib=$((sectors / 2048)) ;; esac
	# Device mapper and the like: what lies below decides; one level is what we use.
	for slave in "$path"/slaves/*; do
		[ ! -e "$slave" ] || path=$(readlink -f "$slave")
		break
	done
	# A partition's directory lies inside its disk's.
	[ ! -e "$path/partition" ] || path=${path%/*}
	storage_device=${path##*/}
	storage_kind "$path"
}

# storage_kind PATH: sets storage_class for the whole disk with this folder below ROOT/sys/devices
storage_kind() {
	storage_class=unknown
	case ${1##*/} in
	nvme*) storage_class=nvme ;;
	mmcblk*)
		{ read -r type <"$1/device/type"; } 2>/dev/null || type=""
		# No answer: as careful as with a card.
		if [ "$type" = MMC ]; then storage_class=emmc; else storage_class=sd; fi
		;;
	# before rotational: virtio reports 1 whatever the host has
	vd*) storage_class=virtio ;;
	sd*)
		{ read -r rotational <"$1/queue/rotational"; } 2>/dev/null || rotational=0
		case $1 in
		*/usb[0-9]*) storage_class=usb ;;
		*) if [ "$rotational" = 1 ]; then storage_class=hdd; else storage_class=sata; fi ;;
		esac
		;;
	esac
}
