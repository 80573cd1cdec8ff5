*** Settings ***
Documentation     From power on to a node that answers, and again.
Resource          resources/node.resource
Suite Setup       Start VM    boot    screen=${True}
Suite Teardown    Kill VM

*** Test Cases ***
Reaches Multi User With No Failed Unit
    [Tags]    smoke
    System Is Running
    Property Should Be    multi-user.target    ActiveState    active

RPC Comes Up
    [Tags]    smoke
    Node Is Up
    ${seconds}=    Seconds Since Boot
    ${boot}=    Kind Of Boot
    Record Figure    boot to RPC, ${boot}    ${seconds}    s

Chain And Pruning Are The Image's
    [Tags]    smoke
    Test Needs    the image's settings
    ${chain}=    Node    getblockchaininfo
    Should Be Equal    ${chain}[chain]    main
    Should Be True    ${chain}[pruned]

Memory Is Recorded
    System Is Running
    ${memory}=    Memory In Use
    Record Figure    memory of bitcoind before it syncs    ${memory}[daemon]    MiB
    Record Figure    memory of everything but bitcoind    ${memory}[others]    MiB

Root Is Read Only
    Should Be Mounted    /    ro
    Guest Should Refuse    touch /usr/x /etc/x    Read-only

Data Partition Takes The Rest Of The Disk
    File System Should Have More Than    6000    /var
    Should Be Mounted    /var    rw

Status Screen Is On The Console
    [Tags]    smoke
    ${name}=    Guest    cat /proc/sys/kernel/hostname
    Wait For Serial    === Cairn node ${name} ===
    Wait For Serial    blocks
    Wait For Serial    settings

Nobody Is Asked To Log In
    ${log}=    Serial Log
    Should Not Contain    ${log}    login:

No Login Runs
    No Process Should Be Named    agetty    getty    login    sulogin

Watchdog Is Asked For
    Property Should Be    ${EMPTY}    RuntimeWatchdogUSec    1min

Storage Rules Are In Force
    Disk Should Have The Settings Of Its Kind    /var

Swap Is Compressed Memory Only
    Swap Should Be On    /dev/zram0

Memory Settings Are In Force
    Kernel Settings Should Be    100    vm.swappiness
    Kernel Settings Should Be    0    vm.page-cluster
    Kernel Settings Should Be    10    kernel.panic
    ${dirty}=    Kernel Setting    vm.dirty_bytes
    Should Be True    ${dirty} > 16000000

Nobody On The Network Decides On Routes
    [Documentation]    Each port and family; systemd-networkd does not undo it.
    Kernel Settings Should Be    0
    ...    net.ipv4.conf.*.accept_redirects    net.ipv4.conf.*.secure_redirects
    ...    net.ipv4.conf.*.send_redirects    net.ipv4.conf.*.accept_source_route
    ...    net.ipv6.conf.*.accept_redirects    net.ipv6.conf.*.accept_source_route

No Address Carries The MAC
    ${addresses}=    Guest    ip -o -6 addr show scope link
    Should Contain    ${addresses}    fe80:
    ${all}=    Guest    ip -o -6 addr show
    Should Not Contain    ${all}    ff:fe
    Kernel Settings Should Be    2    net.ipv6.conf.e*.use_tempaddr

Second Boot Keeps The Data
    Write File    /var/lib/cairn/marker    kept
    Reboot
    System Is Running
    Node Is Up
    ${seconds}=    Seconds Since Boot
    Record Figure    boot to RPC, second boot    ${seconds}    s
    File Should Be    /var/lib/cairn/marker    kept
    Guest    rm /var/lib/cairn/marker
    Journal Should Not Contain    systemd-fsck@*    UNEXPECTED

A Power Cut Keeps The Data
    Write File    /var/lib/cairn/marker    kept
    Cut Power
    Power On
    System Is Running
    Node Is Up
    File Should Be    /var/lib/cairn/marker    kept
    Guest    rm /var/lib/cairn/marker
