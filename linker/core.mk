# SPDX-License-Identifier: GPL-2.0-only
# The core: src/ and asm/, freestanding, one set of objects for the image and for the host programs.

CORE_C	:= $(wildcard src/*/*.c)
# trap_entry.S is the machine's: it belongs to efi/.
CORE_S	:= $(filter-out asm/trap_entry.S,$(wildcard asm/*.S))

WARN	:= -Wall -Wextra -Werror -Wno-unused-parameter -Wmissing-prototypes -Wvla
# -mgeneral-regs-only: trap handlers and code that should look like Linux's use no vector register.
# -mno-red-zone: firmware and mcspin take interrupts on the running stack.
# -fcf-protection=none: an ENDBR64 would move a site's target.
# -Wa,-W: the padding of an alternative that needs none is a .skip of 0, which gas remarks upon; what
#   must not pass (a site that is too long) is an error of .org.
# -fno-strict-aliasing, -fno-delete-null-pointer-checks, -fwrapv: as the kernel is built.
CORE_CFLAGS := -std=gnu11 -O2 -g $(WARN) -ffreestanding -fPIC -fvisibility=hidden \
	-mgeneral-regs-only -mno-red-zone -fcf-protection=none -fno-stack-protector \
	-fno-strict-aliasing -fno-delete-null-pointer-checks -fwrapv -fno-common \
	-fno-asynchronous-unwind-tables -ffile-prefix-map=$(CURDIR)/= \
	-Wa,-W -DMCSPIN_VERSION='"$(VERSION)"' $(EXTRA_CFLAGS)
# What takes no time that is measured (reports, tests, decisions): small is better there, the image has
# a budget.
SMALL	:= src/report/% src/run/% src/mce/% src/cpu/% src/alt/% src/%_tests src/copy/copy_cases \
	src/osq/contest_bench src/osq/index src/osq/pv src/osq/trace
$(foreach d,core clang,$(SMALL:%=$(BUILD)/$(d)/%.o)): CORE_CFLAGS += -Os
CORE_SFLAGS := -D__ASSEMBLY__ -g -Isrc -Wa,--fatal-warnings $(EXTRA_CFLAGS)
CORE_O	:= $(CORE_C:%.c=$(BUILD)/core/%.o) $(CORE_S:%.S=$(BUILD)/core/%.o)
CLANG_O	:= $(CORE_C:%.c=$(BUILD)/clang/%.o) $(CORE_S:%.S=$(BUILD)/clang/%.o)

$(BUILD)/core/%.o: %.c | $(BUILD)/.need-core
	@mkdir -p $(@D)
	$(SAY) "  CC      $@"
	$(CC) $(CORE_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/core/%.o: %.S | $(BUILD)/.need-core
	@mkdir -p $(@D)
	$(SAY) "  AS      $@"
	$(CC) $(CORE_SFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/clang/%.o: %.c | $(BUILD)/.need-clang
	@mkdir -p $(@D)
	$(SAY) "  CLANG   $@"
	$(CLANG) $(CORE_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/clang/%.o: %.S | $(BUILD)/.need-clang
	@mkdir -p $(@D)
	$(SAY) "  AS      $@"
	$(CLANG) $(CORE_SFLAGS) -MMD -MP -c $< -o $@

# Stamps, so that an installed machine is asked once for each build folder.
$(BUILD)/.need-core: tests/need linker/core.mk
	@mkdir -p $(@D)
	@tests/need gcc binutils libc6-dev gnu-efi libjsmn-dev python3 && touch $@
$(BUILD)/.need-clang: tests/need linker/core.mk
	@mkdir -p $(@D)
	@tests/need clang && touch $@

.PHONY: clang
#help make clang             compile the core with clang as well, warnings are errors
clang: $(CLANG_O)

-include $(CORE_O:.o=.d) $(CLANG_O:.o=.d)
