# shellcheck shell=sh disable=SC2034 # its variables are for who sources it
# database_engine ROOT DATADIR CLASS: which engine should the databases have? For node-tune; the
# optional engine and reasons: docs/design/optional-engine.md. Sourced for the records and the chain
# by most scripts.
# Sets   database_engine  leveldb or lmdb
#        database_reason  half a sentence
#        database_map     LMDB: MiB by which its files grow at least
# node_record ROOT NAME: what node.conf says, as node-config has written it down (records and
# their meaning: node-conf.awk); several values one a line, none for a record that is not there.
# node_chain ROOT, database_chain ROOT: the chain, and its folder below bitcoind's.
# What is there decides first: bitcoind refuses to pass over the other engine's data.

node_record() { sed -n "s/^$2 //p" "$1/run/cairn/node-conf.records" 2>/dev/null || :; }

# Also where node-config has not run.
node_chain() {
	chain=$(node_record "$1" chain | head -n 1)
	echo "${chain:-main}"
}

# Main has none of its own.
database_chain() { node_record "$1" chain-directory | head -n 1; }

database_engine() {
	# Measured: with LMDB a sync writes more and takes longer (docs/reports/performance.md).
	database_engine=leveldb
	database_reason="writes less than LMDB, and is faster where both were measured"
	case $3 in
	nvme | sata | virtio) database_map=256 ;;
	*) database_map=64 ;;
	esac
	# the converter comes with LMDB only
	if [ ! -x "$1/usr/bin/bitcoin-dbconvert" ]; then
		database_engine=leveldb
		database_reason="this image has no other"
		return 0
	fi
	coins=$1$2$(database_chain "$1")/chainstate
	lmdb="" leveldb=""
	[ ! -e "$coins/lmdb/data.mdb" ] || lmdb=1
	[ ! -e "$coins/CURRENT" ] || leveldb=1
	# Of two, bitcoind marks the one that it does not keep up to date, and bitcoin-dbconvert the
	# one that it puts in place or removes. As in bitcoind, the mark of the only one says nothing.
	if [ -n "$lmdb" ] && [ -n "$leveldb" ]; then
		[ ! -e "$coins/outdated.lmdb" ] || lmdb=""
		[ ! -e "$coins/outdated.leveldb" ] || leveldb=""
	fi
	if [ -n "$lmdb" ] && [ -z "$leveldb" ]; then
		database_engine=lmdb
		database_reason="the coins are there in it; node-convert@leveldb changes that"
	elif [ -n "$leveldb" ] && [ -z "$lmdb" ]; then
		database_engine=leveldb
		database_reason="the coins are there in it; node-convert@lmdb changes that"
	fi
}

# database_reserve ROOT: the room to keep for mainnet's coins; database_engine comes first, but
# dbbackend= in node.conf counts, which a new node follows. Figures: docs/design/tuning.md, and
# docs/design/optional-engine.md for the optional engine.
# Sets   database_reserve  MiB      database_need  half a sentence for a disk that is too small
database_reserve() {
	engine=$(sed -n 's/^dbbackend=//p' "$1/run/bitcoind/bitcoin.conf" 2>/dev/null) || engine=""
	case ${engine:-$database_engine} in
	lmdb*)
		database_reserve=49152
		database_need="in LMDB mainnet's coins alone need about 48 GiB and will not fit:"
		database_need="$database_need use a disk of 64 GB or more, or LevelDB"
		database_need="$database_need (put a # in front of dbbackend=lmdb; if the coins are"
		database_need="$database_need in LMDB already, systemctl start node-convert@leveldb)"
		;;
	*)
		database_reserve=16384
		database_need="mainnet's coins alone need about 16 GiB: use a disk of 32 GB or more"
		;;
	esac
}

# database_options ROOT DATADIR CLASS: writes the choice with node-tune's option()
database_options() {
	database_engine "$@"
	option dbbackend "$database_engine" "$database_reason"
	option dbsync flush "a finished flush is on the disk before blocks are pruned;" \
		"what came after it is fetched again"
	[ "$database_engine" != lmdb ] || option dbmapsize "$database_map" \
		"$database_map MiB: LMDB's file is enlarged by at least this, allocated at once"
}
