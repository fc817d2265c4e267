/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The built image as the machine will see it: build/mcspin.debug laid out in memory at its own
 * offsets, with its relative relocations applied. The tables in it are self-relative, so the core's
 * own functions work on it in place; nothing of it is executed.
 */
#ifndef MCSPIN_ELF_IMAGE_H
#define MCSPIN_ELF_IMAGE_H

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../src/types.h"

#define IMAGE_BYTES (8u << 20)

struct elf_image {
	u8 *file, *base;
	const Elf64_Ehdr *eh;
	const Elf64_Shdr *sh;
	const Elf64_Sym *sym;
	const char *str;
	size_t syms;
	u8 *text, *text_end;
};

static inline u8 *elf_slurp(const char *path)
{
	FILE *f = fopen(path, "rb");
	u8 *buf = calloc(1, IMAGE_BYTES);

	if (!f || !buf || !fread(buf, 1, IMAGE_BYTES, f)) {
		fprintf(stderr, "%s cannot be read: build the image first\n", path);
		return NULL;
	}
	fclose(f);
	return buf;
}

static inline void elf_relocate(struct elf_image *im, const Elf64_Shdr *s)
{
	const Elf64_Rela *r = (const Elf64_Rela *)(im->file + s->sh_offset);

	for (size_t i = 0; i < s->sh_size / sizeof(*r); i++) {
		if (ELF64_R_TYPE(r[i].r_info) == R_X86_64_RELATIVE)
			*(u64 *)(im->base + r[i].r_offset) = (u64)im->base + (u64)r[i].r_addend;
	}
}

static inline void elf_section(struct elf_image *im, const Elf64_Shdr *s)
{
	const char *names = (const char *)im->file + im->sh[im->eh->e_shstrndx].sh_offset;

	if (s->sh_type == SHT_SYMTAB) {
		im->sym = (const Elf64_Sym *)(im->file + s->sh_offset);
		im->syms = s->sh_size / sizeof(*im->sym);
		im->str = (const char *)im->file + im->sh[s->sh_link].sh_offset;
	}
	if (!(s->sh_flags & SHF_ALLOC) || s->sh_type == SHT_NOBITS)
		return;
	memcpy(im->base + s->sh_addr, im->file + s->sh_offset, s->sh_size);
	if (!strcmp(names + s->sh_name, ".text")) {
		im->text = im->base + s->sh_addr;
		im->text_end = im->text + s->sh_size;
	}
}

static inline int elf_open(struct elf_image *im)
{
	const char *path = getenv("MCSPIN_DEBUG");

	im->file = elf_slurp(path ? path : "build/mcspin.debug");
	if (!im->file)
		return -1;
	im->eh = (const Elf64_Ehdr *)im->file;
	im->sh = (const Elf64_Shdr *)(im->file + im->eh->e_shoff);
	im->base = mmap(NULL, IMAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < im->eh->e_shnum; i++)
		elf_section(im, &im->sh[i]);
	for (unsigned i = 0; i < im->eh->e_shnum; i++) {
		if (im->sh[i].sh_type == SHT_RELA && (im->sh[i].sh_flags & SHF_ALLOC))
			elf_relocate(im, &im->sh[i]);
	}
	return im->text && im->sym ? 0 : -1;
}

static inline u8 *elf_symbol(const struct elf_image *im, const char *name)
{
	for (size_t i = 0; i < im->syms; i++) {
		if (!strcmp(im->str + im->sym[i].st_name, name))
			return im->base + im->sym[i].st_value;
	}
	fprintf(stderr, "the image has no symbol %s\n", name);
	return NULL;
}

/* The function that covers `at`, or NULL. */
static inline const Elf64_Sym *elf_function(const struct elf_image *im, const u8 *at)
{
	for (size_t i = 0; i < im->syms; i++) {
		const Elf64_Sym *s = &im->sym[i];
		const u8 *start = im->base + s->st_value;

		if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && at >= start && at < start + s->st_size)
			return s;
	}
	return NULL;
}

#endif
