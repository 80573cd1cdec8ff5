*** Settings ***
Documentation     What a sync hands to the disk with the data partition on ext4 and on f2fs, on a
...               Buildroot image: make bench-filesystems IMAGE=out/x86_64/cairn-x86_64.img
...               Figures, not tests: an emulated machine's times say nothing, what it writes does.
...               Variables: CHAIN  options of support/chaingen, default those of the scenarios with
...               a small cache (bench/plan.py), DBCACHE  MiB
Resource          ${CURDIR}/../tests/robot/resources/node.resource
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder

*** Variables ***
@{CHAIN}          -blocks=500    -utxos=750000
${DBCACHE}        4
${CONF}           SEPARATOR=\n    regtest=1    networkactive=0    prune=550    dbcache=${DBCACHE}    keypool=5    dnsseed=0    maxtipage=2000000000    [regtest]    connect=10.0.2.100:8333    ${EMPTY}
# The card of bench/plan.py: write requests and bytes a second
${REQUESTS}       700
${BYTES}          25000000

*** Keywords ***
Disk
    [Documentation]    So far: write requests, sectors of 512 bytes written, flushes (the kernel's
    ...    Documentation/block/stat.rst).
    ${answer}=    Guest    sync && awk '{ print $5, $7, $16 }' /sys/block/vda/stat
    ${numbers}=    Evaluate    [int(word) for word in $answer.split()]
    RETURN    ${numbers}

Sync
    [Documentation]    From an empty disk to the chain's end; the coins are the stock daemon's.
    [Arguments]    ${filesystem}    ${chain}
    VAR    ${conf}    filesystem=${filesystem}\n${CONF}
    Start VM    filesystems    ${conf}    feeder=${FEEDER_PORT}
    Node Is Up
    System Is Running
    Guest    grep -q ' /var ${filesystem} rw' /proc/mounts
    ${before}=    Disk
    Guest    node-cli setnetworkactive true
    Wait For Height    ${chain}[height]    7200
    Coins Should Equal The Stock Node's
    Guest    systemctl stop bitcoind
    ${after}=    Disk
    ${requests}    ${sectors}    ${flushes}=    Evaluate    [now - then for now, then in zip($after, $before)]
    VAR    &{figures}    MiB=${{ $sectors / 2048 }}    write requests=${requests}    flushes=${flushes}
    ...    s at least on a card=${{ max($requests / int($REQUESTS), $sectors * 512 / int($BYTES)) }}
    FOR    ${unit}    ${value}    IN    &{figures}
        Record Figure    a sync on ${filesystem}, ${unit}    ${value}    ${unit}
        Log To Console    \n${filesystem}: ${{ round($value) }} ${unit}    no_newline=${True}
    END

*** Test Cases ***
Ext4 And F2fs
    ${chain}=    Start Bench Feeder    ${FEEDER_PORT}    @{CHAIN}
    FOR    ${filesystem}    IN    ext4    f2fs
        Sync    ${filesystem}    ${chain}
    END
