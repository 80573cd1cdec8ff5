*** Settings ***
Documentation     Heavy scripts and deep nesting: no thread of bitcoind runs out of stack.
...               The blocks were accepted by the stock daemon first.
Resource          resources/node.resource
Suite Setup       Start With Heavy Blocks
Suite Teardown    Run Keywords    Kill VM    AND    Stop Feeder

*** Keywords ***
Start With Heavy Blocks
    Start Feeder    ${FEEDER_PORT}    regtest
    ${top}=    Feed Script Heavy Blocks
    Set Suite Variable    ${TOP}    ${top}
    Start VM    scripts    chain=regtest\npar=4\n[regtest]\nconnect=10.0.2.100:8333\n
    ...    feeder=${FEEDER_PORT}

Nested
    [Documentation]    A JSON array in an array, this many times.
    [Arguments]    ${depth}
    RETURN    ${{ '[' * int($depth) + ']' * int($depth) }}

*** Test Cases ***
Script Heavy Blocks Are Accepted
    Wait For Height    ${TOP}    300
    ${ours}=    Node    getbestblockhash
    ${theirs}=    Feeder    getbestblockhash
    Should Be Equal    ${ours}    ${theirs}

Nested Arguments Do Not Overflow A Thread Of RPC
    [Documentation]    Univalue stops at 512 levels; 500 are read and written recursively.
    ${json}=    Nested    500
    ${answer}=    Guest    node-cli echojson '${json}' | tr -d ' \\n'
    Should Be Equal    ${answer}    [${json}]

Deep Descriptors Do Not Overflow A Thread Of RPC
    [Documentation]    128 levels of a script tree are the most that taproot has.
    ${key}=    Set Variable    c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5
    ${tree}=    Set Variable    ${{ ('{pk(' + $key + '),') * 127 + 'pk(' + $key + ')' + '}' * 127 }}
    ${answer}=    Node    getdescriptorinfo    tr(${key},${tree})
    Should Be True    ${answer}[isrange] is False

The Daemon Is Still The First One
    ${restarts}=    Property Of    bitcoind    NRestarts
    Should Be Equal As Integers    ${restarts}    0
