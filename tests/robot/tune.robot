*** Settings ***
Documentation     What node-tune chooses is what bitcoind uses.
Resource          resources/node.resource
Suite Setup       Start VM    tune    memory=1024
Suite Teardown    Kill VM

*** Test Cases ***
Finds What Is There
    [Tags]    smoke
    Node Is Up
    Test Needs    hardware of its own
    ${text}=    Guest    node-tune --explain
    ${total}=    Total Memory
    Should Contain    ${text}    found: ${total} MiB RAM, 2 cores, virtio (vda,
    Should Be True    900 < ${total} <= 1024
    Should Contain    ${text}    initial sync

Bitcoind Uses The Values
    Test Needs    the image's settings
    ${dbcache}=    Tuned    dbcache
    ${cache}=    Cache In Use
    Should Be Equal As Integers    ${cache}    ${dbcache}
    Set Suite Variable    ${SMALL}    ${dbcache}
    ${prune}=    Tuned    prune
    Prune Target Should Be    ${prune}
    ${mempool}=    Tuned    maxmempool
    Mempool Limit Should Be    ${mempool}

A Small Disk Is Reported
    Test Needs    hardware of its own
    Wait For Serial    use a disk of 32 GB or more

Cache Shrinks After The Initial Sync
    Test Needs    data of its own
    ${before}=    Tuned    dbcache
    Guest    touch /var/lib/cairn/initial-sync-done
    Guest    systemctl restart bitcoind
    Node Is Up
    ${after}=    Tuned    dbcache
    Should Be True    ${after} < ${before}

More Memory Gives More Cache And The User Wins
    Start VM    tune2    dbcache=123\n    memory=2048
    Node Is Up
    ${dbcache}=    Tuned    dbcache
    Should Have Grown    ${SMALL}    ${dbcache}    factor=1.3
    ${cache}=    Cache In Use
    Should Be Equal As Integers    ${cache}    123
