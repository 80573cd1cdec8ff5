include $(sort $(wildcard $(BR2_EXTERNAL_CAIRN_PATH)/../package/*/*.mk))
