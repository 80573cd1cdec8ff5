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
Sum Of The User's Settings
    [Documentation]    Of node.conf without the lines that these tests change themselves.
    ${sum}=    Guest    sed '/^dbbackend=/d; /^reindex=/d' /boot/node.conf | cksum
    RETURN    ${sum}

Start Node With A Wallet
    Start Feeder    ${FEEDER_PORT}
    Start VM    recovery    ${CONF}dbbackend=lmdb\n    feeder=${FEEDER_PORT}
    Node Is Up
    Node    -named    createwallet    wallet_name=purse    load_on_startup=true
    ${address}=    Node    getnewaddress
    Set Suite Variable    ${ADDRESS}    ${address}
    Wait For Height    500
    ${sum}=    Sum Of The User's Settings
    Set Suite Variable    ${CONF_SUM}    ${sum}

Damage
    [Documentation]    One byte in the middle of each 4 KiB of these files, two pages left out
    ...    (LMDB's meta pages; LevelDB's tables lose no more than a block).
    [Arguments]    ${files}
    Guest    systemctl stop bitcoind
    ${flipped}=    Catenate    SEPARATOR=\n
    ...    cd ${DATA}
    ...    for f in ${files}; do [ -f "$f" ] || continue
    ...    n=$(($(wc -c < "$f") / 4096)); [ $n -lt 80 ] || n=80; p=0
    ...    case $f in *.mdb) p=2 ;; esac
    ...    while [ $p -le $n ]; do at=$((p * 4096 + 2048)); p=$((p + 1))
    ...    b=$(dd if="$f" bs=1 skip=$at count=1 2>/dev/null | od -An -tu1); [ -n "$b" ] || continue
    ...    printf "\\\\$(printf %o $((b ^ 4)))" | dd of="$f" bs=1 seek=$at conv=notrunc 2>/dev/null
    ...    echo flipped; done; done
    ...    sync; echo 3 > /proc/sys/vm/drop_caches
    ${said}=    Guest    ${flipped}
    Should Contain    ${said}    flipped
    Guest    systemctl --no-block start bitcoind

Is Rebuilt
    [Documentation]    Said on the console and in the journal; coins, wallet and settings are there.
    Wait For Serial    ! A database is damaged (    120
    Guest Should Succeed Within    60
    ...    journalctl -b --no-pager -o cat -u bitcoind | grep -q 'Wiping L.*chainstate'
    VAR    ${script}    journalctl -b --no-pager -o cat -u bitcoind | grep -q '^A database is
    ...    damaged (.*wallet and settings are kept'
    Guest    ${script}
    Guest    test ! -e /run/cairn/bitcoind.hold && test -s /var/lib/cairn/rebuild

Node Is As Before
    [Documentation]    It has passed the height that it had, with the stock node's coins.
    Node Is Up
    Wait For Height    500
    Node    setnetworkactive    false
    Coins Should Equal The Stock Node's
    Node    setnetworkactive    true
    ${address}=    Node    getaddressinfo    ${ADDRESS}
    Should Be True    ${address}[ismine]
    Guest    test ! -s /run/bitcoind/once.conf && test ! -e /var/lib/cairn/rebuild-wanted

Is Held Back
    [Documentation]    This sentence on the console and in the journal; bitcoind stays stopped,
    ...    the machine up.
    [Arguments]    ${words}
    Guest Should Succeed Within    120    test -e /run/cairn/bitcoind.hold
    Wait For Serial    ! ${words}
    Guest    journalctl -b --no-pager -o cat -u bitcoind | grep -F -q -- '${words}'
    Guest Should Succeed Within    30
    ...    systemctl show bitcoind -p SubState | grep -qE 'dead|failed'
    VAR    ${script}    journalctl -b --no-pager -o cat -u bitcoind | grep -c 'Shutdown: In
    ...    progress\\|Main process exited'
    ${starts}=    Guest    ${script}
    # an automatic restart would come after 10 s
    Sleep    12 s
    VAR    ${script}    journalctl -b --no-pager -o cat -u bitcoind | grep -c 'Shutdown: In
    ...    progress\\|Main process exited'
    ${later}=    Guest    ${script}
    Should Be Equal    ${later}    ${starts}

Disk Fails
    [Documentation]    From now on, while the node syncs; the RPC call makes it write its coins.
    [Arguments]    ${kind}    ${errno}=5
    Break Disk    ${kind}    ${errno}
    Guest Result    node-cli gettxoutsetinfo none
    Is Held Back    The card or disk fails (
    ${report}=    Guest    cat /run/cairn/bitcoind.report
    Should Contain    ${report}    scp -r root@NODE:${DATA}/purse .
    Guest    test ! -e /var/lib/cairn/rebuild-wanted

Healthy Disk Again
    Cut Power
    Power On
    Node Is Up

*** Test Cases ***
Damaged Coins Are Rebuilt
    Damage    chainstate/lmdb/data.mdb
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
    Damage    blocks/index/lmdb/data.mdb
    Is Held Back    A database is damaged again (
    Guest    test ! -e /var/lib/cairn/rebuild-wanted

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
    # a table is written when the log is read at a start
    Guest    systemctl restart bitcoind
    Node Is Up
    Damage    blocks/index/*.ldb chainstate/*.ldb
    Is Rebuilt
    Node Is Up

An Error On Write Stops The Rebuild
    [Tags]    long
    Disk Fails    write

The Rebuild Goes On
    [Documentation]    Not from the start, and it is not taken for a second damage.
    [Tags]    long
    Healthy Disk Again
    ${log}=    Guest    journalctl -b --no-pager -o cat -u bitcoind
    Should Not Contain    ${log}    Wiping L
    Node Is As Before

An Error On Read
    [Documentation]    Of the coins' files only: a disk of which nothing can be read is gone.
    [Tags]    long
    Guest    systemctl stop bitcoind
    ${start}=    Guest    cat /sys/class/block/vda4/start
    VAR    ${script}    filefrag -e -b512 ${DATA}/chainstate/*.ldb | awk -F'[ .:]+' -v
    ...    start=${start} '$2 ~ /^[0-9]+$/ && $5 ~ /^[0-9]+$/ { for (s = $5; s <= $6; s += 8) print
    ...    start + s }'
    ${sectors}=    Guest    ${script}
    Should Match Regexp    ${sectors}    ^[0-9]
    Break Disk    read    5    ${sectors}
    Guest    echo 3 > /proc/sys/vm/drop_caches; systemctl --no-block start bitcoind
    Is Held Back    The card or disk fails (
    Healthy Disk Again
    Node Is As Before
    ${sum}=    Sum Of The User's Settings
    Should Be Equal    ${sum}    ${CONF_SUM}

A Data Partition That Cannot Be Mounted
    [Documentation]    A sentence instead of a password prompt; the boot is not tried in a loop.
    Cut Power
    Erase Data Partition
    Power On    wait=False
    Wait For Serial    ! The node cannot start: the data partition cannot be used    180
    Sleep    10 s
    ${log}=    Serial Log
    Should Contain X Times    ${log}    ! The node cannot start    1
