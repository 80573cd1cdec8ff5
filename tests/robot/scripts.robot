*** Settings ***
Documentation     Heavy scripts and deep nesting: no thread of bitcoind runs out of stack.
...               The blocks were accepted by the stock daemon first.
Resource          resources/node.resource
Suite Setup       Start With Heavy Blocks
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder

*** Variables ***
${KEY}            c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5

*** Keywords ***
Start With Heavy Blocks
    Start Feeder    ${FEEDER_PORT}    regtest
    ${top}=    Feed Script Heavy Blocks
    Set Suite Variable    ${TOP}    ${top}
    Start VM    scripts    chain=regtest\npar=4\n[regtest]\nconnect=10.0.2.100:8333\n
    ...    feeder=${FEEDER_PORT}

*** Test Cases ***
Script Heavy Blocks Are Accepted
    Wait For Height    ${TOP}    300
    ${ours}=    Node    getbestblockhash
    ${theirs}=    Feeder    getbestblockhash
    Should Be Equal    ${ours}    ${theirs}

Nested Arguments Do Not Overflow A Thread Of RPC
    [Documentation]    Univalue stops at 512 levels; 500 are read and written recursively.
    Nested Array Should Come Back    500

Deep Descriptors Do Not Overflow A Thread Of RPC
    [Documentation]    128 levels of a script tree are the most that taproot has.
    ${descriptor}=    Nested Descriptor    ${KEY}    depth=127
    ${answer}=    Node    getdescriptorinfo    ${descriptor}
    Should Be Equal    ${answer}[isrange]    ${False}

The Daemon Is Still The First One
    Property Should Be    bitcoind    NRestarts    0
