# shellcheck shell=sh disable=SC2034,SC2154 # variables are shared with cairn-update
# USB sticks with updates. Sourced by cairn-update, whose functions it uses, behind
# datadisk-facts.sh; point is where a stick is mounted.

# sticks: partitions and whole disks on USB with a file system that may have a bundle, and its type,
# one a line. FAT and exFAT only: reading ext4 may write to it (its journal), and it has owners,
# whom RAUC does not trust with a bundle. A data disk of a node's never has one of these.
sticks() {
	for folder in "$root"/sys/class/block/*; do
		name=${folder##*/}
		case $name in sd[a-z] | sd[a-z][0-9]*) ;; *) continue ;; esac
		case $(readlink -f "$folder") in */usb[0-9]*) ;; *) continue ;; esac
		type=$(property "$name" ID_FS_TYPE)
		case $type in vfat | exfat) echo "$name:$type" ;; esac
	done
}

# on_stick: sets bundle to the newest one of this board on the first stick that has any, and
# version; that stick stays mounted. Without one, clock has why one cannot be used now, or useless
# is 1 if there are files, and none that is whole and signed for this board.
on_stick() {
	bundle="" version="" proxy="" clock="" useless=""
	system=$(datadisk_system_disk) || system=""
	for name in $(sticks); do
		type=${name#*:} name=${name%%:*}
		case $name in "$system" | "$system"[0-9]*) continue ;; esac
		mkdir -p "$point"
		mount -t "$type" -o ro,nodev,nosuid,noexec "/dev/$name" "$point" 2>/dev/null || continue
		for file in "$point"/cairn-*.raucb; do
			if [ ! -f "$file" ] || [ -L "$file" ]; then continue; fi
			if ! found=$(bundle_version "$file"); then
				useless=1
				! known_cause || clock=$why
				continue
			fi
			if [ -z "$version" ] || [ "$(update_compare "$found" "$version")" = newer ]; then
				bundle=$file version=$found
			fi
		done
		[ -z "$bundle" ] || return 0
		umount "$point" 2>/dev/null || :
	done
	return 1
}
