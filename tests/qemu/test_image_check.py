# SPDX-License-Identifier: GPL-2.0-only
"""The build's look at its own result (linker/check_image.py): each thing it promises to stop is broken
once in a copy of the image, and must be stopped with the sentence that names it. No QEMU."""
import importlib.util
import struct
import subprocess
import sys

import pytest

import rig

CHECK = rig.ROOT / "linker" / "check_image.py"
SPEC = importlib.util.spec_from_file_location("check_image", CHECK)
check_image = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_image)


class Broken:
    """A copy of the image, and where in the file an address or a section's header lies."""

    def __init__(self):
        self.image = check_image.Image(str(rig.BUILD / "mcspin.efi"))
        self.symbols = check_image.elf_symbols(str(rig.BUILD / "mcspin.debug"))
        self.data = self.image.data

    def header(self, name):
        count, opt = struct.unpack_from("<H12xH", self.data, self.image.pe + 6)
        for i in range(count):
            at = self.image.pe + 24 + opt + 40 * i
            if self.data[at:at + 8].rstrip(b"\0").decode() == name:
                return at
        raise KeyError(name)

    def at(self, symbol):
        address = self.symbols[symbol]
        _, va, _, off, _, _ = next(s for s in self.image.sections
                                   if s[1] <= address < s[1] + s[4] and s[3])
        return off + address - va


def write_and_execute(b):
    struct.pack_into("<I", b.data, b.header(".text") + 36, 0xE0000020)


def unaligned_section(b):
    at = b.header(".rodata") + 12
    struct.pack_into("<I", b.data, at, struct.unpack_from("<I", b.data, at)[0] + 512)


def small_alignment(b):
    struct.pack_into("<I", b.data, b.image.pe + 24 + 32, 512)


def section_gone(b):
    b.data[b.header(".sbat"):b.header(".sbat") + 8] = b".other\0\0"


def sbat(b):
    at = b.image.section(".sbat")[3]
    return at, at + b.image.section(".sbat")[2]


def sbat_field_gone(b):
    at, end = sbat(b)
    b.data[b.data.rindex(b",", at, end)] = ord(";")


def sbat_unended(b):
    at, end = sbat(b)
    b.data[b.data.rindex(b"\n", at, end)] = ord("x")


def no_nx_compat(b):
    struct.pack_into("<H", b.data, b.image.pe + 24 + 70, 0)


def site_outside(b):
    struct.pack_into("<i", b.data, b.at("__alt_instructions"), 0x100000)


def replacement_too_long(b):
    at = b.at("__alt_instructions")
    b.data[at + 13] = min(255, b.data[at + 12] + 1)


def fixup_outside(b):
    struct.pack_into("<i", b.data, b.at("__start___ex_table") + 4, -0x7000)


def key_target_outside(b):
    struct.pack_into("<i", b.data, b.at("__start___jump_table") + 4, 0x200000)


def relocation_lost(b):
    _, va, size, off, _, _ = next(s for s in b.image.sections if s[0] == ".rela")
    wanted = b.symbols["__start_mcspin_tests"]
    for at in range(off, off + size - 23, 24):
        if struct.unpack_from("<Q", b.data, at)[0] == wanted:
            struct.pack_into("<QQq", b.data, at, 0, 0, 0)


def too_large(b):
    b.data.extend(bytes(check_image.LIMIT + 1 - len(b.data)))


CASES = [
    (write_and_execute, "section .text is both writable and executable"),
    (unaligned_section, "section .rodata starts at"),
    (small_alignment, "SectionAlignment is 512"),
    (section_gone, "section .sbat is missing"),
    (sbat_field_gone, "section .sbat: a line is not"),
    (sbat_unended, "section .sbat: its last line"),
    (no_nx_compat, "NX_COMPAT is not set"),
    (site_outside, "table alternatives, entry at"),
    (replacement_too_long, "bytes replace"),
    (fixup_outside, "table exceptions, entry at"),
    (key_target_outside, "table static keys, entry at"),
    (relocation_lost, "has no relocation"),
    (too_large, "more than 262144"),
]


def check(path):
    return subprocess.run([sys.executable, str(CHECK), str(path), str(rig.BUILD / "mcspin.debug")],
                          capture_output=True, text=True)


@pytest.mark.parametrize("broken, sentence", CASES, ids=[c[0].__name__ for c in CASES])
def test_stopped(folder, broken, sentence):
    b = Broken()
    broken(b)
    path = folder / "broken.efi"
    path.write_bytes(b.data)
    done = check(path)
    path.unlink()
    assert done.returncode != 0, "the broken image was let through"
    assert sentence in done.stderr, done.stderr


def test_good_one_passes():
    assert check(rig.BUILD / "mcspin.efi").returncode == 0


def test_empty_table_stops_the_link(folder):
    """ld's ASSERTs: without the exception table's section the link ends with a sentence."""
    script = (rig.ROOT / "linker/tables.lds").read_text().replace("KEEP(*(__ex_table))", "")
    (folder / "tables.lds").write_text(script)
    objects = sorted(str(p) for top in ("core/src", "core/asm", "efi/efi", "efi/asm")
                     for p in (rig.BUILD / top).rglob("*.o"))
    done = subprocess.run(["ld", "-nostdlib", "-shared", "-Bsymbolic", "-znocombreloc", f"-L{folder}",
                           "-T", str(rig.ROOT / "linker/mcspin.lds"), "/usr/lib/crt0-efi-x86_64.o",
                           *objects, "/usr/lib/libgnuefi.a", "-o", str(folder / "out.so")],
                          capture_output=True, text=True)
    assert done.returncode != 0 and "__ex_table is empty" in done.stderr, done.stderr[-500:]
