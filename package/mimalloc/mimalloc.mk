################################################################################
#
# mimalloc
#
################################################################################

# The Rust crate carries upstream's unchanged tree of 2.3.2; unlike an archive made by a
# forge on demand, its bytes are fixed by the registry.
MIMALLOC_VERSION = 2.3.2
MIMALLOC_CRATE_VERSION = 0.1.49
MIMALLOC_SOURCE = libmimalloc-sys-$(MIMALLOC_CRATE_VERSION).crate
MIMALLOC_SITE = https://static.crates.io/crates/libmimalloc-sys
MIMALLOC_LICENSE = MIT
MIMALLOC_LICENSE_FILES = c_src/mimalloc/v2/LICENSE
MIMALLOC_SUBDIR = c_src/mimalloc/v2
MIMALLOC_INSTALL_STAGING = YES
MIMALLOC_INSTALL_TARGET = NO

MIMALLOC_CONF_OPTS = \
	-DMI_BUILD_SHARED=OFF \
	-DMI_BUILD_STATIC=ON \
	-DMI_BUILD_OBJECT=OFF \
	-DMI_BUILD_TESTS=OFF \
	-DMI_OVERRIDE=ON \
	-DMI_LIBC_MUSL=$(if $(BR2_TOOLCHAIN_USES_MUSL),ON,OFF) \
	-DMI_INSTALL_TOPLEVEL=ON

# A crate is a compressed tar archive under another name.
define MIMALLOC_EXTRACT_CMDS
	$(TAR) --strip-components=1 -C $(@D) $(TAR_OPTIONS) $(MIMALLOC_DL_DIR)/$(MIMALLOC_SOURCE)
endef

$(eval $(cmake-package))
