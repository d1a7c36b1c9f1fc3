/* SPDX-License-Identifier: Apache-2.0 */
/* The last part of --verify: the plan's machine code, run on real ranks. */
#ifndef DT_CLI_MACHINE_H
#define DT_CLI_MACHINE_H

#include "cli/cli.h"
#include "passes/check/judge.h"

typedef struct DtCliMachine {
    DtJudgeRunner runner; /* first */
    DtCli *cli;
    const char *why_not;  /* it was not run; or NULL */
    const char *wrong;    /* it was, and failed; or NULL */
    uint8_t *plan;        /* once it is compiled */
    size_t len;
    DT_VEC(struct Run *) runs;
} DtCliMachine;

/* Compiles the program that the options say, runs its steps from given values, and compares what ranks hold after each
 * with the interpreter's. REJECTED: why_not or wrong says it. Free ret_judged->problem. */
DtJudgeVerdict dt_cli_machine(DtCli *cli, const DtJudgeProgram *task, const DtLowerOptions *options,
                              DtCliMachine *ret_machine, DtJudgeMachine *ret_judged);

#endif
