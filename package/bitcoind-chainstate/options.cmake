# What Cairn switches on and off in Bitcoin Core, for both lanes: an initial cache
# for `cmake -C`. What the user can choose (wallet, ZMQ, tests, bench, LTO) is not
# here: each lane passes those five with -D.
set(BUILD_BITCOIN_BIN OFF CACHE BOOL "the multiprocess launcher has no second process here")
set(BUILD_CLI ON CACHE BOOL "node-cli, the status screen and the tests speak RPC through it")
set(BUILD_DAEMON ON CACHE BOOL "the product")
set(BUILD_FUZZ_BINARY OFF CACHE BOOL "built on its own when fuzzing")
set(BUILD_GUI OFF CACHE BOOL "no screen to draw on")
set(BUILD_TX OFF CACHE BOOL "not used")
set(ENABLE_EXTERNAL_SIGNER OFF CACHE BOOL "runs other programs: the unit's sandbox forbids it")
set(ENABLE_IPC OFF CACHE BOOL "needs Cap'n Proto and serves the multiprocess binaries only")
set(INSTALL_MAN OFF CACHE BOOL "no man in the image")
set(REDUCE_EXPORTS ON CACHE BOOL "smaller binary, nothing links against it")
# Upstream turns Release into -O2 without debug information; the image strips it anyway.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
