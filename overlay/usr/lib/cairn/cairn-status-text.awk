# The figures as a person reads them, for cairn-status.awk. POSIX awk.

# 402,113
function grouped(n,    out) {
	n = sprintf("%.0f", n)
	while (length(n) > 3) { out = "," substr(n, length(n) - 2) out; n = substr(n, 1, length(n) - 3) }
	return n out
}
function several(n, word) { return grouped(n) " " word (n == 1 ? "" : "s") }
# Sizes as makers of disks count them
function size(bytes) {
	bytes += 0 # as a string it would be compared as one
	if (bytes >= 1e12) return sprintf("%.1f TB", bytes / 1e12)
	if (bytes >= 1e9) return sprintf("%.1f GB", bytes / 1e9)
	if (bytes >= 1e6) return sprintf("%.0f MB", bytes / 1e6)
	return sprintf("%.0f kB", bytes / 1e3)
}
# "about 31 hours": an estimate has no more digits than that
function duration(seconds) {
	seconds += 0
	if (seconds < 90) return "about a minute"
	if (seconds < 90 * 60) return "about " several(int(seconds / 60 + 0.5), "minute")
	if (seconds < 48 * 3600) return "about " several(int(seconds / 3600 + 0.5), "hour")
	return "about " several(int(seconds / 86400 + 0.5), "day")
}
function percent(part) {
	part = part * 100
	if (part > 99.99 && part < 100) part = 99.99
	return sprintf("%.2f %%", part)
}
function uptime_text(seconds) {
	return sprintf("%d d %d:%02d h", seconds / 86400, seconds % 86400 / 3600, seconds % 3600 / 60)
}

# The one sentence. An answer that is late leaves the last figures in place.
function sentence(    out) {
	if (state == "starting") return "Starting: " (detail == "" ? "please wait" : detail) "."
	if (state == "measuring")
		return "Starting: measuring the data disk, once, 20 seconds at most (" detail ")."
	if (state == "stopping") return "Stopping: do not pull the plug until the node is off."
	if (state == "stopped") return "The node is not running" \
		(warned ? "; the reason is below." : ".")
	if (state == "busy") return "The node is busy and does not answer at the moment" \
		(whole(known["blocks"]) ? "; it was at block " grouped(known["blocks"]) "." : ".")
	if (state == "tip") return "Up to date: block " grouped(blocks) "."
	if (state == "behind") return "Catching up: " several(headers - blocks, "block") " behind."
	if (blocks == 0) return "Synchronising: reading the list of all blocks, " \
		grouped(headers) " so far."
	out = (state == "rebuilding" ? "Rebuilding a damaged database" : "Synchronising") ": block " \
		grouped(blocks) " of " grouped(headers)
	return out (left == "null" ? "." : ", " duration(left) " left.")
}

function peers_text(    i, words, names, n, out) {
	if (!answered) return ""
	if (!peers) return "none; the node looks for some"
	n = split("ipv4 ipv6 onion i2p cjdns other", words, " ")
	split("IPv4,IPv6,Tor,I2P,CJDNS,other networks", names, ",")
	for (i = 1; i <= n; i++) if (by_network[words[i]])
		out = out (out == "" ? "" : ", ") by_network[words[i]] " over " names[i]
	return peers ": " out "; " peers_in " came in"
}
function put_text(name, value) { shown[name] = value; order[++texts] = name }

# All that page and template show, by name
function texts_of_all(    fee) {
	put_text("sentence", sentence())
	put_text("hostname", fact["hostname"] == "" ? "cairn" : fact["hostname"])
	put_text("chain", answered ? chain["chain"] (chain["pruned"] == "true" ? ", pruned" : "") : "")
	put_text("blocks", answered ? grouped(blocks) " of " grouped(headers) : "")
	put_text("progress", answered ? percent(progress) : "")
	put_text("progress_number", answered ? sprintf("%.2f", progress * 100) : "0")
	put_text("left", state == "tip" ? "none" : left == "null" ? "" : duration(left))
	put_text("block_files", whole(chain["size_on_disk"]) ? size(chain["size_on_disk"]) : "")
	put_text("peers", peers_text())
	fee = decimal(pool["mempoolminfee"]) ? \
		sprintf("; takes %.2f sat/vB and more", pool["mempoolminfee"] * 100000) : ""
	put_text("mempool", whole(pool["size"]) ? several(pool["size"], "transaction") ", " \
		size(pool["usage"]) " of " size(pool["maxmempool"]) " memory" fee : "")
	put_text("disk", data_size ? size(data_free) " of " size(data_size) " free" : "")
	put_text("wear", whole(wear) ? "at most " wear " % of its life used" : "the disk does not tell")
	put_text("written", whole(machine["written_bytes"]) ? size(machine["written_bytes"]) \
		(machine["counted_since"] ~ /^[0-9]/ ? " since " machine["counted_since"] : "") \
		(whole(machine["written_bytes_last_day"]) ? ", " size(machine["written_bytes_last_day"]) \
		" in a day" : "") : "")
	put_text("memory", whole(fact["memory_size_kib"]) ? size(fact["memory_available_kib"] * 1024) \
		" of " size(fact["memory_size_kib"] * 1024) " free" : "")
	put_text("temperature", decimal(machine["temperature_celsius"]) ? \
		sprintf("%.0f \302\260C", machine["temperature_celsius"]) : "")
	put_text("power", machine["undervoltage_since_boot"] == "true" ? \
		"too weak for a moment since the start" : \
		machine["undervoltage_since_boot"] == "false" ? "good since the start" : "not measured")
	put_text("unclean", whole(machine["unclean_shutdowns"]) ? machine["unclean_shutdowns"] \
		(machine["counted_since"] ~ /^[0-9]/ ? " since " machine["counted_since"] : "") : "")
	put_text("version", fact["version"])
	put_text("core_version", net["subversion"])
	put_text("kernel_version", fact["kernel_version"])
	put_text("firmware", machine["boot_firmware_date"] ~ /^[0-9]/ ? machine["boot_firmware_date"] : "")
	put_text("uptime", uptime_text(fact["uptime_seconds"]))
}
