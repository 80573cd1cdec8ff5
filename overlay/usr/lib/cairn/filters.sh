# shellcheck shell=sh disable=SC2034,SC2154 # variables for who sources it
# Compact block filters (filters=1 in node.conf; BIP157, BIP158). Sourced by node-tune, after
# database-engine.sh, memory.sh and prune-target.sh; by cairn-bitcoind-started.
#
# A filter is made of a block and of what it spends, so that filters begin with the first block or
# not at all: bitcoind ends where a block is gone that its index has not read. /var/lib/cairn/
# filters.CHAIN is there as long as each run of bitcoind on this chain kept filters.
#
# filters_choice ROOT DATADIR MIB: MIB is the room that is left for blocks; storage_mib as
# storage-class.sh sets it.
#   Sets  filters  1, or "", or "kept" as node.conf cannot be used and the node had them: no other
#                  program is given any until it can
#         filters_mib  room to keep for them
# filters_noted ROOT: bitcoind is up with the settings in force; status 1 if that cannot be noted

# 12.9 GB for all of mainnet's in July 2026, that is 12,303 MiB, and room for a year more
filters_need=13312

filters_choice() {
	filters="" filters_mib=0
	filters_mark=$1/var/lib/cairn/filters.$(node_chain "$1")
	case $(node_record "$1" filters) in
	1) filters_on=1 ;;
	0) return 0 ;;
	*) # After one run without them, the blocks that they lack may be gone.
		[ -e "$filters_mark" ] || return 0
		[ -n "$(node_record "$1" filters-doubt)" ] || in_doubt "$1" || return 0
		filters_on=kept
		;;
	esac
	# what was there has room where the disk's size cannot be read
	if [ -e "$filters_mark" ] && [ "$storage_mib" -le 0 ]; then
		filters_are_on 0
		return 0
	fi
	filters_keep=$(node_record "$1" prune)
	[ -n "$filters_keep" ] || ! prune_was "$1" 0 || filters_keep=0
	if [ "$filters_keep" = 0 ]; then # all blocks are there to make them of
		filters_are_on 0
		return 0
	fi
	[ "${filters_keep:-0}" -ge 550 ] || filters_keep=550
	if [ $(($3 - filters_need)) -lt "$filters_keep" ]; then
		note "The node runs without compact block filters: they need 13 GiB, which this disk" \
			"does not have beside coins and blocks. Use a larger disk, or put a # in front of" \
			"filters=1."
		return 0
	fi
	if has_blocks "$1$2$(database_chain "$1")/blocks" &&
		[ ! -e "$filters_mark" ] &&
		! grep -q '^reindex=1' "$1/run/bitcoind/once.conf" 2>/dev/null; then
		note "The node runs without compact block filters: blocks that they are made of are gone" \
			"from this disk. Nothing was changed. To have filters, add reindex=1 to node.conf:" \
			"the node then fetches the whole chain again."
		return 0
	fi
	filters_are_on $filters_need
}

# filters_are_on MIB
filters_are_on() {
	filters=$filters_on filters_mib=$1
	[ "$filters" != kept ] ||
		note "Compact block filters go on as before, as node.conf may ask for them where it cannot" \
			"be used, or asked before it was lost. Mend it and restart."
}

filters_noted() {
	filters_mark=$1/var/lib/cairn/filters.$(node_chain "$1")
	if grep -q '^blockfilterindex=1$' "$1/run/bitcoind/tuned.conf" 2>/dev/null; then
		[ -e "$filters_mark" ] || echo 1 | lasting "$filters_mark"
	elif [ -e "$filters_mark" ]; then
		rm -f "$filters_mark" && sync "${filters_mark%/*}"
	fi
}
