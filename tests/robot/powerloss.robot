*** Settings ***
Documentation     Power cuts on a disk with a volatile cache (docs/develop/power-loss-tests.md).
...               What was flushed survives; of the rest anything may, in any order, torn.
...               The blocks come from three peers, out of order (lab/peers.py).
...               Variables: CUTS  cuts for each engine during sync, SEED  of moments and outcomes,
...               TO_THE_TOP  go on to the last block after the last cut,
...               FILESYSTEM  ext4 or f2fs (f2fs on Buildroot's images only)
Library           ${CURDIR}/lib/PowerLoss.py
Library           ${CURDIR}/lib/Wallets.py
Resource          resources/node.resource
Suite Setup       Start Main Feeder
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder
Test Teardown     Run Keyword If Test Failed    Show What The Node Said

*** Variables ***
${CUTS}           1
${SEED}           1
${TO_THE_TOP}     ${False}
${FILESYSTEM}     ext4
${MACHINE}        powerloss
${SMP}            2
# Two more peers than INITIAL_CONF's, as the guest sees them.
${MORE_PEERS}     connect=10.0.2.100:8334\nconnect=10.0.2.100:8335
# Few keys, for making them takes an emulated processor long. Small block files: blocks that come
# early are in later ones than the tip's. A small cache and small batches are written often; LMDB's
# file grows by the smallest step and is compacted at each start.
${LOSS_CONF}      SEPARATOR=\n
...               ${INITIAL_CONF}${MORE_PEERS}    fastprune=1    prune=550    dbcache=4
...               dbbatchsize=20000    keypool=5    filesystem=${FILESYSTEM}    ${EMPTY}
# A wallet that watches old coins needs all blocks. Those that are in no file are the ones more than
# two weeks of blocks below the top, up to height 12114, and of the initial sync only.
${STORED}         blocksinmemory=0\nmaxtipage=2000000000\n
${IN_NO_FILE}     blocksinmemory=64\n
${LEVELDB_CONF}   dbbackend=leveldb\n
${LMDB_CONF}      dbbackend=lmdb\ndbmapsize=1\ndbcompact=1\n
# Each block has a file of its own.
${BENCH_CONF}     SEPARATOR=\n    fastprune=1    prune=1    ${REGTEST_CONF}${MORE_PEERS}    ${EMPTY}

*** Keywords ***
Start Main Feeder
    ${ports}=    Ports Of Peers    ${FEEDER_PORT}    3
    VAR    ${PEERS}    ${ports}    scope=SUITE
    Start Feeder    ${FEEDER_PORT}    peers=${PEERS}    seed=${SEED}

Start Machine
    [Documentation]    A text with an equals sign needs a variable: else it is taken for an option.
    [Arguments]    ${conf}    &{options}
    Start VM    ${MACHINE}    ${conf}    feeder=${PEERS}    volatile=${True}    seed=${SEED}
    ...    smp=${SMP}    &{options}

Sync With Power Cuts
    [Documentation]    After each cut the node goes on by itself, with all that was known to be
    ...    flushed. The first cut is during the first boot, after these words on the console.
    [Arguments]    ${engine}    ${conf}    ${words}    ${policy}
    Begin To Sync    ${LOSS_CONF}${STORED}${conf}    ${words}    ${policy}
    Make Wallets
    VAR    ${AT_THE_TOP}    Balance Should Be That Of The Coins    scope=TEST
    Survive Cuts    ${engine}

Sync Blocks In No File With Power Cuts
    [Documentation]    The same, with a wallet that is younger than the blocks.
    [Arguments]    ${engine}    ${conf}    ${words}    ${policy}
    Begin To Sync    ${LOSS_CONF}${IN_NO_FILE}${conf}    ${words}    ${policy}
    Make Wallet
    VAR    ${AT_THE_TOP}    No Operation    scope=TEST
    Survive Cuts    ${engine}

Begin To Sync
    [Arguments]    ${conf}    ${words}    ${policy}
    Start Machine    ${conf}    wait=${False}
    Cut Power When The Console Shows    ${words}    ${policy}
    Wait Until It Answers
    Node Is Up
    System Is Running

Survive Cuts
    [Arguments]    ${engine}
    ${flushed}=    Coins Should Equal The Stock Node's
    Begin Cuts    ${engine}    ${FILESYSTEM}    seed=${SEED}    flushed=${flushed}
    Repeat Keyword    ${CUTS} times    Survive A Cut
    Run Keyword If    ${TO_THE_TOP}    Go On To The Top

Survive A Cut
    Cut Power At The Next Aim
    Recover
    Wallets Should Be Whole
    Use Wallet

Go On To The Top
    Wait For Height    ${TOP}    600
    Coins Should Equal The Stock Node's At The Top
    Run Keyword    ${AT_THE_TOP}
    # So small a cache has room for the blocks that are disconnected as long as it is empty only.
    Guest    systemctl restart bitcoind
    Node Is Up
    ${good}=    Node    verifychain    4    6
    Should Be True    ${good}

Survive A Cut During A Conversion
    Cut Power During A Conversion
    Recover

Prune With Power Cuts
    [Documentation]    From height 500 on, to the end of this bench chain.
    [Arguments]    ${engine}    ${chain}
    VAR    ${conf}    dbbackend=${engine}\n${BENCH_CONF}
    Start Machine    ${conf}
    Node Is Up
    Wait For Height    500    900
    ${flushed}=    Coins Should Equal The Stock Node's
    Begin Cuts    ${engine}    ${FILESYSTEM}    seed=${SEED}    flushed=${flushed}
    Repeat Keyword    4 times    Survive A Cut While Pruning
    ${info}=    Node    getblockchaininfo
    Should Be True    ${info}[pruneheight] > 0
    Wait For Height    ${chain}[height]    900
    ${height}=    Coins Should Equal The Stock Node's
    Should Be Equal    ${height}    ${chain}[height]

Survive A Cut While Pruning
    Cut Power While Pruning
    Recover

Sync On A Lying Disk
    Start Machine    ${LOSS_CONF}${STORED}${LEVELDB_CONF}
    Node Is Up
    Wait For Height    500    600
    Cut Power Of A Lying Disk

*** Test Cases ***
LevelDB Survives Power Cuts
    Sync With Power Cuts    leveldb    ${LEVELDB_CONF}    Repartition Root Disk    reorder

LMDB Survives Power Cuts
    Sync With Power Cuts    lmdb    ${LMDB_CONF}    Grow File System    drop-some

Undo Data Of Blocks That Came Out Of Order Survives A Power Cut
    [Documentation]    It is in older files than the newest blocks, and must be synced before the
    ...    coins are: the node needs it to undo these blocks, and looks at the newest when it starts
    ...    (patch 0025).
    Start Machine    ${LOSS_CONF}${STORED}${LEVELDB_CONF}
    Node Is Up
    Wait For Height    300
    Begin Cuts    leveldb    ${FILESYSTEM}    seed=${SEED}
    Wait Until Blocks Are Stored Ahead
    Cut Power After A Flush
    Recover

LevelDB Survives Power Cuts While Blocks Are In No File
    [Documentation]    The node fetches them again from the last flush on (patch 0043); near the top
    ...    it stores all.
    [Tags]    long
    Sync Blocks In No File With Power Cuts    leveldb    ${LEVELDB_CONF}    Grow File System
    ...    torn

LMDB Survives Power Cuts While Blocks Are In No File
    [Tags]    long
    Sync Blocks In No File With Power Cuts    lmdb    ${LMDB_CONF}    Repartition Root Disk
    ...    reorder

Three Power Cuts During The First Boot
    [Documentation]    While the data partition and its file system are being made.
    [Tags]    long
    Start Machine    ${LOSS_CONF}${STORED}    wait=${False}
    Cut Power When The Console Shows    Repartition Root Disk    torn
    Cut Power When The Console Shows    Grow File System    reorder
    Cut Power When The Console Shows    Starting bitcoind    drop-all
    Wait Until It Answers
    Node Is Up
    System Is Running

A Conversion Survives Power Cuts
    [Documentation]    The node goes on with the old databases or with the new ones; in the end
    ...    the conversion can be made.
    [Tags]    long
    Start Machine    ${LOSS_CONF}${STORED}
    Node Is Up
    Wait For Height    1000    600
    ${flushed}=    Coins Should Equal The Stock Node's
    Begin Cuts    leveldb    ${FILESYSTEM}    seed=${SEED}    flushed=${flushed}
    Repeat Keyword    4 times    Survive A Cut During A Conversion
    ${other}=    Other Engine
    Guest    systemctl start node-convert@${other}
    Node Is Up
    Coins Should Equal The Stock Node's

Heavy Blocks And Pruning Survive Power Cuts
    [Documentation]    A bench chain on regtest with small block files, of which the old ones are
    ...    deleted again and again; each flush is of several megabytes. The first file has the
    ...    chain's first 200 blocks, which are empty: from height 500 on something is pruned.
    [Tags]    long
    # The same ports: one feeder has its peers at a time.
    Stop Feeder
    ${chain}=    Start Bench Feeder    ${FEEDER_PORT}    -blocks=500    -txs=300
    ...    -utxos=80000    peers=${PEERS}    seed=${SEED}
    Prune With Power Cuts    leveldb    ${chain}
    Prune With Power Cuts    lmdb    ${chain}
    [Teardown]    Run Keywords    Run Keyword If Test Failed    Show What The Node Said    AND
    ...    Stop Feeder    AND    Start Main Feeder

A Lying Disk Is Found Out
    [Documentation]    The negative control: flushes are acknowledged and ignored. Damage must be
    ...    seen, and each time end in a sentence and a rebuild, or in one that says what to do.
    [Tags]    long
    Repeat Keyword    6 times    Sync On A Lying Disk
    The Lies Should Have Been Found Out
