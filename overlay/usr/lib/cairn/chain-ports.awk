# The ports of each chain, as Core has them (src/kernel/chainparams.cpp, src/chainparamsbase.cpp),
# by Core's short name of the chain. POSIX awk; must run under busybox and mawk.

BEGIN {
	# For peers; the one for Tor's onion service is the next.
	p2p_port["main"] = 8333; p2p_port["test"] = 18333; p2p_port["testnet4"] = 48333
	p2p_port["signet"] = 38333; p2p_port["regtest"] = 18444
	rpc_port["main"] = 8332; rpc_port["test"] = 18332; rpc_port["testnet4"] = 48332
	rpc_port["signet"] = 38332; rpc_port["regtest"] = 18443
}
