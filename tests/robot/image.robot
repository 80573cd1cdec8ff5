*** Settings ***
Documentation     What only Buildroot's images have: boot loader, f2fs, the board's processor.
Resource          resources/node.resource
Library           ${CURDIR}/lib/Health.py
Test Tags         buildroot
Suite Setup       Start VM    image    ${IMAGE_CONF}
Suite Teardown    Kill VM

*** Variables ***
# Empty for a board, whose file system was made long ago (tests/run.py)
${IMAGE_CONF}     filesystem=f2fs\n

*** Test Cases ***
Data Partition Is What Was Asked For
    System Is Running
    Node Is Up
    Test Needs    a disk of its own
    Should Be Mounted    /var    rw    f2fs
    File System Should Have More Than    6000    /var

The First Good Boot Takes The Tries Off The Boot Entry
    [Tags]    uefi
    Test Needs    a disk of its own
    Wait For File    /boot/loader/entries/cairn-a.conf    timeout=120
    ${entries}=    Guest    ls /boot/loader/entries
    Should Be Equal    ${entries}    cairn-a.conf

Boot Partition Is Read Only
    Should Be Mounted    /boot    ro    vfat

Hashing Uses The Processor's Instructions
    [Documentation]    Which of them, on a PC, depends on what QEMU's version emulates.
    ${line}=    Journal Lines    bitcoind    SHA256 implementation
    Should Match Regexp    ${line}    (x86_shani|arm_shani|avx2|sse41)

The Daemon's Memory Is One Arena Of Jemalloc
    [Documentation]    Nothing of it is given back by mapping PROT_NONE over it: patches/jemalloc.
    ${arenas}=    Jemalloc Option    narenas
    Should Be Equal    ${arenas}    1
    File Should Be Hidden From    bitcoind    /proc/sys/vm/overcommit_memory
    ${mappings}=    Memory Mappings Of    bitcoind
    Should Contain Match    ${mappings}    *libjemalloc*
    ${number}=    Get Length    ${mappings}
    Should Be True    ${number} < 200

Microcode Comes Before The Kernel
    [Documentation]    The loader hands the archive over and the kernel takes it; QEMU's processors
    ...    need none, so that there is no more to see.
    [Tags]    uefi
    Test Needs    a disk of its own
    ${entry}=    Guest    cat /boot/loader/entries/cairn-a.conf
    Should Contain    ${entry}    initrd
    Kernel Should Have Said    RAMDISK:    Freeing initrd memory

The Kernel Is Configured As Written
    ${lost}=    Kernel Options Lost
    Should Be Empty    ${lost}

Scripts Find Their Programs
    Programs Of Scripts Should Exist

The Shell Reads After A Signal
    Shell Should Read After A Signal

Nobody Gets Another's Rights
    No File Should Be Setuid

Units Are Those That Were Decided On
    Units Should Be Allowed

Nothing Of A Test Is In The Image
    ${units}=    Guest    find /usr/lib/systemd /etc/systemd -name '*guest-shell*'
    Should Be Empty    ${units}

The File System Survives A Power Cut
    [Documentation]    f2fs, unless the data partition was made before.
    Write File    /var/lib/cairn/marker    kept
    Cut Power
    Power On
    System Is Running
    Node Is Up
    File Should Be    /var/lib/cairn/marker    kept
    Guest    rm /var/lib/cairn/marker

A Late Wish For Another File System Is Answered
    Shut Down
    Put Node Conf    filesystem=ext4\n
    Power On
    Node Is Up
    Should Be Mounted    /var    rw    f2fs
    Wait For Serial    comes too late

The Power Button Shuts The Node Down
    [Documentation]    A clean stop is noted when bitcoind has ended. The button of QEMU's PCs is
    ...    ACPI's, that of its ARM machine a key on a pin, as on the Raspberry Pi 5.
    System Is Running
    Node Is Up
    Wait For Unit    cairn-power-button@*
    ${before}=    Health
    Press Power Button
    Power On
    System Is Running
    Node Is Up
    ${after}=    Health
    Should Be Equal    ${after}[unclean_shutdowns]    ${before}[unclean_shutdowns]

The Second Boot Needs No Counting
    [Tags]    uefi
    ${entries}=    Guest    ls /boot/loader/entries
    Should Be Equal    ${entries}    cairn-a.conf
    System Is Running

A System That Hangs Is Reset
    [Documentation]    The i6300esb is the watchdog of QEMU's PCs. That of the Raspberry Pi:
    ...    tests/unit/test_pi_model.py.
    [Tags]    uefi
    Start VM    image-watchdog    watchdog=i6300esb
    System Is Running
    Watchdog Should Be Fed
    Hang The Init System
    Machine Should Reset Itself    120
    Power On
    System Is Running
