# shellcheck shell=sh disable=SC2034,SC2154 # variables for who sources it; one is memory.sh's
# How much of the blocks is kept. Sourced by node-tune, after database-engine.sh and memory.sh.
#
# What is deleted is gone, so nothing is deleted in doubt. cairn-bitcoind-started notes what
# bitcoind came up with in /var/lib/cairn/prune.CHAIN. From then on:
# - 0 (all blocks) stays until a readable node.conf has a good prune=N.
# - While a line about prune cannot be used, node.conf is not there or cannot be read, bitcoind
#   refused it, or size or kind of the disk cannot be read: not less than was kept before.
# - In the same cases without such a note: 1, which deletes nothing by itself, unless the node
#   is new, without a block, and nothing was said about prune.
# - With a note that is not as cairn-bitcoind-started writes it: 1, until node.conf has a good
#   prune=N.
# 1 and not 0 there: bitcoind starts with it whether or not old blocks are gone already.
# A block that is never stored is as gone as a deleted one: see all_stored.

# prune_target ROOT DATADIR AUTOMATIC MIB CLASS: AUTOMATIC is the rule's value (MiB), MIB the size
# of the disk, 0 if it cannot be read, and CLASS its kind.
# Sets   prune_target  prune= for bitcoind      prune_reason  or "" if it is the rule's value
prune_target() {
	prune_target=$3 prune_reason=""
	wanted=$(node_record "$1" prune)
	doubt=$(node_record "$1" prune-doubt)
	absent=$(node_record "$1" absent)
	[ -n "$(node_record "$1" chain)" ] || absent=1
	memory=$1/var/lib/cairn/prune.$(node_chain "$1")
	before="" torn=""
	if remembered_prune "$memory"; then
		before=$remembered_line
	elif [ -e "$memory" ]; then
		before=1 torn="What this node has noted of the blocks that it keeps cannot be read;"
		torn="$torn write prune= with a value into node.conf."
	fi
	if [ -n "$wanted" ]; then
		prune_target=$wanted
		prune_reason="node.conf says so"
		return 0
	fi
	if [ "$before" = 0 ]; then
		prune_target=0
		prune_reason="all blocks were kept before, and node.conf does not say otherwise"
		note "${doubt:+$doubt }This node keeps all blocks, as before;" \
			"write prune=0 or another value into node.conf."
		return 0
	fi
	why=""
	if [ -n "$doubt" ]; then
		why=$doubt
	elif [ -n "$torn" ]; then
		why=$torn
	elif [ "$4" -le 0 ]; then
		why="The size of the data disk cannot be read."
	elif [ -n "$absent" ]; then
		why="node.conf is not there."
	elif [ "$5" = unknown ]; then
		why="The kind of storage is not known."
	else
		return 0
	fi
	if [ -z "$before" ] && [ -z "$doubt" ] && ! has_blocks "$1$2$(database_chain "$1")/blocks"; then
		[ "$4" -gt 0 ] || note "$why A new node keeps the newest 550 MiB of blocks."
		return 0
	fi
	before=${before:-1}
	if [ "$before" = 1 ]; then
		prune_target=1
		prune_reason="nothing is deleted in doubt"
		note "$why No block is deleted until that is mended; the disk may become full."
	elif [ "$before" -gt "$prune_target" ]; then
		prune_target=$before
		prune_reason="as much as before is kept in doubt"
		note "$why As many blocks as before are kept ($before MiB)."
	fi
}

# in_doubt ROOT: is it unclear what node.conf says, or would say?
in_doubt() {
	for doubt_record in absent unread prune-doubt; do
		[ -z "$(node_record "$1" $doubt_record)" ] || return 0
	done
	[ -z "$(node_record "$1" chain)" ]
}

# all_stored ROOT FILTERS: after prune_target; FILTERS as filters_choice sets it.
# Sets   all_stored  why each block of the initial sync is stored, half a sentence; "" if those
#                    that would be deleted before its end need not be
all_stored() {
	# Core's m_assumed_blockchain_size of the pinned source (kernel/chainparams.cpp), GiB: with
	# room for it, pruning deletes nothing. It does not know regtest's.
	case $(node_chain "$1") in
	main) whole_chain=856 ;;
	test) whole_chain=245 ;;
	testnet4) whole_chain=31 ;;
	signet) whole_chain=24 ;;
	*) whole_chain=1000000 ;;
	esac
	all_stored=""
	if [ -n "$2" ]; then
		all_stored="as the filters need them"
	elif [ "$prune_target" -lt 550 ]; then
		all_stored="none is pruned before its end"
	elif [ "$prune_target" -ge $((whole_chain * 1024)) ]; then
		all_stored="there is room for the whole chain"
	elif [ -n "$(node_record "$1" store-doubt)" ] ||
		{ in_doubt "$1" && ! sized_now "$1" && stored_before "$1"; }; then
		all_stored="as node.conf may say where it cannot be used"
		note "Each block of the first sync is stored, as node.conf may ask for that where it cannot be" \
			"used, or asked before it was lost. Mend it and restart: this wears a card."
	fi
}

# sized_now ROOT: does a good line say how much waits in memory?
sized_now() {
	grep -q '^option [^ ]* \(no\)*blocksinmemory=' "$1/run/cairn/node-conf.records" 2>/dev/null
}

# stored_before ROOT: may the last good node.conf have had each block stored? As the parser reads
# lines: they end with either character, and an editor's mark may stand before the first.
stored_before() {
	tr '\r' '\n' 2>/dev/null <"$1/var/lib/cairn/node.conf" |
		LC_ALL=C sed '1s/^[^ -~]*//; s/#.*//; s/[[:space:]]//g; s/^[a-z0-9]*\.//' |
		grep -qE '^(blocksinmemory=0*|noblocksinmemory(=[^0f].*)?)$|^(blockfilter|coinstats)index=[^0f]'
}

# prune_was ROOT MIB: is this what bitcoind last came up with, on this chain?
prune_was() {
	remembered_prune "$1/var/lib/cairn/prune.$(node_chain "$1")" && [ "$remembered_line" = "$2" ]
}

has_blocks() {
	for block_file in "$1"/blk*.dat; do [ ! -e "$block_file" ] || return 0; done
	return 1
}
