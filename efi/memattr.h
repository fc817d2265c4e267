/* SPDX-License-Identifier: GPL-2.0-only */
/* EFI_MEMORY_ATTRIBUTE_PROTOCOL, UEFI 2.10, 37.7. GNU-EFI 3.0.15 has none. */
#ifndef MCSPIN_EFI_MEMATTR_H
#define MCSPIN_EFI_MEMATTR_H

#include <efi.h>

#define MCSPIN_MEMORY_ATTRIBUTE_GUID                                                               \
	{                                                                                          \
		0xf4560cf6, 0x40ec, 0x4b4a, { 0xa1, 0x92, 0xbf, 0x1d, 0x57, 0xd0, 0xb1, 0x89 }     \
	}

#define MEMATTR_RP 0x2000
#define MEMATTR_XP 0x4000
#define MEMATTR_RO 0x20000

struct memory_attribute {
	EFI_STATUS(EFIAPI *get)
	(struct memory_attribute *, EFI_PHYSICAL_ADDRESS base, UINT64 length, UINT64 *attributes);
	EFI_STATUS(EFIAPI *set)
	(struct memory_attribute *, EFI_PHYSICAL_ADDRESS base, UINT64 length, UINT64 attributes);
	EFI_STATUS(EFIAPI *clear)
	(struct memory_attribute *, EFI_PHYSICAL_ADDRESS base, UINT64 length, UINT64 attributes);
};
_Static_assert(sizeof(struct memory_attribute) == 3 * 8, "three functions");

#endif
