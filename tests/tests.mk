# SPDX-License-Identifier: GPL-2.0-only
# Running and testing. Host programs are the core's own objects against tests/host/platform.c.

HOST_CFLAGS := -std=gnu11 -O2 -g $(WARN) -Isrc -Itests/host -D_GNU_SOURCE -fno-stack-protector \
	-fcf-protection=none -pthread $(EXTRA_CFLAGS)
HOST_LDFLAGS := -pthread -Wl,-T,linker/host.lds -Llinker -Wl,-z,noexecstack
HOST_C	:= $(wildcard tests/host/platform*.c)
HOST_O	:= $(HOST_C:%.c=$(BUILD)/host/%.o)
UNIT_C	:= $(wildcard tests/host/test_*.c)
UNITS	:= $(UNIT_C:tests/host/%.c=$(BUILD)/host/%)
# Zydis judges the decoder and every site of the image; the image is what they read.
LDLIBS_test_insn := -lZydis
LDLIBS_test_image_sites := -lZydis
$(BUILD)/host/test_insn $(BUILD)/host/test_image_sites: | $(BUILD)/mcspin.efi
$(BUILD)/host/tests/host/test_insn.o $(BUILD)/host/tests/host/test_image_sites.o: | $(BUILD)/.need-zydis
$(BUILD)/.need-zydis: tests/need tests/tests.mk
	@mkdir -p $(@D)
	@tests/need libzydis-dev && touch $@
LDLIBS_test_alternative := -Wl,--wrap=platform_text_read
LDLIBS_test_bench := -Wl,--wrap=platform_ref_timers
LDLIBS_test_contest := -Wl,--wrap=platform_cpus_shared
LDLIBS_test_pmu := $(foreach f,rdmsr wrmsr ring0,-Wl,--wrap=platform_$(f))
LDLIBS_test_fragile := -Wl,--wrap=platform_pci_read32

$(BUILD)/host/%.o: %.c | $(BUILD)/.need-host
	@mkdir -p $(@D)
	$(SAY) "  CC      $@"
	$(CC) $(HOST_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/host/test_%: $(BUILD)/host/tests/host/test_%.o $(HOST_O) $(CORE_O) linker/host.lds linker/tables.lds
	$(SAY) "  LD      $@"
	$(CC) $(HOST_LDFLAGS) $(filter %.o,$^) -lcmocka $(LDLIBS_test_$*) -o $@
# The core as a program: the same suites and benches natively.
# Others' locks run in its contests; only there, so that nothing else needs ck. Tests for a process only
# are linked there as well.
$(BUILD)/host/tests/host/peer_locks.o: | $(BUILD)/.need-ck
$(BUILD)/.need-ck: tests/need
	@mkdir -p $(@D)
	@tests/need libck-dev && touch $@
$(BUILD)/host/mcspin-host: $(BUILD)/host/tests/host/main.o $(BUILD)/host/tests/host/peer_locks.o $(BUILD)/host/tests/host/copy_native.o $(HOST_O) $(CORE_O) linker/host.lds linker/tables.lds
	$(SAY) "  LD      $@"
	$(CC) $(HOST_LDFLAGS) $(filter %.o,$^) -o $@
# Every form of a report again from a captured stream: build/host/rebuild LOG [FOLDER].
$(BUILD)/host/rebuild: $(BUILD)/host/tests/host/rebuild.o $(HOST_O) $(CORE_O) linker/host.lds linker/tables.lds
	$(SAY) "  LD      $@"
	$(CC) $(HOST_LDFLAGS) $(filter %.o,$^) -o $@
# What mcspin would decide on the machine of a dump.
$(BUILD)/host/plan: $(BUILD)/host/tests/host/plan.o $(BUILD)/host/tests/host/dump.o $(HOST_O) $(CORE_O) linker/host.lds linker/tables.lds
	$(SAY) "  LD      $@"
	$(CC) $(HOST_LDFLAGS) $(filter %.o,$^) -o $@
#help make plan DUMP=file    what mcspin would decide on the machine of a `cpuid -r` dump; MSRS="0x1a0=0x0 …"
$(BUILD)/.need-cpuid: tests/need tests/tests.mk
	@mkdir -p $(@D)
	@tests/need cpuid && touch $@
plan: $(BUILD)/host/plan
	@$(BUILD)/host/plan '$(DUMP)' $(MSRS)
$(BUILD)/.need-host: tests/need tests/tests.mk
	@mkdir -p $(@D)
	@tests/need gcc libc6-dev libcmocka-dev libjsmn-dev && touch $@

# One deliberate break of the core, for tests/host/test_mutants.py: MUTATED= stands for SRC= in UNIT=.
.PRECIOUS: $(BUILD)/host/%.o
.PHONY: mutant
mutant: $(BUILD)/host/$(UNIT) $(BUILD)/host/tests/host/$(UNIT).o
	$(CC) $(CORE_CFLAGS) -Wno-error -w -iquote $(dir $(SRC)) -c $(MUTATED) -o $(MUTATED:.c=.o)
	$(CC) $(HOST_LDFLAGS) $(BUILD)/host/tests/host/$(UNIT).o $(HOST_O) $(filter-out $(BUILD)/core/$(SRC:.c=.o),$(CORE_O)) \
		$(MUTATED:.c=.o) -lcmocka $(LDLIBS_$(UNIT)) -o $(MUTATED:.c=)

.PHONY: host units
host: $(BUILD)/host/mcspin-host $(BUILD)/host/rebuild
#help make units             the host unit tests only
units: $(UNITS)
	@set -e; for u in $(UNITS); do $$u; done

-include $(wildcard $(BUILD)/host/tests/host/*.d)

# ---------------------------------------------------------------------- QEMU
$(BUILD)/.need-qemu: tests/need tests/tests.mk
	@mkdir -p $(@D)
	@tests/need qemu-system-x86 ovmf mtools python3 && touch $@
# Reads the load that a machine check is raised at.
$(BUILD)/.need-capstone: tests/need tests/tests.mk
	@mkdir -p $(@D)
	@tests/need python3-capstone && touch $@
$(BUILD)/.need-pytest: tests/need tests/tests.mk
	@mkdir -p $(@D)
	@tests/need python3 python3-pytest python3-capstone perl libxml2-utils chromium sbsigntool openssl ipxe-qemu xorriso gdisk dosfstools git && touch $@

.PHONY: run test bench plan
#help make run               boot in QEMU and show the run; CPU= SMP= OPTIONS="key=value …"
run: $(BUILD)/mcspin.img | $(BUILD)/.need-qemu $(BUILD)/.need-capstone
	@$(PYTHON) tests/qemu/run.py --cpu '$(CPU)' --smp '$(SMP)' --options '$(OPTIONS)' $(BUILD)/run

#help make test              everything, in at most 20 minutes on two cores
test: $(BUILD)/mcspin.img $(UNITS) $(BUILD)/host/mcspin-host $(BUILD)/host/plan $(BUILD)/host/rebuild clang | $(BUILD)/.need-qemu $(BUILD)/.need-pytest $(BUILD)/.need-cpuid
	@$(PYTHON) tests/all.py $(BUILD) $(UNITS)

.PHONY: screenshot soak
#help make stress            5 million contended acquisitions of each lock, with two threads a processor
.PHONY: stress
stress: $(BUILD)/host/mcspin-host
	@$(BUILD)/host/mcspin-host cpus=$$((2 * $$(nproc))) suite=osq test=alone bench=lock_stress

#help make screenshot        build/screenshot.png: the graphical console at the end of a run
screenshot: $(BUILD)/mcspin.img | $(BUILD)/.need-qemu
	@rm -f $(BUILD)/screenshot.png
	@BUILD=$(BUILD) $(PYTHON) tests/qemu/screenshot.py $(BUILD)/screenshot.png $(OPTIONS)

#help make soak              what takes longer than make test may: 64 processors, whole runs, repeats
soak: $(BUILD)/mcspin.img | $(BUILD)/.need-qemu $(BUILD)/.need-pytest
	@BUILD=$(BUILD) SOAK=1 $(PYTHON) -m pytest -p no:cacheprovider -v --tb=short tests/qemu/soak.py

#help make spread            the hot benches five times natively: which medians lie apart, and how far
.PHONY: spread
spread: $(BUILD)/host/mcspin-host
	@rm -rf $(BUILD)/spread && $(PYTHON) tests/spread.py $< $(BUILD)/spread 5 $(OPTIONS)

#help make bench             the core natively on this machine; build/bench/results.json
bench: $(BUILD)/host/mcspin-host $(BUILD)/host/rebuild
	@rm -rf $(BUILD)/bench && mkdir -p $(BUILD)/bench
	@echo "about a minute; the stream is in $(BUILD)/bench/mcspin.log"
	@setarch -R $(BUILD)/host/mcspin-host out=$(BUILD)/bench $(OPTIONS) >$(BUILD)/bench/stream; status=$$?; \
	$(BUILD)/host/rebuild $(BUILD)/bench/stream && rm $(BUILD)/bench/stream && \
	ls $(BUILD)/bench/*.json $(BUILD)/bench/*.html && exit $$status

include tests/hostile/hostile.mk
test: $(BUILD)/hostile.efi
