*** Settings ***
Documentation     What node-tune chooses is what bitcoind uses.
Resource          resources/node.resource
Suite Teardown    Kill VM

*** Keywords ***
Tuned
    [Documentation]    A value of tuned.conf.
    [Arguments]    ${name}
    ${value}=    Guest    sed -n 's/^${name}=//p' /run/bitcoind/tuned.conf
    RETURN    ${value}

Cache In Use
    [Documentation]    bitcoind's database caches, as its log adds them up, in MiB.
    VAR    ${script}    journalctl -b --no-pager -o cat -u bitcoind | sed -n 's/.*[*] Using
    ...    \\([0-9.]*\\) MiB for .*/\\1/p' | awk '{ s += $1 } END { print int(s + 0.5) }'
    ${sum}=    Guest    ${script}
    RETURN    ${sum}

*** Test Cases ***
Finds What Is There
    [Tags]    smoke
    Start VM    tune    memory=1024
    Node Is Up
    ${text}=    Guest    node-tune --explain
    ${total}=    Guest    awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo
    Should Contain    ${text}    found: ${total} MiB RAM, 2 cores, virtio (vda,
    Should Be True    900 < ${total} <= 1024
    Should Contain    ${text}    initial sync

Bitcoind Uses The Values
    ${dbcache}=    Tuned    dbcache
    ${cache}=    Cache In Use
    Should Be Equal    ${cache}    ${dbcache}
    Set Suite Variable    ${SMALL}    ${dbcache}
    ${prune}=    Tuned    prune
    ${chain}=    Node    getblockchaininfo
    Should Be Equal As Integers    ${chain}[prune_target_size]    ${${prune} * 1048576}
    ${mempool}=    Tuned    maxmempool
    ${info}=    Node    getmempoolinfo
    Should Be Equal As Integers    ${info}[maxmempool]    ${${mempool} * 1000000}

A Small Disk Is Reported
    Wait For Serial    use a disk of 32 GB or more

Cache Shrinks After The Initial Sync
    ${before}=    Tuned    dbcache
    Guest    touch /var/lib/cairn/initial-sync-done; systemctl restart bitcoind
    Node Is Up
    ${after}=    Tuned    dbcache
    Should Be True    ${after} < ${before}

More Memory Gives More Cache And The User Wins
    Start VM    tune2    dbcache=123\n    memory=2048
    Node Is Up
    ${dbcache}=    Tuned    dbcache
    Should Be True    ${dbcache} > 1.3 * ${SMALL}
    ${cache}=    Cache In Use
    Should Be Equal As Integers    ${cache}    123
