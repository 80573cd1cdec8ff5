# shellcheck shell=sh disable=SC2034,SC2154 # root and why are theirs, or for them, who source it
# Whether something can be done with the two slots, and whether something may be installed now.
# Sourced by update.sh.

# update_boot: prints why nothing can be done with what is mounted at /boot, or nothing
update_boot() {
	case $(datadisk_boot) in
	other)
		echo "the boot partition that is mounted is not on the disk of the root file system; unplug a" \
			"disk that was another node's, and restart"
		;;
	none)
		echo "the boot partition is not mounted; restart the node, and replace the card or disk if" \
			"that does not help"
		;;
	esac
}

# update_stopping: is the node being shut down?
update_stopping() {
	[ "$(${CAIRN_SYSTEMCTL:-systemctl} is-system-running 2>/dev/null)" = stopping ]
}

# update_not_now [BY_ITSELF]: prints why nothing may be installed at the moment, or nothing. By
# itself: not while bitcoind starts either, as its work would begin again, and the tip that the new
# version must have is not known. For two hours only, as the new one may be what mends its start.
update_not_now() {
	read -r up _ <"$root/proc/uptime"
	update_not=$(update_boot)
	if [ "${up%%.*}" -lt 600 ]; then
		echo "the node was started less than 10 minutes ago; try again later"
	elif [ -n "$update_not" ]; then
		echo "$update_not"
	elif ! slots committed 2>/dev/null; then
		echo "the running version is not known to be good yet, which takes until bitcoind answers;" \
			"or this image has no second slot"
	elif update_stopping; then
		echo "the node is being shut down"
	elif [ "$(${CAIRN_SYSTEMCTL:-systemctl} show -p ActiveState --value bitcoind.service \
		2>/dev/null)" = deactivating ]; then
		echo "the data of bitcoind are being written to the disk; try again when that has ended"
	elif [ -n "$(${CAIRN_SYSTEMCTL:-systemctl} list-units --state=activating,active \
		--no-legend --plain --no-pager 'node-convert@*.service' cairn-data-look.service \
		2>/dev/null)" ]; then
		echo "the databases are being converted or checked; try again when that has ended"
	elif [ -n "${1:-}" ] && [ "${up%%.*}" -lt 7200 ] &&
		update_chain 2>&1 | grep -q 'code: -28'; then
		echo "bitcoind is still starting"
	fi
}

# update_devices: the names of the slots' partitions for RAUC, on the disk that the system runs
# from: another disk may have partitions of the same names. Fails with a sentence in why, also if
# /boot is another disk's, whose slots would be changed then.
update_devices() {
	why=$(update_boot)
	[ -z "$why" ] || return 1
	why="the partitions of the two slots were not found on the system's disk"
	disk=$(datadisk_system_disk) || return 1
	mkdir -p "$root/dev/cairn"
	for label in root-a root-b; do
		part=$(datadisk_find "$disk" "$label") || return 1
		ln -sfn "../$part" "$root/dev/cairn/$label"
	done
}
