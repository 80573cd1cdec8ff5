# shellcheck shell=sh disable=SC2154 # root and here are set by who sources it
# What a slot's files on the boot partition say, and which boot loader reads them. Sourced by
# cairn-boot-slot, cairn-boot-files and update.sh; root is the prefix of all paths, here the folder
# of Cairn's scripts.

# update_value FILE KEY: of a file of KEY=VALUE lines, such as a slot's `release`; a value has
# letters, digits and .+~-
update_value() {
	sed -n "s/^$2=\([0-9A-Za-z.+~-]\{1,64\}\)\$/\1/p" "$1" 2>/dev/null | head -n 1
}

# slot_cmdline SLOT VERSION LINE: the kernel's command line. LINE is what both slots have; by what
# stands before it the scripts and RAUC know which one runs.
slot_cmdline() {
	printf 'root=PARTLABEL=root-%s rauc.slot=%s cairn.version=%s %s\n' "$1" "$1" "$2" "$3"
}

# slot_room SLOT BUNDLE: prints why the bundle's boot files have no room in the place of those that
# the slot has now, or nothing
slot_room() {
	# 1 MiB for FAT's own tables and clusters that are not full
	need=$(($(du -sk "$2/boot" | cut -f1) + 1024))
	room=$(df -Pk "$root/boot" | awk 'NR == 2 { print $4 }')
	[ ! -d "$root/boot/slot-$1" ] ||
		room=$((${room:-0} + $(du -sk "$root/boot/slot-$1" | cut -f1)))
	[ "${room:-0}" -gt $need ] ||
		echo "the boot partition has ${room:-0} KiB for it and $need KiB are needed; remove files of" \
			"your own from it"
}

# slot_loader: brings the functions loader_… of this board's boot loader; fails if the image names
# none
slot_loader() {
	loader=$(cat "$root/usr/share/cairn/boot-backend" 2>/dev/null) || return 1
	[ -f "$here/boot-$loader.sh" ] || return 1
	# Each has the same functions.
	# shellcheck source=overlay/usr/lib/cairn/boot-tryboot.sh
	. "$here/boot-$loader.sh"
}
