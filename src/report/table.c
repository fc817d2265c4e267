/* SPDX-License-Identifier: GPL-2.0-only */
#include "views.h"
int view_table(const char *log, size_t len, struct sink *out)
{
	return 0;
}
