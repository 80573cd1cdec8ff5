################################################################################
#
# bitcoind-chainstate
#
################################################################################

include $(BR2_EXTERNAL_CAIRN_PATH)/../package/bitcoind-chainstate/source.env

BITCOIND_CHAINSTATE_VERSION = $(CORE_COMMIT)
# support/core-source puts the archive there before Buildroot is called.
BITCOIND_CHAINSTATE_SITE = $(CAIRN_DOWNLOADS)
BITCOIND_CHAINSTATE_SITE_METHOD = file
BITCOIND_CHAINSTATE_LICENSE = MIT
BITCOIND_CHAINSTATE_LICENSE_FILES = COPYING
BITCOIND_CHAINSTATE_CPE_ID_VENDOR = bitcoin
BITCOIND_CHAINSTATE_CPE_ID_PRODUCT = bitcoin_core
BITCOIND_CHAINSTATE_SUPPORTS_IN_SOURCE_BUILD = NO
# Buildroot's output may lie in a git repository, whose commit is not Core's.
BITCOIND_CHAINSTATE_BUILD_ENV = BITCOIN_GENBUILD_NO_GIT=1
BITCOIND_CHAINSTATE_DEPENDENCIES = boost libevent host-pkgconf

# Everything that is not the user's choice stands in options.cmake, which the host
# lane uses, too. Buildroot has its own compiler cache.
BITCOIND_CHAINSTATE_CONF_OPTS = \
	-C $(BITCOIND_CHAINSTATE_PKGDIR)/options.cmake \
	-DWITH_CCACHE=OFF

ifeq ($(BR2_PACKAGE_BITCOIND_CHAINSTATE_WALLET),y)
BITCOIND_CHAINSTATE_DEPENDENCIES += sqlite
BITCOIND_CHAINSTATE_CONF_OPTS += -DENABLE_WALLET=ON
else
BITCOIND_CHAINSTATE_CONF_OPTS += -DENABLE_WALLET=OFF
endif

ifeq ($(BR2_PACKAGE_BITCOIND_CHAINSTATE_ZMQ),y)
BITCOIND_CHAINSTATE_DEPENDENCIES += zeromq
BITCOIND_CHAINSTATE_CONF_OPTS += -DWITH_ZMQ=ON
else
BITCOIND_CHAINSTATE_CONF_OPTS += -DWITH_ZMQ=OFF
endif

ifeq ($(BR2_PACKAGE_BITCOIND_CHAINSTATE_LMDB),y)
BITCOIND_CHAINSTATE_DEPENDENCIES += liblmdb
BITCOIND_CHAINSTATE_CONF_OPTS += \
	-DWITH_LMDB=ON \
	-DLMDB_ROOT=$(STAGING_DIR)/usr \
	-DDEFAULT_DBBACKEND=$(if $(BR2_PACKAGE_BITCOIND_CHAINSTATE_BACKEND_LMDB),lmdb,leveldb)
else
BITCOIND_CHAINSTATE_CONF_OPTS += -DWITH_LMDB=OFF
endif

ifeq ($(BR2_PACKAGE_BITCOIND_CHAINSTATE_TESTS),y)
BITCOIND_CHAINSTATE_CONF_OPTS += -DBUILD_TESTS=ON -DBUILD_BENCH=ON
else
BITCOIND_CHAINSTATE_CONF_OPTS += -DBUILD_TESTS=OFF -DBUILD_BENCH=OFF
endif

# musl gives a thread 128 KiB of stack unless the program's header asks for more; Core is
# written and tested where it is 8 MiB (and 8 MiB is the most that musl takes from there).
# Address space only: a thread's stack costs the pages that it touches.
ifeq ($(BR2_TOOLCHAIN_USES_MUSL),y)
BITCOIND_CHAINSTATE_LDFLAGS += -Wl,-z,stack-size=8388608
endif

ifeq ($(BR2_PACKAGE_BITCOIND_CHAINSTATE_MALLOC_JEMALLOC),y)
BITCOIND_CHAINSTATE_DEPENDENCIES += jemalloc
BITCOIND_CHAINSTATE_LDFLAGS += -ljemalloc
# One arena instead of four per processor: the threads have caches of their own before it,
# and memory that one of them freed is there for all of them. A sync took 27.0 and 26.8 s with
# one, 29.4 and 28.1 with eight, and peak RSS was 187 and 161 MiB instead of 201 and 191 (small
# bench chain, dbcache=4, two cores).
JEMALLOC_CONF_OPTS += --with-malloc-conf=narenas:1
endif

BITCOIND_CHAINSTATE_CONF_OPTS += -DAPPEND_LDFLAGS="$(BITCOIND_CHAINSTATE_LDFLAGS)"

ifeq ($(BR2_PACKAGE_BITCOIND_CHAINSTATE_LTO),y)
BITCOIND_CHAINSTATE_CONF_OPTS += -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON
else
BITCOIND_CHAINSTATE_CONF_OPTS += -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF
endif

$(eval $(cmake-package))
