# What the firewall opens on this node, as rules for nft that are added to firewall.nft. Called by
# cairn-firewall, with chain-ports.awk and bitcoin-conf.awk in front of it and the daemon's
# bitcoin.conf as its input.
#
# Variables: records  node-conf.records (node-conf.awk)
#            served   not "": the image has a page
# Output:    chains of table inet cairn
# Exit status: 1 where something is not understood; the output is of no use then.
# POSIX awk; must run under busybox and mawk.

# What node.conf switches on: switches with 1, keys and tor= with whatever they are
function read_records(    line, name) {
	while ((getline line < records) > 0) {
		name = line
		sub(/ .*/, "", name)
		if (line == name " 1" || (name ~ /key$|^tor$/ && name != line)) on[name] = 1
	}
	close(records)
}
# The port of bind= or whitebind=, `otherwise` if it has none; sets `address`
function port_of(text, otherwise,    colons, copy) {
	sub(/^.*@/, "", text)
	sub(/=onion$/, "", text)
	copy = text
	colons = gsub(/:/, ":", copy)
	address = text
	if (text !~ /:[0-9]+$/ || (colons > 1 && text !~ /\]:[0-9]+$/)) return otherwise
	sub(/:[0-9]+$/, "", address)
	sub(/^.*:/, "", text)
	return text
}
# open PORT LIST: each port once, in the order in which they are found. None below 1024: bitcoind
# has no right to them, and SSH and the page, which are for neighbours only, have theirs there.
function open(port, list) {
	if (port !~ /^[1-9][0-9]*$/ || length(port) > 5 || port + 0 > 65535) { wrong = 1; return "" }
	if (port + 0 < 1024) return list
	return index(", " list ", ", ", " port ", ") ? list : list == "" ? port : list ", " port
}
function peers(    own, binds, n, i, port) {
	if (has("networkactive") && value("networkactive") != "1") return
	if (has("listen") ? value("listen") != "1" : !has("bind") && !has("whitebind") && !listens())
		return
	own = has("port") ? value("port") : p2p_port[chain]
	n = entries("bind", binds)
	for (i = 1; i <= n; i++) {
		port = port_of(binds[i], own)
		if (address ~ /^(127\.|\[?::1\]?$)/) continue
		# a port for Tor, which runs on another machine of the network then
		if (binds[i] ~ /=onion$/) onions = open(port, onions)
		else everybody = open(port, everybody)
	}
	if (n) any = 1
	n = entries("whitebind", binds)
	for (i = 1; i <= n; i++) {
		port = port_of(binds[i], own)
		if (address !~ /^(127\.|\[?::1\]?$)/) everybody = open(port, everybody)
	}
	if (!n && !any) everybody = open(own, everybody)
}
END {
	if (!(chain in p2p_port)) exit 1
	read_records()
	peers()
	if (wrong) exit 1

	print "table inet cairn {"
	print "\tchain everybody {"
	# With tor= others come in by Tor alone; a bind= that says otherwise is no line of ours.
	if (everybody != "" && !("tor" in on)) print "\t\ttcp dport { " everybody " } accept"
	# The router asks which groups have members. With no answer a switch may stop sending to ours.
	if ("mdns" in on) print "\t\tip protocol 2 accept"
	print "\t}\n\tchain neighbours {"
	if (onions != "") print "\t\ttcp dport { " onions " } accept"
	if (("sshkey" in on) || ("walletkey" in on)) {
		# A judgement: more than a person or a script of theirs needs. sshd_config limits further.
		often = " saddr limit rate over 20/minute burst 20 packets } drop"
		print "\t\ttcp dport 22 add @ssh4 { ip" often
		print "\t\ttcp dport 22 add @ssh6 { ip6" often
		print "\t\ttcp dport 22 accept"
	}
	if (served != "" && ("page" in on)) {
		# The web server has 256 connections (lighttpd.conf), a browser takes 6 for a node. A
		# judgement: five browsers behind one address, and eight addresses to take them all.
		print "\t\ttcp dport 80 add @page4 { ip saddr ct count over 32 } drop"
		print "\t\ttcp dport 80 add @page6 { ip6 saddr ct count over 32 } drop"
		print "\t\ttcp dport 80 accept"
	}
	if ("mdns" in on) print "\t\tudp dport 5353 accept"
	print "\t}\n}"
}
