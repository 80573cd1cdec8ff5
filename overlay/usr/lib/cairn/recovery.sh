# shellcheck shell=sh disable=SC2034 # its variables are for who sources it
# What bitcoind-verdict can find out and do about damaged data. Sourced; ROOT is the prefix
# of all paths, for tests. Rules and their reasons: docs/service.md.

# One automatic rebuild in this time. It is a judgement, not a measurement: longer than a
# rebuild on a slow card, so that a card which damages what it was just given is not worn
# out by more of the same; short against the years between two accidents of other causes.
rebuild_interval=2592000 # s: 30 days

# data_device ROOT: the partition mounted at /var, as the kernel's messages name it.
# Sets   partition  vda4, mmcblk0p4      disk  vda, mmcblk0      readonly  1 or nothing
data_device() {
	partition="" disk="" readonly=""
	while read -r source place _ options _; do
		[ "$place" = /var ] || continue
		partition=${source##*/}
		case ,$options, in *,ro,*) readonly=1 ;; *) readonly="" ;; esac
	done 2>/dev/null <"$1/proc/mounts" || :
	case $partition in
	*[0-9]p[0-9]*) disk=${partition%p*} ;;
	*) disk=$(printf '%s' "$partition" | sed 's/[0-9]*$//') ;;
	esac
}

# device_errors: from the kernel's log on standard input, what it says of a failing data
# device; data_device comes first. Refused discards are no failure: they lose nothing.
device_errors() {
	[ -n "$partition" ] || return 0
	grep -E "error, dev $disk,|Buffer I/O error on dev $disk|EXT4-fs error \(device $partition\)|(EXT4|F2FS)-fs \($partition\):.*([Rr]emounting|I/O|data loss|[Cc]heckpoint error|inconsistent|corrupt)|Aborting journal on device $partition|JBD2: .*(error|fail).*$partition" |
		grep -vE 'DISCARD|WRITE_ZEROES|SECURE_ERASE|operation not supported'
}

# rebuild_recent ROOT: was an automatic rebuild begun lately, or has the last one never
# reached the tip? The second needs no clock: a machine without one may believe that
# months have passed, or that the rebuild is still to come (a stamp in the future is recent).
rebuild_recent() {
	[ -e "$1/var/lib/cairn/rebuild" ] || return 1
	rebuild_begun=$(sed -n 's/^begun=\([1-9][0-9]*\)$/\1/p' "$1/var/lib/cairn/rebuild" 2>/dev/null | head -n 1) || rebuild_begun=""
	[ -n "$rebuild_begun" ] || return 0
	[ -e "$1/var/lib/cairn/initial-sync-done" ] || return 0
	[ $(($(date +%s) - rebuild_begun)) -lt $rebuild_interval ]
}

# begin_rebuild ROOT WHAT: notes it on the data partition, so that neither a power cut nor a
# reboot forgets it; node-config then gives bitcoind reindex=1 until bitcoind-started has
# seen it up. As at the first sync, node-tune gives the cache most of the memory.
# Fails when nothing can be written.
begin_rebuild() {
	state=$1/var/lib/cairn
	{
		printf 'begun=%s\nwhat=%s\n' "$(date +%s)" "$2" >"$state/rebuild.new" &&
			chmod 644 "$state/rebuild.new" && sync "$state/rebuild.new" &&
			mv "$state/rebuild.new" "$state/rebuild" &&
			: >"$state/rebuild-wanted" &&
			rm -f "$state/initial-sync-done" && sync "$state"
	} 2>/dev/null
}

# wallet_advice ROOT: how to save the wallets, if there are any: the folders of the first
# three, below the data folder or, on a test chain, below that chain's. The owner copies this
# to a shell, and whoever can write to the data folder chooses the names: in place of one with
# anything but letters, digits and ._- stands the folder that it is in.
wallet_advice() {
	data=$1/var/lib/bitcoind
	for file in "$data"/*/wallet.dat "$data"/*/*/wallet.dat "$data"/*/*/*/wallet.dat; do
		[ -f "$file" ] || continue
		folder=${file%/wallet.dat}
		folder=${folder#"$data"}
		while :; do
			case $folder in *[!A-Za-z0-9._/-]*) folder=${folder%/*} ;; *) break ;; esac
		done
		printf ' root@NODE:/var/lib/bitcoind%s\n' "$folder"
	done | awk '!seen[$0]++' | head -n 3 | tr -d '\n' |
		sed 's/.*/First copy the wallet to another computer (scp -r& .). /'
}
