/* SPDX-License-Identifier: Apache-2.0 */
/* The placed module's side: running an entry on all ranks. Results go where generated code puts
 * them: micro-batches add up in the buffer of a result that accumulates, the last one stays in
 * others, and sums that are pending over ranks are completed at the end of the entry unless the
 * store's type says that they stay pending. */
#include "passes/check/internal.h"

#include "ir/interp_eval.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- problems ---- */

bool dt_judge_problem(DtJudge *j, const char *format, ...)
{
    va_list args;
    if (j->out->problem.len)
        return false;
    va_start(args, format);
    dt_text_add(&j->out->problem, dt_arena_vprintf(j->arena, format, args));
    va_end(args);
    return false;
}

const char *dt_judge_line(const DtJudge *j, DtSpan span)
{
    const DtDiags *diags = j->of->placed->diags;
    uint32_t line, column;
    if (!diags || !span.file)
        return "";
    dt_diag_position(diags, span, &line, &column);
    return dt_arena_printf(j->arena, "\n  --> %s:%u:%u", dt_diag_path(diags, span.file), line,
                           column);
}

const char *dt_judge_rank(const DtJudge *j, uint32_t rank)
{
    const char *text = "";
    for (uint32_t m = 0; m < j->mesh->n; m++)
        text =
            dt_arena_printf(j->arena, "%s%s%s=%lld", text, *text ? " " : "", j->mesh->axes[m].name,
                            (long long)dt_ranks_coordinate(j->mesh, rank, m));
    return *text ? text : "the only one";
}

static void note_copies(DtJudge *j, const DtRanks *ranks, const char *entry)
{
    const DtValue *value = ranks->differs.value;
    if (!value)
        return;
    DtText type = {0};
    dt_type_print_extents(value->type, j->mesh, &type);
    dt_judge_problem(
        j,
        "entry %s: ranks hold different copies of %s %s, made by `%s`: %.17g on rank %s, %.17g on "
        "rank %s%s",
        entry, value->name ? value->name : "a value", type.at,
        value->op ? dt_op_info[value->op->kind].text : "the function's caller",
        ranks->differs.at.value, dt_judge_rank(j, ranks->differs.at.rank),
        ranks->differs.at.other_value, dt_judge_rank(j, ranks->differs.at.other),
        value->op ? dt_judge_line(j, value->op->span) : "");
    dt_text_free(&type);
}

/* ---- running ---- */

/* Returns the rank under which the judge keeps a ring buffer: that of the first micro-batch, since
 * all micro-batches of a rank share the buffer. */
static uint32_t ring_rank(const DtJudge *j, uint32_t rank)
{
    return j->time ? dt_ranks_move(j->mesh, rank, 0, 0) : rank;
}

/* Returns the contents of a ring buffer on the rank; undefined values if nothing was written to it
 * yet. */
static DtTensor *ring(DtJudge *j, const DtStore *store, uint32_t rank)
{
    DtTensor **parts = j->rings[store->index], *held = parts ? parts[ring_rank(j, rank)] : NULL;
    if (held)
        return held;
    held = dt_interp_tensor(j->arena, dt_ranks_local(store->type, j->mesh));
    for (int64_t i = 0; i < dt_type_elements(held->type); i++)
        held->at[i] = NAN;
    return held;
}

void dt_judge_keep_rings(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *raw)
{
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        if (!store || store->kind != DT_STORE_RINGBUF)
            continue;
        DtTensor ***parts = &j->rings[store->index];
        if (!*parts)
            *parts = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
        for (uint32_t rank = 0; rank < j->n; rank++)
            if (raw[i * j->n + rank] &&
                (j->micro < 0 || !j->time || dt_ranks_coordinate(j->mesh, rank, 0) == j->micro))
                (*parts)[ring_rank(j, rank)] = raw[i * j->n + rank];
    }
}

static DtTensor *source(void *context, const DtOp *op, uint32_t rank)
{
    DtJudge *j = context;
    if (op->kind == DT_OP_PARAM && op->store->kind == DT_STORE_RINGBUF)
        return ring(j, op->store, rank);
    if (op->kind == DT_OP_PARAM && op->store->depth)
        return dt_judge_slot(j, op->store, rank);
    if (op->kind == DT_OP_PARAM)
        return j->parts[op->store->index] ? j->parts[op->store->index][rank] : NULL;
    for (uint32_t i = 0; i < j->early.n; i++)
        if (strcmp(j->early.at[i].name, op->text) == 0 && j->early.at[i].at[rank])
            return j->early.at[i].at[rank];
    const DtType *type = op->out[0]->type;
    DtTensor *fed = j->start ? dt_judge_fed(j, op) : NULL;
    if (fed)
        return dt_ranks_slice(j->arena, fed, type, j->mesh, rank);
    DtTensor *whole = dt_interp_tensor(j->arena, type);
    if (op->text[0] == '@') {
        whole->at[0] = dt_judge_scalar(j->of->train, op->text, j->step);
        return type->rank == 0 && !isnan(whole->at[0]) ? whole : NULL;
    }
    if (!dt_judge_input(j->of->train, op->text, j->step, false, whole))
        return NULL;
    dt_judge_round(j, whole);
    return dt_ranks_slice(j->arena, whole, type, j->mesh, rank);
}

void dt_judge_evaluate(DtJudge *j, const DtEntryPoint *entry, uint16_t fixed, const int64_t *at,
                       DtTensor **raw)
{
    DtRanks ranks = {.arena = j->arena,
                     .seed = j->seed,
                     .step = j->step,
                     .draws = dt_entry_draws(entry),
                     .mesh = j->mesh,
                     .source = source,
                     .across = dt_judge_across,
                     .context = j,
                     .turn = fixed & j->time ? at[0] : 0,
                     .rounds = j->of->rounds,
                     .fixed = fixed};
    for (uint32_t m = 0; m < j->mesh->n; m++)
        ranks.at[m] = fixed >> m & 1 ? at[m] : 0;
    DtTensor **results = DT_NEW_ARRAY(j->arena, DtTensor *, entry->results.n * j->n + 1);
    j->met.n = 0;
    dt_ranks_run(&ranks, entry->func, NULL, results);
    note_copies(j, &ranks, entry->name);
    for (uint32_t i = 0; i < entry->results.n * j->n; i++)
        if (results[i])
            raw[i] = results[i];
}

/* For each rank the sum (maximum, minimum) of the parts of the ranks that differ from it only in
 * these mesh axes, in order of ranks. */
static DtTensor **combined(DtJudge *j, DtTensor *const *parts, const DtType *type, uint16_t bits)
{
    const DtOpKind kind = dt_interp_combining[type->pending];
    DtTensor **made = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
    for (uint32_t rank = 0; rank < j->n; rank++) {
        uint32_t first = rank;
        for (uint32_t m = 0; m < j->mesh->n; m++)
            if (bits >> m & 1)
                first = dt_ranks_move(j->mesh, first, m, 0);
        if (!parts[rank])
            continue;
        if (made[first]) {
            DtTensor *sum = made[rank] = made[first];
            for (int64_t i = 0; i < dt_type_elements(sum->type); i++)
                sum->at[i] = dt_interp_binary(kind, type->dtype, sum->at[i], parts[rank]->at[i]);
            dt_judge_round(j, sum);
        } else {
            made[rank] = dt_interp_tensor(j->arena, parts[rank]->type);
            memcpy(made[rank]->at, parts[rank]->at,
                   sizeof(double) * (size_t)dt_type_elements(parts[rank]->type));
        }
    }
    return made;
}

static bool is_split_over(const DtType *type, uint16_t bits)
{
    for (uint32_t i = 0; i < type->rank; i++)
        for (uint32_t k = 0; k < type->axes[i].n_split; k++)
            if (bits >> type->axes[i].split[k] & 1)
                return true;
    return false;
}

/* Returns parts in which every micro-batch of a rank has the values that its last micro-batch
 * has. */
static DtTensor **of_last_micro(DtJudge *j, DtTensor *const *parts)
{
    DtTensor **made = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
    for (uint32_t rank = 0; rank < j->n; rank++)
        made[rank] = parts[dt_ranks_move(j->mesh, rank, 0, j->mesh->axes[0].size - 1)];
    return made;
}

static bool settle(DtJudge *j, const DtEntryPoint *entry, uint32_t result, DtTensor *const *parts,
                   DtSettled *ret)
{
    const DtEntryResult *to = &entry->results.at[result];
    const DtType *type = entry->func->results.at[result]->type;
    uint16_t stays = to->store ? to->store->type->partial : 0;
    uint16_t bits = type->partial & (uint16_t) ~(stays | j->time);
    *ret = (DtSettled){.name = to->name, .store = to->store};
    if (to->accumulate && j->time)
        bits |= j->time;
    else if (j->time && !is_split_over(type, j->time))
        parts = of_last_micro(j, parts);
    ret->at = combined(j, parts, type, bits);
    ret->type = dt_type_make(type->dtype, type->rank, type->axes,
                             type->partial & (uint16_t) ~(bits | j->time), (DtReduce)type->pending);
    if (!to->store || ret->type == to->store->type)
        return true;
    DtText left = {0}, held = {0};
    dt_type_print_extents(ret->type, j->mesh, &left);
    dt_type_print_extents(to->store->type, j->mesh, &held);
    dt_judge_problem(j, "entry %s leaves %s in the store of `%s`, which is %s", entry->name,
                     left.at, to->store->path, held.at);
    dt_text_free(&left);
    dt_text_free(&held);
    return false;
}

bool dt_judge_settle(DtJudge *j, const DtEntryPoint *entry, DtTensor *const *raw)
{
    for (uint32_t i = 0; i < entry->results.n; i++) {
        DtSettled settled;
        const DtStore *store = entry->results.at[i].store;
        if (store && (store->depth || store->kind == DT_STORE_RINGBUF))
            continue; /* a slot or a ring buffer was stored when the op ran */
        if (!settle(j, entry, i, raw + i * j->n, &settled))
            return false;
        if (settled.store)
            DT_PUSH(j->arena, j->stored, settled);
        else
            DT_PUSH(j->arena, j->named, settled);
    }
    return true;
}

/* ---- entries ---- */

/* Adds two values on each rank that has them, and rounds the sum if the judge rounds. */
static DtTensor **added(DtJudge *j, DtTensor *const *a, DtTensor *const *b)
{
    DtTensor **sum = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
    for (uint32_t rank = 0; rank < j->n; rank++) {
        if (!a[rank])
            continue;
        sum[rank] = dt_interp_tensor(j->arena, a[rank]->type);
        for (int64_t i = 0; i < dt_type_elements(a[rank]->type); i++)
            sum[rank]->at[i] = a[rank]->at[i] + b[rank]->at[i];
        dt_judge_round(j, sum[rank]);
    }
    return sum;
}

/* Copies the settled results to the stores that they belong to; several results for one store are
 * added up. */
static void commit(DtJudge *j)
{
    for (uint32_t i = 0; i < j->stored.n; i++)
        j->parts[j->stored.at[i].store->index] = NULL;
    for (uint32_t i = 0; i < j->stored.n; i++) {
        const DtSettled *settled = &j->stored.at[i];
        DtTensor ***parts = &j->parts[settled->store->index];
        *parts = *parts ? added(j, *parts, settled->at) : settled->at;
    }
}

static bool has_ring(const DtEntryPoint *entry)
{
    bool has = false;
    for (uint32_t i = 0; i < entry->results.n; i++)
        has = has ||
              (entry->results.at[i].store && entry->results.at[i].store->kind == DT_STORE_RINGBUF);
    return has;
}

static bool run_all(DtJudge *j, const DtEntryPoint *entry)
{
    DtTensor **raw = DT_NEW_ARRAY(j->arena, DtTensor *, entry->results.n * j->n + 1);
    if (!j->time || !has_ring(entry)) {
        dt_judge_evaluate(j, entry, 0, NULL, raw);
        return dt_judge_settle(j, entry, raw);
    }
    int64_t at[DT_MAX_MESH] = {0};
    /* micro-batches run in turn, since each passes the ring buffer on */
    for (; at[0] < j->mesh->axes[0].size; at[0]++) {
        j->micro = at[0];
        dt_judge_evaluate(j, entry, j->time, at, raw);
        dt_judge_keep_rings(j, entry, raw);
    }
    j->micro = -1;
    return dt_judge_settle(j, entry, raw);
}

void dt_judge_keep_early(DtJudge *j)
{
    for (uint32_t i = 0; i < j->named.n; i++)
        DT_PUSH(j->arena, j->early, j->named.at[i]);
    j->named.n = 0;
}

static bool run_prologue(DtJudge *j, DtEntryKind kind, const char *objective)
{
    const DtEntryPoint *prologue =
        dt_entry_find(j->of->placed, kind, objective, DT_PART_PROLOGUE, -1);
    if (prologue && !run_all(j, prologue))
        return false;
    dt_judge_keep_early(j);
    return true;
}

bool dt_judge_run(DtJudge *j, DtEntryKind kind, const char *objective)
{
    const DtEntryPoint *entry = dt_entry_whole(j->of->placed, kind, objective);
    j->early.n = j->named.n = j->stored.n = 0;
    j->micro = -1;
    bool good =
        entry ? run_prologue(j, kind, objective) && run_all(j, entry)
        : j->of->placed->pipeline
            ? dt_judge_run_staged(j, kind)
            : dt_judge_problem(j, "the placed program has no entry %s", dt_entry_kind_name(kind));
    if (good)
        commit(j);
    return good;
}
