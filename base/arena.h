/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by lifetime: everything a compilation makes lives in one arena and is freed at once. */
#ifndef DT_BASE_ARENA_H
#define DT_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DtArena DtArena;

DtArena *dt_arena_new(void);
void dt_arena_free(DtArena *arena);

/* An arena that is freed before its parent, by the same thread. The parent keeps the memory for
 * itself and for other children, since reused memory is cheaper than new memory. parent NULL:
 * like dt_arena_new. */
DtArena *dt_arena_child(DtArena *parent);

/* Forgets all blocks but keeps the pages: the scratch arena is reset after each pass. */
void dt_arena_reset(DtArena *arena);

/* Zeroed, 16-byte aligned. Ends the process with a clear message if the system has no memory
 * left. */
void *dt_arena_alloc(DtArena *arena, size_t bytes);

char *dt_arena_strndup(DtArena *arena, const char *text, size_t len);
char *dt_arena_printf(DtArena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *dt_arena_vprintf(DtArena *arena, const char *format, va_list args);

/* Bytes handed out now, and the most ever (for --time-passes). */
size_t dt_arena_used(const DtArena *arena);
size_t dt_arena_peak(const DtArena *arena);

#define DT_NEW(arena, T) ((T *)dt_arena_alloc((arena), sizeof(T)))
#define DT_NEW_ARRAY(arena, T, n) ((T *)dt_arena_alloc((arena), sizeof(T) * (size_t)(n)))
#define DT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A growing list in an arena:  DT_VEC(DtOp *) ops;  DT_PUSH(arena, ops, op);  ops.at[i], ops.n */
#define DT_VEC(T) struct { T *at; uint32_t n, cap; }
#define DT_PUSH(arena, vec, item)                                                                  \
    do {                                                                                           \
        if ((vec).n == (vec).cap)                                                                  \
            (vec).at = dt_arena_grow((arena), (vec).at, &(vec).cap, sizeof((vec).at[0]));          \
        (vec).at[(vec).n++] = (item);                                                              \
    } while (0)

/* Doubles *cap (8 at first) and returns a copy of items with room for that many, or items itself
 * if nothing was allocated from the arena since. */
void *dt_arena_grow(DtArena *arena, void *items, uint32_t *cap, size_t item_bytes);

/* Ends the process with a message: the system has refused that many bytes. */
_Noreturn void dt_arena_exhausted(size_t bytes);

#endif
