#!/bin/sh
# A network in which a router announces a prefix, and the real systemd-networkd with the
# image's settings in it. For test_network.py; as root, below `unshare --net --mount --uts`.
#
# usage: slaac.sh NETWORK_DIR RUN_DIR
#   NETWORK_DIR  stands in for /usr/lib/systemd/network
#   RUN_DIR      its content is copied to /run/systemd/network
# Output: the addresses of the port, whose MAC address is 52:54:00:12:34:56; and "DHCPv6 is asked"
# if the node asks the router, which announces that it may, with "by attic" if it tells its name;
# and "names are asked of" with the DNS servers
set -eu
mount -t tmpfs tmpfs /run
# Where /sys is read-only networkd does not wait for udev.
mount -t sysfs -o ro sysfs /sys
mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases /run/netns
chown -R systemd-network:systemd-network /run/systemd/netif
mount --bind "$1" /usr/lib/systemd/network
cp -R "$2/." /run/systemd/network/
echo attic >/proc/sys/kernel/hostname
ip link set lo up
ip netns add router
ip link add eth0 address 52:54:00:12:34:56 type veth peer name rt0
ip link set rt0 netns router
ip -n router link set rt0 up
ip -n router address add 2001:db8:1::1/64 dev rt0
ip netns exec router python3 -c '
import socket, struct
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as asked:
    asked.bind(("::", 547))
    group = socket.inet_pton(socket.AF_INET6, "ff02::1:2")
    port = struct.pack("@I", socket.if_nametoindex("rt0"))
    asked.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group + port)
    print("DHCPv6 is asked" + " by attic" * (b"attic" in asked.recv(1500)), flush=True)
' &
server=$!
/usr/lib/systemd/systemd-networkd >/run/networkd.log 2>&1 &
networkd=$!
trap 'kill "$networkd" "$server" 2>/dev/null || :' EXIT
tries=0
until ip -6 address show dev eth0 scope global | grep -q 2001:db8:1:; do
	tries=$((tries + 1))
	if [ $tries -gt 30 ]; then
		cat /run/networkd.log >&2
		exit 1
	fi
	# type 134, hop limit 64, there is DHCPv6, router for 1800 s; option 3: 2001:db8:1::/64, on the
	# link, for addresses, valid for a day, preferred for four hours; option 25: the DNS server
	# 2001:db8:1::53, for a day. The kernel adds the checksum.
	ip netns exec router python3 -c '
import socket
port = socket.if_nametoindex("rt0")
with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as raw:
    raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
    prefix = "0304 40c0 00015180 00003840 00000000 20010db8000100000000000000000000"
    server = "1903 0000 00015180 20010db8000100000000000000000053"
    message = bytes.fromhex("8600 0000 40c0 0708 00000000 00000000" + prefix + server)
    raw.sendto(message, ("ff02::1", 0, 0, port))
' 2>/dev/null || :
	sleep 0.5
done
# the first question comes within a second (RFC 8415, SOL_MAX_DELAY), on a busy machine later
sleep 4
ip -o -6 address show dev eth0
sed -n 's/^DNS=/names are asked of /p' /run/systemd/netif/links/*
