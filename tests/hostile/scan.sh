#!/bin/sh
# Three machines: the node, with the firewall that the script makes; a neighbour in its network,
# who is its router, too; and one in the Internet. For test_firewall_scan.py; as root, below
# `unshare --net --mount`.
#
# usage: scan.sh ROOT FIREWALL SCANNER
#   ROOT      node-conf.records and bitcoin.conf are below it
#   FIREWALL  command with its shell
#   SCANNER   scan.py with its interpreter
# Output: the scanner's lines
# shellcheck disable=SC2086 # $scanner and $firewall are commands with words
set -eu
root=$1 firewall=$2 scanner=$3
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
near() { ip netns exec near "$@"; }
far() { ip netns exec far "$@"; }
ip netns add near
ip netns add far
ip link add end0 type veth peer name lan
ip link set lan netns near
near ip link add wan type veth peer name end1
near ip link set end1 netns far
ip link set lo up
near ip link set lo up
# so that there is nothing to wait for before an address may be used
for port in default all; do
	echo 0 >/proc/sys/net/ipv6/conf/$port/accept_dad
	near sh -c "echo 0 >/proc/sys/net/ipv6/conf/$port/accept_dad"
	far sh -c "echo 0 >/proc/sys/net/ipv6/conf/$port/accept_dad"
done
ip link set end0 up
near ip link set lan up
near ip link set wan up
far ip link set end1 up
near sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
for address in 192.168.1.50/24 fd00:1::50/64 2001:db8:5::50/64; do
	ip address add $address dev end0
done
for address in 192.168.1.1/24 192.168.1.2/24 fd00:1::1/64 2001:db8:5::1/64; do
	near ip address add $address dev lan
done
near ip address add 203.0.113.1/24 dev wan
near ip address add 2001:db8:1::1/64 dev wan
far ip address add 203.0.113.9/24 dev end1
far ip address add 2001:db8:1::9/64 dev end1
ip route add default via 192.168.1.1
ip -6 route add default via fd00:1::1
far ip route add default via 203.0.113.1
far ip -6 route add default via 2001:db8:1::1
link=$(ip -o -6 address show dev end0 scope link | awk '{ sub(/\/.*/, "", $4); print $4 }')

$scanner listen 22,53,80,111,443,8080,8332,8333,8334,9050,18443,28332 \
	53,68,111,123,546,1900,5353,5355,8333 >/run/listening &
listening=$!
trap 'kill $listening' EXIT
ip netns exec far $scanner listen 80 53 >/run/there &
there=$!
trap 'kill $listening $there' EXIT
: >>/run/listening
: >>/run/there
until grep -q ready /run/listening && grep -q ready /run/there; do sleep 0.1; done

$scanner connect out-before 203.0.113.9 80 1
$firewall --root "$root"
# global6: by an address of the Internet, though it is in the same network
near $scanner scan near4 192.168.1.50 + scan near4-67 192.168.1.50 67 + scan near6 fd00:1::50 \
	+ scan link6 "$link%lan" + scan global6 2001:db8:5::50 + ping link6 "$link%lan" 100
far $scanner scan far4 192.168.1.50 + scan far6 2001:db8:5::50 + ping far4 192.168.1.50 100
$scanner scan loopback 127.0.0.1 + connect out 203.0.113.9 80 1
near $scanner connect often fd00:1::50 22 40
# all at once, and the same again when they are gone: who has many connections, and who had
near $scanner connect crowd4 192.168.1.50 80 60 192.168.1.2 + connect crowd6 fd00:1::50 80 60
near $scanner connect after4 192.168.1.50 80 30 + connect after6 fd00:1::50 80 30
# node.conf was not read: the strictest rules, and nothing leaves
mv "$root/run/cairn/node-conf.records" "$root/run/cairn/other"
$firewall --root "$root" 2>/dev/null
near $scanner scan strict4 192.168.1.50 + scan strict6 fd00:1::50
$scanner connect out-strict 203.0.113.9 80 1
