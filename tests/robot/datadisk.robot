*** Settings ***
Documentation     Data on another disk: made, found again, waited for, refused, moved. A disk that
...               holds anything is not touched (docs/design/datadisk.md).
Resource          resources/node.resource
Test Setup        Unplug
Test Teardown     Kill VM
Test Tags         datadisk

*** Variables ***
${NAMED}          datadisk=S1\n
${AUTO}           datadisk=auto\n
${BACK}           datadisk=system\n
${PRUNED}         prune=600\n
${BIG}            datadisk=S3\n
${STICK}          datadisk=S6\n
${ERASE}          datadisk=S1\nerase=S1\n
${UNTOUCHED}      is not blank, and nothing on it is touched
# Of a disk that comes late: usb on a board's image, tests/run.py says so. The development image's
# kernel has no USB, Buildroot's no virtio-scsi.
${LATE_BUS}       scsi

*** Keywords ***
Start With
    [Arguments]    ${conf}    ${wait}=${False}    &{options}
    Start VM    datadisk    ${conf}    disk_size=4G    wait=${wait}    &{options}

Start Again With
    [Arguments]    ${conf}
    Put Node Conf    ${conf}
    Power On    wait=${False}

Foreign Disk Is Left Alone
    [Arguments]    ${content}    ${conf}=${NAMED}    ${words}=${UNTOUCHED}
    Unplug
    New Data Disk    foreign    S1    ${content}
    Start With    ${conf}
    Node Should Wait    ${words}
    Cut Power
    Disk Should Be Unchanged    foreign

Power Cut After
    [Arguments]    ${seconds}
    Unplug
    New Data Disk    cut    S1
    Start With    ${NAMED}
    Cut Power When Shown    Making the data partition    later=${seconds}
    Power On    wait=${False}
    Data Should Be On    S1    timeout=400
    Cut Power

*** Test Cases ***
First Boot Makes The Data Partition There
    [Tags]    smoke
    New Data Disk    ssd    S1
    Start With    ${NAMED}
    Data Should Be On    S1    timeout=400
    System Is Running
    Wait For RPC
    Leave A Mark    first
    Shut Down

Found Again On Another Port And Without The Line
    [Documentation]    The disk of the test before, behind another one and on another bus.
    New Data Disk    another    S2    ext4
    Plug In    ssd    nvme
    Start Again With    ${PRUNED}
    Data Should Be On    S1
    Mark Should Be    first
    Shut Down
    Disk Should Be Unchanged    another

Missing Disk Is Waited For
    [Documentation]    Plugged in while the node waits, it is used without a restart.
    Remember Disk    ssd
    Have A Free Port    ${LATE_BUS}
    Start Again With    ${NAMED}
    Node Should Wait    is missing. node.conf asks for S1
    Disk Should Be Unchanged    ssd
    Plug In While It Runs    ssd
    Data Should Be On    S1
    Mark Should Be    first
    Shut Down

Two Copies Are Refused
    [Tags]    long
    Plug In    ssd    virtio
    Copy Data Disk    ssd    clone    S2
    Remember Disk    ssd
    Start Again With    ${NAMED}
    Node Should Wait    Two disks say that they are this node's data
    ${log}=    Serial Log
    Should Contain    ${log}    serial S1
    Should Contain    ${log}    serial S2
    Cut Power
    Disk Should Be Unchanged    ssd
    Disk Should Be Unchanged    clone

New Card Adopts The Old Disk In Spite Of Erase
    [Tags]    long
    Plug In    ssd    virtio
    Start With    ${ERASE}
    Data Should Be On    S1
    Mark Should Be    first
    Wait For Serial    Put a # in front of erase=    timeout=200
    Shut Down

Back To The Card
    [Tags]    long
    Plug In    ssd    virtio
    Start Again With    ${BACK}
    Data Should Be On    system
    Mark Should Be    first
    File System Should Have More Than    1000    /var
    Shut Down
    Start Again With    ${NAMED}
    Node Should Wait    add erase=S1
    Cut Power

From The Card With Data
    [Tags]    long
    New Data Disk    big    S3    bus=nvme    mebibytes=2048
    Start With    ${PRUNED}    wait=${True}
    Wait For RPC
    Leave A Mark    card
    Shut Down
    Start Again With    ${BIG}
    Data Should Be On    S3    timeout=400
    Mark Should Be    card
    Wait For RPC
    Shut Down

Foreign Disks Are Not Touched
    [Tags]    long
    [Template]    Foreign Disk Is Left Alone
    ext4
    NTFS
    LUKS
    gpt
    empty gpt
    LVM
    noise
    ext4    ${AUTO}    datadisk=auto takes a blank disk only
    LUKS    ${AUTO}    datadisk=auto takes a blank disk only
    ext4    datadisk=S1\nerase=S2\n    erase=S2 is not its serial number
    blank    datadisk=S9\n    is not here
    blank    datadisk=\n    no chain is begun elsewhere

Two Blank Disks Are Refused
    [Tags]    long
    New Data Disk    one    S1
    New Data Disk    two    S2
    Start With    ${AUTO}
    Node Should Wait    fits more than one disk
    Cut Power
    Disk Should Be Unchanged    one
    Disk Should Be Unchanged    two

Erased If Asked For
    [Tags]    long
    New Data Disk    photos    S1    gpt
    New Data Disk    others    S2    gpt
    Start With    ${ERASE}
    Data Should Be On    S1    timeout=400
    Wait For Serial    Put a # in front of erase=    timeout=200
    Shut Down
    Disk Should Be Unchanged    others

Power Cut While It Is Made
    [Documentation]    In each step, by the time since the first sentence; then it is finished.
    [Tags]    long
    [Template]    Power Cut After
    0
    0.5
    1
    2
    3
    5

System On Another Bus
    [Tags]    long
    Start VM    nvme    bus=nvme    disk_size=4G
    Data Should Be On    system
    System Is Running
    Shut Down

System On USB
    [Documentation]    The development image's kernel has no USB.
    [Tags]    long    buildroot
    Start VM    usb    bus=usb    disk_size=4G
    Data Should Be On    system
    System Is Running
    Shut Down

Data On USB
    [Tags]    long    buildroot
    New Data Disk    stick    S6    bus=usb
    Start With    ${STICK}
    Data Should Be On    S6    timeout=400
    Shut Down
