# Checks node.conf for node-config. POSIX awk; see node-config for the keys.
#
# Variables: known = file with the names of bitcoind's options, one a line ("" = no check)
# Output, one record a line: a letter, a blank, a text
#   B line for bitcoin.conf   C its chain line   O line for one start only
#   S ssh key   H host name
#   A address/prefix   G gateway   D name server   R sentence about a rejected line
#
# What is checked is what would keep bitcoind from starting, or would take the node out
# of its owner's hands (RPC to the network, commands, files elsewhere).
BEGIN {
	if (known != "") {
		while ((getline option < known) > 0) is_known[option] = 1
		close(known)
	}
	# name:least:largest
	load("ints", "prune:0:100000000 dbcache:4:1000000 maxmempool:5:1000000 maxconnections:0:10000 par:-256:256 dbbatchsize:1:1000000000 port:1:65535 rpcport:1:65535 checkblocks:0:100000000 checklevel:0:4 rpcthreads:1:256 rpcworkqueue:1:10000 timeout:1:1000000 peertimeout:1:100000000 bantime:0:10000000000 maxreceivebuffer:1:1000000 maxsendbuffer:1:1000000 mempoolexpiry:1:1000000 blockmaxweight:4000:4000000 blockreconstructionextratxn:0:100000 maxtipage:1:100000000000 maxsigcachesize:0:100000 rpcserialversion:0:1 limitclustercount:1:64 blocksonly:0:1 stopatheight:0:100000000")
	load("bools", "server listen regtest signet testnet testnet4 txindex txospenderindex coinstatsindex blockfilterindex peerblockfilters peerbloomfilters dnsseed forcednsseed fixedseeds discover dns natpmp listenonion persistmempool networkactive v2transport fastprune reindex reindex-chainstate rest permitbaremultisig disablewallet walletbroadcast whitelistrelay whitelistforcerelay logips privatebroadcast avoidpartialspends")
	load("chains", "main test testnet4 signet regtest")
	deny("daemon daemonwait pid startupnotify shutdownnotify", "the service sets it")
	deny("datadir conf includeconf blocksdir settings walletdir debuglogfile asmap", "the node's files are where the service may write")
	deny("server rpccookiefile rpccookieperms printtoconsole", "node-cli, the status screen and the journal rely on Cairn's value")
	deny("rpcbind rpcallowip rpcuser rpcpassword", "RPC stays on loopback with a cookie; use ssh -L 8332:127.0.0.1:8332 from your computer")
	deny("alertnotify blocknotify walletnotify signer ipcbind", "the service's sandbox runs no other program")
	section = ""
}

function load(table, list,    n, i, words, parts) {
	n = split(list, words, " ")
	for (i = 1; i <= n; i++) {
		split(words[i], parts, ":")
		kind[parts[1]] = table
		least[parts[1]] = parts[2]; largest[parts[1]] = parts[3]
	}
}
function deny(list, why,    n, i, words) {
	n = split(list, words, " ")
	for (i = 1; i <= n; i++) denied[words[i]] = why
}
function reject(line, why) {
	gsub(/[^ -~]/, "?", line)
	if (length(line) > 60) line = substr(line, 1, 57) "..."
	print "R node.conf line " NR ": \"" line "\": " why "; the line is ignored."
}
function trim(text) {
	sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text)
	return text
}
function ipv4(text,    parts, i) {
	if (split(text, parts, ".") != 4) return 0
	for (i = 1; i <= 4; i++) if (parts[i] !~ /^[0-9]+$/ || length(parts[i]) > 3 || parts[i] + 0 > 255) return 0
	return 1
}
function ipv6(text,    parts, i, n, gaps, copy) {
	if (text !~ /^[0-9a-fA-F:]+$/ || text ~ /:::/ || text !~ /:/) return 0
	copy = text; gaps = gsub(/::/, "&", copy)
	n = split(text, parts, ":")
	if (gaps > 1 || n > 8 + gaps || (!gaps && n != 8)) return 0
	if (!gaps && (text ~ /^:/ || text ~ /:$/)) return 0
	for (i = 1; i <= n; i++) if (length(parts[i]) > 4) return 0
	return 1
}
function address(text,    parts) {
	if (split(text, parts, "/") != 2 || parts[2] !~ /^[0-9]+$/ || length(parts[2]) > 3) return 0
	if (ipv4(parts[1])) return parts[2] + 0 >= 1 && parts[2] + 0 <= 32
	return ipv6(parts[1]) && parts[2] + 0 >= 1 && parts[2] + 0 <= 128
}
# Keys of Cairn's own: checked, each but sshkey and dns once.
function own_key(line, name, value) {
	if (section != "") { reject(line, name " belongs above the first [section]"); return }
	if (name in once) { reject(line, name " stands in line " once[name] " already"); return }
	if (name == "hostname") {
		if (value !~ /^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$/ || length(value) > 63) { reject(line, "a host name has letters, digits and inner hyphens, at most 63"); return }
		print "H " value
	} else if (name == "filesystem") {
		if (value !~ /^(ext4|f2fs)$/) { reject(line, "takes ext4 or f2fs"); return }
	} else if (name == "sshkey") {
		if (value !~ /^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh\.com|sk-ecdsa-sha2-nistp256@openssh\.com) AAAA[A-Za-z0-9+\/]+=*( .*)?$/ || length(value) < 68) { reject(line, "not an OpenSSH public key; paste the one line of your .pub file"); return }
		print "S " value
	} else if (name == "ip") {
		if (!address(value)) { reject(line, "write an address with its prefix, such as 192.168.1.50/24"); return }
		have_ip = 1
		print "A " value
	} else {
		if (!ipv4(value) && !ipv6(value)) { reject(line, "not an IP address"); return }
		late[++lates] = (name == "gateway" ? "G " : "D ") value
		late_line[lates] = line; late_nr[lates] = NR
	}
	if (name != "sshkey" && name != "dns") once[name] = NR
}
# An option of bitcoind: "" if it may pass, otherwise why not.
function fault(name, value,    bare) {
	bare = name
	if (known != "" && !(bare in is_known)) sub(/^no/, "", bare)
	if (bare in denied) return "not for node.conf: " denied[bare]
	if (known != "" && !(bare in is_known)) return "bitcoind has no option of that name; check the spelling"
	if (bare != name) return value ~ /^[01]$/ ? "" : "a negated option takes 1 or 0"
	if (kind[name] == "ints") {
		if (value !~ /^-?[0-9]+$/ || length(value) > 12 || value + 0 < least[name] + 0 || value + 0 > largest[name] + 0) return "takes a whole number from " least[name] " to " largest[name]
		if (name == "prune" && value + 0 > 1 && value + 0 < 550) return "takes 0 (keep all), 1 (by hand) or at least 550 (MiB)"
	}
	if (kind[name] == "bools" && value !~ /^[01]$/ && !(name == "blockfilterindex" && value == "basic")) return "takes 0 or 1"
	if (name == "chain" && kind[value] != "chains") return "takes main, test, testnet4, signet or regtest"
	if (name ~ /^(minimumchainwork|assumevalid)$/ && value !~ /^(0x)?[0-9a-fA-F]+$/ ) return "takes a hexadecimal number"
	if (name == "onlynet" && value !~ /^(ipv4|ipv6|onion|i2p|cjdns)$/) return "takes ipv4, ipv6, onion, i2p or cjdns"
	if (name ~ /^(connect|addnode|seednode|bind|proxy|onion|i2psam|externalip|whitebind|whitelist)$/ && value !~ /^[][A-Za-z0-9.:\/@,=_-]+$/) return "takes an address, such as 192.168.1.60:8333"
	if (value == "" && name !~ /^(proxy|onion|uacomment)$/) return "has no value"
	return ""
}

{ line = $0; text = $0; hash = sub(/#.*/, "", text); text = trim(text) }
text == "" { next }
length(line) > 4096 { reject(line, "longer than 4096 characters"); next }
text ~ /^\[.*\]$/ {
	section = substr(text, 2, length(text) - 2)
	skipping = kind[section] != "chains"
	if (skipping) reject(line, "unknown section; its lines are ignored, too. Use [main], [test], [testnet4], [signet] or [regtest]")
	else pending = section
	next
}
skipping { reject(line, "stands in an unknown section"); next }
text ~ /^-/ { reject(line, "write the option without the leading hyphen"); next }
text !~ /=/ { reject(line, "there is no '='; write option=value"); next }
{
	name = trim(substr(text, 1, index(text, "=") - 1))
	value = trim(substr(text, index(text, "=") + 1))
	if (name !~ /^[a-z0-9-]+$/) { reject(line, name ~ /\./ ? "write the option below its [section]" : "not an option's name"); next }
	if (name ~ /^(hostname|filesystem|sshkey|ip|gateway|dns)$/ && !(name == "dns" && value ~ /^[01]$/)) { own_key(line, name, value); next }
	why = fault(name, value)
	if (why != "") { reject(line, why); next }
	if (name ~ /^(chain|regtest|signet|testnet|testnet4)$/) {
		if (section != "") { reject(line, "belongs above the first [section]"); next }
		if (value == "0") next
		if (chain_line) { reject(line, "the chain is set in line " chain_line " already"); next }
		chain_line = NR
		print "C " name "=" value
		next
	}
	if (name == "reindex") { if (value == "1") print "O reindex=1"; next }
	if (name == "prune" && prune == "") prune = value
	count++
	kept[count] = name "=" value; kept_name[count] = name; kept_section[count] = section
	kept_line[count] = line; kept_nr[count] = NR; kept_value[count] = value
}
END {
	for (i = 1; i <= lates; i++) {
		NR = late_nr[i]
		if (have_ip) print late[i]
		else reject(late_line[i], "is of use only together with ip=")
	}
	current = ""
	for (i = 1; i <= count; i++) {
		NR = kept_nr[i]
		# A Cairn node prunes unless told not to.
		if (kept_name[i] ~ /^(txindex|txospenderindex|reindex-chainstate)$/ && kept_value[i] == "1" && prune != "0") {
			reject(kept_line[i], kept_name[i] == "reindex-chainstate" ? "a pruned node needs reindex=1 instead" : "needs all blocks, but this node prunes; add prune=0 on a disk of 1 TB or more")
			continue
		}
		if (kept_section[i] != current) { current = kept_section[i]; print "B [" current "]" }
		print "B " kept[i]
	}
}
