/* SPDX-License-Identifier: Apache-2.0 */
/* Lines `local` and `gossip`: ranks along a mesh axis train replicas, each with an equal part of
 * the batch. A replica is the program with that part as its batch, so the dim that counts samples
 * gets the smaller extent before anything is lowered; pass `replicate` then adds the replicas'
 * axis. */
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <string.h>

/* Returns the first axis of what the block reads; NULL: it reads nothing. */
static const char *samples_of(const DtItem *train)
{
    for (uint32_t i = 0; i < train->entries.n; i++) {
        const DtEntry *entry = train->entries.at[i];
        if (!entry->is_directive && dt_config_is_source(entry) && entry->targets.n &&
            entry->targets.at[0].type.axes.n)
            return entry->targets.at[0].type.axes.at[0].name.text;
    }
    return NULL;
}

/* Forgets the extents and constants that follow from others: some follow from the batch. */
static void forget(DtLower *l)
{
    for (uint32_t i = 0; i < l->globals.n; i++) {
        DtGlobal *global = l->globals.at[i];
        const bool follows = global->kind == DT_GLOBAL_DIM || global->kind == DT_GLOBAL_CONSTANT;
        if (follows && !global->option && global->state == 2)
            global->state = 0;
    }
}

const char *dt_lowerreplicas_samples(const DtLower *l, const DtItem *train)
{
    const DtParallelConfig *parallel = l->program->parallel;
    const bool any = parallel && parallel->replicas.mix != DT_MIX_NONE && l->program->train;
    const char *axis = any && train && !dt_diag_errors(l->diags) ? samples_of(train) : NULL;
    return any && !axis && train ? "" : axis;
}

void dt_lowerreplicas_share(DtLower *l, const char *axis, DtGlobal *dim, int64_t extent)
{
    DtParallelConfig *parallel = l->program->parallel;
    DtReplicas *r = &parallel->replicas;
    if (!dim || dim->kind != DT_GLOBAL_DIM) {
        dt_diag_report(l->diags, E0486, r->span,
                       "replicas share the batch, so `%s` must be a `dim`",
                       *axis ? axis : "the axis of samples");
        return;
    }
    r->samples = axis;
    r->batch = extent;
    if (r->batch < 1 || r->n < 1)
        return;
    if (r->batch % r->n != 0) {
        DtDiag *d = dt_diag_report(l->diags, E0486, r->span,
                                   "%lld replicas do not divide `%s`, which is %lld",
                                   (long long)r->n, axis, (long long)r->batch);
        dt_diag_note(d, "each trains on an equal part of the batch");
        return;
    }
    forget(l);
    dim->extent = r->batch / r->n;
    dim->state = 2;
    r->micro = parallel->micro_axis == axis ? parallel->micro : 1;
    l->program->train->replicas = *r;
}

/* Reports a line that does more with a mesh axis of replicas. */
static void check_line(DtLower *l, DtSpan span, const char *const *on, uint32_t n)
{
    const DtReplicas *r = &l->program->parallel->replicas;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < r->n_on; k++)
            if (on[i] == r->on[k]) {
                DtDiag *d =
                    dt_diag_report(l->diags, E0486, span, "`%s` has replicas", on[i]);
                dt_diag_label(d, r->span, "each has samples and parameters of its own");
                dt_diag_note(d, "so its ranks share nothing: no line splits values over them");
            }
}

static void not_yet(DtLower *l, DtSpan span, const char *what)
{
    DtDiag *d = dt_diag_report(l->diags, E0592, span, "%s with replicas is not implemented yet",
                               what);
    dt_diag_label(d, l->program->parallel->replicas.span, "this line makes replicas");
}

void dt_lowerreplicas_check(DtLower *l)
{
    const DtParallelConfig *p = l->program->parallel;
    const DtTrainConfig *train = l->program->train;
    if (!p || p->replicas.mix == DT_MIX_NONE || !train)
        return;
    for (uint32_t i = 0; i < p->shards.n; i++)
        check_line(l, p->shards.at[i].span, p->shards.at[i].mesh, p->shards.at[i].n_mesh);
    for (uint32_t i = 0; i < p->zeros.n; i++)
        not_yet(l, p->zeros.at[i].span, "`zero`");
    for (uint32_t i = 0; i < p->pipelines.n; i++)
        not_yet(l, p->pipelines.at[i].span, "a pipeline");
    if (p->compress.function)
        not_yet(l, p->compress.span, "`compress`");
    if (p->is_auto)
        not_yet(l, p->auto_span, "`auto`");
    if (train->ramp.by)
        not_yet(l, train->ramp.span, "a ramp of the batch");
    if (l->average)
        not_yet(l, l->average->span, "`average`");
    if (p->replicas.mix == DT_MIX_PAIRS && p->replicas.n > DT_MIX_MOST_PAIRED)
        dt_diag_report(l->diags, E0592, p->replicas.span,
                        "pairs of %lld replicas are not implemented: of %d at most",
                        (long long)p->replicas.n, DT_MIX_MOST_PAIRED);
    for (uint32_t i = 0; i < l->module->stores.n; i++) {
        const DtStore *store = l->module->stores.at[i];
        if (store->kind != DT_STORE_STATE || dt_dtype_is_float(store->type->dtype))
            continue;
        DtDiag *d = dt_diag_report(l->diags, E0486, p->replicas.span,
                                    "replicas have no average of the state `%s`", store->path);
        dt_diag_label(d, store->span, "it is no float");
    }
}

const DtExpr *dt_lowerreplicas_outer(const DtLower *l)
{
    const DtParallelConfig *p = l->program->parallel;
    const DtEntry *line =
        p && p->replicas.mix == DT_MIX_AVERAGE ? dt_lowerreplicas_line(l, "local") : NULL;
    for (uint32_t i = 0; line && i < line->args.n; i++)
        if (!line->args.at[i].name.text || !strcmp(line->args.at[i].name.text, "outer"))
            return line->args.at[i].value;
    return NULL;
}

const DtEntry *dt_lowerreplicas_line(const DtLower *l, const char *verb)
{
    const DtParallelConfig *parallel = l->program->parallel;
    const DtEntry *line = NULL;
    for (uint32_t i = 0; parallel && i < l->items.n; i++) {
        const DtItem *item = l->items.at[i];
        const bool is_it = item->kind == DT_ITEM_PARALLEL && item->name.text &&
                           strcmp(item->name.text, parallel->name) == 0;
        for (uint32_t k = 0; is_it && k < item->entries.n; k++)
            if (item->entries.at[k]->is_directive &&
                strcmp(item->entries.at[k]->verb.text, verb) == 0)
                line = item->entries.at[k];
    }
    return line;
}

/* The type with the samples of all replicas. */
static const DtType *of_all(const DtReplicas *r, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[0].extent *= r->n;
    return dt_type_plain(type->dtype, type->rank, axes);
}

void dt_lowerreplicas_read_all(DtProgram *program)
{
    const DtReplicas *r = program->parallel ? &program->parallel->replicas : NULL;
    DtTrainConfig *train = program->train;
    if (!r || r->mix == DT_MIX_NONE || !train)
        return;
    for (uint32_t i = 0; i < train->readers.n; i++)
        for (uint32_t k = 0; k < train->readers.at[i].n_inputs; k++)
            if (train->readers.at[i].types[k])
                train->readers.at[i].types[k] = of_all(r, train->readers.at[i].types[k]);
    for (uint32_t i = 0; i < train->eval_readers.n; i++)
        for (uint32_t k = 0; k < train->eval_readers.at[i].n_inputs; k++)
            if (train->eval_readers.at[i].types[k])
                train->eval_readers.at[i].types[k] = of_all(r, train->eval_readers.at[i].types[k]);
    for (uint32_t i = 0; i < program->dims.n; i++)
        if (program->dims.at[i].name == r->samples)
            program->dims.at[i].extent = r->batch;
}
