/* SPDX-License-Identifier: Apache-2.0 */
/* What measuring processors (cmd_calibrate.c) and GPUs (calibrate_cuda.c) share: plans of
 * lib/calibrate.dsl, and runs of them in a folder that is gone afterwards. */
#ifndef DT_CLI_CALIBRATE_H
#define DT_CLI_CALIBRATE_H

#include "cli/cli.h"

typedef struct DtCalibrator {
    DtCli *cli;
    const char *library, *program, *folder, *dtrun;
} DtCalibrator;

/* Compiles the program of one rank for cli->target and writes its plan. dims: a list that ends with
 * an entry without a name. */
DtStatus dt_calibrate_plan(const DtCalibrator *c, DtArena *arena, const DtOption *dims,
                           bool is_bf16, const char *path);

/* Runs dtrun, argv[0], to its end; ret_said, if not NULL: its stdout. Fails with its stderr. */
DtStatus dt_calibrate_run(const DtCalibrator *c, DtArena *arena, const char *const *argv,
                          const char **ret_said);

/* Measures the first GPU of this machine and writes it as a device block called `name`; returns the
 * exit code. */
int dt_calibrate_cuda(const DtCalibrator *c, const char *name);

#endif
