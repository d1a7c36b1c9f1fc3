/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tasks in child processes, several at once: for libraries that hold a lock while they
 * work, or that may crash (apart.c). */
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

/* The work of one process: the bytes that it makes from a task, or why it could not. */
typedef DtStatus DtApartWork(DtArena *arena, const void *task, DtText *ret_bytes);

/* Processors that this process may use, one at least. */
uint32_t dt_apart_processors(void);

/* Runs n tasks in the order of the list, at most at_once (one or more) at a time, each in a
 * child process; ret_bytes, in the order of tasks, are in the arena. what: for messages,
 * "compiles kernels". If one fails, or is killed, the others are ended, and its status is
 * returned. No process is left behind, even if this one is killed. */
DtStatus dt_apart_run(DtArena *arena, const char *what, DtApartWork *work, const void *const *tasks,
                      uint32_t n, uint32_t at_once, DtApartBytes *ret_bytes);

#endif
