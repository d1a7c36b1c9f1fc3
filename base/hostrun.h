/* SPDX-License-Identifier: Apache-2.0 */
/* Runs two builds of generated kernels and compares their results bit by bit (hostrun.c). */
#ifndef DT_BASE_HOSTRUN_H
#define DT_BASE_HOSTRUN_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes at one pointer. Overlapping ranges of one arena share memory in the check too. */
typedef struct DtHostRange {
    uint32_t arena;
    bool written;
    int64_t at, bytes;
} DtHostRange;

/* of processor time for both builds of a call, three trials */
enum { DT_HOST_SETS = 2, DT_HOST_SECONDS = 20 };

/* A way in which a kernel, void symbol(char *const *p, const int64_t *q), is called. */
typedef struct DtHostCall {
    uint32_t unit;                 /* number of the text that defines the symbol */
    const char *symbol;
    uint32_t n_pointers, n_integers;
    const DtHostRange *pointers;
    const int64_t *integers[DT_HOST_SETS]; /* values for several ranks, iterations or steps */
} DtHostCall;

typedef enum DtHostVerdict {
    DT_HOST_NOT_RUN,
    DT_HOST_EQUAL,
    DT_HOST_DIFFERS, /* other bits, or the fast build crashed */
    DT_HOST_NO_ROOM, /* its ranges do not fit into this process's address space, or the plain build
                      * took longer than DT_HOST_SECONDS: nothing was compared */
    DT_HOST_FAULT    /* the plain build crashed too: it accesses memory outside of its ranges */
} DtHostVerdict;

typedef struct DtHostBytes {
    const uint8_t *at; /* a shared object */
    size_t len;
} DtHostBytes;

/* Two builds of one text. */
typedef struct DtHostPair {
    const char *text;
    DtHostBytes plain, fast;
    const DtHostCall *calls; /* may be of any unit: calls of other units are skipped */
    uint32_t n_calls, unit;
    uint8_t *verdicts;       /* DtHostVerdict by call; unchanged for calls of other units */
    bool unloadable;         /* result: the plain build cannot be loaded, so nothing was compared */
    uint32_t n_endless;      /* result: of the calls that differ, how many ran longer than
                              * DT_HOST_SECONDS in the fast build */
} DtHostPair;

/* Compares each pair in a process of its own, at most two at once, so that a crash does not
 * affect the caller. */
DtStatus dt_hostrun_compare(DtHostPair *pairs, uint32_t n);

#endif
