#!/bin/sh
# Two nodes and a computer in one network, each a namespace; the real systemd-resolved announces the
# nodes' name, behind the firewall's rules. For test_two_names.py; as root, below
# `unshare --net --mount --uts`.
#
# usage: two_names.sh RESOLVED RULES ASKER
#   RESOLVED  the program systemd-resolved
#   RULES     file for nft
#   ASKER     mdns.py with its interpreter
# Output: the asker's lines, after a heading each; what systemd-resolved said of the name
set -eu
# shellcheck disable=SC2086 # $asker is a command with words
resolved=$1 rules=$2 asker=$3
mount -t tmpfs tmpfs /run
mkdir -p /run/netns /run/first /run/second
ip netns add first
ip netns add second
ip link add bridge type bridge mcast_snooping 0
for name in first second; do
	ip link add lan-$name type veth peer name end0
	ip link set end0 netns $name
	ip link set lan-$name master bridge up
done
ip address add 192.168.1.2/24 dev bridge
ip link set bridge up
ip link set lo up

# node NAME ADDRESS: a machine that is named cairn, with this address
node() {
	# shellcheck disable=SC2016 # the inner shell's own
	ip netns exec "$1" unshare --mount --uts sh -euc '
		mount --bind /run/$1 /run
		hostname cairn
		ip link set lo up
		ip address add $2/24 dev end0
		ip link set end0 up
		nft -f "$4"
		mkdir -p /run/systemd/resolved.conf.d /run/systemd/dnssd /run/systemd/netif/links \
			/run/systemd/resolve
		printf "[Resolve]\nMulticastDNS=yes\nLLMNR=no\nDNSStubListener=no\nFallbackDNS=\n" \
			>/run/systemd/resolved.conf.d/mdns.conf
		printf "[Service]\nName=%%H\nType=_http._tcp\nPort=80\n" >/run/systemd/dnssd/page.dnssd
		# as systemd-networkd has it for a port of ours
		number=$(cat /sys/class/net/end0/ifindex 2>/dev/null || ip -o link show end0 | cut -d: -f1)
		printf "ADMIN_STATE=configured\nOPER_STATE=routable\nMDNS=yes\nLLMNR=no\n" \
			>/run/systemd/netif/links/$number
		chown -R nobody /run/systemd/resolve
		export SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_COLOR=0
		# the user systemd-resolve need not exist here
		exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all,+net_raw \
			--ambient-caps=-all,+net_raw --bounding-set=-all,+net_raw "$3"
	' node "$1" "$2" "$resolved" "$rules" >"/run/$1.log" 2>&1 &
	last=$! pids="$pids $!" # each replaces itself by the next, up to systemd-resolved
}
# said FILE WORDS: waits for a line of a log, for a minute and a half
said() {
	for _ in $(seq 90); do
		! grep -q "$2" "$1" || return 0
		sleep 1
	done
	cat "$1" >&2
	return 1
}
# answered NAME: asks until somebody answers, nine times at most; a busy machine announces late
answered() {
	for _ in 1 2 3 4 5 6 7 8 9; do
		answer=$($asker "$1")
		[ -z "$answer" ] || break
	done
	echo "$answer"
}
pids=""
trap 'kill $pids 2>/dev/null || :' EXIT
node first 192.168.1.50
echo "one node:"
answered cairn.local
node second 192.168.1.51
said /run/second.log 'Hostname conflict'
echo "two nodes:"
sed -n "s/.*changing published hostname from '\(.*\)' to '\(.*\)'.*/\1 \2/p" /run/second.log
name=$(sed -n "s/.*changing published hostname .* to '\(.*\)'.*/\1/p" /run/second.log |
	tail -n 1)
sleep 3
$asker cairn.local
answered "$name.local"
# what cairn-name does then
nsenter --target "$last" --uts hostname "$name"
sleep 5
echo "pages:"
$asker _http._tcp.local
grep -h "onflict" /run/first.log | sed "s/^/first: /" || :
