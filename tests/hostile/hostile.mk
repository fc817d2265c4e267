# SPDX-License-Identifier: GPL-2.0-only
# The firmware that misbehaves. Built with GNU-EFI's own script: it is no part of mcspin.
HOSTILE_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/hostile/*.c))
HOSTILE_CFLAGS := -std=gnu11 -O1 -Wall -ffreestanding -fPIC -fshort-wchar -mno-red-zone \
	-fno-stack-protector -fno-strict-aliasing -fcf-protection=none -DGNU_EFI_USE_MS_ABI \
	-maccumulate-outgoing-args -I/usr/include/efi -I/usr/include/efi/x86_64

$(BUILD)/tests/hostile/%.o: tests/hostile/%.c $(wildcard tests/hostile/*.h) | $(BUILD)/.need-core
	@mkdir -p $(@D)
	$(SAY) "  CC      $@"
	$(CC) $(HOSTILE_CFLAGS) -c $< -o $@
$(BUILD)/hostile.efi: $(HOSTILE_O)
	$(SAY) "  LD      $@"
	ld -nostdlib -shared -Bsymbolic -znocombreloc -T /usr/lib/elf_x86_64_efi.lds \
		/usr/lib/crt0-efi-x86_64.o $(HOSTILE_O) -L/usr/lib -lefi -lgnuefi -o $(BUILD)/hostile.so
	objcopy -j .text -j .reloc -j .data -j .dynamic -j .rela -j .dynsym -O efi-app-x86_64 \
		$(BUILD)/hostile.so $@
