/* SPDX-License-Identifier: Apache-2.0 */
/* A smaller program of the same kind. Nothing here knows what a dim means: smaller extents are
 * tried one dim after the other, and kept if the program still lowers, passes all passes, and no
 * dim that counted more than one is left with one element (mesh axes do not split an axis of extent
 * 1, so the layout would be another one). */
#include "passes/check/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Shrink {
    DtArena *arena;
    const DtJudgeProgram *task;
    const DtProgram *original;
    DT_VEC(DtOption) dims, sets;
    int64_t least;   /* extent */
    uint32_t budget; /* programs still to try */
} Shrink;

static DtLowerOptions options_of(const Shrink *s)
{
    DtLowerOptions options = *s->task->options;
    options.dims = s->dims.at;
    options.n_dims = s->dims.n;
    options.sets = s->sets.at;
    options.n_sets = s->sets.n;
    options.smaller = true;
    return options;
}

/* Whether every dim with more than one element in the original program still has more than one. */
static bool keeps_axes(const Shrink *s, const DtProgram *program)
{
    for (uint32_t i = 0; i < s->original->dims.n; i++)
        for (uint32_t k = 0; k < program->dims.n; k++)
            if (program->dims.at[k].name == s->original->dims.at[i].name &&
                program->dims.at[k].extent == 1 && s->original->dims.at[i].extent > 1)
                return false;
    return true;
}

static bool works(Shrink *s)
{
    if (s->budget == 0)
        return false;
    s->budget--;
    DtArena *arena = dt_arena_new();
    DtLowerOptions options = options_of(s);
    const DtProgram *program = dt_judge_place(arena, dt_diag_new(arena), &options);
    bool good = program && keeps_axes(s, program);
    dt_arena_free(arena);
    return good;
}

static const char *number(Shrink *s, int64_t value)
{
    return dt_arena_printf(s->arena, "%lld", (long long)value);
}

/* ---- the mesh ---- */

/* Whether a --set option names BLOCK.NAME, or PARALLEL.NAME with the name of the block. */
static bool is_set(const Shrink *s, const char *block, const char *name)
{
    for (uint32_t i = 0; i < s->task->options->n_sets; i++) {
        const char *key = s->task->options->sets[i].name, *dot = strchr(key, '.');
        size_t len = dot ? (size_t)(dot - key) : 0;
        bool same_block =
            len && (strncmp(key, "parallel", len) == 0 || strncmp(key, block, len) == 0);
        if (same_block && strcmp(dot + 1, name) == 0)
            return true;
    }
    return false;
}

static void set(Shrink *s, const char *block, const char *name, int64_t value)
{
    DtOption option = {.name = dt_arena_printf(s->arena, "%s.%s", block, name),
                       .value = number(s, value)};
    DT_PUSH(s->arena, s->sets, option);
}

/* Makes every larger mesh axis 2 ranks long, and the number of micro-batches 2. If the program is
 * refused then (a schedule may need as many micro-batches as stages, say), all keep their sizes.
 * Adds the changes to ret_shrunk. */
static void shrink_mesh(Shrink *s, DtText *ret_shrunk)
{
    const DtParallelConfig *parallel = s->original->parallel;
    int64_t devices = 1;
    uint32_t n_sets = s->sets.n;
    DtText said = {0};
    for (uint32_t i = 0; parallel && i < parallel->mesh.n; i++) {
        const DtMeshAxis *axis = &parallel->mesh.axes[i];
        const char *name = dt_arena_printf(s->arena, "mesh.%s", axis->name);
        bool shrinks = axis->size > 2 && !is_set(s, parallel->name, name);
        devices *= shrinks ? 2 : axis->size;
        if (!shrinks)
            continue;
        set(s, parallel->name, name, 2);
        dt_text_printf(&said, " %s=2 (%lld)", axis->name, (long long)axis->size);
    }
    if (s->sets.n > n_sets && s->original->cluster) {
        const char *gpu = dt_arena_printf(s->arena, "%s.gpu", s->original->cluster->name);
        if (s->original->cluster->n_kinds > 1)
            DT_PUSH(s->arena, s->sets, ((DtOption){gpu, s->original->cluster->kinds[0].gpu}));
        set(s, s->original->cluster->name, "nodes", 1);
        set(s, s->original->cluster->name, "gpus", devices);
    }
    if (parallel && parallel->micro > 2 && !is_set(s, parallel->name, "micro")) {
        set(s, parallel->name, "micro", 2);
        dt_text_printf(&said, " micro=2 (%lld)", (long long)parallel->micro);
    }
    if (s->sets.n > n_sets && works(s))
        dt_text_add(ret_shrunk, said.at ? said.at : "");
    else
        s->sets.n = n_sets;
    dt_text_free(&said);
}

/* ---- dims ---- */

/* Tries smaller extents for a dim, smallest first; if none works, the dim keeps its extent. */
static void shrink_dim(Shrink *s, uint32_t option)
{
    static const int64_t tries[] = {2,  3,  4,  5,  6,  8,  9,  10, 12, 16,
                                    18, 20, 24, 32, 36, 48, 64, 96, 128};
    DtOption before = s->dims.at[option];
    int64_t most = strtoll(before.value, NULL, 10);
    for (size_t i = 0; i < DT_COUNT(tries) && tries[i] < most; i++) {
        s->dims.at[option].value = number(s, tries[i]);
        if (tries[i] >= s->least && works(s))
            return;
    }
    s->dims.at[option] = before;
}

DtLowerOptions dt_judge_shrink(DtArena *arena, const DtJudgeProgram *task, const DtProgram *program,
                               int64_t least, DtText *ret_shrunk)
{
    Shrink shrink = {
        .arena = arena, .task = task, .original = program, .least = least, .budget = 400};
    Shrink *s = &shrink;
    for (uint32_t i = 0; i < task->options->n_sets; i++)
        DT_PUSH(arena, s->sets, task->options->sets[i]);
    for (uint32_t i = 0; i < task->options->n_dims; i++)
        DT_PUSH(arena, s->dims, task->options->dims[i]);
    shrink_mesh(s, ret_shrunk);
    uint32_t first = s->dims.n;
    for (uint32_t i = 0; i < program->dims.n; i++) {
        const DtDim *dim = &program->dims.at[i];
        if (dim->is_number && !dim->is_given && dim->extent > least)
            DT_PUSH(arena, s->dims,
                    ((DtOption){.name = dim->name, .value = number(s, dim->extent)}));
    }
    /* the least extent of one dim may depend on a later dim */
    for (int round = 0; round < 2; round++)
        for (uint32_t i = first; i < s->dims.n; i++)
            shrink_dim(s, i);
    for (uint32_t i = first; i < s->dims.n; i++)
        dt_text_printf(ret_shrunk, " %s=%s", s->dims.at[i].name, s->dims.at[i].value);
    return options_of(s);
}
