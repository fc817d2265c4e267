# SPDX-License-Identifier: GPL-2.0-only
# The image: efi/ and the core, linked by mcspin.lds, turned into a PE file and read back.
