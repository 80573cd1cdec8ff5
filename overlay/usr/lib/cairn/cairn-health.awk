# The facts of cairn-health-facts.sh and the counts of cairn-health, one "NAME VALUE" a line, become
# health.json (docs/design/health.schema.json). What has no line, or no value of its kind, is null.
# One key a line and each key once: node-status reads it with sed.

BEGIN {
	# kinds: n whole number, t millidegrees, b true or false, d date
	n_keys = split("uptime_seconds:n temperature_celsius:t temperature_limit_celsius:t" \
		" undervoltage_now:b undervoltage_since_boot:b throttled_now:b throttled_since_boot:b" \
		" boot_firmware_date:d clock_set:b gateway_silent_seconds:n link_restarts:n" \
		" last_link_restart_seconds_ago:n unclean_shutdowns:n counted_since:d running_seconds:n" \
		" written_bytes:n written_bytes_last_day:n filesystem_errors:n", keys, " ")
	split("sd emmc usb nvme virtio hdd sata unknown", words, " ")
	for (i in words) kinds[words[i]] = 1
	split("normal warning urgent", reserves, " ")
}

function whole(value) { return value ~ /^(0|[1-9][0-9]*)$/ && length(value) < 20 }
function typed(kind, value) {
	if (kind == "n" && whole(value)) return value
	if (kind == "t" && value ~ /^-?[0-9]+$/) return sprintf("%.1f", value / 1000)
	if (kind == "b" && value ~ /^(1|true)$/) return "true"
	if (kind == "b" && value ~ /^(0|false)$/) return "false"
	if (kind == "d" && value ~ /^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]$/) return "\"" value "\""
	return "null"
}
function count(value) { return whole(value) ? value : "null" }
function attention(what) { attend = attend (attend == "" ? "" : ", ") "\"" what "\"" }

$1 == "temperature" { $1 = "temperature_celsius" }
$1 == "limit" { $1 = "temperature_limit_celsius" }
$1 != "disk" && NF == 2 { fact[$1] = $2; next }
$1 == "disk" && NF == 9 && $2 ~ /^[a-z0-9]+$/ && length($2) < 32 && $3 in kinds {
	reserve = substr($9, 1, 3) == "0x0" ? reserves[substr($9, 4) + 0] : ""
	lines = lines (lines == "" ? "" : ",\n") "    {\"name\": \"" $2 "\", \"kind\": \"" $3 "\"," \
		" \"data\": " ($4 == "true" ? "true" : "false") "," \
		" \"written_bytes_since_boot\": " count($5) "," \
		" \"failed_commands\": " count($6) ", \"timed_out_commands\": " count($7) "," \
		" \"life_used_percent\": " count($8) "," \
		" \"reserve\": " (reserve == "" ? "null" : "\"" reserve "\"") "}"
	# A tenth of the life left, or most of the spare blocks used
	if (whole($8) && $8 >= 100 || reserve == "warning" || reserve == "urgent") worn[$2] = 1
	if ($4 == "true" && whole($7) && $7 > 0) slow_disk = 1
}

END {
	print "{"
	print "  \"schema\": 1,"
	for (i = 1; i <= n_keys; i++) {
		split(keys[i], key, ":")
		value[key[1]] = typed(key[2], fact[key[1]])
		print "  \"" key[1] "\": " value[key[1]] ","
	}
	if (value["undervoltage_since_boot"] == "true") attention("undervoltage")
	if (value["throttled_now"] == "true") attention("throttled")
	# Raspberry Pi's own limit where Linux has none (docs/design/health.md)
	hot = value["temperature_limit_celsius"]
	if (hot == "null") hot = 80
	if (value["temperature_celsius"] != "null" && value["temperature_celsius"] + 0 >= hot + 0)
		attention("hot")
	# the first answers of time servers take a while
	if (value["clock_set"] == "false" && value["uptime_seconds"] + 0 >= 600) attention("clock")
	if (value["filesystem_errors"] + 0 > 0) attention("filesystem-errors")
	if (slow_disk) attention("disk-timeouts")
	for (name in worn) attention("disk-worn:" name)
	if (value["gateway_silent_seconds"] + 0 >= 180 || (value["link_restarts"] + 0 > 0 && \
		value["last_link_restart_seconds_ago"] + 0 < 86400)) attention("link")
	print "  \"attention\": [" attend "],"
	print "  \"disks\": [" (lines == "" ? "]" : "\n" lines "\n  ]")
	print "}"
}
