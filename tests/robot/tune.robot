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
    Should Contain    ${text}    not measured: nothing depends on it for virtio
    Files Should Not Exist    /var/lib/cairn/probe/result

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

A Disk Where It Matters Is Measured
    [Documentation]    How fast the host's disk is, and what it counts as, does not matter here.
    ...    Where the host is too busy for it at the boot, nothing fails, and it is done later.
    Start VM    probe    measured=${True}
    Node Is Up
    System Is Running
    ${seconds}=    Seconds To Start    cairn-probe
    Record Figure    measuring the data disk, at the boot    ${seconds}    s
    Measure The Disk Patiently
    ${text}=    Guest    node-tune --explain
    Should Match Regexp    ${text}
    ...    (?m)^measured: writes [0-9.]+ MiB/s, [0-9]+ reads of 4 KiB a second, [0-9.]+ ms for a
    ${log}=    Journal Of    cairn-probe
    Should Contain X Times    ${log}    was measured    1

Little Is Written And Nothing Is Left
    ${written}=    Measured    written_kib
    Should Be True    0 < ${written} <= 112 * 1024
    Files Should Not Exist    /var/lib/cairn/probe/trial    /run/cairn/probe/doing
    Mode Should Be    /var/lib/cairn/probe    755 cairn-probe cairn-probe
    Mode Should Be    /var/lib/cairn/probe/result    644 cairn-probe cairn-probe
    Exposure Should Be At Most    cairn-probe    2.0

It Is Measured Once
    ${before}=    File Number    /var/lib/cairn/probe/result
    # As after a power cut in the middle
    Write File    /var/lib/cairn/probe/trial    half
    Guest    systemctl restart bitcoind
    Node Is Up
    Reboot
    Node Is Up
    ${after}=    File Number    /var/lib/cairn/probe/result
    Should Be Equal    ${before}    ${after}
    Journal Should Not Contain    cairn-probe    measured
    Files Should Not Exist    /var/lib/cairn/probe/trial
    ${text}=    Guest    node-tune --explain
    Should Contain    ${text}    measured: writes

A Result That Cannot Be Used Does Not Count
    Write File    /var/lib/cairn/probe/result    write_kib_per_s=99999999
    ${text}=    Guest    node-tune --explain
    Should Contain    ${text}    not measured: there is no result for this disk
