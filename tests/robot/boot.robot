*** Settings ***
Documentation     From power on to a node that answers, and again.
Resource          resources/node.resource
Suite Setup       Start VM    boot    screen=${True}
Suite Teardown    Kill VM

*** Test Cases ***
Reaches Multi User With No Failed Unit
    [Tags]    smoke
    System Is Running
    Guest    systemctl is-active multi-user.target

RPC Comes Up
    [Tags]    smoke
    Node Is Up
    ${seconds}=    Guest    cut -d. -f1 /proc/uptime
    Record Figure    boot to RPC, first boot    ${seconds}    s
    ${chain}=    Node    getblockchaininfo
    Should Be Equal    ${chain}[chain]    main
    Should Be True    ${chain}[pruned]

Memory Is Recorded
    [Documentation]    In use: neither free, also not on the processors' own lists of free pages
    ...    (MemFree leaves those out), nor cache of files. Of bitcoind its own pages count.
    System Is Running
    VAR    ${script}    awk '/^RssAnon/ { print int($2 / 1024) }' /proc/$(systemctl show bitcoind -p
    ...    MainPID | cut -d= -f2)/status
    ${daemon}=    Guest    ${script}
    VAR    ${script}    awk '/^MemTotal/ { n = $2 } /^(MemFree|Buffers|Cached|SReclaimable):/ { n -=
    ...    $2 } END { print int(n / 1024) }' /proc/meminfo
    ${used}=    Guest    ${script}
    ${lists}=    Guest
    ...    awk '/^ +count:/ { n += $2 } END { print int(n * 4 / 1024) }' /proc/zoneinfo
    Record Figure    memory of bitcoind before it syncs    ${daemon}    MiB
    Record Figure    memory of everything but bitcoind
    ...    ${{ int($used) - int($lists) - int($daemon) }}    MiB
    Should Be True    ${daemon} > 0 and ${used} > ${daemon}

Root Is Read Only
    Guest    grep -E '^[^ ]+ / [a-z0-9]+ ro[, ]' /proc/mounts
    ${result}=    Guest Result    touch /usr/x /etc/x
    Should Not Be Equal As Integers    ${result.status}    0
    Should Contain    ${result.stderr}    Read-only

Data Partition Takes The Rest Of The Disk
    ${mib}=    Guest    df -Pm /var | awk 'NR == 2 { print $2 }'
    Should Be True    ${mib} > 6000
    Guest    grep -E '^[^ ]+ /var [a-z0-9]+ rw' /proc/mounts

Status Screen Is On The Console
    [Tags]    smoke
    Wait For Serial    === Cairn node cairn ===
    Wait For Serial    blocks
    Wait For Serial    settings

Nobody Is Asked To Log In
    ${log}=    Serial Log
    Should Not Contain    ${log}    login:
    ${gettys}=    Guest    cat /proc/[0-9]*/comm | grep -E 'getty|login|sulogin' || true
    Should Not Match Regexp    ${gettys}    (?m)^(agetty|getty|login|sulogin)$

Watchdog Is Asked For
    ${time}=    Property Of    ${EMPTY}    RuntimeWatchdogUSec
    Should Be Equal    ${time}    15s

Storage Rules Are In Force
    ${scheduler}=    Guest    cat /sys/block/vda/queue/scheduler
    Should Contain    ${scheduler}    [none]
    ${ahead}=    Guest    cat /sys/block/vda/queue/read_ahead_kb
    Should Be Equal As Integers    ${ahead}    64

Swap Is Compressed Memory Only
    ${swaps}=    Guest    awk 'NR > 1 { print $1 }' /proc/swaps
    Should Be Equal    ${swaps}    /dev/zram0

Memory Settings Are In Force
    VAR    ${script}    cat /proc/sys/vm/swappiness /proc/sys/vm/page-cluster /proc/sys/kernel/panic
    ...    | tr '\\n' ' '
    ${values}=    Guest    ${script}
    Should Be Equal    ${values.strip()}    100 0 10
    ${dirty}=    Guest    cat /proc/sys/vm/dirty_bytes
    Should Be True    ${dirty} > 16000000

Nobody On The Network Decides On Routes
    [Documentation]    Each port and family; systemd-networkd does not undo it.
    VAR    ${script}    cd /proc/sys/net; grep -H . ipv4/conf/*/accept_redirects
    ...    ipv4/conf/*/secure_redirects ipv4/conf/*/send_redirects ipv4/conf/*/accept_source_route
    ...    ipv6/conf/*/accept_redirects ipv6/conf/*/accept_source_route | grep -v ':0$' || true
    ${on}=    Guest    ${script}
    Should Be Empty    ${on}

No Address Carries The MAC
    ${addresses}=    Guest    ip -o -6 addr show scope link
    Should Contain    ${addresses}    fe80:
    ${all}=    Guest    ip -o -6 addr show
    Should Not Contain    ${all}    ff:fe
    ${temporary}=    Guest    cat /proc/sys/net/ipv6/conf/e*/use_tempaddr
    Should Be Equal    ${temporary}    2

Second Boot Keeps The Data
    Guest    echo kept >/var/lib/cairn/marker && sync
    Reboot
    System Is Running
    Node Is Up
    ${seconds}=    Guest    cut -d. -f1 /proc/uptime
    Record Figure    boot to RPC, second boot    ${seconds}    s
    ${marker}=    Guest    cat /var/lib/cairn/marker
    Should Be Equal    ${marker}    kept
    ${fsck}=    Guest    journalctl -b --no-pager -o cat -u 'systemd-fsck@*'
    Should Not Contain    ${fsck}    UNEXPECTED
