/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of the stand-in NCCL: memory that all members of a communicator have registered, in the
 * same order. */
#ifndef DT_TESTS_STANDIN_WINDOWS_H
#define DT_TESTS_STANDIN_WINDOWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WINDOWS_RANKS = 8, WINDOWS_ASKS = 256, WINDOWS_SYMMETRIC = 1 };

/* The requests of members, each in its order; shared by processes. number 0: a new window is
 * requested, else this one is given up. */
typedef struct Ask {
    size_t bytes;
    int flags, number;
} Ask;
typedef struct Asks {
    _Atomic uint32_t n[WINDOWS_RANKS];
    Ask at[WINDOWS_RANKS][WINDOWS_ASKS];
} Asks;

typedef struct Window Window;
typedef struct Windows {
    Asks *asks;
    const int *ranks; /* ranks of the members */
    int n, me;
    Window *first, *asked; /* asked: a request that was not answered yet */
    Window **ret_asked;
    int made; /* number of requests so far */
    /* numbers of collectives, by where their memory is; of the first kind, those by copy engines */
    int inside, outside, copied;
} Windows;

/* The window that contains a collective's memory. number 0: no window does. */
typedef struct Where {
    int number, flags;
    uint64_t offset;
} Where;

bool windows_ask(Windows *w, uint64_t at, size_t bytes, int flags, Window **ret_window);
bool windows_ask_back(Windows *w, Window *window);
bool windows_wait(const Windows *w);  /* PROGRESS: other members have not asked yet */
bool windows_answer(Windows *w); /* false: members asked for different things */

/* False: only a part of it is in a window. */
bool windows_find(const Windows *w, uint64_t at, size_t bytes, Where *ret_where);
/* Compares what two members do in one collective; false: it is not what the window's flags
 * promise. */
bool windows_agree(const Where *one, const Where *other);

/* When the communicator is aborted, all its windows are gone. */
void windows_drop(Windows *w);
/* Called when the communicator is freed: false if a window is left. */
bool windows_end(const Windows *w, int policy);

#endif
