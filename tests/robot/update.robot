*** Settings ***
Documentation     Another version of the system: by HTTP, by a USB stick, and what becomes of one
...               that does not work or is not meant for this node. Needs a board's image, and the
...               keys that sign its bundles (support/bundle).
...               Variables: CUTS  power cuts in the last test, SEED  of moments and outcomes
Resource          resources/node.resource
Library           ${CURDIR}/lib/UpdateCuts.py
Library           ${CURDIR}/lib/Updates.py
Test Tags         buildroot
Suite Setup       Start Node With Updates
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder    AND    Stop Serving
Test Setup        Serve Updates    ${UPDATE_PORT}

*** Variables ***
${UPDATE_PORT}    ${18670}
${URL}            http://10.0.2.100:8334
${NEW}            9.0.0
${CUTS}           10
${SEED}           1

# Nothing in it restricts the network, for then there would be no download.
${CONF}           SEPARATOR=\n
...               addnode=10.0.2.100:8333    minimumchainwork=0x00    assumevalid=0
...               maxtipage=2000000000    prune=550    ${EMPTY}

*** Keywords ***
Start Node With Updates
    Start Feeder    ${FEEDER_PORT}
    Start VM    update    ${CONF}    feeder=${FEEDER_PORT} ${UPDATE_PORT}
    ...    watchdog=i6300esb
    Node Is Up
    Wait For Height    500
    Wait For Node To Be Good
    ${version}=    Running Version
    Set Suite Variable    ${OLD}    ${version}

Wait For Node To Be Good
    Guest Should Succeed Within    300    /usr/lib/cairn/cairn-boot-slot committed

Install And Restart
    [Arguments]    ${source}    @{options}
    Node Has Been Up For An Hour
    ${words}=    Catenate    --no-reboot    @{options}
    Guest    node-update install ${words} ${source}    timeout=900
    Try What Is Installed
    Restart As The Firmware Would

Is Refused
    [Arguments]    ${source}    ${words}    ${timeout}=120
    Node Has Been Up For An Hour
    Guest Should Refuse    node-update install ${source} >&2    ${words}    ${timeout}
    Guest    umount /proc/uptime
    ${next}=    Guest    /usr/lib/cairn/cairn-boot-slot get-primary
    ${current}=    Guest    /usr/lib/cairn/cairn-boot-slot get-current
    Should Be Equal    ${next}    ${current}

Falls Back
    [Documentation]    The broken version is tried, and the one before runs and says so.
    [Arguments]    ${broken}    ${words}    ${seconds}=900
    ${file}=    Make Update    9.9.0    broken=${broken}    seconds=300
    Install And Restart    ${URL}/${file}    --again
    Restart As The Firmware Would    seconds=${seconds}
    Wait Until It Answers
    Wait For Serial    ! Version 9.9.0 did not stay    timeout=300
    Wait For Serial    ${words}
    Version Should Be    ${VERSION}
    Node Is Up
    Wait For Height    500

*** Test Cases ***
A Version For Another Key Is Refused
    ${keys}=    Strangers Keys
    ${file}=    Make Update    ${NEW}    keys=${keys}
    Is Refused    ${URL}/${file}    not signed for this node
    Version Should Be    ${OLD}

A Version For Another Board Is Refused
    ${board}=    Other Board
    ${file}=    Make Update    ${NEW}    board=${board}
    Is Refused    ${URL}/${file}    is for another board (${board})
    Version Should Be    ${OLD}

A Version That Was Signed Too Long Ago Is Refused
    ${keys}=    Keys That End Soon
    ${file}=    Make Update    ${NEW}    keys=${keys}
    Move Clock    3
    Is Refused    ${URL}/${file}    the certificate that signed it has ended
    [Teardown]    Move Clock    -3

A File That Is Not Whole Is Refused
    ${file}=    Make Update    ${NEW}
    ${short}=    Only The Beginning Of    ${file}
    Is Refused    ${URL}/${short}    it is damaged or not whole
    Version Should Be    ${OLD}

A Version Of Before Is Refused
    ${file}=    Make Update    0.0.1
    Is Refused    ${URL}/${file}    is older than

A Server That Ends In The Middle Leaves The Old Version
    [Documentation]    Not each of the pieces that the kernel reads ahead is asked for five times:
    ...    patches/rauc/0003.
    ${file}=    Make Update    ${NEW}
    Serve Updates    ${UPDATE_PORT}    manner=half
    Is Refused    ${URL}/${file}    Nothing has changed    timeout=900
    Version Should Be    ${OLD}

A Server That Falls Silent Leaves The Old Version
    [Documentation]    RAUC waits five minutes.
    [Tags]    long
    ${file}=    Make Update    ${NEW}
    Serve Updates    ${UPDATE_PORT}    manner=silent
    Is Refused    ${URL}/${file}    Nothing has changed    timeout=900

A Server That Never Answers Leaves The Old Version
    [Documentation]    It takes the connection, and that is all: six tries of a minute each
    ...    (patches/rauc/0004).
    [Tags]    long
    ${file}=    Make Update    ${NEW}
    Serve Updates    ${UPDATE_PORT}    manner=mute
    Is Refused    ${URL}/${file}    Nothing has changed    timeout=900

A Full Disk Does Not Keep An Update Away
    [Documentation]    It needs no room there. The node itself does, when it starts.
    ${file}=    Make Update    8.0.0
    Leave Room On The Data Disk    0
    Node Has Been Up For An Hour
    Guest    node-update install --no-reboot ${URL}/${file}    timeout=900
    Give Room Back
    Try What Is Installed
    Restart As The Firmware Would
    Wait Until It Answers
    Wait For Serial    ! Version 8.0.0 is in use now    timeout=900
    Version Should Be    8.0.0
    Wait For Height    500
    [Teardown]    Give Room Back

By HTTP
    [Documentation]    Written from a slow server, tried, judged, and kept over a power cut.
    ${file}=    Make Update    ${NEW}
    Serve Updates    ${UPDATE_PORT}    manner=slow
    Install And Restart    ${URL}/${file}
    Wait Until It Answers
    Wait For Serial    ! Version ${NEW} is in use now    timeout=900
    Version Should Be    ${NEW}
    Wait For Height    500
    Cut Power
    Power On
    Node Is Up
    Version Should Be    ${NEW}
    Set Suite Variable    ${VERSION}    ${NEW}

A Unit That Fails Goes Back
    Falls Back    unit    broken.service

A System That Hangs Goes Back
    [Documentation]    By the watchdog. The virtual Raspberry Pi has none.
    [Tags]    uefi
    Falls Back    hang    it did not come up

A Kernel That Panics Goes Back
    Falls Back    panic    it did not come up

A Root That Does Not Mount Goes Back
    Falls Back    root    it did not come up

A Root That Is Not There Goes Back
    [Documentation]    The kernel waits three minutes for its partition (rootwait=), then panics.
    Falls Back    disk    it did not come up    seconds=1200

Three Failures Are Enough
    ${file}=    Make Update    9.9.0    broken=unit    seconds=300
    Is Refused    ${URL}/${file}    has failed three times

A Daemon That Does Not Answer Goes Back
    Falls Back    bitcoind    no answer from bitcoind    seconds=1800

By A USB Stick
    [Documentation]    Offered, and installed eleven minutes after a restart with the stick in. Its
    ...    unit has a /proc of its own (ProtectProc=), in which no test can make it later. On the
    ...    screen the offer stands behind what has become of the version of the test before.
    ${file}=    Make Update    10.0.0
    Shut Down
    Plug Update Stick    ${file}
    Power On
    Node Is Up
    Guest Should Succeed Within    300
    ...    grep -q 'The USB stick has version 10.0.0' /run/cairn/update.report
    Shut Down
    Power On
    Node Is Up
    Restart As The Firmware Would    seconds=1500
    Wait Until It Answers
    Wait For Serial    ! Version 10.0.0 is in use now    timeout=900
    Version Should Be    10.0.0

Back To The Version Before
    [Documentation]    Whichever that is: the test can be run behind one other that installs.
    Shut Down
    Plug Update Stick
    Power On
    Node Is Up
    ${before}=    Version Beside
    Guest    node-update rollback --no-reboot
    Try What Is Installed
    Restart As The Firmware Would
    Wait Until It Answers
    Wait For Serial    ! Version ${before} is in use now    timeout=900
    Version Should Be    ${before}

Power Cuts On The Way To Another Version
    [Documentation]    Two of each kind on a disk with a volatile cache; a new machine.
    [Tags]    long
    Start VM    update-cuts    ${CONF}    feeder=${FEEDER_PORT} ${UPDATE_PORT}
    ...    volatile=${True}    seed=${SEED}    watchdog=i6300esb
    Node Is Up
    Wait For Height    500
    Wait For Node To Be Good
    Repeat Keyword    ${CUTS} times    Survive A Power Cut During An Update    ${URL}
    ...    seed=${SEED}
    A Version Should Have Stayed
