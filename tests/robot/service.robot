*** Settings ***
Documentation     bitcoind as a service: life, privileges, what listens, and how it fails.
Resource          resources/node.resource
Suite Setup       Start Node
Suite Teardown    Kill VM

*** Keywords ***
Start Node
    Start VM    service
    Node Is Up

*** Test Cases ***
Is A Notify Service That Is Active Once It Is Up
    Property Should Be    bitcoind    Type    notify
    Property Should Be    bitcoind    StatusText    running
    # Active only after Core said so: its last word at start stands before systemd's.
    Messages Should Come After    bitcoind    Started (bitcoind.service|Bitcoin Core)
    ...    Done loading

Has Few Privileges
    Exposure Should Be At Most    bitcoind.service    2.0
    Property Should Be    bitcoind    InaccessiblePaths    /dev/shm

Every Unit Of Ours Is Confined
    [Documentation]    An unconfined service has 9.6. tests/hostile/test_exposure.py has the bounds
    ...    and reads the reasons for more than 3.0; here the systemd of the image judges.
    Exposure Should Be At Most    node-status@ttyS0    3.0
    Exposure Should Be At Most    node-config    3.0
    Exposure Should Be At Most    node-tune    3.0
    Exposure Should Be At Most    cairn-sync-done    3.0
    Exposure Should Be At Most    cairn-zram    4.0
    Exposure Should Be At Most    node-convert@lmdb    2.0
    Exposure Should Be At Most    cairn-data-look    2.0
    Exposure Should Be At Most    cairn-power-button@event0    2.0

Root Does Not Read A File That Somebody Else Named
    [Documentation]    The cookie's folder is user bitcoin's: a link there may lead anywhere.
    Guest Should Refuse    node-cli -rpccookiefile=/etc/shadow getblockcount
    ...    Failed to read cookie file
    Guest    ln -s /etc/shadow /run/bitcoind/rpc/link
    Guest Should Refuse    node-cli -rpccookiefile=/run/bitcoind/rpc/link getblockcount
    ...    Failed to read cookie file
    Guest    rm /run/bitcoind/rpc/link

The End Of The Sync Is Asked For Without Rights And Noted With Root's
    Test Needs    data of its own
    ${before}=    Property Of    bitcoind    MainPID
    Guest Result    systemctl start cairn-sync-done
    Files Should Not Exist    /var/lib/cairn/initial-sync-done
    Property Should Be    cairn-sync-done    ActiveState    inactive
    Node Answers As At The End Of The Sync
    Guest    systemctl start cairn-sync-done
    Files Should Exist With Content    /var/lib/cairn/initial-sync-done
    Wait For Another Process    bitcoind    ${before}    timeout=60
    Node Is Up
    Node Answers For Itself Again

SSH Has Limits And Forwards RPC Only
    [Documentation]    The image's sshd reads the file; no key is given, so it does not run.
    Guest    /usr/lib/cairn/cairn-ssh-hostkey
    SSH Server Should Be Set To    logingracetime 30    maxstartups 4:50:10
    ...    persourcemaxstartups 3    maxsessions 4    allowtcpforwarding local    permitlisten none
    ...    permittunnel no    allowstreamlocalforwarding no    allowagentforwarding no
    ...    x11forwarding no    gatewayports no
    ${settings}=    SSH Server Settings
    Should Match Regexp    ${settings}    (?m)^permitopen 127\\.0\\.0\\.1:8332 127\\.0\\.0\\.1:18332

Has Limits And Weights
    Property Should Be At Least    bitcoind    LimitNOFILE    4096
    Property Should Be Below    bitcoind    CPUWeight    100
    Property Should Be Below    bitcoind    IOWeight    100
    Property Should Be    bitcoind    OOMPolicy    stop
    Property Should Be At Least    bitcoind    OOMScoreAdjust    1
    Property Should Be    bitcoind    TimeoutStopUSec    15min
    Property Should Be    bitcoind    TimeoutStartUSec    infinity

Nothing Listens But The Node
    Test Needs    the image's settings
    Nothing Else Should Listen    tcp any 8333    tcp loopback 8332    udp any 68    udp any 546
    ...    udp any 5353    tcp any 80
    Sockets Should Listen    tcp any 8333    tcp loopback 8332    tcp any 80

Name Servers Are The Network's Own
    [Documentation]    QEMU's restricted network names none, so nobody is asked.
    Test Needs    a network of its own
    ${servers}=    Name Servers
    Should Be Empty    ${servers}
    ${status}=    Guest    resolvectl status --no-pager
    Should Not Contain    ${status}    Fallback DNS

Files Have Tight Modes
    Mode Should Be    /var/lib/bitcoind    710 bitcoin bitcoin
    Mode Should Be    /run/bitcoind    750 root bitcoin
    Mode Should Be    /run/bitcoind/bitcoin.conf    640 root bitcoin
    Mode Should Be    /run/bitcoind/rpc    750 bitcoin bitcoin
    Mode Should Be    /run/bitcoind/rpc/cookie    640 bitcoin bitcoin
    Nothing Should Be Writable For All    /etc    /usr    /run/cairn    /run/bitcoind    /var/lib

Nobody Has A Password
    Accounts Should Be Locked
    ${shell}=    Login Shell Of    bitcoin
    Should Match Regexp    ${shell}    (nologin|false)$

Journal Is Bounded
    ${config}=    Guest    systemd-analyze cat-config systemd/journald.conf --no-pager
    ${size}=    Largest Size Setting    ${config}    RuntimeMaxUse|SystemMaxUse
    Should Be True    ${size} <= 64
    Should Contain    ${config}    Storage=volatile

Stops And Starts Cleanly
    Guest    systemctl stop bitcoind
    Property Should Be    bitcoind    Result    success
    Journal Should Contain    bitcoind    Shutdown done
    Files Should Be Empty Or Missing    /run/cairn/bitcoind.report
    Guest    systemctl start bitcoind
    Node Is Up

Comes Back After It Was Killed
    Test Needs    a crash
    ${before}=    Property Of    bitcoind    MainPID
    Guest    kill -9 ${before}
    Wait For Another Process    bitcoind    ${before}    timeout=60
    Node Is Up
    Property Should Be At Least    bitcoind    NRestarts    1

Does Not Loop On A Damaged Database
    [Documentation]    One rebuild by itself (suite recovery) has been: this one is held back.
    [Tags]    long
    Test Needs    data of its own
    Guest    systemctl stop bitcoind
    Note A Rebuild
    Ruin The Coins
    Guest Result    systemctl start bitcoind
    # a look at the databases, or a second start with the same words, comes before the hold
    Wait For File    /run/cairn/bitcoind.hold    timeout=180
    Wait For Sub State    bitcoind    dead    timeout=180
    No More Messages Should Come    bitcoind    Error: .*-reindex|Shutdown done    seconds=15
    File Should Contain    /run/cairn/bitcoind.report    put reindex=1 into node.conf
    Wait For Serial    ! A database is damaged again

Reindex Repairs It
    Test Needs    data of its own
    Shut Down
    Put Node Conf    reindex=1\n
    Power On
    Node Is Up
    System Is Running

Reindex Is Carried Out Once
    [Documentation]    The line may stay in node.conf: the next boot does not start over.
    Test Needs    data of its own
    Reboot
    Node Is Up
    Journal Should Not Contain    bitcoind    Wiping L
    Report Line Should Be Shown    reindex=1 was carried out already
    # and again after the line was taken out: then the note of it is removed
    Node Config Reads    \# x
    Files Should Not Exist    /var/lib/cairn/reindex-done*
