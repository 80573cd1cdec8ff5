# Keeps bitcoind from listening where nobody asked it to. Filter for the bitcoin.conf that
# node-config writes: all lines pass, and bind=0.0.0.0, bind=[::] are added where they change
# nothing but this: without any bind=, Core also listens on 127.0.0.1, at the port after its own
# (8334 on mainnet), for an onion service that is off (init.cpp: onion_binds).
#
# They are added in the section of the chain in force, when in it, or above all sections,
#   - there is no bind= (which is not looked at above the sections on a test chain), also none
#     for onion services: what listens is the owner's choice then
#   - there is no whitebind=: it replaces 0.0.0.0, which bind= would bring back. Core goes on
#     listening on that loopback port there, which no other machine can reach
#   - bitcoind listens anyway: listen=1; or no listen=, connect=, proxy= and maxconnections=0,
#     with which it does not, unless there is a bind=
# Where a line is not understood nothing is added.
# Called after bitcoin-conf.awk. POSIX awk.

END {
	add = listens() && !has("bind") && !has("whitebind")
	for (i = 1; i <= NR; i++) {
		if (add && chain == "main" && i == first) { print "bind=0.0.0.0\nbind=[::]"; add = 0 }
		print lines[i]
	}
	if (add) print (chain == "main" ? "" : "[" chain "]\n") "bind=0.0.0.0\nbind=[::]"
}
