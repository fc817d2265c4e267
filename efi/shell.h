/* SPDX-License-Identifier: GPL-2.0-only */
/* EFI_SHELL_PARAMETERS_PROTOCOL, UEFI Shell 2.2, 2.3. GNU-EFI 3.0.15 has none. */
#ifndef MCSPIN_EFI_SHELL_H
#define MCSPIN_EFI_SHELL_H

#include <efi.h>

#define MCSPIN_SHELL_PARAMETERS_GUID                                                               \
	{                                                                                          \
		0x752f3136, 0x4e16, 0x4fdc, { 0xa2, 0x2a, 0xe5, 0xf4, 0x68, 0x12, 0xf4, 0xca }     \
	}

struct shell_parameters {
	CHAR16 **argv;
	UINTN argc;
	VOID *std_in, *std_out, *std_err;
};
_Static_assert(sizeof(struct shell_parameters) == 5 * 8, "two values and three handles");

#endif
