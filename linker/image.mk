# SPDX-License-Identifier: GPL-2.0-only
# The image: efi/ and the core, linked by mcspin.lds, turned into a PE file and read back.

EFI_C	:= $(wildcard efi/*.c)
EFI_O	:= $(EFI_C:%.c=$(BUILD)/efi/%.o) $(BUILD)/efi/asm/trap_entry.o $(BUILD)/efi/sbat.o
CRT0	:= /usr/lib/crt0-efi-x86_64.o

# The core's flags, with UEFI's 16-bit characters and calling convention. -maccumulate-outgoing-args
# is what GCC asks for beside ms_abi. Macros of GNU-EFI use patterns that -Wextra dislikes.
EFI_CFLAGS := $(CORE_CFLAGS) -Os -fshort-wchar -DGNU_EFI_USE_MS_ABI -maccumulate-outgoing-args \
	-Wno-missing-prototypes -Wno-unused-function -I/usr/include/efi -I/usr/include/efi/x86_64
IMAGE_LDFLAGS := -nostdlib -shared -Bsymbolic -znocombreloc -z noexecstack -z max-page-size=4096 \
	-Llinker -T linker/mcspin.lds --no-undefined --fatal-warnings --no-warn-rwx-segments

$(BUILD)/efi/%.o: %.c | $(BUILD)/.need-core
	@mkdir -p $(@D)
	$(SAY) "  CC      $@"
	$(CC) $(EFI_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/efi/%.o: %.S | $(BUILD)/.need-core
	@mkdir -p $(@D)
	$(SAY) "  AS      $@"
	$(CC) $(CORE_SFLAGS) -MMD -MP -c $< -o $@

# Shim reads this generation table; its format is fixed by shim's SBAT.md. Compared are names and
# generations; vendor and URL tell a person whom to ask, so who signs an image says his own.
SBAT_VENDOR ?= mcspin
SBAT_URL ?= https://example.org/mcspin
$(BUILD)/sbat.csv: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' 'sbat,1,SBAT Version,sbat,1,https://github.com/rhboot/shim/blob/main/SBAT.md' \
		'mcspin,1,$(SBAT_VENDOR),mcspin,1,$(SBAT_URL)' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
.PHONY: FORCE
FORCE:
$(BUILD)/efi/sbat.o: $(BUILD)/sbat.csv
	@mkdir -p $(@D)
	cd $(BUILD) && objcopy -I binary -O elf64-x86-64 -B i386:x86-64 \
		--rename-section .data=.sbat,contents,alloc,load,readonly,data sbat.csv efi/sbat.o

$(BUILD)/mcspin.so: $(EFI_O) $(CORE_O) linker/mcspin.lds linker/tables.lds
	$(SAY) "  LD      $@"
	ld $(IMAGE_LDFLAGS) $(CRT0) $(filter %.o,$^) /usr/lib/libgnuefi.a -o $@
$(BUILD)/mcspin.debug: $(BUILD)/mcspin.so
	cp $< $@
# Sections by name: objcopy drops in silence what is not listed, which is why the result is read back.
# The check comes first to a file of another name, so that no wrong image can be mistaken for a good one.
PE_SECTIONS := .text .reloc .rodata .data .bss .dynamic .rela .sbat
$(BUILD)/mcspin.efi: $(BUILD)/mcspin.so $(BUILD)/mcspin.debug linker/check_image.py
	objcopy -S $(PE_SECTIONS:%=-j %) -O efi-app-x86_64 --section-alignment 4096 $< $@.new
	@$(PYTHON) linker/check_image.py --finish $@.new $(BUILD)/mcspin.debug
	mv $@.new $@

-include $(wildcard $(BUILD)/efi/efi/*.d)

# The stick: a GPT disk with an EFI system partition, made without root. The very file QEMU boots.
IMAGE_MIB := 64
$(BUILD)/mcspin.img: $(BUILD)/mcspin.efi linker/mcspin.cfg | $(BUILD)/.need-image
	$(SAY) "  IMAGE   $@"
	rm -f $@
	truncate -s $(IMAGE_MIB)M $@
	sgdisk -n 1:2048:0 -t 1:ef00 -c 1:MCSPIN $@ >/dev/null
	mformat -i $@@@1M -F -c 1 -v MCSPIN -T $$(( ($(IMAGE_MIB) - 1) * 2048 - 33 )) ::
	mmd -i $@@@1M ::/EFI ::/EFI/BOOT ::/mcspin
	mcopy -i $@@@1M $(BUILD)/mcspin.efi ::/EFI/BOOT/BOOTX64.EFI
	mcopy -i $@@@1M linker/mcspin.cfg ::/EFI/BOOT/mcspin.cfg
$(BUILD)/.need-image: tests/need linker/image.mk
	@mkdir -p $(@D)
	@tests/need mtools gdisk dosfstools && touch $@

.PHONY: image
#help make image             build/mcspin.img, to dd onto a stick
image: $(BUILD)/mcspin.img

# Read-only, for a BMC's virtual CD drive or a burned disc; also boots from a stick.
$(BUILD)/mcspin.iso: $(BUILD)/mcspin.efi linker/mcspin.cfg linker/iso.sh | $(BUILD)/.need-iso
	$(SAY) "  ISO     $@"
	linker/iso.sh $(BUILD)/mcspin.efi linker/mcspin.cfg $@
$(BUILD)/.need-iso: tests/need linker/image.mk
	@mkdir -p $(@D)
	@tests/need mtools xorriso && touch $@

.PHONY: iso sign
#help make iso               build/mcspin.iso, hybrid: boots from a CD and from a stick
iso: $(BUILD)/mcspin.iso

#help make sign KEY= CERT=   build/mcspin.signed.efi, .img and .iso, for Secure Boot;
#help                          SBAT_VENDOR= SBAT_URL= say whom to ask, in the section that shim reads
sign: $(BUILD)/mcspin.img linker/iso.sh | $(BUILD)/.need-sign $(BUILD)/.need-iso
	@test -n "$(KEY)" -a -n "$(CERT)" || { echo "make sign KEY=file.key CERT=file.pem"; exit 1; }
	sbsign --key '$(KEY)' --cert '$(CERT)' --output $(BUILD)/mcspin.signed.efi $(BUILD)/mcspin.efi
	sbverify --cert '$(CERT)' $(BUILD)/mcspin.signed.efi
	cp --sparse=always $(BUILD)/mcspin.img $(BUILD)/mcspin.signed.img
	mcopy -o -i $(BUILD)/mcspin.signed.img@@1M $(BUILD)/mcspin.signed.efi ::/EFI/BOOT/BOOTX64.EFI
	linker/iso.sh $(BUILD)/mcspin.signed.efi linker/mcspin.cfg $(BUILD)/mcspin.signed.iso
	@echo $(BUILD)/mcspin.signed.efi $(BUILD)/mcspin.signed.img $(BUILD)/mcspin.signed.iso
$(BUILD)/.need-sign: tests/need linker/image.mk
	@mkdir -p $(@D)
	@tests/need sbsigntool mtools openssl && touch $@
