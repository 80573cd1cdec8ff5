*** Settings ***
Documentation     Who can connect to the node, and the name that it announces.
Resource          resources/node.resource
Library           ${CURDIR}/lib/Network.py
Suite Setup       Start VM    network    sshkey=${KEY}\n
Suite Teardown    Kill VM
# The system bus, which most of them ask, is up then; any test may be the first.
Test Setup        System Is Running

*** Variables ***
${KEY}            ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3333333333333333333333333333333333333333333
...               robot

*** Test Cases ***
The Rules Come Before The Network
    Unit Should Have Come Before    cairn-firewall    systemd-networkd
    Files Should Not Exist    /run/cairn/firewall.report

What Node Conf Switches On Comes In
    Firewall Should Open    everybody    tcp 8333
    Firewall Should Open    neighbours    tcp 22    tcp 80    udp 5353

The Name Is Announced
    Links Should Announce
    Sockets Should Listen    udp any 5353
    Wait For File    /run/cairn/mdns-name
    File Should Be    /run/cairn/mdns-name    cairn
    Wait For Serial    cairn.local

Name And Page Take Little Memory
    [Documentation]    With Tor off. The page's server runs from its first visitor on.
    Guest    systemctl start cairn-page
    ${memory}=    Memory Of Units Should Be At Most    15    cairn-name    cairn-status
    ...    cairn-page
    Record Figure    memory of the name, the collector and the page    ${memory}    MiB

The Rules Follow Another Node Conf
    [Documentation]    Without a restart of the machine, or of its network.
    ${before}=    Property Of    systemd-networkd    MainPID
    Node Config Reads    mdns=0
    Firewall Should Open    neighbours    tcp 80
    Property Should Be    systemd-networkd    MainPID    ${before}
    Links Should Announce    False
    Sockets Should Not Listen    udp any 5353

New Units Are Confined
    Exposure Should Be At Most    cairn-firewall    3.0
    Exposure Should Be At Most    cairn-name    3.0

Without Rules There Is No Network
    [Documentation]    nft is hidden from the script at the next start of both.
    [Tags]    long
    Guest    systemctl stop 'systemd-networkd*.socket' systemd-networkd
    Guest    rm /run/cairn/firewall.loaded
    Guest    mount --bind /dev/null /usr/sbin/nft
    Guest Result    systemctl restart cairn-firewall
    Guest    systemctl start systemd-networkd
    Property Should Be    systemd-networkd    ActiveState    inactive
    Wait For Serial    ! There is no firewall
