################################################################################
#
# liblmdb
#
################################################################################

include $(BR2_EXTERNAL_CAIRN_PATH)/../package/liblmdb/source.env

LIBLMDB_VERSION = $(LMDB_RELEASE)
LIBLMDB_SOURCE = $(LMDB_SDIST_FILE)
# support/lmdb-source puts the sdist there before Buildroot is called.
LIBLMDB_SITE = $(CAIRN_DOWNLOADS)
LIBLMDB_SITE_METHOD = file
LIBLMDB_LICENSE = OLDAP-2.8
LIBLMDB_LICENSE_FILES = LICENSE
LIBLMDB_INSTALL_STAGING = YES
LIBLMDB_INSTALL_TARGET = NO

# LMDB's files and the licence out of the sdist, side by side as the patches want them.
define LIBLMDB_EXTRACT_CMDS
	$(TAR) --strip-components=2 -C $(@D) $(TAR_OPTIONS) $(LIBLMDB_DL_DIR)/$(LIBLMDB_SOURCE) \
		$(LMDB_SDIST_DIR)/lib1/lmdb.h $(LMDB_SDIST_DIR)/lib1/mdb.c \
		$(LMDB_SDIST_DIR)/lib1/midl.c $(LMDB_SDIST_DIR)/lib1/midl.h
	$(TAR) --strip-components=1 -C $(@D) $(TAR_OPTIONS) $(LIBLMDB_DL_DIR)/$(LIBLMDB_SOURCE) \
		$(LMDB_SDIST_DIR)/LICENSE
endef

LIBLMDB_MAKE = $(TARGET_MAKE_ENV) $(MAKE) -C $(@D) -f $(LIBLMDB_PKGDIR)/Makefile \
	VERSION=$(LIBLMDB_VERSION) CC="$(TARGET_CC)" AR="$(TARGET_AR)" \
	CPPFLAGS="$(TARGET_CPPFLAGS)" CFLAGS="$(TARGET_CFLAGS)"

define LIBLMDB_BUILD_CMDS
	$(LIBLMDB_MAKE)
endef

define LIBLMDB_INSTALL_STAGING_CMDS
	$(LIBLMDB_MAKE) DESTDIR="$(STAGING_DIR)" install
endef

$(eval $(generic-package))
