#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Read the finished image back, and stop the build with a sentence when it is not what was meant.

	check_image.py [--finish] [--verbose] IMAGE.efi IMAGE.debug

A linker script and objcopy's section list can drop a table without a word, and firmware or shim may
refuse a section that is writable and executable. So nothing here trusts the build: section rights
and alignment come from the PE header, table contents from the PE file's bytes, only the places of
the tables from the symbols of the ELF file. --finish first sets what objcopy cannot: NX_COMPAT (code
pages are opened and closed through the firmware's protocol), and a zero time stamp.
"""
import struct
import sys

LIMIT = 256 << 10
WRITE, EXECUTE = 0x80000000, 0x20000000
NX_COMPAT = 0x0100
NEEDED = (".text", ".rodata", ".data", ".bss", ".dynamic", ".rela", ".reloc", ".sbat")
R_X86_64_RELATIVE = 8


class Bad(Exception):
	"""One sentence for the person who builds."""


class Image:
	"""The PE file: sections, and bytes by address."""

	def __init__(self, path):
		with open(path, "rb") as f:
			self.data = bytearray(f.read())
		self.pe = struct.unpack_from("<I", self.data, 0x3C)[0]
		if self.data[:2] != b"MZ" or self.data[self.pe:self.pe + 4] != b"PE\0\0":
			raise Bad("it is no PE file")
		count, opt_size = struct.unpack_from("<H12xH", self.data, self.pe + 6)
		opt = self.pe + 24
		if struct.unpack_from("<H", self.data, opt)[0] != 0x20B:
			raise Bad("it is no 64-bit PE file")
		self.alignment = struct.unpack_from("<I", self.data, opt + 32)[0]
		self.size_of_image, self.size_of_headers = struct.unpack_from("<II", self.data, opt + 56)
		self.subsystem, self.dll = struct.unpack_from("<HH", self.data, opt + 68)
		self.sections = []
		for i in range(count):
			at = opt + opt_size + 40 * i
			name = bytes(self.data[at:at + 8]).rstrip(b"\0").decode()
			vsize, va, raw, off = struct.unpack_from("<IIII", self.data, at + 8)
			flags = struct.unpack_from("<I", self.data, at + 36)[0]
			self.sections.append((name, va, vsize, off, raw, flags))

	def section(self, name):
		for s in self.sections:
			if s[0] == name:
				return s
		raise Bad(f"section {name} is missing; objcopy's list in linker/image.mk drops what it does not name")

	def read(self, va, n):
		for _, start, vsize, off, raw, _ in self.sections:
			if start <= va and va + n <= start + vsize:
				have = self.data[off + va - start:off + min(va - start + n, raw)]
				return bytes(have).ljust(n, b"\0")
		raise Bad(f"{n} bytes at {va:#x} lie in no section of the file")

	def finish(self, path):
		struct.pack_into("<I", self.data, self.pe + 8, 0)
		struct.pack_into("<H", self.data, self.pe + 24 + 70, self.dll | NX_COMPAT)
		self.dll |= NX_COMPAT
		with open(path, "wb") as f:
			f.write(self.data)


def elf_symbols(path):
	with open(path, "rb") as f:
		data = f.read()
	shoff = struct.unpack_from("<Q", data, 0x28)[0]
	entsize, count = struct.unpack_from("<HH", data, 0x3A)
	heads = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + entsize * i) for i in range(count)]
	symbols = {}
	for h in heads:
		if h[1] != 2:  # SHT_SYMTAB
			continue
		strings = heads[h[6]][4]
		for at in range(h[4], h[4] + h[5], 24):
			name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
			end = data.index(b"\0", strings + name)
			symbols[data[strings + name:end].decode()] = value
	return symbols


def check_sections(img):
	for name in NEEDED:
		img.section(name)
	if img.alignment != 4096:
		raise Bad(f"SectionAlignment is {img.alignment}, not 4096: shim and the Microsoft CA refuse that")
	last = img.size_of_headers
	for name, va, vsize, _, _, flags in img.sections:
		if flags & WRITE and flags & EXECUTE:
			raise Bad(f"section {name} is both writable and executable")
		if va % 4096:
			raise Bad(f"section {name} starts at {va:#x}, which is not on a 4 KiB boundary")
		if va < last:
			raise Bad(f"section {name} at {va:#x} overlaps what comes before it")
		last = va + vsize
	if not img.section(".text")[5] & EXECUTE:
		raise Bad("section .text is not executable")
	if img.subsystem != 10:
		raise Bad(f"the subsystem is {img.subsystem}, not 10 (EFI application)")
	if not img.dll & NX_COMPAT:
		raise Bad("NX_COMPAT is not set")
	sbat_as_shim_reads_it(img)


def sbat_as_shim_reads_it(img):
	"""Lines of six fields, the first its own, generations above 0. Shim compares names and generations
	only, and overwrites the section's last byte: it must be a line's end, or padding."""
	_, va, size, _, _, _ = img.section(".sbat")
	text = bytes(img.read(va, size)).rstrip(b"\0")
	lines = [line.split(b",") for line in text.splitlines()]
	if not lines or lines[0][0] != b"sbat":
		raise Bad("section .sbat does not begin with its own line")
	for fields in lines:
		if len(fields) != 6 or not all(fields) or not fields[1].isdigit() or not int(fields[1]):
			raise Bad(f"section .sbat: a line is not name, generation and four more: {fields}")
	if not text.endswith(b"\n"):
		raise Bad("section .sbat: its last line does not end")


class Tables:
	"""Each table's entries, followed to where they point."""

	def __init__(self, img, symbols):
		self.img, self.symbols = img, symbols
		self.text = (symbols["_text"], symbols["_etext"])
		_, start, size, _, _, _ = img.section(".text")
		if not start <= self.text[0] < self.text[1] <= start + size:
			raise Bad("_text and _etext lie outside section .text")
		self.counts = {}
		self.relocated = self.relocations()

	def relocations(self):
		_, start, size, _, _, _ = self.img.section(".rela")
		places = set()
		for at in range(start, start + size - 23, 24):
			offset, info, _ = struct.unpack("<QQq", self.img.read(at, 24))
			if info & 0xFFFFFFFF == R_X86_64_RELATIVE:
				places.add(offset)
			elif info:
				raise Bad(f"relocation of type {info & 0xffffffff} for {offset:#x}: the start-up code "
					  "of GNU-EFI applies only R_X86_64_RELATIVE")
		return places

	def entries(self, table, begin, end, size):
		first, last = self.symbols.get(begin), self.symbols.get(end)
		if first is None or last is None:
			raise Bad(f"table {table} has no {begin} or {end}")
		if last <= first:
			raise Bad(f"table {table} is empty")
		if (last - first) % size:
			raise Bad(f"table {table} is {last - first} bytes, no multiple of {size}")
		self.counts[table] = (last - first) // size
		return range(first, last, size)

	def in_text(self, table, what, at, va, length=1):
		if not (self.text[0] <= va and va + length <= self.text[1]):
			raise Bad(f"table {table}, entry at {at:#x}: {what} {va:#x} lies outside the text")

	def alternatives(self):
		for at in self.entries("alternatives", "__alt_instructions", "__alt_instructions_end", 14):
			instr, repl, _, _, ilen, rlen = struct.unpack("<iiHHBB", self.img.read(at, 14))
			self.in_text("alternatives", "the site", at, at + instr, max(ilen, 1))
			if rlen:
				self.in_text("alternatives", "the replacement", at, at + 4 + repl, rlen)
			if rlen > ilen:
				raise Bad(f"table alternatives, entry at {at:#x}: {rlen} bytes replace {ilen}")

	def relative(self, table, begin, end, size, fields):
		for at in self.entries(table, begin, end, size):
			for what, offset in fields:
				va = at + offset + struct.unpack("<i", self.img.read(at + offset, 4))[0]
				self.in_text(table, what, at, va)

	def jumps(self):
		data, bss = self.img.section(".data"), self.img.section(".bss")
		fields = (("the code", 0), ("the target", 4))
		self.relative("static keys", "__start___jump_table", "__stop___jump_table", 16, fields)
		for at in self.entries("static keys", "__start___jump_table", "__stop___jump_table", 16):
			key = at + 8 + struct.unpack("<q", self.img.read(at + 8, 8))[0] & ~1
			if not data[1] <= key < bss[1] + bss[2]:
				raise Bad(f"table static keys, entry at {at:#x}: the key {key:#x} lies outside the data")

	def descriptors(self, table, begin, end, name_at, fn_at):
		for at in self.entries(table, begin, end, 8):
			where = struct.unpack("<Q", self.img.read(at, 8))[0]
			for place in (at, where + name_at, where + fn_at):
				if place not in self.relocated:
					raise Bad(f"table {table}, entry at {at:#x}: the pointer at {place:#x} has no "
						  "relocation and would be garbage once loaded")
			self.in_text(table, "the function", at, struct.unpack("<Q", self.img.read(where + fn_at, 8))[0])

	def check(self):
		self.alternatives()
		self.relative("sites", "__start_altsites", "__stop_altsites", 8, (("the site", 0),))
		self.relative("locks", "__start___smp_locks", "__stop___smp_locks", 4, (("the prefix", 0),))
		self.relative("exceptions", "__start___ex_table", "__stop___ex_table", 12,
			      (("the instruction", 0), ("the fix-up", 4)))
		self.jumps()
		self.descriptors("tests", "__start_mcspin_tests", "__stop_mcspin_tests", 8, 32)
		self.descriptors("benches", "__start_mcspin_benches", "__stop_mcspin_benches", 0, 24)


def main(argv):
	paths = [a for a in argv if not a.startswith("--")]
	img = Image(paths[0])
	if "--finish" in argv:
		img.finish(paths[0])
	try:
		if len(img.data) > LIMIT:
			raise Bad(f"it is {len(img.data)} bytes, more than {LIMIT}")
		check_sections(img)
		tables = Tables(img, elf_symbols(paths[1]))
		tables.check()
	except Bad as why:
		print(f"{paths[0].removesuffix('.new')} is not right: {why}", file=sys.stderr)
		return 1
	print(f"{paths[0].removesuffix('.new')}: {len(img.data)} bytes; " + ", ".join(f"{n} {t}" for t, n in tables.counts.items()))
	if "--verbose" in argv:
		for name, va, vsize, _, _, flags in img.sections:
			rights = "r" + ("w" if flags & WRITE else "-") + ("x" if flags & EXECUTE else "-")
			print(f"  {name:10} {va:#08x} {vsize:#8x} {rights}")
		print(f"  {len(tables.relocated)} relocations, NX_COMPAT set")
	return 0


if __name__ == "__main__":
	sys.exit(main(sys.argv[1:]))
