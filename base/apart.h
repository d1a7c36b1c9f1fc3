/* SPDX-License-Identifier: Apache-2.0 */
/* Work in processes of its own, several at once: for libraries that hold a lock of theirs while they work, or that may
 * crash (apart.c). */
#ifndef DT_BASE_APART_H
#define DT_BASE_APART_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

typedef struct DtApartBytes {
    const uint8_t *at;
    size_t len;
} DtApartBytes;

/* What a process does: bytes that it makes of a task, or why it has made none. */
typedef DtStatus DtApartWork(DtArena *arena, const void *task, DtText *ret_bytes);

/* Processors that this process may use, one at least. */
uint32_t dt_apart_processors(void);

/* Does n tasks in the order of the list, at most so many (one or more) at once, each in a child process; ret_bytes, in
 * the order of tasks, are in the arena. what: for messages, "compiles kernels". If one fails, or is killed, the others
 * are ended, and its status is returned; no process is left behind, also if this one is killed. */
DtStatus dt_apart_run(DtArena *arena, const char *what, DtApartWork *work, const void *const *tasks, uint32_t n,
                      uint32_t at_once, DtApartBytes *ret_bytes);

#endif
