/* SPDX-License-Identifier: Apache-2.0 */
/* dtc verify PLAN [--program FILE.dsl]: proves a plan file from its logical section
 * (verify/file.h), and compares it with the compilation of FILE. The plan is data, whoever wrote
 * it: its code is not loaded. */
#include "cli/cli.h"

#include "base/stack.h"
#include "base/status.h"
#include "plan/read.h"
#include "verify/file.h"

#include <string.h>

typedef struct Prove {
    const DtPlan *plan;
    DtArena *arena;
    DtLogicalTexts texts;
    DtCertCounts counts;
    const char *other; /* a serial program */
    DtText said;
    bool good;
} Prove;

/* ---- the proof ---- */

static void prove(void *data)
{
    Prove *p = data;
    p->good = dt_certfile_open(p->arena, p->plan, &p->texts, &p->said) &&
              dt_certfile_prove(p->arena, p->plan, &p->texts, &p->counts, &p->said);
}

/* Compares the plan's serial program with the one that FILE gives. */
static void prove_same(void *data)
{
    Prove *p = data;
    p->good = dt_cert_same(p->arena, p->texts.serial, p->other, &p->said);
}

void dt_cli_say_proved(const DtCertCounts *counts, DtText *ret_text)
{
    dt_text_printf(ret_text,
                   "proved: %u results of the layout are those of the serial program (%u values)\n",
                   counts->claims, counts->values);
    if (!counts->boxes)
        return;
    dt_text_printf(ret_text,
                   "proved: what ranks do for rings and the zigzag order is that (%u calls",
                   counts->boxes);
    if (counts->rounded)
        dt_text_printf(ret_text, ", but for where %u of them round", counts->rounded);
    dt_text_add(ret_text, ")\n");
}

static int print_proof(const Prove *p)
{
    DtText text = {0};
    dt_cli_say_proved(&p->counts, &text);
    dt_text_printf(&text, "proved: the plan's %u instructions are the layout's ops\n",
                   p->plan->n_insts);
    dt_text_add(
        &text,
        "proved: data, batch, seed, rates, initial values and what is saved are the program's\n");
    int code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}

/* ---- against a program ---- */

/* Fails with a message that shows the first line in which two texts differ, of the plan and of the
 * program. */
static int differ(const DtCli *cli, const char *what, const char *plan, const char *program)
{
    const char *have = plan, *want = program;
    for (size_t i = 0; plan[i] && plan[i] == program[i]; i++)
        if (plan[i] == '\n') {
            have = plan + i + 1;
            want = program + i + 1;
        }
    return dt_cli_fail(DT_EXIT_FAILED,
                       "%s is not a plan of %s: %s\n  plan:    %.*s\n  program: %.*s",
                       cli->words.at[0], cli->program, what, (int)strcspn(have, "\n"), have,
                       (int)strcspn(want, "\n"), want);
}

static bool same_bytes(const DtPlan *a, uint64_t at, uint64_t len, const DtPlan *b, uint64_t b_at,
                       uint64_t b_len)
{
    return len == b_len && (!len || memcmp(a->blob + at, b->blob + b_at, len) == 0);
}

/* Fails with "PLAN is not a plan of FILE: why". */
static int other(const DtCli *cli, const char *why)
{
    return dt_cli_fail(DT_EXIT_FAILED, "%s is not a plan of %s: %s", cli->words.at[0], cli->program,
                       why);
}

/* Whether both plans have equal notes. Nothing else tells which kernel computes which ops, the
 * layout of its operands, and the meaning of its integers. */
static bool same_notes(const DtPlan *a, const DtPlan *b)
{
    bool same = a->n_notes == b->n_notes && same_bytes(a, a->logical->notes, a->logical->notes_len,
                                                       b, b->logical->notes, b->logical->notes_len);
    for (uint32_t i = 0; same && i < a->n_notes; i++)
        same = a->notes[i].first == b->notes[i].first && a->notes[i].count == b->notes[i].count;
    return same;
}

static bool same_launch(const DtPlanLaunch *a, const DtPlanLaunch *b)
{
    return a->blocks == b->blocks && a->threads == b->threads && a->shared == b->shared &&
           a->finish == b->finish && a->workspace == b->workspace;
}

static bool same_kernels(const DtPlan *a, const DtPlan *b)
{
    bool same =
        a->n_kernels == b->n_kernels && a->n_codes == b->n_codes && a->n_launches == b->n_launches;
    for (uint32_t i = 0; same && i < a->n_kernels; i++)
        same =
            a->kernels[i].code == b->kernels[i].code &&
            a->kernels[i].n_pointers == b->kernels[i].n_pointers &&
            a->kernels[i].n_integers == b->kernels[i].n_integers &&
            strcmp(dt_plan_str(a, a->kernels[i].symbol), dt_plan_str(b, b->kernels[i].symbol)) == 0;
    for (uint32_t i = 0; same && i < a->n_launches; i++)
        same = same_launch(&a->launches[i], &b->launches[i]);
    for (uint32_t i = 0; same && i < a->n_codes; i++)
        same = same_bytes(a, a->codes[i].source, a->codes[i].source_len, b, b->codes[i].source,
                          b->codes[i].source_len);
    return same;
}

/* Compares the kernels of both plans, and the machine code with what the host compiler makes of
 * them; returns an exit code. */
static int compare_code(const DtCli *cli, const DtPlan *have, const DtPlan *want)
{
    if (!same_kernels(have, want))
        return other(cli, "its kernels are not what the program's ops are compiled to");
    if (!same_notes(have, want))
        return other(
            cli,
            "its notes differ, which say for which ops kernels are called, and how operands lie");
    DtText text = {0};
    dt_text_printf(&text, "the same: %u kernels and the ops of %s\n", have->n_kernels,
                   cli->program);
    for (uint32_t i = 0; i < have->n_codes; i++) {
        const DtPlanCode *a = &have->codes[i], *b = &want->codes[i];
        const char *by = dt_plan_str(have, a->compiler), *here = dt_plan_str(want, b->compiler);
        const bool compiled = a->binary_len && b->binary_len && strcmp(by, here) == 0;
        if (compiled &&
            !same_bytes(have, a->binary, a->binary_len, want, b->binary, b->binary_len)) {
            dt_text_free(&text);
            return other(cli,
                         "its machine code is not what the host compiler makes of its kernels");
        }
        if (i > 0)
            continue;
        if (!a->binary_len)
            dt_text_add(&text, "not compared: machine code, of which the plan holds none\n");
        else if (compiled)
            dt_text_printf(&text, "the same: machine code and what %s makes of the kernels\n", by);
        else
            dt_text_printf(&text,
                           "not compared: machine code, which is of `%s`; here it is of `%s`\n", by,
                           here);
    }
    int code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}

/* Whether the plan's serial program is that of FILE: an equal text, or else a program that is
 * proved equal, since names and places may differ. */
static bool is_same(const DtCli *cli, const DtLogicalTexts *have, const char *serial)
{
    Prove p = {.arena = cli->arena, .texts = *have, .other = serial,
               .good = strcmp(have->serial, serial) == 0};
    if (!p.good)
        dt_stack_run(prove_same, &p);
    if (!p.good && p.said.at)
        other(cli, dt_arena_printf(cli->arena, "%s%s", p.said.at, dt_cli_position(cli, p.said.at)));
    dt_text_free(&p.said);
    return p.good;
}

int dt_cli_compare(const DtCli *cli, const DtPlan *plan)
{
    DtLogicalTexts have, want;
    DtText text = {0};
    if (!dt_logical_read(cli->arena, cli->against, &have) ||
        !dt_logical_read(cli->arena, plan, &want))
        return dt_cli_fail(DT_EXIT_FAILED,
                           "internal error: a plan that was proved has no logical section");
    if (!is_same(cli, &have, want.serial))
        return DT_EXIT_FAILED;
    if (strcmp(have.facts, want.facts) != 0)
        return differ(cli, "it has other data or training", have.facts, want.facts);
    dt_text_printf(&text, "the same: serial program, data and training are those of %s\n",
                   cli->program);
    int code = dt_cli_print(&text);
    dt_text_free(&text);
    if (code != DT_EXIT_OK || cli->no_kernels)
        return code;
    if (strcmp(have.final, want.final) != 0)
        return dt_cli_fail(
            DT_EXIT_FAILED,
            "the kernels are not compared, since %s is laid out otherwise here than in the plan: "
            "give "
            "--parallel, --cluster and --set as for the plan, or --no-kernels to leave kernels out",
            cli->program);
    return compare_code(cli, cli->against, plan);
}

/* Returns facts without the folders of data, which are as seen from the plan's. */
static const char *without_folders(DtArena *arena, const char *facts)
{
    static const char key[] = " folder=\"";
    const char *result = "", *at = facts, *found;
    while ((found = strstr(at, key))) {
        const char *end = found + strlen(key);
        while (*end && *end != '"')
            end += 1 + (*end == '\\' && end[1]);
        result = dt_arena_printf(arena, "%s%.*s", result, (int)(found - at), at);
        at = *end ? end + 1 : end;
    }
    return dt_arena_printf(arena, "%s%s", result, at);
}

int dt_cli_compare_old(const DtCli *cli, const DtPlan *plan)
{
    DtLogicalTexts have, want;
    if (!dt_logical_read(cli->arena, cli->old, &have) ||
        !dt_logical_read(cli->arena, plan, &want))
        return dt_cli_fail(DT_EXIT_FAILED, "%s has no logical section, with which the new plan "
                                           "would be compared",
                           cli->words.at[0]);
    if (!is_same(cli, &have, want.serial))
        return DT_EXIT_FAILED;
    const char *old = without_folders(cli->arena, have.facts);
    const char *new = without_folders(cli->arena, want.facts);
    return strcmp(old, new) == 0 ? DT_EXIT_OK
                                 : differ(cli, "it has other data or training", old, new);
}

/* ---- the command ---- */

static int run(DtCli *cli, const DtPlan *plan)
{
    Prove p = {.plan = plan, .arena = dt_arena_new()};
    dt_stack_run(prove, &p); /* the stack depth of a proof grows with the length of the program */
    int code = p.good ? print_proof(&p)
                      : dt_cli_fail(DT_EXIT_FAILED, "%s is not proved to do what it says: %s",
                                    cli->words.at[0], p.said.at ? p.said.at : "");
    dt_text_free(&p.said);
    dt_arena_free(p.arena);
    if (code != DT_EXIT_OK || !cli->program)
        return code;
    cli->against = plan;
    cli->target = dt_plan_str(plan, plan->meta->target);
    return dt_cli_build(cli, cli->program);
}

int dt_cmd_verify(DtCli *cli)
{
    DtPlanFile file;
    if (cli->words.n != 1)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "verify needs one plan: dtc verify PLAN [--program FILE.dsl]");
    DtStatus status = dt_read_file(cli->words.at[0], &file);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    int code = run(cli, &file.plan);
    dt_read_close(&file);
    return code;
}
