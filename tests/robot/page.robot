*** Settings ***
Documentation     The node's page, as a browser in the owner's network shows it, from the first
...               sync to a full disk: at the size of a phone and of a desktop, by Debian's
...               Chromium. Pictures of each state stand beside the log.
Resource          resources/node.resource
Library           SeleniumLibrary
Library           ${CURDIR}/lib/Page.py
Library           ${CURDIR}/lib/Updates.py
Suite Setup       Start Node And Browser
Suite Teardown    Run Keywords    Close All Browsers    AND    Kill VM    AND    Stop Feeder

*** Variables ***
${WEB_PORT}       ${18680}

*** Keywords ***
Start Node And Browser
    Start Feeder    ${FEEDER_PORT}
    Start VM    page    ${INITIAL_CONF}prune=550\n    feeder=${FEEDER_PORT}    web=${WEB_PORT}
    Open Browser Of The Owner    ${WEB_PORT}

*** Test Cases ***
In The First Sync
    Wait For Height    500
    Page Should Come To Say    ^Synchronising: block [\\d,]+ of 14,131
    Page Should Be In Order    syncing
    Element Should Be Visible    css:progress, [role=progressbar]

Stopped
    [Tags]    long
    Guest    systemctl stop bitcoind
    Page Should Come To Say    ^The node is not running
    Page Should Be In Order    stopped

Starting
    [Documentation]    The daemon is held where it begins.
    [Tags]    long
    Daemon Starts And Is Held
    Page Should Come To Say    ^Starting
    Page Should Be In Order    starting
    Held Daemon Goes On
    Node Is Up

Up To Date
    [Tags]    long
    Shut Down
    Put Node Conf    ${SYNC_CONF}prune=550\n
    Power On
    Wait For Height    ${TOP}    600
    Page Should Come To Say    ^Up to date: block 14,131    300
    Page Should Be In Order    tip
    Page Should Contain    Connect a wallet

No Connection
    [Documentation]    After five minutes, as a node that has just started has none, either.
    [Tags]    long
    Node    setnetworkactive    false
    Page Should Come To Warn    The node has no connection to other nodes    600
    Page Should Be In Order    no-network
    Node    setnetworkactive    true

An Update Is Available
    [Documentation]    On a USB stick.
    [Tags]    long    buildroot
    ${file}=    Make Update    9.0.0
    Shut Down
    Plug Update Stick    ${file}
    Power On
    Node Is Up
    Page Should Come To Warn    The USB stick has version 9.0.0    300
    Page Should Be In Order    update
    Shut Down
    Plug Update Stick
    Power On
    Node Is Up

A Full Disk
    [Documentation]    bitcoind does not start with less than 50 MB.
    [Tags]    long
    Leave Room On The Data Disk    30
    Guest    systemctl --no-block restart bitcoind
    Page Should Come To Warn    The data partition is full    300
    Page Should Come To Say    ^The node is not running
    Page Should Be In Order    full
    Give Room Back
    Reboot
    Node Is Up

A Damaged Database
    [Documentation]    On a node that knows an old tip from the real one: until then it rebuilds.
    [Tags]    long
    Shut Down
    Put Node Conf    ${INITIAL_CONF}prune=550\n
    Power On
    Node Is Up
    Damage LevelDB
    Page Should Come To Say    ^Rebuilding a damaged database    600
    Page Should Be In Order    rebuilding
