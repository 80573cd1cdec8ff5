*** Settings ***
Documentation     node.conf, good, bad and missing: the node always starts.
Resource          resources/node.resource
Suite Setup       Start VM    config    ${GOOD}
Suite Teardown    Kill VM

*** Variables ***
${KEY}            ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3333333333333333333333333333333333333333333
...               robot
${GOOD}           SEPARATOR=\n
...               \# a good one    hostname=attic    sshkey=${KEY}    ip=10.0.2.77/24
...               gateway=10.0.2.2    prune=2000    maxconnections=11    ${EMPTY}
${BAD}            SEPARATOR=\n
...               hostname=attic    prunee=550    prune=100    listen    maxconnections=12
...               ${EMPTY}

*** Test Cases ***
Good File Is Applied
    [Tags]    smoke
    System Is Running
    Node Is Up
    File Should Be    /proc/sys/kernel/hostname    attic
    Wait For Address    10.0.2.77/24
    Prune Target Should Be    2000
    Wait For Serial    === Cairn node attic ===
    File Should Be    /run/cairn/node-conf.report    ${EMPTY}
    # the first boot made a partition beside it; the user's file is as it was
    File Should Be    /boot/node.conf    ${GOOD}

SSH Runs With The User's Key Only
    Property Should Be    cairn-sshd    ActiveState    active
    Sockets Should Listen    tcp any 22
    SSH Server Should Be Set To    passwordauthentication no    kbdinteractiveauthentication no
    ...    authenticationmethods publickey
    File Should Be    /run/cairn/authorized_keys    ${KEY}

SSH Host Key Survives A Reboot And A Torn File Does Not
    ${before}=    Guest    cat /var/lib/cairn/ssh/ssh_host_ed25519_key.pub
    Guest    : >/var/lib/cairn/ssh/ssh_host_ed25519_key
    Guest    systemctl restart cairn-sshd
    ${after}=    Guest    cat /var/lib/cairn/ssh/ssh_host_ed25519_key.pub
    Should Not Be Equal    ${before}    ${after}
    Guest    systemctl restart cairn-sshd
    File Should Be    /var/lib/cairn/ssh/ssh_host_ed25519_key.pub    ${after}

Bad Lines Are Reported And Ignored
    [Tags]    smoke
    Shut Down
    Put Node Conf    ${BAD}
    Power On
    Node Is Up
    System Is Running
    Report Line Should Be Shown    node.conf line 2: "prunee=550"
    Report Line Should Be Shown    node.conf line 3: "prune=100"
    Report Line Should Be Shown    node.conf line 4: "listen"
    User's Options Should Be    maxconnections=12

Without A Key Nothing Listens On Port 22
    Sockets Should Not Listen    tcp any 22
    Property Should Be    cairn-sshd    ActiveState    inactive

An Option That Bitcoind Refuses Does Not Stop The Node
    [Documentation]    Only Core can judge this value; the node runs without the user's
    ...    options then, and without network, so that no proxy is gone around.
    Shut Down
    Put Node Conf    whitelist=nope@10.0.2.9\nproxy=10.0.2.9:9050\n
    Power On
    Node Is Up
    Report Line Should Be Shown    bitcoind refused the options in node.conf
    Network Should Be    off

A Lost File Of A Node With A Proxy Does Not Open The Network
    [Documentation]    The boot partition is FAT: a power cut may cost it the file. What the
    ...    last good one had to keep the node private is remembered on the data partition.
    Shut Down
    Put Node Conf    proxy=10.0.2.9:9050\n
    Power On
    Node Is Up
    Network Should Be    on
    ${network}=    Node    getnetworkinfo
    Should Be Equal    ${network}[networks][0][proxy]    10.0.2.9:9050
    Cut Power
    Delete Node Conf
    Power On
    Node Is Up
    Report Line Should Be Shown    The network is off: the last good node.conf had proxy=
    Network Should Be    off
    Sockets Should Not Listen    tcp any 8333

An Address That Is Not There Yet Is Waited For
    [Documentation]    The cable comes late, and with it the address of bind=: the node says that
    ...    it waits, refuses nothing, and starts by itself.
    Shut Down
    Put Node Conf    bind=10.0.2.15\n
    Power On    wait=False
    Pull Cable
    Wait Until It Answers
    Wait For Serial    ! The node waits for its network: an address in node.conf is not there yet
    ...    240
    # a second attempt, too
    Wait For Journal    bitcoind    ^The node waits for its network    times=2    timeout=240
    Files Should Not Exist    /run/cairn/bitcoind.refused    /run/cairn/bitcoind.hold
    Plug Cable
    Wait For RPC    240
    Network Should Be    on
    Should Listen On    10.0.2.15:8333
    Files Should Not Exist    /run/cairn/bitcoind.report

A Name That Is Not Known Yet Is Waited For
    [Documentation]    A proxy by name: never a refused option, whose node would have no network.
    [Tags]    long
    Shut Down
    Put Node Conf    proxy=no.such.name.invalid:9050\n
    Power On
    Wait For Serial    ! The node waits for its network: a name in node.conf is not known yet    240
    Files Should Not Exist    /run/cairn/bitcoind.refused    /run/cairn/bitcoind.hold

Garbage Is Refused As A Whole
    [Tags]    long
    Shut Down
    Put Node Conf    hex:7f454c4600010203ff
    Power On
    Node Is Up
    Report Line Should Be Shown    node.conf is not a text file

A Missing File Means Defaults
    [Tags]    long
    Shut Down
    Delete Node Conf
    Power On
    Node Is Up
    System Is Running
    Report Line Should Be Shown    There is no node.conf
    File Should Be    /proc/sys/kernel/hostname    cairn
