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
# Variables: none. POSIX awk.

# set NAME VALUE: the first value in the chain's section counts, then the first above it
function set(name, value) {
	if (section == "") { if (!(name in above)) above[name] = value }
	else if (!((section, name) in below)) below[section, name] = value
}
function has(name) {
	if ((chain, name) in below) return 1
	# of these two only a negation counts above the sections of a test chain
	return name in above && (chain == "main" || name !~ /^(bind|connect)$/ || above[name] == "no")
}
function value(name) { return (chain, name) in below ? below[chain, name] : above[name] }

BEGIN { chain = "main"; section = "" }
{ lines[NR] = $0; text = $0; sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text) }
text ~ /^\[.*\]$/ {
	section = substr(text, 2, length(text) - 2)
	if (!first) first = NR
	next
}
text ~ /^#/ || text !~ /=/ { next }
{
	name = substr(text, 1, index(text, "=") - 1); sub(/[ \t]+$/, "", name)
	worth = substr(text, index(text, "=") + 1); sub(/^[ \t]+/, "", worth)
	if (section == "" && name == "chain") chain = worth
	else if (section == "" && name ~ /^(regtest|signet|testnet|testnet4)$/ && worth != "0")
		chain = name == "testnet" ? "test" : name
	else if (name ~ /^no(bind|whitebind|connect)$/) set(substr(name, 3), "no")
	else if (name ~ /^no(listen|proxy)$/) set(substr(name, 3), worth == "1" ? "0" : "?")
	else if (name ~ /^(bind|whitebind|connect|proxy|listen|maxconnections)$/) set(name, worth)
}
END {
	if (has("listen")) listens = value("listen") == "1"
	else {
		proxy = has("proxy") && value("proxy") != "" && value("proxy") != "0"
		alone = has("maxconnections") && value("maxconnections") + 0 <= 0
		listens = !has("connect") && !proxy && !alone
	}
	add = listens && !has("bind") && !has("whitebind")
	for (i = 1; i <= NR; i++) {
		if (add && chain == "main" && i == first) { print "bind=0.0.0.0\nbind=[::]"; add = 0 }
		print lines[i]
	}
	if (add) print (chain == "main" ? "" : "[" chain "]\n") "bind=0.0.0.0\nbind=[::]"
}
