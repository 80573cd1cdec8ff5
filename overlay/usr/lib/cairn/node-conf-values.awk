# Values of node.conf: what bitcoind would take, and what a network address is. Functions only,
# used by node-conf.awk. POSIX awk; must run under busybox and mawk.
# fault_of_KIND(...) and value_fault() give "" for a good value, otherwise half a sentence.

function trim(text) {
	sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text)
	return text
}

# -- addresses -----------------------------------------------------------------------
# Leading zeros are refused: some programs read them as octal.
function ipv4(text,    parts, i) {
	if (split(text, parts, ".") != 4) return 0
	for (i = 1; i <= 4; i++)
		if (parts[i] !~ /^(0|[1-9][0-9]?[0-9]?)$/ || parts[i] + 0 > 255) return 0
	return 1
}
function ipv6(text,    parts, i, n, gaps, copy) {
	if (text !~ /^[0-9a-fA-F:]+$/ || text ~ /:::/ || text !~ /:/) return 0
	copy = text; gaps = gsub(/::/, "&", copy)
	n = split(text, parts, ":")
	if (gaps > 1 || n > 8 + gaps || (!gaps && n != 8)) return 0
	if (!gaps && (text ~ /^:/ || text ~ /:$/)) return 0
	if (text ~ /^:[^:]/ || text ~ /[^:]:$/) return 0
	for (i = 1; i <= n; i++) if (length(parts[i]) > 4) return 0
	return 1
}
# An address that one machine can have: not this-host, loopback, multicast, reserved.
function unicast(text,    parts) {
	if (ipv4(text)) {
		split(text, parts, ".")
		return parts[1] > 0 && parts[1] != 127 && parts[1] < 224
	}
	return ipv6(text) && text !~ /^[fF][fF]/ && text !~ /^[0:]*:0*1?$/
}
# An own address with its prefix: 8 to 30, as a smaller one spans networks of several owners and
# a larger one has no room for a second machine; not the network's or the broadcast address.
function own_address(text,    parts, octets, i, host, size) {
	if (split(text, parts, "/") != 2 || parts[2] !~ /^[1-9][0-9]?[0-9]?$/ || !unicast(parts[1]))
		return 0
	if (!ipv4(parts[1])) return parts[2] + 0 >= 32 && parts[2] + 0 <= 126
	if (parts[2] + 0 < 8 || parts[2] + 0 > 30) return 0
	split(parts[1], octets, ".")
	size = 1
	for (i = parts[2] + 0; i < 32; i++) size *= 2 # busybox may have no power operator
	host = (((octets[1] * 256 + octets[2]) * 256 + octets[3]) * 256 + octets[4]) % size
	return host > 0 && host < size - 1
}
function good_port(text) {
	return text ~ /^[0-9]+$/ && length(text) <= 5 && text + 0 >= 1 && text + 0 <= 65535
}
# Splits as Core's SplitHostPort does. Sets host, port ("" if there is none); false for a bad port.
function host_port(text,    i, colon, colons) {
	host = text; port = ""; colon = colons = 0
	for (i = 1; i <= length(text); i++) if (substr(text, i, 1) == ":") { colon = i; colons++ }
	if (colon && (colons == 1 || (text ~ /^\[/ && substr(text, colon - 1, 1) == "]"))) {
		port = substr(text, colon + 1)
		host = substr(text, 1, colon - 1)
		if (!good_port(port)) return 0
	}
	if (host ~ /^\[.*\]$/) { host = substr(host, 2, length(host) - 2); return ipv6(host) }
	return host != ""
}
# A number-only host is an address or a slip: a resolver takes 9050 for 0.0.35.90.
function socket(text, names) {
	if (!host_port(text)) return 0
	if (ipv6(host)) return 1
	if (host ~ /^[0-9.]+$/) return ipv4(host) && (host !~ /^0\./ || !names)
	if (host ~ /^(none|off|no|yes|true|false)$/) return 0
	return names && host ~ /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/ && length(host) <= 253
}

# -- values of bitcoind's options ------------------------------------------------------
function fault_of_int(name, value) {
	if (value !~ /^(0|-?[1-9][0-9]*)$/ || length(value) > 12 || value + 0 < least[name] + 0 ||
		value + 0 > largest[name] + 0)
		return "takes a whole number from " least[name] " to " largest[name] \
			(name == "prune" || name == "dbcache" ? ", in MiB, without a unit" : "")
	if (name == "prune" && value + 0 > 1 && value + 0 < 550)
		return "takes 0 (keep all), 1 (by hand) or at least 550 (MiB)"
	return ""
}
function fault_of_words(name, value,    shown) {
	if (value ~ ("^(" least[name] ")$")) return ""
	shown = least[name]
	gsub(/\|/, ", ", shown)
	return "takes one of " (length(shown) > 60 ? substr(shown, 1, 57) "..." : shown)
}
function fault_of_hex(name, value) {
	sub(/^0x/, "", value)
	if (value !~ /^[0-9a-fA-F]+$/ || length(value) > largest[name] + 0)
		return "takes a hexadecimal number of at most " largest[name] " digits"
	if (name == "signetchallenge" && length(value) % 2)
		return "takes an even number of hexadecimal digits"
	return ""
}
# Core: ParseMoney, at most 21 million
function fault_of_money(value) {
	if (value !~ /^[0-9]*(\.[0-9]*)?$/ || value !~ /[0-9]/ || value + 0 > 1)
		return "takes an amount of bitcoin up to 1, such as 0.0001"
	return value ~ /\.[0-9]*$/ && length(value) - index(value, ".") > 8 ? \
		"takes at most 8 digits behind the point" : ""
}
# Core appends =NETWORK for a proxy of one network.
function fault_of_proxy(name, value,    at, network) {
	if (value == "") return "has no value; write " name "=0 for none"
	if (name == "proxy" && (at = index(value, "=")) > 0) {
		network = substr(value, at + 1)
		value = substr(value, 1, at - 1)
		if (network !~ /^(ipv4|ipv6|onion|cjdns)$/)
			return "knows the networks ipv4, ipv6, onion and cjdns behind the '='"
	}
	# 107: sizeof sun_path
	if (value ~ /^unix:\/[A-Za-z0-9.\/_-]+$/ && length(value) <= 112) return ""
	return socket(value, 1) ? "" : "takes an address, such as 192.168.1.60:9050"
}
function fault_of_listen(name, value) {
	if (name == "whitebind" && value ~ /@/) {
		if (value !~ /^[a-z,]*@/)
			return "takes permissions in front of the @, such as noban@192.168.1.50:8333"
		sub(/^[a-z,]*@/, "", value)
	} else if (name == "bind") sub(/=onion$/, "", value)
	if (!socket(value, 0)) return "takes an address of this node, such as 192.168.1.50:8333"
	# firewall.awk leaves them closed, and bitcoind has no right to them
	if (port != "" && port + 0 < 1024)
		return "takes a port from 1024 on; those below are closed to other nodes"
	return name == "whitebind" && port == "" ? "needs a port, such as 192.168.1.50:8333" : ""
}
function fault_of_zmq(value) {
	if (value ~ /^tcp:\/\/(127\.0\.0\.1|\[::1\]):[0-9]+$/) {
		sub(/^.*:/, "", value)
		if (good_port(value)) return ""
	}
	return "ZeroMQ has no password and stays on loopback: write tcp://127.0.0.1:28332" \
		" and use ssh -L from your computer"
}

function value_fault(name, value,    how) {
	how = kind[name]
	if (how == "bool") return value ~ /^[01]$/ ? "" : "takes 0 or 1"
	if (how == "int") return fault_of_int(name, value)
	if (how == "proxy") return fault_of_proxy(name, value)
	if (value == "") return "has no value"
	if (value !~ /^[ -~]+$/) return "has a character that is not plain text"
	if (how == "words") return fault_of_words(name, value)
	if (how == "hex") return fault_of_hex(name, value)
	if (how == "money") return fault_of_money(value)
	if (how == "size") return value ~ /^[0-9]+[kKmMgGtT]?$/ && length(value) <= 9 ? "" : \
		"takes a number, with k, M, G or T behind it"
	if (how == "chain") return value in chains ? "" : \
		"takes main, test, testnet4, signet or regtest"
	if (how == "net") return value ~ /^(ipv4|ipv6|onion|i2p|cjdns)$/ ? "" : \
		"takes ipv4, ipv6, onion, i2p or cjdns"
	if (how == "socket") return socket(value, 1) ? "" : \
		"takes an address, such as 192.168.1.60:8333"
	if (how == "listen") return fault_of_listen(name, value)
	if (how == "peer") return value ~ /^[][A-Za-z0-9.:\/@,=_%-]+$/ ? "" : \
		"takes an address, such as 192.168.1.60:8333"
	if (how == "zmq") return fault_of_zmq(value)
	if (how == "wallet") return value ~ /^\// || value ~ /["']/ || value ~ /(^|\/)\.\.?(\/|$)/ ? \
		"takes the name of a wallet in the node's wallet folder," \
		" without quotes, / in front or .. in it" : ""
	if (how == "blockfile") return value ~ /^\/(boot|var\/lib\/bitcoind)\/[A-Za-z0-9._\/-]+$/ &&
		value !~ /(^|\/)\.\.(\/|$)/ ? "" : "takes a file below /boot or /var/lib/bitcoind"
	if (how == "login") return value ~ /^[^:$]+:[^:$]+\$[^:$]+$/ ? "" : \
		"takes USER:SALT$HASH, as Core's rpcauth.py prints it"
	return ""
}

# -- likeness of words -------------------------------------------------------------------
# Is `a` one slip away from `b` (or two, if allowed)? A slip: a letter too many, too few, wrong,
# or two changed over (the optimal string alignment distance).
function like(a, b, most,    i, j, n, m, cost, best, d) {
	n = length(a); m = length(b)
	if (n - m > most || m - n > most) return 0
	for (i = 0; i <= n; i++) d[i, 0] = i
	for (j = 0; j <= m; j++) d[0, j] = j
	for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) {
		cost = substr(a, i, 1) != substr(b, j, 1)
		best = d[i - 1, j - 1] + cost
		if (d[i - 1, j] + 1 < best) best = d[i - 1, j] + 1
		if (d[i, j - 1] + 1 < best) best = d[i, j - 1] + 1
		if (i > 1 && j > 1 && cost && substr(a, i - 1, 2) == substr(b, j, 1) substr(b, j - 1, 1) &&
			d[i - 2, j - 2] + 1 < best) best = d[i - 2, j - 2] + 1
		d[i, j] = best
	}
	return d[n, m] <= most
}
