*** Settings ***
Documentation     What the node does about damaged databases and a failing disk: one rebuild
...               by itself, a sentence, no loop, and the wallet and node.conf as they were.
Resource          resources/node.resource
Suite Setup       Start Node With A Wallet
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder

*** Variables ***
${DATA}           /var/lib/bitcoind
# A wallet of few keys: making 8000 takes an emulated processor half a minute.
${CONF}           ${SYNC_CONF}prune=550\nkeypool=5\n

*** Keywords ***
Start Node With A Wallet
    Start Feeder    ${FEEDER_PORT}
    Start VM    recovery    ${CONF}dbbackend=lmdb\n    feeder=${FEEDER_PORT}
    Node Is Up
    Node    -named    createwallet    wallet_name=purse    load_on_startup=true
    ${address}=    Node    getnewaddress
    Set Suite Variable    ${ADDRESS}    ${address}
    Wait For Height    500
    ${settings}=    User's Settings
    Set Suite Variable    ${SETTINGS_BEFORE}    ${settings}

User's Settings
    [Documentation]    Of node.conf without the lines that these tests change themselves.
    ${settings}=    Node Conf Without    dbbackend    reindex
    RETURN    ${settings}

Is Rebuilt
    [Documentation]    Said on the console and in the journal; coins, wallet and settings are there.
    Wait For Serial    ! A database is damaged (    120
    Wait For Journal    bitcoind    Wiping L.*chainstate    timeout=60
    Journal Should Match    bitcoind    ^A database is damaged \\(.*wallet and settings are kept
    Files Should Not Exist    /run/cairn/bitcoind.hold
    Files Should Exist With Content    /var/lib/cairn/rebuild

Node Is As Before
    [Documentation]    It has passed the height that it had, with the stock node's coins.
    Node Is Up
    Wait For Height    500
    Node    setnetworkactive    false
    Coins Should Equal The Stock Node's
    Node    setnetworkactive    true
    ${address}=    Node    getaddressinfo    ${ADDRESS}
    Should Be True    ${address}[ismine]
    Files Should Be Empty Or Missing    /run/bitcoind/once.conf
    Files Should Not Exist    /var/lib/cairn/rebuild-wanted

Is Held Back
    [Documentation]    This sentence on the console and in the journal; bitcoind stays stopped,
    ...    the machine up.
    [Arguments]    ${words}
    Wait For File    /run/cairn/bitcoind.hold    timeout=120
    Wait For Serial    ! ${words}
    Journal Should Contain    bitcoind    ${words}
    Wait For Sub State    bitcoind    dead    failed    timeout=30
    # an automatic restart would come after 10 s
    No More Messages Should Come    bitcoind    Shutdown: In progress|Main process exited
    ...    seconds=12

Disk Fails
    [Documentation]    From now on, while the node syncs; the RPC call makes it write its coins.
    [Arguments]    ${kind}    ${errno}=5
    Break Disk    ${kind}    ${errno}
    Guest Result    node-cli gettxoutsetinfo none
    Is Held Back    The card or disk fails (
    File Should Contain    /run/cairn/bitcoind.report    scp -r root@NODE:${DATA}/wallets .
    Files Should Not Exist    /var/lib/cairn/rebuild-wanted

Healthy Disk Again
    Cut Power
    Power On
    Node Is Up

*** Test Cases ***
Damaged Coins Are Rebuilt
    Flip Bits In    chainstate/lmdb/data.mdb
    Is Rebuilt
    Node Is As Before

An Error On Write
    Disk Fails    write
    Healthy Disk Again

An Error On Flush
    [Tags]    long
    Disk Fails    flush
    Healthy Disk Again

A Full Host
    [Tags]    long
    Disk Fails    write    28
    Healthy Disk Again

A Second Damage Is Held Back
    Flip Bits In    blocks/index/lmdb/data.mdb
    Is Held Back    A database is damaged again (
    Files Should Not Exist    /var/lib/cairn/rebuild-wanted

The Owner May Rebuild Once More
    [Documentation]    With the other engine, too.
    [Tags]    long
    Cut Power
    Put Node Conf    ${CONF}dbbackend=leveldb\nreindex=1\n
    Power On
    Node Is As Before

Damaged LevelDB Is Rebuilt
    [Tags]    long
    # as if the last one were long ago
    Guest    rm /var/lib/cairn/rebuild
    Damage LevelDB
    Is Rebuilt
    Node Is Up

An Error On Write Stops The Rebuild
    [Tags]    long
    Disk Fails    write

The Rebuild Goes On
    [Documentation]    Not from the start, and it is not taken for a second damage.
    [Tags]    long
    Healthy Disk Again
    Journal Should Not Contain    bitcoind    Wiping L
    Node Is As Before

An Error On Read
    [Documentation]    Of the coins' files only: a disk of which nothing can be read is gone.
    [Tags]    long
    Guest    systemctl stop bitcoind
    ${sectors}=    Sectors Of Files    ${DATA}/chainstate/*.ldb
    Break Disk    read    5    ${sectors}
    Forget Cached Files
    Guest    systemctl --no-block start bitcoind
    Is Held Back    The card or disk fails (
    Healthy Disk Again
    Node Is As Before
    ${settings}=    User's Settings
    Should Be Equal    ${settings}    ${SETTINGS_BEFORE}

A Data Partition That Cannot Be Mounted
    [Documentation]    A sentence instead of a password prompt; the boot is not tried in a loop.
    Cut Power
    Erase Data Partition
    Power On    wait=False
    Wait For Serial    ! The node cannot start: the data partition cannot be used    180
    Sleep    10 s
    ${log}=    Serial Log
    Should Contain X Times    ${log}    ! The node cannot start    1
