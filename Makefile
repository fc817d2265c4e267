# SPDX-License-Identifier: GPL-2.0-only
#
# mcspin. `make help` lists what there is to say. GNU make and nothing else; each rule that needs a
# Debian package brings it through tests/need (sudo where not root).

BUILD	?= build
ifeq ($(origin CC),default)
CC	:= gcc
endif
CLANG	?= clang
PYTHON	?= /usr/bin/python3
# Debian's python3 carries the distribution's pytest; another first in PATH may not.

CPU	?= Cascadelake-Server
SMP	?= 2
OPTIONS	?=

# One short line for each command; V=1 shows the commands, -s nothing.
ifndef V
.SILENT:
endif
SAY	= @$(if $(findstring s,$(firstword -$(MAKEFLAGS))),:,echo) >&2

VERSION	:= $(shell git describe --always --dirty --tags 2>/dev/null || echo unknown)

include linker/core.mk
include linker/image.mk
include tests/tests.mk

.DEFAULT_GOAL := all
.PHONY: all clean help
all: $(BUILD)/mcspin.efi

clean:
	rm -rf $(BUILD)

#help make                   build/mcspin.efi; V=1 shows the commands
help:
	@sed -n 's/^#help //p' $(MAKEFILE_LIST)
.DELETE_ON_ERROR:
