# shellcheck shell=sh disable=SC2034 # its variables are for who sources it
# What cairn-bitcoind-verdict and cairn-bitcoind-look can find out and do about an end of bitcoind.
# Sourced; ROOT is the prefix of all paths, for tests. Reasons: docs/design/architecture.md.
# cairn-bitcoind-started and node-config use what concerns options for one start (once_begun).
library=$(dirname "$0")
tab=$(printf '\t')

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
	grep -E -e "error, dev $disk,|Buffer I/O error on dev $disk" \
		-e "EXT4-fs error \(device $partition\)" \
		-e "(EXT4|F2FS)-fs \($partition\):.*([Rr]emounting|I/O|data loss)" \
		-e "(EXT4|F2FS)-fs \($partition\):.*([Cc]heckpoint error|inconsistent|corrupt)" \
		-e "JBD2: .*(error|fail).*$partition|Aborting journal on device $partition" |
		grep -vE 'DISCARD|WRITE_ZEROES|SECURE_ERASE|operation not supported'
}

# device_says ROOT: the first of these, or nothing; data_device comes first.
device_says() {
	if [ -n "${CAIRN_KERNEL_LOG-}" ]; then
		cat "$CAIRN_KERNEL_LOG"
	else
		journalctl --quiet --no-pager -o cat -k -b
	fi | device_errors | head -n 1 | LC_ALL=C tr -c '\n -~' '?' | cut -c1-100 || :
}

# full ROOT: has the data partition less room than Core asks for? (50 MiB: CheckDiskSpace,
# src/util/fs_helpers.cpp) nearly_full ROOT: so little that a step of growth may not fit? (2
# GiB: LMDB asks for an eighth of its map) When it cannot be measured: no.
# filling ROOT: has it less than twice that, below which Core ends in order, without a word on
# standard error? (src/init.cpp: every 5 minutes)
full() { [ "$(room "$1")" -lt 51200 ]; }
filling() { [ "$(room "$1")" -lt 102400 ]; }
full_says="The data partition is full; bitcoind stays stopped. Keep fewer blocks with prune= in"
full_says="$full_says node.conf (0 keeps all, 550 the fewest) or use a larger disk, then reboot."
nearly_full() { [ "$(room "$1")" -lt 2097152 ]; }
room() {
	${CAIRN_DF:-df} -Pk "$1/var/lib/bitcoind" 2>/dev/null |
		awk 'NR == 2 && $4 ~ /^[0-9]+$/ { room = $4 } END { print room == "" ? 2097152 : room }'
}

# addresses: the machine's own, to notice that they change
addresses() { ${CAIRN_IP:-ip} -o addr show 2>/dev/null | awk '{ print $2, $4 }' || :; }

# understand UP FAILED FILE COPY: what verdict.awk makes of these words
understand() {
	copy=$4 LC_ALL=C awk -v up="$1" -v failed="$2" -f "$library/verdict.awk" \
		"$library/verdict.tsv" "$3"
}

# said_again ROOT SAID: did the last failure end with the same words? Which block they are
# about does not matter: a failing card damages many. Notes them otherwise.
said_again() {
	set -- "$1" "$(printf '%s' "$2" | sed 's/[0-9a-f]\{64\}/HASH/g')"
	if [ -e "$1/run/cairn/bitcoind.said" ] && [ "$(cat "$1/run/cairn/bitcoind.said")" = "$2" ]; then
		return 0
	fi
	printf '%s\n' "$2" >"$1/run/cairn/bitcoind.said"
	return 1
}

# doubt ROOT SAID: an end over what may be damage and was not found to be. Five since the boot,
# with whatever time between them, hold bitcoind back: it may get up each time, and read
# everything again each time. Ends the script then.
doubt() {
	echo "$2" >>"$1/run/cairn/bitcoind.doubts"
	[ "$(wc -l <"$1/run/cairn/bitcoind.doubts")" -ge 5 ] || return 0
	rm -f "$1/run/cairn/bitcoind.doubts"
	hold "$1" "bitcoind ended 5 times since the boot over what may be damage (last: $2)" \
		"and was not found to be; it stays stopped, and nothing has been changed." \
		"The machine's memory or the card may be failing. A reboot tries again;" \
		"to have the chain fetched anew, put reindex=1 into node.conf."
}

# put_file FILE: standard input becomes FILE, whole or not at all. The unit's umask hides
# files; others have to read this one.
put_file() {
	cat >"$1.new"
	chmod 644 "$1.new"
	mv "$1.new" "$1"
}

# report ROOT WORDS...: joins them by blanks to one printable line for the status screen, and
# the journal
report() {
	report_root=$1
	shift
	set -- "$(printf '%s' "$*" | LC_ALL=C tr -c ' -~' '?')"
	printf '%s\n' "$1" | put_file "$report_root/run/cairn/bitcoind.report"
	printf '%s\n' "$1"
}
# hold ROOT WORDS...: reports them, keeps bitcoind stopped and ends the script
hold() {
	: >"$1/run/cairn/bitcoind.hold"
	rm -f "$1/run/cairn/bitcoind.until-up"
	report "$@"
	exit 0
}

# damaged ROOT WHAT COPY: the chain is damaged, beyond doubt: it is rebuilt, once in a
# while, or bitcoind stays stopped. COPY is how to save the wallets. Ends the script.
# While an update is tried nothing is rebuilt on its word, which may be what is wrong with it: that
# ends the trial (trial-look.sh), and the version before looks with its own eyes.
damaged() {
	if "$library/cairn-boot-slot" ${1:+--root "$1"} on-trial 2>/dev/null; then
		hold "$1" "A database seems to be damaged ($2). Nothing is rebuilt while a version is" \
			"tried: the one before has a look, too. Your data are as they were."
	fi
	rm -f "$1/run/cairn/bitcoind.said" "$1/run/cairn/bitcoind.ends" "$1/run/cairn/bitcoind.doubts"
	rm -f "$1/run/cairn/bitcoind.until-up"
	if rebuild_recent "$1"; then
		on=$(date -u -d "@$rebuild_begun" +%Y-%m-%d 2>/dev/null) || on="lately"
		hold "$1" "A database is damaged again ($2), after it was rebuilt already (begun $on):" \
			"the card or disk is probably failing; bitcoind stays stopped. $3" \
			"To rebuild once more on this one, put reindex=1 into node.conf and reboot."
	fi
	begin_rebuild "$1" "$2" ||
		hold "$1" "A database is damaged ($2) and the data partition cannot be written;" \
			"bitcoind stays stopped. $3"
	report "$1" "A database is damaged ($2);" \
		"the node rebuilds it now by fetching and checking the chain again," \
		"which takes days on a card and hours on a fast disk; wallet and settings are kept."
	${CAIRN_NODE_CONFIG:-node-config} || :
	# It has run for this start already, with the small cache of a node at the tip.
	${CAIRN_SYSTEMCTL:-systemctl} start node-tune.service || :
	# It has, too, and node-config has taken back what wallets connect with.
	${CAIRN_SYSTEMCTL:-systemctl} start cairn-wallet.service || :
	${CAIRN_SYSTEMCTL:-systemctl} --no-block start cairn-sync-done.timer || :
	exit 0
}

# rebuild_recent ROOT: was an automatic rebuild begun lately, or has the last one never
# reached the tip? The second needs no clock: a machine without one may believe that
# months have passed, or that the rebuild is still to come (a stamp in the future is recent,
# as is one that cannot be read or is longer than the 12 digits that any shell can count with).
rebuild_recent() {
	[ -e "$1/var/lib/cairn/rebuild" ] || return 1
	rebuild_begun=$(sed -n 's/^begun=\([1-9][0-9]\{0,11\}\)$/\1/p' \
		"$1/var/lib/cairn/rebuild" 2>/dev/null | head -n 1) || rebuild_begun=""
	[ -n "$rebuild_begun" ] || return 0
	[ -e "$1/var/lib/cairn/initial-sync-done" ] || return 0
	[ $(($(date +%s) - rebuild_begun)) -lt $rebuild_interval ]
}

# begin_rebuild ROOT WHAT: notes it on the data partition, so that neither a power cut nor a
# reboot forgets it; node-config then gives bitcoind reindex=1 until Core has begun, on this
# chain only. As at the first sync, node-tune gives the cache most of the memory.
# Fails when nothing can be written. Needs node-conf.sh and database-engine.sh.
begin_rebuild() {
	state=$1/var/lib/cairn
	chain=$(node_chain "$1")
	printf 'begun=%s\nchain=%s\nwhat=%s\n' "$(date +%s)" "$chain" "$2" | lasting "$state/rebuild" &&
		printf '%s\n' "$chain" | lasting "$state/rebuild-wanted" &&
		rm -f "$state/initial-sync-done" 2>/dev/null && sync "$state"
}

# sync_again ROOT: the owner has the chain fetched anew, which is as the first sync: node-tune gives
# it most of the memory, and blocks deep below the tip are not written. Not on a
# node that was rebuilt automatically: there the marker says that this has reached the tip, too
# (rebuild_recent). A reindex that never begins costs one restart of bitcoind, when cairn-sync-done
# finds the sync at its end. Never fails.
sync_again() {
	state=$1/var/lib/cairn
	if [ ! -e "$state/initial-sync-done" ] || [ -e "$state/rebuild" ]; then return 0; fi
	{ rm -f "$state/initial-sync-done" && sync "$state"; } || :
}

# rebuild_wanted ROOT CHAIN: is a rebuild of this chain wanted? An empty request is from an
# image that did not note the chain, and means main.
rebuild_wanted() {
	wanted=$(cat "$1/var/lib/cairn/rebuild-wanted" 2>/dev/null) || return 1
	[ "${wanted:-main}" = "$2" ]
}

# once_begun ROOT: Core has begun what it was to do once (/run/bitcoind/once.conf), has noted
# that in its block index and goes on without being told; told again, it would start over. What
# the user's line asked for is noted for this chain (reindex-done.CHAIN), so that it is not
# given again at the next boot. Never fails: where nothing can be noted, at least the next
# start of this boot does not start over.
once_begun() {
	once=$1/run/bitcoind/once.conf
	[ -s "$once" ] || return 0
	state=$1/var/lib/cairn
	chain=$(node_chain "$1")
	asked=$(sed -n 's/^\(reindex[a-z-]*\)=1$/\1/p' "$once") || asked=""
	: >"$once" || :
	if [ -n "$asked" ] && ! printf '%s\n' "$asked" | lasting "$state/reindex-done.$chain"; then
		echo "$state/reindex-done.$chain cannot be written;" \
			"put a # in front of $asked=1 in node.conf, or the next boot fetches the chain once" \
			"more."
	elif [ -n "$asked" ] && [ "$chain" = main ]; then
		rm -f "$state/reindex-done" 2>/dev/null || :
	fi
	! rebuild_wanted "$1" "$chain" ||
		{ rm -f "$state/rebuild-wanted" && sync "$state"; } 2>/dev/null ||
		echo "$state/rebuild-wanted cannot be removed;" \
			"the next boot rebuilds the chain once more." >&2
}

# once_done ROOT CHAIN: what the user asked for once and this chain has had: reindex,
# reindex-chainstate or nothing. A note without a chain is from an older image and main's;
# an empty one says reindex. once_forget ROOT CHAIN: it may be asked for again.
once_done() {
	if [ -e "$1/var/lib/cairn/reindex-done.$2" ]; then
		cat "$1/var/lib/cairn/reindex-done.$2" 2>/dev/null || echo reindex
	elif [ "$2" = main ] && [ -e "$1/var/lib/cairn/reindex-done" ]; then
		cat "$1/var/lib/cairn/reindex-done" 2>/dev/null || echo reindex
		[ -s "$1/var/lib/cairn/reindex-done" ] || echo reindex
	fi
}
once_forget() {
	rm -f "$1/var/lib/cairn/reindex-done.$2" || :
	[ "$2" != main ] || rm -f "$1/var/lib/cairn/reindex-done" || :
}

# wallet_advice ROOT: how to save the wallets, if there are any: the wallets' folder, and the
# folders of others, three in all, below the data folder or, on a test chain, below that
# chain's. The owner copies this to a shell, and whoever can write to the data folder chooses
# the names: in place of one with anything but letters, digits and ._- stands the folder that
# it is in. The deepest that is looked for has a name of two parts, on a test chain. Links are
# not followed, and the walk has an end, whatever is there.
wallet_advice() {
	data=$1/var/lib/bitcoind
	for depth in 2 3 4 5; do
		timeout 10 find "$data" -mindepth $depth -maxdepth $depth \
			-type f -name wallet.dat 2>/dev/null |
			head -n 100 | LC_ALL=C sort
	done | while IFS= read -r file; do
		# the second line of a name with a line break
		case $file in "$data"/*) ;; *) continue ;; esac
		folder=${file%/*}
		folder=${folder#"$data"}
		case $folder in */wallets/*) folder=${folder%%/wallets/*}/wallets ;; esac
		while :; do
			case $folder in *[!A-Za-z0-9._/-]*) folder=${folder%/*} ;; *) break ;; esac
		done
		printf ' root@NODE:/var/lib/bitcoind%s\n' "$folder"
	done | awk '!seen[$0]++' | head -n 3 | tr -d '\n' |
		sed 's/.*/First copy the wallet to another computer (scp -r& .). /'
}
