*** Settings ***
Documentation     Power cuts on a disk with a volatile cache (docs/develop/power-loss-tests.md).
...               What was flushed survives; of the rest anything may, in any order, torn.
...               The blocks come from three peers, out of order (lab/peers.py).
...               Variables: CUTS  cuts for each engine during sync, SEED  of moments and outcomes,
...               TO_THE_TOP  go on to the last block after the last cut,
...               FILESYSTEM  ext4 or f2fs (f2fs on Buildroot's images only)
Library           ${CURDIR}/lib/CutLog.py
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
@{POLICIES}       reorder    torn    drop-all    drop-some
@{AIMS}           flush    ahead    sync    restart    boot
# Ports of the peers on this machine, and those behind the first one as the guest sees them.
${PEERS}          ${${FEEDER_PORT} + 5} ${${FEEDER_PORT} + 6} ${${FEEDER_PORT} + 7}
${MORE_PEERS}     connect=10.0.2.100:8334\nconnect=10.0.2.100:8335
# Few keys, for making them takes an emulated processor long. Small block files: blocks that come
# early are in later ones than the tip's. A small cache and small batches are written often; LMDB's
# file grows by the smallest step and is compacted at each start.
${LOSS_CONF}      SEPARATOR=\n
...               ${SYNC_CONF}${MORE_PEERS}    fastprune=1    prune=550    dbcache=4
...               dbbatchsize=20000    keypool=5    filesystem=${FILESYSTEM}    ${EMPTY}
${LEVELDB_CONF}   dbbackend=leveldb\n
${LMDB_CONF}      dbbackend=lmdb\ndbmapsize=1\ndbcompact=1\n
# Each block has a file of its own.
${BENCH_CONF}     SEPARATOR=\n    fastprune=1    prune=1    ${REGTEST_CONF}${MORE_PEERS}    ${EMPTY}
# All but the 288 blocks that Core keeps.
${PRUNE}          node-cli pruneblockchain $(($(node-cli getblockcount) - 290)) >/dev/null
# Its answer says that the coins up to this height have been written and flushed.
${FLUSH}          node-cli gettxoutsetinfo none | sed -n 's/.*"height": \\([0-9]*\\).*/\\1/p'
# Lets the node fetch blocks until a block file is begun, at most twenty seconds, and takes it off
# the network: a fast machine would be at the top before the next try. Succeeds if the newest undo
# data, younger than /run/ahead, is in an older file than the newest block is.
${AHEAD}          SEPARATOR=;${SPACE}
...               cd /var/lib/bitcoind/blocks    blk=$(ls blk*.dat | tail -n 1)    n=0
...               node-cli setnetworkactive true >/dev/null
...               while [ "$(ls blk*.dat | tail -n 1)" = $blk ] && [ $n -lt 100 ]
...               do sleep 0.2    n=$((n + 1))    done
...               node-cli setnetworkactive false >/dev/null    sleep 1
...               rev=$(ls -t rev*.dat | head -n 1)    blk=$(ls blk*.dat | tail -n 1)
...               rev_number=$(echo $rev | cut -c 4-)    blk_number=$(echo $blk | cut -c 4-)
...               [ $rev -nt /run/ahead ] && [ $rev_number != $blk_number ]

*** Keywords ***
Start Main Feeder
    Start Feeder    ${FEEDER_PORT}    peers=${PEERS}    seed=${SEED}

Show What The Node Said
    VAR    ${script}    { journalctl -b --no-pager -o short-monotonic -u bitcoind | tail -n 60;
    ...    systemctl --failed --no-pager; } >&2; false
    Run Keyword And Ignore Error    Guest    ${script}

Start Machine
    [Documentation]    A text with an equals sign needs a variable: else it is taken for an option.
    [Arguments]    ${conf}    &{options}
    Start VM    ${MACHINE}    ${conf}    feeder=${PEERS}    volatile=${True}    seed=${SEED}
    ...    smp=${SMP}    &{options}

Make Wallets
    [Documentation]    One with keys, one that watches a key of block 9, whose coins move in these
    ...    blocks.
    ${hash}=    Feeder    getblockhash    9
    ${block}=    Feeder    getblock    ${hash}    2
    VAR    ${WATCHED}    ${block}[tx][0][vout][0][scriptPubKey][desc]    scope=TEST
    VAR    @{ADDRESSES}    @{EMPTY}    scope=TEST
    Node    -named createwallet    wallet_name=savings    load_on_startup=true
    Node    -named createwallet    wallet_name=watch    disable_private_keys=true    blank=true
    ...    load_on_startup=true
    ${answer}=    Node    -rpcwallet=watch importdescriptors
    ...    [{"desc": "${WATCHED}", "timestamp": 0}]
    Should Be True    ${answer}[0][success]
    Use Wallet

Use Wallet
    [Documentation]    A new address; the answer says that it is kept.
    ${address}=    Node    -rpcwallet=savings getnewaddress
    Append To List    ${ADDRESSES}    ${address}

Wallets Should Be Whole
    FOR    ${address}    IN    @{ADDRESSES}
        ${info}=    Node    -rpcwallet=savings getaddressinfo    ${address}
        Should Be True    ${info}[ismine]    the wallet has lost the address ${address}
    END

Balance Should Be That Of The Coins
    ${coins}=    Feeder    scantxoutset    start    ["${WATCHED}"]
    ${balances}=    Node    -rpcwallet=watch getbalances
    Should Be Equal As Numbers    ${balances}[mine][trusted]    ${coins}[total_amount]

Cut
    [Documentation]    One cut at a random moment after something was begun; returns what is known
    ...    to be flushed.
    [Arguments]    ${aim}    ${policy}    ${number}    ${flushed}
    VAR    &{scripts}    flush=${FLUSH}    sync=sleep 60    restart=systemctl restart bitcoind
    ...    boot=true    ahead=true
    VAR    ${script}    ${scripts}[${aim}]
    IF    '${aim}' == 'ahead'
        # Near the top of the chain it may not come to that; the cut is one after a flush then.
        Run Keyword And Ignore Error    Blocks Are Stored Ahead    60
        ${answer}=    Guest    ${FLUSH}
        Cut Power    ${policy}
        VAR    @{answers}    ${answer}
    ELSE IF    '${aim}' == 'boot'
        Reboot    wait=${False}
        ${moment}=    Random Number    ${SEED}    ${number}    3    25
        Sleep    ${moment}
        Cut Power    ${policy}
        VAR    @{answers}    @{EMPTY}
    ELSE
        ${moment}=    Random Number    ${SEED}    ${number}    0.3    8
        ${repeat}=    Evaluate    $aim == 'flush'
        ${answers}=    Cut Power During    ${script}    ${moment}    ${policy}    repeat=${repeat}
    END
    IF    $answers
        VAR    ${flushed}    ${answers}[-1]
    END
    RETURN    ${flushed}

Blocks Are Stored Ahead
    [Documentation]    A block is withheld, and later ones are stored in later files than the tip's
    ...    undo data. No more come then, and the guest's kernel writes nothing by itself: what the
    ...    node does not sync is not on the disk.
    [Arguments]    ${seconds}=300
    Guest    echo 0 >/proc/sys/vm/dirty_writeback_centisecs && touch /run/ahead
    Guest Should Succeed Within    ${seconds}    ${AHEAD}

Recover
    [Documentation]    What must hold after a power cut: the node comes up by itself, with all that
    ...    was known to be flushed and the stock node's coins. Returns the height, which is flushed
    ...    now.
    [Arguments]    ${engine}    ${aim}    ${policy}    ${number}    ${flushed}
    Begin Recovery    engine=${engine}    filesystem=${FILESYSTEM}    aim=${aim}    policy=${policy}
    ...    seed=${SEED}    number=${number}    flushed=${flushed}
    Power On
    Node Is Up
    ${height}=    Node    getblockcount
    End Recovery    ${height}
    Should Be True    ${height} >= ${flushed}    blocks that were flushed are lost
    System Is Running
    ${flushed}=    Coins Should Equal The Stock Node's
    Blocks And Undo Data Should Be Whole    ${flushed}
    RETURN    ${flushed}

Blocks And Undo Data Should Be Whole
    [Documentation]    Those below this height that may not have been synced when the power failed:
    ...    Core fetches 1024 blocks ahead. At its start it looks at the newest six only.
    [Arguments]    ${height}
    ${info}=    Node    getblockchaininfo
    ${depth}=    Evaluate    max(1, min(1100, int($height) - $info['pruneheight']))
    ${good}=    Node    verifychain    2    ${depth}
    Should Be True    ${good}    blocks or undo data are lost

Engines
    [Documentation]    Returns that of the databases, and the other one.
    ${databases}=    Node    getdbinfo
    VAR    &{others}    lmdb=leveldb    leveldb=lmdb
    VAR    ${engine}    ${databases}[0][backend]
    RETURN    ${engine}    ${others}[${engine}]

Cut When The Console Shows
    [Documentation]    The machine is switched on again; it has not booted yet.
    [Arguments]    ${words}    ${policy}
    Wait For Serial    ${words}    180
    Cut Power    ${policy}
    Power On    wait=${False}

Sync With Power Cuts
    [Documentation]    After each cut the node goes on by itself, with all that was known to be
    ...    flushed. The first cut is during the first boot, after these words on the console.
    [Arguments]    ${engine}    ${conf}    ${words}    ${policy}
    Start Machine    ${LOSS_CONF}${conf}    wait=${False}
    Cut When The Console Shows    ${words}    ${policy}
    Wait Until It Answers
    Node Is Up
    System Is Running
    Make Wallets
    ${flushed}=    Coins Should Equal The Stock Node's
    FOR    ${number}    IN RANGE    ${CUTS}
        ${aim}=    Evaluate    $AIMS[$number % 5]
        # another pairing of aims and policies with each seed and each round
        ${policy}=    Evaluate    $POLICIES[($number + int($SEED)) % 4]
        ${flushed}=    Cut    ${aim}    ${policy}    ${number}    ${flushed}
        ${flushed}=    Recover    ${engine}    ${aim}    ${policy}    ${number}    ${flushed}
        Wallets Should Be Whole
        Use Wallet
    END
    IF    not ${TO_THE_TOP}    RETURN
    Wait For Height    ${TOP}    600
    Coins Should Equal The Stock Node's At The Top
    Balance Should Be That Of The Coins
    ${good}=    Node    verifychain    4    6
    Should Be True    ${good}

What The Boot Ends In
    [Documentation]    up: the node answers; rebuilt: so it does, after a damaged database; held: it
    ...    waits for its owner and says why; no boot: the data partition cannot be used, it says
    ...    so, too.
    FOR    ${try}    IN RANGE    60
        Sleep    5 s
        ${console}=    Serial Log
        IF    $console.count('! The node cannot start')    RETURN    no boot
        ${result}=    Run Keyword And Return Status    Guest    node-cli getblockcount    10
        IF    ${result}
            RETURN    ${{'rebuilt' if '! A database is damaged' in $console else 'up'}}
        END
        IF    $console.count('stays stopped')    RETURN    held
    END
    Fail    the machine neither came up nor said why

*** Test Cases ***
LevelDB Survives Power Cuts
    Sync With Power Cuts    leveldb    ${LEVELDB_CONF}    Repartition Root Disk    reorder

LMDB Survives Power Cuts
    Sync With Power Cuts    lmdb    ${LMDB_CONF}    Grow File System    drop-some

Undo Data Of Blocks That Came Out Of Order Survives A Power Cut
    [Documentation]    It is in older files than the newest blocks, and must be synced before the
    ...    coins are: the node needs it to undo these blocks, and looks at the newest when it starts
    ...    (patch 0025).
    Start Machine    ${LOSS_CONF}${LEVELDB_CONF}
    Node Is Up
    Wait For Height    300
    Blocks Are Stored Ahead
    ${flushed}=    Guest    ${FLUSH}
    ${policy}=    Evaluate    $POLICIES[int($SEED) % 4]
    Cut Power    ${policy}
    Recover    leveldb    ahead    ${policy}    0    ${flushed}

Three Power Cuts During The First Boot
    [Documentation]    While the data partition and its file system are being made.
    [Tags]    long
    Start Machine    ${LOSS_CONF}    wait=${False}
    Cut When The Console Shows    Repartition Root Disk    torn
    Cut When The Console Shows    Grow File System    reorder
    Cut When The Console Shows    Starting bitcoind    drop-all
    Wait Until It Answers
    Node Is Up
    System Is Running

A Conversion Survives Power Cuts
    [Documentation]    The node goes on with the old databases or with the new ones; in the end
    ...    the conversion can be made.
    [Tags]    long
    Start Machine    ${LOSS_CONF}
    Node Is Up
    Wait For Height    1000    600
    ${flushed}=    Coins Should Equal The Stock Node's
    FOR    ${number}    IN RANGE    4
        ${engine}    ${other}=    Engines
        ${moment}=    Random Number    ${SEED}    ${number}    1    12
        Cut Power During    systemctl start node-convert@${other}    ${moment}
        ...    ${POLICIES}[${number}]
        ${flushed}=    Recover    ${engine}    conversion    ${POLICIES}[${number}]    ${number}
        ...    ${flushed}
    END
    ${engine}    ${other}=    Engines
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
    ${chain}=    Start Bench Feeder    ${${FEEDER_PORT} + 2}    -blocks=500    -txs=300
    ...    -utxos=80000    peers=${PEERS}    seed=${SEED}
    FOR    ${engine}    IN    leveldb    lmdb
        VAR    ${conf}    dbbackend=${engine}\n${BENCH_CONF}
        Start Machine    ${conf}
        Node Is Up
        Wait For Height    500    900
        ${flushed}=    Coins Should Equal The Stock Node's
        FOR    ${number}    IN RANGE    4
            ${moment}=    Random Number    ${SEED}    ${number}    1    12
            ${answers}=    Cut Power During    ${PRUNE}; ${FLUSH}    ${moment}
            ...    ${POLICIES}[${number}]    repeat=${True}
            IF    $answers
                VAR    ${flushed}    ${answers}[-1]
            END
            ${flushed}=    Recover    ${engine}    prune    ${POLICIES}[${number}]    ${number}
            ...    ${flushed}
        END
        ${info}=    Node    getblockchaininfo
        Should Be True    ${info}[pruneheight] > 0
        Wait For Height    ${chain}[height]    900
        ${height}=    Coins Should Equal The Stock Node's
        Should Be Equal    ${height}    ${chain}[height]
    END
    [Teardown]    Run Keywords    Run Keyword If Test Failed    Show What The Node Said    AND
    ...    Stop Feeder    AND    Start Main Feeder

A Lying Disk Is Found Out
    [Documentation]    The negative control: flushes are acknowledged and ignored. Damage must be
    ...    seen, and each time end in a sentence and a rebuild, or in one that says what to do.
    [Tags]    long
    VAR    ${harm}    ${0}
    FOR    ${number}    IN RANGE    6
        Start Machine    ${LOSS_CONF}${LEVELDB_CONF}
        Node Is Up
        Wait For Height    500    600
        Let Disk Lie
        ${answers}=    Cut Power During    ${FLUSH}    12    ${POLICIES}[${${number} % 2}]
        ...    repeat=${True}
        Power On    wait=${False}
        ${end}=    What The Boot Ends In
        IF    '${end}' == 'up'
            ${height}=    Node    getblockcount
            ${end}=    Evaluate
            ...    'lost' if $answers and int($height) < int($answers[-1]) else 'recovered'
        END
        Log    ${number}: ${end}    console=${True}
        IF    '${end}' != 'recovered'
            VAR    ${harm}    ${${harm} + 1}
        END
    END
    Should Be True    ${harm} > 0    a disk that ignores flushes was not found out
