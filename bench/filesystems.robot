*** Settings ***
Documentation     What a sync hands to the disk with the data partition on ext4 and on f2fs, on a
...               Buildroot image: make bench-filesystems IMAGE=out/BOARD/cairn-BOARD.img
...               Figures, not tests: an emulated machine's times say nothing, what it writes does.
...               The chain, its coins' cache and the card are those of bench/plan.py and, for the
...               cache, of node.resource. Variable: CHAIN  another one's name there
Resource          ${CURDIR}/../tests/robot/resources/node.resource
Variables         bench.plan
Variables         lab.limits
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder

*** Variables ***
${CHAIN}          small
${CONF}           SEPARATOR=\n    networkactive=0    prune=550    ${REGTEST_CONF}
&{CARD}           &{{dict(limit.split('=') for limit in $SD['SLOW_LIMITS'].split(','))}}

*** Keywords ***
Traffic
    [Documentation]    What the disk was asked for so far (lab/limits.py).
    ${stat}=    Guest    sync && cat /sys/block/vda/stat
    RETURN    ${{ $Traffic.parse($stat) }}

Sync
    [Documentation]    From an empty disk to the chain's end; the coins are the stock daemon's.
    [Arguments]    ${filesystem}    ${chain}
    VAR    ${conf}    filesystem=${filesystem}\n${CONF}
    Start VM    filesystems    ${conf}    feeder=${FEEDER_PORT}
    Node Is Up
    System Is Running
    Guest    grep -q ' /var ${filesystem} rw' /proc/mounts
    ${before}=    Traffic
    Guest    node-cli setnetworkactive true
    Wait For Height    ${chain}[height]    7200
    Coins Should Equal The Stock Node's
    Guest    systemctl stop bitcoind
    ${after}=    Traffic
    VAR    ${spent}    ${{ $after - $before }}
    VAR    ${writing}    ${{ $spent.writes / int($CARD['iops-write']) }}
    VAR    ${least}    ${{ max($writing, $spent.written / int($CARD['bps-write'])) }}
    VAR    &{figures}    MiB=${{ $spent.written / $MIB }}    write requests=${spent.writes}
    ...    flushes=${spent.flushes}
    ...    s at least on a card=${least}
    FOR    ${unit}    ${value}    IN    &{figures}
        Record Figure    a sync on ${filesystem}, ${unit}    ${value}    ${unit}
        Log To Console    \n${filesystem}: ${{ round($value) }} ${unit}    no_newline=${True}
    END

*** Test Cases ***
Ext4 And F2fs
    ${chain}=    Start Bench Feeder    ${FEEDER_PORT}    @{{$CHAINS[$CHAIN]}}
    FOR    ${filesystem}    IN    ext4    f2fs
        Sync    ${filesystem}    ${chain}
    END
