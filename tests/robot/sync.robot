*** Settings ***
Documentation     Real blocks by P2P, pruning, power cuts; the coins equal a stock node's.
Resource          resources/node.resource
Suite Setup       Start Syncing
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder

*** Keywords ***
Start Syncing
    Start Feeder    ${FEEDER_PORT}
    Start VM    sync    ${SYNC_CONF}prune=550\n    feeder=${FEEDER_PORT}

Converted Coins Should Be The Same
    [Documentation]    The databases are converted to another engine; what was there is there.
    [Arguments]    ${engine}
    Guest    systemctl start node-convert@${engine}
    Node Is Up
    Engine Should Be    ${engine}
    Coins Should Equal The Stock Node's At The Top

*** Test Cases ***
A Power Cut During Sync Needs No Hand
    Wait For Height    2000
    Cut Power
    Power On
    Node Is Up
    System Is Running

Real Blocks Reach The Top
    [Tags]    smoke
    Wait For Height    ${TOP}    600
    Coins Should Equal The Stock Node's At The Top

Pruning Is Configured
    ${chain}=    Node    getblockchaininfo
    Should Be True    ${chain}[pruned]
    Should Not Be True    ${chain}[initialblockdownload]
    Prune Target Should Be    550

The End Of The Initial Sync Is Noted
    [Documentation]    Marker, smaller cache, and the daemon restarted with it. Its timer is the
    ...    image's, but is stopped where there is a feeder.
    Guest    systemctl is-enabled cairn-sync-done.timer
    ${before}=    Property Of    bitcoind    MainPID
    Guest    systemctl start cairn-sync-done
    Files Should Exist With Content    /var/lib/cairn/initial-sync-done
    Wait For Another Process    bitcoind    ${before}    timeout=240
    Node Is Up
    ${text}=    Guest    node-tune --explain
    Should Contain    ${text}    phase: at the tip
    ${cache}=    Tuned    dbcache
    Should Match Regexp    ${cache}    ^1[0-9][0-9]$

A Clean Reboot Keeps The Height
    Reboot
    Node Is Up
    Height Should Be    ${TOP}

A Power Cut At The Tip Keeps What Was Flushed
    Cut Power
    Power On
    Node Is Up
    Height Should Be    ${TOP}
    Coins Should Equal The Stock Node's At The Top

A New Node Has LevelDB
    Engine Should Be    leveldb

Converted Databases Have The Same Coins
    [Documentation]    There and back, each time verified by the converter and by the hash.
    Converted Coins Should Be The Same    lmdb
    Converted Coins Should Be The Same    leveldb
    System Is Running

The Wrong Engine In node.conf Is Explained
    Shut Down
    Put Node Conf    ${SYNC_CONF}prune=550\ndbbackend=lmdb\n
    Power On
    Wait For Serial    ! The node's databases are of leveldb, but node.conf has dbbackend=lmdb
    Files Should Exist    /run/cairn/bitcoind.hold
    Converted Coins Should Be The Same    lmdb

Old Block Files Are Pruned
    [Documentation]    Regtest with small block files: files go, the node goes on.
    [Tags]    long
    Shut Down
    Put Node Conf    regtest=1\nfastprune=1\nprune=1\n
    Power On
    Node Is Up
    # raw(51): anyone can spend; the address does not matter here
    Node    generatetodescriptor    900    raw(51)
    ${before}=    Number Of Block Files    regtest
    ${pruned}=    Node    pruneblockchain    500
    Should Be True    ${pruned} > 100
    ${after}=    Number Of Block Files    regtest
    Should Be True    ${after} < ${before}
    ${chain}=    Node    getblockchaininfo
    Should Be True    ${chain}[pruneheight] > 100
    Reboot
    Node Is Up
    Node    generatetodescriptor    10    raw(51)
    Height Should Be    910
