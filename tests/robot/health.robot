*** Settings ***
Documentation     The machine's health: the guest's own, and a made-up Raspberry Pi's, whose
...               firmware and sensors are files. The collector and its shell are the image's.
Resource          resources/node.resource
Library           ${CURDIR}/lib/Health.py
Suite Setup       Start VM    health    chain=regtest\n
Suite Teardown    Kill VM

*** Variables ***
${FIRMWARE}       sys/devices/platform/soc/soc:firmware/get_throttled
${HOT}            sys/class/thermal/thermal_zone0/temp

*** Test Cases ***
The Node's Own Health Fits The Schema
    ${health}=    Health
    Should Not Be Empty    ${health}[disks]
    Should Be Equal    ${health}[schema]    ${1}

What The Hardware Does Not Tell Is Not Guessed
    [Documentation]    QEMU's machines have neither a sensor nor a Raspberry Pi's firmware.
    ${health}=    Health
    Should Be Equal    ${health}[undervoltage_now]    ${None}
    Should Be Equal    ${health}[boot_firmware_date]    ${None}

A Raspberry Pi's Figures Are Read
    ${health}=    Health Of A Made Up Raspberry Pi
    Should Be Equal As Numbers    ${health}[temperature_celsius]    51.2
    Should Be Equal As Numbers    ${health}[temperature_limit_celsius]    82
    Should Be Equal    ${health}[boot_firmware_date]    2024-09-10
    Should Be Equal    ${health}[undervoltage_since_boot]    ${False}
    Should Be Equal    ${health}[disks][0][life_used_percent]    ${20}
    Should Be Empty    ${health}[attention]

The Firmware's Bits Are Read
    [Documentation]    Bits 0 and 16: too weak a supply now, and at some time since the start.
    ${health}=    Health Of A Made Up Raspberry Pi    ${FIRMWARE}=50005
    Should Be Equal    ${health}[undervoltage_now]    ${True}
    Should Be Equal    ${health}[throttled_now]    ${True}
    Should Contain    ${health}[attention]    undervoltage

Figures That Are None Are Not Shown
    ${health}=    Health Of A Made Up Raspberry Pi    ${HOT}=\x1b[2Jhot", "x": "y
    ...    ${FIRMWARE}=`reboot`
    Should Be Equal    ${health}[temperature_celsius]    ${None}
    Should Be Equal    ${health}[throttled_now]    ${False}

What Is Wrong Is On The Screen
    Show The Health Of A Made Up Raspberry Pi    ${HOT}=90000    ${FIRMWARE}=10001
    Wait For Serial    The power supply was too weak
    Wait For Serial    The processor is hot (90 C)
