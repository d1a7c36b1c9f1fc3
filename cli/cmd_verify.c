/* SPDX-License-Identifier: Apache-2.0 */
/* dtc FILE --verify: evaluates the placed program, all ranks in lockstep and in double
 * precision, and compares it with the serial program; then runs its machine code and compares
 * that. */
#include "cli/machine.h"

#include "codegen/codegen.h"

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
                   : judgement->not_stated ? "a custom gradient is WRONG"
                   : judgement->not_serial ? "the serial program itself is WRONG"
                   : judgement->not_stable
                       ? "not compared, since the serial program magnifies roundings too much"
                       : "NOT equal to the serial program",
                   judgement->ranks, judgement->ranks == 1 ? "" : "s", judgement->micro,
                   judgement->micro == 1 ? "" : "es", STEPS);
}

static void print_life(const DtJudgeMachine *judged, DtText *ret_text)
{
    dt_text_printf(ret_text,
                   "life of a run: equal on %u steps, the schedule's first and last among them",
                   judged->life);
    if (judged->skipped)
        dt_text_printf(ret_text, "; the loss scale skipped %u", judged->skipped);
    if (judged->resumed)
        dt_text_add(ret_text, "; saved and resumed");
    if (judged->resumed > 1 && judged->other == 1)
        dt_text_add(ret_text, ", also on one rank");
    else if (judged->resumed > 1)
        dt_text_printf(ret_text, ", also in another layout of %u ranks", judged->other);
    if (judged->evaluated)
        dt_text_printf(ret_text, "; evaluated over %u sample%s", judged->evaluated,
                       judged->evaluated == 1 ? "" : "s");
    if (judged->windows)
        dt_text_printf(ret_text, ", and over %u of files", judged->windows);
    else if (judged->no_files)
        dt_text_printf(ret_text, ", and over none of files, which this check does not write for %s",
                       judged->no_files);
    dt_text_add(ret_text, "\n");
}

static void print_machine(const DtJudgeMachine *judged, DtText *ret_text)
{
    const char *ranks = judged->ranks == 1 ? "" : "s";
    if (judged->vague == judged->values) {
        dt_text_printf(ret_text,
                       "machine code: %u steps on %u rank%s show nothing: each value moves by a "
                       "tenth and more if "
                       "roundings change\n",
                       judged->steps, judged->ranks, ranks);
        return;
    }
    dt_text_printf(ret_text,
                   "machine code: equal to the interpreter but for roundings: %u steps on %u "
                   "rank%s, %u values, "
                   "largest difference %.2g%s%s\n",
                   judged->steps, judged->ranks, ranks, judged->values, judged->worst,
                   judged->where ? " of the norm of " : "", judged->where ? judged->where : "");
    print_life(judged, ret_text);
    if (judged->vague)
        dt_text_printf(ret_text,
                       "              and %u of them move by a tenth and more if roundings change: "
                       "they prove little\n",
                       judged->vague);
}

/* Runs the compiled plan on real ranks and compares. The layout is proved before, so a difference
 * is an error of code generation, the host compiler, or the runtime. */
static int verify_machine(DtCli *cli, const DtJudgeProgram *task, const DtJudgement *judgement)
{
    DtCliMachine machine;
    DtJudgeMachine judged;
    DtText text = {0};
    const DtJudgeVerdict verdict = dt_cli_machine(cli, task, judgement, &machine, &judged);
    if (verdict == DT_JUDGE_EQUAL)
        print_machine(&judged, &text);
    else if (machine.why_not)
        dt_text_printf(&text, "machine code: not run: %s\n", machine.why_not);
    else if (verdict == DT_JUDGE_REJECTED && !machine.wrong)
        dt_text_add(&text, "machine code: there is none: the program has no `train` block\n");
    else
        dt_text_printf(&text, "machine code: NOT equal to the interpreter\n");
    int code = dt_cli_print(&text);
    if (verdict == DT_JUDGE_DIFFERS || machine.wrong)
        code = dt_cli_fail(
            DT_EXIT_FAILED,
            "the layout is right, but the plan's machine code does not compute what it says\n%s",
            machine.wrong ? machine.wrong : judged.problem.at);
    dt_text_free(&judged.problem);
    dt_text_free(&text);
    return code;
}

int dt_cli_verify(DtCli *cli, const DtLowerOptions *options)
{
    const DtJudgeProgram task = {.options = options,
                                 .steps = STEPS,
                                 .epilogues = dt_cli_epilogues(cli)};
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
    if (verdict == DT_JUDGE_EQUAL && code == DT_EXIT_OK)
        code = verify_machine(cli, &task, &judgement);
    if (verdict == DT_JUDGE_DIFFERS)
        code = dt_cli_fail(
            DT_EXIT_FAILED, "%s\n%s",
            judgement.not_finite   ? "the values of the program itself are not finite"
            : judgement.not_stated ? "the program has a custom gradient that is wrong"
            : judgement.not_serial ? "internal error: what dtc makes of the program, before any "
                                     "layout, is not what the program says"
            : judgement.not_stable ? "the values of the program itself hang on their last digits"
                                   : "the layout does not compute what the program says",
            judgement.problem.at ? judgement.problem.at : "");
    dt_text_free(&judgement.problem);
    dt_text_free(&shrunk);
    dt_text_free(&text);
    return code;
}
