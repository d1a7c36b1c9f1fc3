/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves space on a disk before anything is written (reserve.c). */
#ifndef DT_BASE_RESERVE_H
#define DT_BASE_RESERVE_H

#include "base/status.h"

#include <stdint.h>

/* Gives the bytes at .. at + len - 1 of an open file their place on the disk; the file becomes that
 * long. Fails if the disk has no room, so that nothing else uses it up while the file is written.
 * Does nothing on a file system that cannot reserve space: there a write fails. */
DtStatus dt_reserve_space(int fd, const char *path, int64_t at, int64_t len);

#endif
