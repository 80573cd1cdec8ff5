# Cairn: Bitcoin node firmware. `make help` lists the targets.
#
# Variables: BOARD=NAME            board, for show-config, qemu, flash, legal-info; default: the
#                                  one whose meta has HOST_LANE="yes" ('make help' lists all)
#            BUILDROOT=DIR         an unpacked Buildroot release instead of a clone of it
#            DEV=/dev/sdX          card or disk, for flash (FORCE=1: also a built-in one)
#            IMAGE=FILE            image under test (default: the development image; for
#                                  bench-filesystems: the image of the default BOARD)
#            DEVIMAGE_SUITE=NAME   Debian/Ubuntu release of the development image
#            DIR=FOLDER            where bench-lmdb, -leveldb, -reads, -inputs write, on the disk
#                                  in question
#            BENCH='OPTION...'     for bench, see bench/compare.py
#            CHAINGEN='OPTION...'  for chaingen, see support/chaingen -help
#            CAIRN_ACCEL=kvm|tcg   skip the probe for KVM
#            CAIRN_CACHE=DIR       downloads, compiler cache (default ~/.cache/cairn)
#            CORE=DIR, CORE_REV=REV  for verify-source, core-table
#            ONLY=NAME             for test: one stage (lint, unit, hostile, browser, core,
#                                  functional, robot)
#            SUITE=NAME            for robot: one suite (boot, service, sync, …), all of it
#            CUTS=N, SEED=N        for powerloss: power cuts for each engine, default 200, and
#                                  first seed
#            ENGINE=leveldb|lmdb   for powerloss-replay, default leveldb
#            CHAIN=main|regtest|deep  for powerloss-replay, default main
#            STATES=N, SEED=N      for powerloss-replay, default 2000 and 1; for powerloss-update,
#                                  default 200 and 1
#            BOARD_HOST=NAME[:PORT]  a node: robot tests it instead of an image in QEMU; for
#                                  board-report, board-restore. docs/develop/board-lane.md has these
#                                  words and what they allow
#            BOARD_KEY=FILE        private key for its SSH (default: your agent's and your own)
#            BOARD_POWER='COMMAND...'  command that cuts its power: `on` or `off` is put behind it,
#                                  and a shell runs it
#            BOARD_SERIAL=/dev/ttyX[,SPEED]  serial port with its console (default speed 115200)
#            BOARD_FEEDER=ADDRESS[:PORT]  where it reaches this machine
#            BOARD_MAY_WIPE=WORD   gives up its data; make robot says which word it is
#            VERSION=N.N.N         for release, as in the file VERSION
#            BOARDS='NAME...'      for release: only these boards, default all
#            REHEARSE=1, UNSIGNED=1  for release: without tag, date and keys, or to compare only;
#                                  see support/release
#            STAGE=build|sign      for release: only this part of it
#            MINUTES=N, CUTS=N     for board-report: time under load, default 5, and power cuts,
#                                  default 0
MAKEFLAGS += --no-print-directory
# Debian leaves the folders of sfdisk and mkfs out of a normal user's PATH.
export PATH := $(value PATH):/usr/local/sbin:/usr/sbin:/sbin
.DEFAULT_GOAL := help

# Boards are folders: a new one needs no line here. Which of them is the host lane's, board.sh says.
BOARD_NAMES := $(patsubst board/%/meta,%,$(sort $(wildcard board/*/meta)))
HOST_BOARD := $(shell ROOT=. && die() { echo "make: $$*" >&2; exit 1; } && \
	. ./support/board.sh && host_board)
ifeq ($(origin BOARD),undefined)
BOARD := $(HOST_BOARD)
endif
export BUILDROOT FORCE

# What the user says reaches the programs as it is, through the environment: in a recipe's text
# the shell would take spaces, quotes and semicolons in it for its own, and make a dollar sign.
BOARD_WORDS := BOARD_HOST BOARD_KEY BOARD_POWER BOARD_SERIAL BOARD_FEEDER BOARD_MAY_WIPE
WORDS := BOARD BOARDS BUILDROOT CORE CORE_REV CUTS DEV DIR ENGINE CHAIN FORCE IMAGE MINUTES ONLY \
	REHEARSE SEED STAGE STATES SUITE UNSIGNED VERSION $(BOARD_WORDS)
$(foreach word,$(WORDS),$(if $(filter-out undefined,$(origin $(word))),\
	$(eval override $(word) := $$(value $(word)))))
# Each target exports only its own words; a program of Buildroot's may know one of the others.
flash show-config qemu legal-info powerloss-update: override export BOARD := $(BOARD)
flash: override export DEV := $(DEV)
verify-source core-table: override export CORE := $(CORE)
verify-source core-table: override export CORE_REV := $(CORE_REV)
test robot powerloss bench-filesystems: override export IMAGE := $(IMAGE)
test: override export ONLY := $(ONLY)
robot: override export SUITE := $(SUITE)
powerloss board-report: override export CUTS := $(CUTS)
board-report: override export MINUTES := $(MINUTES)
$(foreach word,$(BOARD_WORDS),$(eval robot board-report board-restore: \
	override export $(word) := $$($(word))))
release: override export VERSION := $(VERSION)
release: override export BOARDS := $(BOARDS)
release: override export REHEARSE := $(REHEARSE)
release: override export UNSIGNED := $(UNSIGNED)
release: override export STAGE := $(STAGE)
powerloss powerloss-replay powerloss-update: override export SEED := $(SEED)
powerloss-replay: override export ENGINE := $(ENGINE)
powerloss-replay: override export CHAIN := $(CHAIN)
powerloss-replay powerloss-update: override export STATES := $(STATES)
bench-lmdb bench-leveldb bench-reads bench-inputs: override export DIR := $(DIR)

.PHONY: help run qemu flash check test lint unit hostile core-test functional robot board-report \
	board-restore board-play powerloss powerloss-replay powerloss-update bench \
	bench-filesystems bench-lmdb bench-leveldb bench-reads bench-inputs chaingen profile \
	$(BOARD_NAMES) devimage release core core-tests core-edit core-patches core-table source \
	verify-source keyword-docs bootstrap show-config legal-info clean distclean

##@ Use: a node in QEMU or on a card

help: ## this list
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^\$$\(BOARD_NAMES\):/ { boards($$2) } \
		/^[a-z0-9_-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 } \
		function boards(text,  names, count, n, line, words) { \
			count = split("$(BOARD_NAMES)", names, " "); \
			for (n = 1; n <= count; n++) { \
				words = text; gsub("BOARD", names[n], words); \
				while ((getline line < ("board/" names[n] "/meta")) > 0) \
					if (sub(/^TITLE="/, "", line) && sub(/"$$/, "", line)) sub("TITLE", line, words); \
				printf "  %-18s %s\n", names[n], words } }' $(MAKEFILE_LIST)

run: bootstrap ## build everything, boot the node in QEMU and sync real blocks (Ctrl-A X quits)
	@support/run

qemu: ## boot the board's finished disk image in QEMU (BOARD=; Ctrl-A X quits)
	@support/run-image "$$BOARD"

flash: ## write the board's image to a card or disk and verify it (BOARD=, DEV=)
	@case $$DEV in *[![:space:]]*) ;; *) \
		echo "make: say which card or disk: make flash BOARD=$$BOARD DEV=/dev/sdX" >&2; exit 2 ;; esac
	@support/flash "out/$$BOARD/cairn-$$BOARD.img" "$$DEV"

##@ Test: does it still do what it should

check: bootstrap ## the inner loop, 10 minutes at most: lint, unit and hostile, no slow tests
	@.venv/bin/python tests/run.py --check

test: bootstrap ## every check; first says how long each stage took here the last time
	@.venv/bin/python tests/run.py $${ONLY:+--only "$$ONLY"} $${IMAGE:+--image "$$IMAGE"}

lint: bootstrap ## shellcheck, ruff, mypy and the rules of the house
	@.venv/bin/python tests/run.py --only lint

unit: bootstrap ## tests of Cairn's own scripts
	@.venv/bin/python tests/run.py --only unit

hostile: bootstrap ## input that is meant to do harm
	@.venv/bin/python tests/run.py --only hostile

core-test: bootstrap ## Bitcoin Core's unit tests on the patched source
	@.venv/bin/python tests/run.py --only core

functional: bootstrap ## Bitcoin Core's functional tests of tests/core/functional.txt
	@.venv/bin/python tests/run.py --only functional

robot: bootstrap ## boot the image in QEMU and test it (IMAGE=, SUITE=), or a board (BOARD_HOST=)
	@.venv/bin/python tests/run.py --only robot \
		$${IMAGE:+--image "$$IMAGE"} $${SUITE:+--suite "$$SUITE"}

board-report: bootstrap ## a page about a board: out/board-report-HOST-DATE.md (BOARD_HOST=)
	@.venv/bin/python support/board-report

board-restore: bootstrap ## put back a board's own data after tests that were interrupted (BOARD_HOST=)
	@.venv/bin/python support/board-restore

board-play: devimage ## prove the board lane: QEMU plays the board (half an hour, emulated)
	@.venv/bin/python -m pytest -q -m long tests/board

powerloss: devimage ## power cuts of many machines (CUTS=200, SEED=1, IMAGE=); table in out/powerloss
	@.venv/bin/python tests/powerloss/campaign.py $${CUTS:+--cuts "$$CUTS"} $${SEED:+--seed "$$SEED"} \
		$${IMAGE:+--image "$$IMAGE"}

powerloss-replay: core ## thousands of power cuts from the trace of one node's disk (ENGINE=, CHAIN=, STATES=, SEED=)
	@.venv/bin/python tests/powerloss/replay.py run --engine "$${ENGINE:-leveldb}" \
		--chain "$${CHAIN:-main}" --states "$${STATES:-2000}" --seed "$${SEED:-1}"

powerloss-update: devimage ## power cuts during an update of a board (BOARD=, STATES=200, SEED=1), as root
	@.venv/bin/python tests/powerloss/update_replay.py run --board "$${BOARD:-rpi5}" \
		--states "$${STATES:-200}" --seed "$${SEED:-1}"

##@ Measure: how fast it is, and what it writes

bench: bootstrap ## sync a chain with stock Core and with Cairn's in turn: docs/reports (BENCH=)
	@support/bench $(BENCH)

bench-filesystems: bootstrap ## what a sync writes on ext4 and on f2fs, on a Buildroot image (IMAGE=)
	@support/core-build --stock
	@.venv/bin/robot --outputdir out/bench/filesystems --variable TIMEOUT_FACTOR:3 \
		--variable "IMAGE:$${IMAGE:-out/$(HOST_BOARD)/cairn-$(HOST_BOARD).img}" \
		bench/filesystems.robot

bench-lmdb: bootstrap ## optional engine: pages that LMDB writes per change, cost of a read (DIR=)
	@support/bench-lmdb $${DIR:+"$$DIR"}

bench-leveldb: bootstrap ## bytes that LevelDB writes per byte that changes, with its levels and ours (DIR=)
	@support/bench-leveldb $${DIR:+"$$DIR"}

bench-reads: bootstrap ## reads of coins that are not in memory: docs/reports (DIR=)
	@support/bench-reads $${DIR:+"$$DIR"}

bench-inputs: bootstrap ## what looking up a block's inputs on several threads brings (DIR=)
	@support/bench-inputs $${DIR:+"$$DIR"}

chaingen: bootstrap ## a chain to sync in benchmarks, out/bench/chain.blk (CHAINGEN=)
	@support/chaingen $(CHAINGEN)

profile: bootstrap ## flame graph of a sync of real blocks on an image of the host lane's board
	@.venv/bin/python support/profile

keyword-docs: bootstrap ## page of the Robot keywords, docs/reports/keywords.md
	@.venv/bin/python support/keyword-docs

##@ Build: images, Bitcoin Core, and what they are made of

$(BOARD_NAMES): bootstrap ## the image for TITLE, out/BOARD/cairn-BOARD.img (an hour or more)
	@support/image $@

release: bootstrap ## images, bundles, sums and signature from a clean clone (VERSION=, BOARDS=)
	@.venv/bin/python support/release $${REHEARSE:+--rehearse} $${UNSIGNED:+--unsigned} \
		--stage "$$STAGE" --boards "$$BOARDS" -- "$$VERSION"

devimage: core ## the development image, out/devimage/cairn-dev.img
	@support/devimage

core: bootstrap ## compile bitcoind for the host lane, patched and stock
	@support/core-build
	@support/core-build --stock

core-tests: bootstrap ## compile Bitcoin Core's tests, too
	@support/core-build --tests

core-edit: bootstrap ## git trees to edit the patches in, below out/edit
	@support/core-edit

core-patches: bootstrap ## write the commits of these trees back to patches/
	@support/core-patches

core-table: bootstrap ## sizes and conflicts of the patches, into their README (CORE=, CORE_REV=)
	@support/core-table "$$CORE" $${CORE_REV:+"$$CORE_REV"}

source: bootstrap ## the pinned Bitcoin Core source as one archive
	@support/core-source

verify-source: bootstrap ## prove that the archive is upstream's tree (CORE=clone of bitcoin/bitcoin)
	@support/verify-source "$$CORE" $${CORE_REV:+"$$CORE_REV"}

bootstrap: ## install the packages and Python tools the host lane needs
	@support/bootstrap

show-config: bootstrap ## the board's merged Buildroot configuration (BOARD=)
	@support/buildroot-config --show "$$BOARD"

legal-info: bootstrap ## licences and sources of everything in the board's image (BOARD=)
	@support/buildroot-config "$$BOARD"
	@support/buildroot "$$BOARD" legal-info

clean: ## remove what was built (keeps the cache and out/keys, whose updates your nodes take)
	@{ [ ! -e out ] || find out/ -mindepth 1 -maxdepth 1 ! -name keys ! -name 'keys.*' \
		-exec rm -rf {} + && rm -rf .venv; } 2>/dev/null || { echo "make: parts of out or .venv" \
		"are another user's, or this checkout is read-only; run 'sudo make clean'" >&2; exit 2; }
	@rmdir out 2>/dev/null || :

distclean: clean ## remove what was built and the cache (keeps out/keys)
	@rm -rf "$${CAIRN_CACHE:-$$HOME/.cache/cairn}" 2>/dev/null || { echo "make: parts of the cache" \
		"$${CAIRN_CACHE:-$$HOME/.cache/cairn} are another user's; remove it as root" >&2; exit 2; }

# An unknown target gets one sentence instead of make's own.
%:
	@echo "make: there is no target '$@'; 'make help' lists them" >&2; exit 2

Makefile: ;
