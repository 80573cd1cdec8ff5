################################################################################
#
# uplot
#
################################################################################

include $(BR2_EXTERNAL_CAIRN_PATH)/../package/uplot/source.env

UPLOT_VERSION = $(NPM_VERSION)
UPLOT_SOURCE = $(NPM_FILE)
# support/npm-source puts the tarball there before Buildroot is called.
UPLOT_SITE = $(CAIRN_DOWNLOADS)
UPLOT_SITE_METHOD = file
UPLOT_LICENSE = MIT
UPLOT_LICENSE_FILES = LICENSE

define UPLOT_INSTALL_TARGET_CMDS
	mkdir -p $(TARGET_DIR)/usr/share/cairn/page
	$(INSTALL) -m 644 $(@D)/dist/uPlot.iife.min.js $(@D)/dist/uPlot.min.css \
		$(TARGET_DIR)/usr/share/cairn/page/
endef

$(eval $(generic-package))
