/* SPDX-License-Identifier: Apache-2.0 */
/* Runs two builds of generated kernels side by side and compares what they leave, bit by bit (hostrun.c). */
#ifndef DT_BASE_HOSTRUN_H
#define DT_BASE_HOSTRUN_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes behind one pointer. Ranges of one arena that overlap are one piece of memory here too. */
typedef struct DtHostRange {
    uint32_t arena;
    bool written;
    int64_t at, bytes;
} DtHostRange;

enum { DT_HOST_SETS = 2, DT_HOST_SECONDS = 20 }; /* of processor time for both builds of a call, three trials */

/* A way in which a kernel, void symbol(char *const *p, const int64_t *q), is called. */
typedef struct DtHostCall {
    uint32_t unit;                 /* number of the text that defines the symbol */
    const char *symbol;
    uint32_t n_pointers, n_integers;
    const DtHostRange *pointers;
    const int64_t *integers[DT_HOST_SETS]; /* as several ranks, iterations or steps have them */
} DtHostCall;

typedef enum DtHostVerdict {
    DT_HOST_NOT_RUN,
    DT_HOST_EQUAL,
    DT_HOST_DIFFERS, /* other bits, or the fast build did not return */
    DT_HOST_NO_ROOM, /* its ranges do not fit into the address space that this process may have, or the plain build
                      * needs more than DT_HOST_SECONDS: nothing was compared */
    DT_HOST_FAULT    /* the plain build did not return either: it touches what is not its own */
} DtHostVerdict;

typedef struct DtHostBytes {
    const uint8_t *at; /* a shared object */
    size_t len;
} DtHostBytes;

/* Two builds of one text. */
typedef struct DtHostPair {
    const char *text;
    DtHostBytes plain, fast;
    const DtHostCall *calls; /* of any unit: those of others are skipped */
    uint32_t n_calls, unit;
    uint8_t *verdicts;       /* DtHostVerdict by call; of calls of other units they stay */
    bool unloadable;         /* result: the plain build cannot be loaded, so nothing was compared */
    uint32_t n_endless;      /* result: of the calls that differ, those whose fast build ran into DT_HOST_SECONDS */
} DtHostPair;

/* Compares each pair in a process of its own, at most two at once: whatever the code does, the caller goes on. */
DtStatus dt_hostrun_compare(DtHostPair *pairs, uint32_t n);

#endif
