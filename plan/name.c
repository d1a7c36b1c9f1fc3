/* SPDX-License-Identifier: Apache-2.0 */
/* Parses names of entries; no other file does. */
#include "plan/name.h"

#include <stdio.h>
#include <string.h>

enum { DIGITS = 9 };

static DtPlanRun run_of(const char *word, size_t len)
{
    static const struct {
        const char *word;
        DtPlanRun run;
    } rows[] = {{"loss", DT_PLAN_LOSS},     {"step", DT_PLAN_STEP}, {"grad", DT_PLAN_STEP},
                {"update", DT_PLAN_UPDATE}, {"eval", DT_PLAN_EVAL}, {"predict", DT_PLAN_PREDICT},
                {"prefill", DT_PLAN_PREFILL}, {"decode", DT_PLAN_DECODE},
                {"quantize", DT_PLAN_QUANTIZE}, {"mix", DT_PLAN_MIX}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].word) == len && memcmp(rows[i].word, word, len) == 0)
            return rows[i].run;
    return DT_PLAN_NO_RUN;
}

/* Reads a number of at most nine digits without leading zeros; -1: there is none. */
static int32_t take_number(const char **at)
{
    const char *from = *at;
    int32_t number = 0;
    while (**at >= '0' && **at <= '9' && *at - from < DIGITS)
        number = 10 * number + (*(*at)++ - '0');
    return *at == from || (*from == '0' && *at - from > 1) ? -1 : number;
}

/* Reads the part of a name after the run: ".prologue", ".2", ".prologue.2", ".f3", ".f3.1". */
static bool read_part(const char *rest, DtPlanName *ret_name)
{
    static const char prologue[] = ".prologue", letters[] = "fbw";
    if (strncmp(rest, prologue, sizeof prologue - 1) == 0) {
        ret_name->part = DT_PLAN_PROLOGUE;
        rest += sizeof prologue - 1;
    }
    if (*rest == '\0')
        return true;
    if (*rest++ != '.')
        return false;
    const char *letter = *rest && ret_name->part == DT_PLAN_WHOLE ? strchr(letters, *rest) : NULL;
    if (letter) {
        ret_name->part = (DtPlanPart)(DT_PLAN_F + (letter - letters));
        rest++;
    }
    ret_name->number = take_number(&rest);
    if (letter && ret_name->number >= 0 && *rest == '.') {
        rest++;
        ret_name->twin = take_number(&rest);
        if (ret_name->twin < 1)
            return false;
    }
    return ret_name->number >= 0 && *rest == '\0';
}

DtPlanName dt_plan_name(const char *name)
{
    const size_t len = strcspn(name, "@."), all = strcspn(name, ".");
    DtPlanName read = {.run = run_of(name, len), .number = -1};
    if (all > len) {
        read.objective = name + len + 1;
        read.n_objective = (uint32_t)(all - len - 1);
    }
    if (read.run == DT_PLAN_NO_RUN || all == len + 1 || !read_part(name + all, &read))
        return (DtPlanName){.run = DT_PLAN_NO_RUN, .number = -1};
    return read;
}

void dt_plan_name_mix(int64_t ways, int64_t way, char ret_name[DT_PLAN_MIX_NAME])
{
    if (ways > 1)
        snprintf(ret_name, DT_PLAN_MIX_NAME, "mix@%lld", (long long)way);
    else
        snprintf(ret_name, DT_PLAN_MIX_NAME, "mix");
}

bool dt_plan_name_same_run(const DtPlanName *a, const DtPlanName *b)
{
    return a->run == b->run && a->n_objective == b->n_objective &&
           (!a->n_objective || memcmp(a->objective, b->objective, a->n_objective) == 0);
}

bool dt_plan_name_is_part(const DtPlanName *name)
{
    return name->part != DT_PLAN_WHOLE || name->number >= 0;
}
