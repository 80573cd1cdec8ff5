# Cairn: Bitcoin node firmware. `make help` lists the targets.
#
# Variables: IMAGE=FILE            image under test (default: the development image)
#            DEVIMAGE_SUITE=NAME   Debian/Ubuntu release of the development image
#            CAIRN_ACCEL=kvm|tcg   skip the probe for KVM
#            CAIRN_CACHE=DIR       downloads, compiler cache (default ~/.cache/cairn)
#            CORE=DIR, CORE_REV=REV  for verify-source
#            ONLY=NAME             for test: one stage (lint, unit, core, functional, robot)
#            SUITE=NAME            for robot: one suite (boot, service, sync, config, tune)
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

.PHONY: help run test lint unit core-test functional robot bootstrap source verify-source \
	core core-tests devimage clean distclean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: bootstrap ## build everything, boot the node in QEMU and sync real blocks (Ctrl-A X quits)
	@support/run

test: bootstrap ## every check; prints "N passed, N failed, N skipped"
	@.venv/bin/python tests/run.py $(if $(ONLY),--only $(ONLY)) $(if $(IMAGE),--image $(IMAGE))

lint: bootstrap ## shellcheck, ruff and the rules of the house
	@.venv/bin/python tests/run.py --only lint

unit: bootstrap ## tests of Cairn's own scripts
	@.venv/bin/python tests/run.py --only unit

core-test: bootstrap ## Bitcoin Core's unit tests on the patched source
	@.venv/bin/python tests/run.py --only core

functional: bootstrap ## Bitcoin Core's functional tests of tests/core/functional.txt
	@.venv/bin/python tests/run.py --only functional

robot: bootstrap ## boot the image in QEMU and test it (IMAGE=, SUITE=)
	@.venv/bin/python tests/run.py --only robot $(if $(IMAGE),--image $(IMAGE)) $(if $(SUITE),--suite $(SUITE))

bootstrap: ## install the packages and Python tools the host lane needs
	@support/bootstrap

source: bootstrap ## the pinned Bitcoin Core source as one archive
	@support/core-source

verify-source: bootstrap ## prove that the archive is upstream's tree (CORE=clone of bitcoin/bitcoin)
	@support/verify-source "$(CORE)" $(CORE_REV)

core: bootstrap ## compile bitcoind for the host lane, patched and stock
	@support/core-build
	@support/core-build --stock

core-tests: bootstrap ## compile Bitcoin Core's tests, too
	@support/core-build --tests

devimage: core ## the development image, out/devimage/cairn-dev.img
	@support/devimage

clean: ## remove what was built (keeps the cache)
	rm -rf out .venv

distclean: clean ## remove what was built and the cache
	rm -rf "$${CAIRN_CACHE:-$$HOME/.cache/cairn}"

# An unknown target gets one sentence instead of make's own.
%:
	@echo "make: there is no target '$@'; 'make help' lists them" >&2; exit 2

Makefile: ;
