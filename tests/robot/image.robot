*** Settings ***
Documentation     What only Buildroot's images have: boot loader, f2fs, the board's processor.
Resource          resources/node.resource
Test Tags         buildroot
Suite Setup       Start VM    image    filesystem=f2fs\n
Suite Teardown    Kill VM

*** Test Cases ***
Data Partition Is What Was Asked For
    System Is Running
    Node Is Up
    Guest    grep -q ' /var f2fs rw' /proc/mounts
    ${mib}=    Guest    df -Pm /var | awk 'NR == 2 { print $2 }'
    Should Be True    ${mib} > 6000

The First Good Boot Takes The Tries Off The Boot Entry
    [Tags]    uefi
    Guest Should Succeed Within    120    test -e /boot/loader/entries/cairn-a.conf
    ${entries}=    Guest    ls /boot/loader/entries
    Should Be Equal    ${entries}    cairn-a.conf
    Guest Should Succeed Within    30    systemctl is-active systemd-bless-boot

Boot Partition Is Read Only
    Guest    grep -qE ' /boot vfat ro[, ]' /proc/mounts

Hashing Uses The Processor's Instructions
    [Documentation]    Which of them, on a PC, depends on what QEMU's version emulates.
    ${line}=    Guest    journalctl -b -u bitcoind --no-pager -o cat | grep 'SHA256 implementation'
    Should Match Regexp    ${line}    (x86_shani|arm_shani|avx2|sse41)

The Daemon's Memory Is One Arena Of Jemalloc
    [Documentation]    Nothing of it is given back by mapping PROT_NONE over it: patches/jemalloc.
    Guest    grep -q libjemalloc /proc/$(pidof bitcoind)/maps
    ${arenas}=    Guest
    ...    MALLOC_CONF=stats_print:true bitcoind -version 2>&1 | sed -n 's/^ *opt.narenas: *//p'
    Should Be Equal    ${arenas}    1
    ${state}=    Guest
    ...    nsenter -t $(pidof bitcoind) -m test -e /proc/sys/vm/overcommit_memory || echo hidden
    Should Be Equal    ${state}    hidden
    ${mappings}=    Guest    wc -l </proc/$(pidof bitcoind)/maps
    Should Be True    ${mappings} < 200

The Kernel Is Configured As Written
    ${lost}=    Kernel Options Lost
    Should Be Empty    ${lost}

Nothing Of A Test Is In The Image
    ${units}=    Guest    find /usr/lib/systemd /etc/systemd -name '*guest-shell*'
    Should Be Empty    ${units}

F2fs Survives A Power Cut
    Guest    echo kept >/var/lib/cairn/marker && sync
    Cut Power
    Power On
    System Is Running
    Node Is Up
    ${marker}=    Guest    cat /var/lib/cairn/marker
    Should Be Equal    ${marker}    kept

A Late Wish For Another File System Is Answered
    Shut Down
    Put Node Conf    filesystem=ext4\n
    Power On
    Node Is Up
    Guest    grep -q ' /var f2fs rw' /proc/mounts
    Wait For Serial    comes too late

The Second Boot Needs No Counting
    [Tags]    uefi
    ${entries}=    Guest    ls /boot/loader/entries
    Should Be Equal    ${entries}    cairn-a.conf
    System Is Running
