#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# iso.sh IMAGE CONFIG ISO: a read-only medium that starts as a CD (El Torito) and as a stick (a GPT
# whose EFI system partition is the same FAT volume, appended). Without root.
set -eu
efi=$1 config=$2 iso=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/tree/EFI/BOOT"
cp "$efi" "$dir/tree/EFI/BOOT/BOOTX64.EFI"
cp "$config" "$dir/tree/EFI/BOOT/mcspin.cfg"
truncate -s 4M "$dir/esp"
mformat -i "$dir/esp" -v MCSPIN -T 8192 -h 64 -s 32 ::
mcopy -s -i "$dir/esp" "$dir/tree/EFI" ::/
xorriso -as mkisofs -quiet -o "$iso" -R -J -V MCSPIN \
	-append_partition 2 0xef "$dir/esp" -appended_part_as_gpt \
	-e --interval:appended_partition_2:all:: -no-emul-boot "$dir/tree" 2>"$dir/said" || {
	cat "$dir/said" >&2
	exit 1
}
