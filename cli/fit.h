/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a plan fits the devices of its cluster (fit.c). */
#ifndef DT_CLI_FIT_H
#define DT_CLI_FIT_H

#include "cli/cli.h"
#include "cost/cost.h"
#include "plan/plan.h"

/* Sets ret_model to the devices of the program's cluster, or to this machine's processors without
 * one; false: the library knows no such device. */
bool dt_fit_model(const DtProgram *program, DtCostModel *ret_model);

/* The target for its kernels: "cpu" without a cluster, "sm_90a,sm_80" with nodes of two kinds. */
const char *dt_fit_target(DtArena *arena, const DtProgram *program);
/* A GPU of its cluster that there is no target for, which dt_fit_target takes for another; NULL:
 * there is none. */
const char *dt_fit_lacks(const DtProgram *program);

/* Reports E0701 if a rank of some stage needs more than its device has, with changes of the layout
 * that help, each of them compiled; returns whether it fits. */
bool dt_fit_check(DtCli *cli, const DtProgram *program, const char *path, const DtPlan *plan);
/* The same of the program at that path, where no plan is asked for: it is compiled as far as its
 * memory, without proofs and texts, if its cluster has GPUs. Where there is no plan, as for data
 * that is not there, it is taken to fit. */
bool dt_fit_check_program(DtCli *cli, const DtProgram *program, const char *path);

#endif
