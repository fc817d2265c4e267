/* SPDX-License-Identifier: GPL-2.0-only */
/* Starting the core in a Linux process: for main.c and for unit tests that need processors. */
#ifndef MCSPIN_HOST_H
#define MCSPIN_HOST_H

#include <stdbool.h>

/* `cpus` processors (threads; 0: as many as are online); files and the log go to `folder`, or
 * nowhere when it is NULL. 0 or -ENOMEM. */
int host_start(unsigned cpus, const char *folder);
/* No stream on the standard output. */
extern bool host_quiet;
/* Seconds that processor 0 may stay in one region with interrupts off: the bound that the image has
 * in its watch. Longer, and the program ends with status 3. */
extern unsigned host_watch_s;

#endif
