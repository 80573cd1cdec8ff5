*** Settings ***
Documentation     What a sync hands to the disk with the data partition on ext4 and on f2fs, on a
...               Buildroot image: make bench-filesystems IMAGE=out/BOARD/cairn-BOARD.img
...               Figures, not tests: an emulated machine's times say nothing, what it writes does.
...               The chain, its coins' cache and the card are those of bench/plan.py and, for the
...               cache, of node.resource. Variable: CHAIN  another one's name there
Resource          ${CURDIR}/../tests/robot/resources/node.resource
Variables         bench.plan
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder

*** Variables ***
${CHAIN}          small
${CONF}           SEPARATOR=\n    networkactive=0    prune=550    ${REGTEST_CONF}

*** Keywords ***
Sync
    [Documentation]    From an empty disk to the chain's end; the coins are the stock daemon's.
    [Arguments]    ${filesystem}    ${chain}
    VAR    ${conf}    filesystem=${filesystem}\n${CONF}
    Start VM    filesystems    ${conf}    feeder=${FEEDER_PORT}
    Node Is Up
    System Is Running
    Should Be Mounted    /var    rw    ${filesystem}
    ${before}=    Traffic Of The Disk
    Guest    node-cli setnetworkactive true
    Wait For Height    ${chain}[height]    7200
    Coins Should Equal The Stock Node's
    Guest    systemctl stop bitcoind
    ${after}=    Traffic Of The Disk
    Record Traffic    a sync on ${filesystem}    ${before}    ${after}    ${SD}[SLOW_LIMITS]

*** Test Cases ***
Ext4 And F2fs
    ${chain}=    Start Bench Feeder    ${FEEDER_PORT}    @{CHAINS}[${CHAIN}]
    Sync    ext4    ${chain}
    Sync    f2fs    ${chain}
