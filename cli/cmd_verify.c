/* SPDX-License-Identifier: Apache-2.0 */
/* dtc FILE --verify: evaluates the program as it would be laid out, all ranks in lockstep and in double
 * precision, against the serial program. */
#include "cli/cli.h"

#include "codegen/codegen.h"
#include "judge/judge.h"

enum { STEPS = 2 };

static void print_verdict(const DtJudgement *judgement, const char *shrunk, bool equal,
                          DtText *ret_text)
{
    if (shrunk && *shrunk)
        dt_text_printf(ret_text, "made smaller for the interpreter:%s\n", shrunk);
    dt_judge_print(judgement, ret_text);
    dt_text_printf(ret_text, "%s: %u rank%s, %u micro-batch%s, %d steps\n",
                   equal                   ? "equal to the serial program"
                   : judgement->not_finite ? "not compared, since the serial program is not finite"
                   : judgement->not_stable ? "not compared, since the serial program magnifies roundings too much"
                                           : "NOT equal to the serial program",
                   judgement->ranks, judgement->ranks == 1 ? "" : "s", judgement->micro,
                   judgement->micro == 1 ? "" : "es", STEPS);
}

int dt_cli_verify(DtCli *cli, const DtLowerOptions *options)
{
    const DtJudgeProgram task = {.options = options,
                                 .kernels = dt_codegen_kernels,
                                 .n_kernels = dt_codegen_n_kernels,
                                 .steps = STEPS};
    DtJudgement judgement;
    DtText shrunk = {0}, text = {0};
    DtDiags *diags = dt_diag_new(cli->arena);
    DtJudgeVerdict verdict = dt_judge_program(cli->arena, diags, &task, &judgement, &shrunk);
    int code = DT_EXIT_OK;
    if (verdict == DT_JUDGE_REJECTED) {
        cli->diags = diags; /* the caller reports */
        code = DT_EXIT_DIAGNOSTICS;
    } else {
        print_verdict(&judgement, shrunk.at, verdict == DT_JUDGE_EQUAL, &text);
        code = dt_cli_print(&text);
    }
    if (verdict == DT_JUDGE_DIFFERS)
        code = dt_cli_fail(DT_EXIT_FAILED, "%s\n%s",
                           judgement.not_finite   ? "the values of the program itself are not finite"
                           : judgement.not_stable ? "the values of the program itself hang on their last digits"
                                                  : "the layout does not compute what the program says",
                           judgement.problem.at ? judgement.problem.at : "");
    dt_text_free(&judgement.problem);
    dt_text_free(&shrunk);
    dt_text_free(&text);
    return code;
}
