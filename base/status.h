/* SPDX-License-Identifier: Apache-2.0 */
/* Failure of the environment (files, memory, processes): a status that says what to do. */
#ifndef DT_BASE_STATUS_H
#define DT_BASE_STATUS_H

#include <stdbool.h>

/* Exit codes of both programs. */
enum {
    DT_EXIT_OK = 0,
    DT_EXIT_FAILED = 1,
    DT_EXIT_USAGE = 2,
    DT_EXIT_DIAGNOSTICS = 3,
    DT_EXIT_DOES_NOT_FIT = 4,
    DT_EXIT_IO = 5,
    DT_EXIT_RETRY = 75,
    DT_EXIT_INTERRUPTED = 130,
};

typedef struct DtStatus {
    int code;          /* DT_EXIT_OK, or the exit code that this failure means */
    char message[500]; /* one or two sentences: what failed, with the name, and what to do */
} DtStatus;

#define DT_OK ((DtStatus){.code = DT_EXIT_OK})

DtStatus dt_status_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool dt_status_ok(const DtStatus *status) { return status->code == DT_EXIT_OK; }

#endif
