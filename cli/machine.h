/* SPDX-License-Identifier: Apache-2.0 */
/* The last part of --verify: the plan's machine code, run on real ranks. */
#ifndef DT_CLI_MACHINE_H
#define DT_CLI_MACHINE_H

#include "cli/cli.h"
#include "cli/scratch.h"
#include "passes/check/judge.h"

typedef struct DtCliImage {
    uint8_t *plan; /* once it is compiled */
    size_t len;
} DtCliImage;

typedef struct DtCliMachine {
    DtJudgeRunner runner; /* first */
    DtCli *cli;
    const char *why_not;  /* why the plan was not run; NULL: it was */
    const char *wrong;    /* why the run failed; NULL: it did not */
    /* plans of the program's layout, of two ranks that share samples, of one rank alone, and with
     * files of data */
    DtCliImage images[4];
    bool has_no_other;    /* the program does not allow the layout of two ranks */
    DtCliScratch scratch; /* for checkpoints */
    uint32_t saves;       /* number of trials so far that save a checkpoint */
    bool interprets;      /* interprets kernels of the other layouts instead of compiling them */
    DT_VEC(struct Run *) runs;
} DtCliMachine;

/* judgement: the result of dt_judge_program. Compiles the program of its options, runs events in
 * the life of a run from given values, and compares the ranks' values after each with the
 * interpreter's. REJECTED: why_not or wrong gives the reason. Free ret_judged->problem. */
DtJudgeVerdict dt_cli_machine(DtCli *cli, const DtJudgeProgram *task, const DtJudgement *judgement,
                              DtCliMachine *ret_machine, DtJudgeMachine *ret_judged);

#endif
