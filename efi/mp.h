/* SPDX-License-Identifier: GPL-2.0-only */
/* EFI_MP_SERVICES_PROTOCOL, UEFI PI 1.8 vol. 2, 13.4. GNU-EFI 3.0 has none. */
#ifndef MCSPIN_EFI_MP_H
#define MCSPIN_EFI_MP_H

#include <efi.h>

#define MCSPIN_MP_SERVICES_GUID                                                                    \
	{                                                                                          \
		0x3fdda605, 0xa76e, 0x4f46, { 0xad, 0x29, 0x12, 0xf4, 0x53, 0x1b, 0x3d, 0x08 }     \
	}

#define MP_IS_BSP     1
#define MP_IS_ENABLED 2
#define MP_IS_HEALTHY 4

struct mp_info {
	UINT64 id; /* APIC id */
	UINT32 status;
	UINT32 package, core, thread;
	UINT32 extended[6];
};
_Static_assert(sizeof(struct mp_info) == 48, "EFI_PROCESSOR_INFORMATION with ExtendedInformation");

typedef VOID(EFIAPI *mp_procedure)(VOID *argument);

struct mp_services {
	EFI_STATUS(EFIAPI *get_number)(struct mp_services *, UINTN *total, UINTN *enabled);
	EFI_STATUS(EFIAPI *get_info)(struct mp_services *, UINTN number, struct mp_info *info);
	EFI_STATUS(EFIAPI *startup_all)
	(struct mp_services *, mp_procedure, BOOLEAN single_thread, EFI_EVENT wait_event,
	 UINTN timeout_us, VOID *argument, UINTN **failed);
	EFI_STATUS(EFIAPI *startup_this)
	(struct mp_services *, mp_procedure, UINTN number, EFI_EVENT wait_event, UINTN timeout_us,
	 VOID *argument, BOOLEAN *finished);
	VOID *switch_bsp, *enable_disable;
	EFI_STATUS(EFIAPI *who_am_i)(struct mp_services *, UINTN *number);
};
_Static_assert(sizeof(struct mp_services) == 7 * 8, "seven functions");

#endif
