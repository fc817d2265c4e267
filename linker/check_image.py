#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Read the finished image back and stop the build with a sentence when it is not what it should be.

check_image.py IMAGE.efi DEBUG.elf: sections of the PE file (4 KiB aligned, never writable and
executable, none missing, size within the budget), and the core's tables as they lie in the PE file,
found by the symbols of the ELF file: none empty, every entry pointing into the text.
"""
import struct
import subprocess
import sys

BUDGET = 256 * 1024
SECTIONS = [".text", ".reloc", ".rodata", ".data", ".dynamic", ".rela", ".dynsym", ".sbat"]
WRITE, EXECUTE = 0x80000000, 0x20000000


def stop(sentence):
    sys.exit(f"{sys.argv[1]}: {sentence}")


def read_pe(data):
    """Name -> (address, size in memory, file offset, file size, characteristics)."""
    pe = struct.unpack_from("<I", data, 0x3C)[0]
    if data[pe:pe + 4] != b"PE\0\0":
        stop("this is no PE file")
    count, optional = struct.unpack_from("<H12xH", data, pe + 6)
    alignment = struct.unpack_from("<I", data, pe + 24 + 32)[0]
    sections = {}
    for i in range(count):
        at = pe + 24 + optional + 40 * i
        name = data[at:at + 8].rstrip(b"\0").decode()
        size, address, file_size, offset = struct.unpack_from("<IIII", data, at + 8)
        sections[name] = (address, size, offset, file_size,
                          struct.unpack_from("<I", data, at + 36)[0])
    return alignment, sections


def read_symbols(elf):
    symbols = {}
    for line in subprocess.run(["nm", elf], capture_output=True, text=True, check=True).stdout.splitlines():
        parts = line.split()
        if len(parts) == 3:
            symbols[parts[2]] = int(parts[0], 16)
    return symbols


class Image:
    def __init__(self, path, elf):
        with open(path, "rb") as f:
            self.data = f.read()
        self.alignment, self.sections = read_pe(self.data)
        self.symbols = read_symbols(elf)

    def bytes_at(self, address, length):
        for start, size, offset, file_size, _ in self.sections.values():
            if start <= address and address + length <= start + file_size:
                return self.data[offset + address - start:][:length]
        stop(f"address {address:#x} lies in no section")

    def table(self, first, last, entry):
        try:
            start, end = self.symbols[first], self.symbols[last]
        except KeyError as missing:
            stop(f"there is no symbol {missing}")
        if start == end:
            stop(f"the table {first} came out empty")
        if (end - start) % entry:
            stop(f"the table {first} holds half an entry")
        return [(at, self.bytes_at(at, entry)) for at in range(start, end, entry)]

    def in_text(self, address, what):
        if not self.symbols["_text"] <= address <= self.symbols["_etext"]:
            stop(f"{what} points outside the text: {address:#x}")


def check_sections(image):
    if len(image.data) > BUDGET:
        stop(f"{len(image.data)} bytes, the budget is {BUDGET}")
    if image.alignment % 4096:
        stop(f"section alignment {image.alignment} is not 4 KiB")
    for name in SECTIONS:
        if name not in image.sections:
            stop(f"section {name} is missing")
    for name, (address, _, _, _, flags) in image.sections.items():
        if address % 4096:
            stop(f"section {name} at {address:#x} is not 4 KiB aligned")
        if flags & WRITE and flags & EXECUTE:
            stop(f"section {name} is writable and executable")


def check_tables(image):
    def rel(at, value):
        return at + value

    for at, e in image.table("__alt_instructions", "__alt_instructions_end", 14):
        instr, repl = struct.unpack("<ii", e[:8])
        image.in_text(rel(at, instr), "an alternative's site")
        image.in_text(rel(at + 4, repl), "an alternative's replacement")
    for at, e in image.table("__start_altsites", "__stop_altsites", 8):
        image.in_text(rel(at, struct.unpack("<i", e[:4])[0]), "a site's name")
    for at, e in image.table("__start___smp_locks", "__stop___smp_locks", 4):
        image.in_text(rel(at, struct.unpack("<i", e)[0]), "a lock prefix")
    for at, e in image.table("__start___ex_table", "__stop___ex_table", 12):
        insn, fixup = struct.unpack("<ii", e[:8])
        image.in_text(rel(at, insn), "an extable entry")
        image.in_text(rel(at + 4, fixup), "an extable fix-up")
    for at, e in image.table("__start___jump_table", "__stop___jump_table", 16):
        code, target = struct.unpack("<ii", e[:8])
        image.in_text(rel(at, code), "a static key's site")
        image.in_text(rel(at + 4, target), "a static key's target")
    for first, last in (("__start_mcspin_tests", "__stop_mcspin_tests"),
                        ("__start_mcspin_benches", "__stop_mcspin_benches")):
        for at, e in image.table(first, last, 8):
            if not struct.unpack("<Q", e)[0] and not relocated(image, at):
                stop(f"an entry of {first} points nowhere")


def relocated(image, address):
    start, _, offset, size, _ = image.sections[".rela"]
    for at in range(offset, offset + size - 23, 24):
        where, info, addend = struct.unpack_from("<QQq", image.data, at)
        if where == address and info & 0xffffffff == 8 and addend:
            return True
    return False


def main():
    image = Image(sys.argv[1], sys.argv[2])
    check_sections(image)
    check_tables(image)
    print(f"{sys.argv[1]}: {len(image.data)} bytes, "
          f"{len(image.table('__alt_instructions', '__alt_instructions_end', 14))} alternatives, "
          f"{len(image.table('__start___ex_table', '__stop___ex_table', 12))} fix-ups, "
          f"{len(image.table('__start_mcspin_tests', '__stop_mcspin_tests', 8))} tests")


if __name__ == "__main__":
    main()
