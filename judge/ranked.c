/* SPDX-License-Identifier: Apache-2.0 */
/* The placed module's side: what each rank's memory holds between entries, and running an entry on all
 * ranks. Results go where generated code puts them: micro-batches add up in the buffer of a result that
 * accumulates, the last one stays in others, and sums that are pending over ranks are completed at the
 * end of the entry unless the store's type says that they stay pending. */
#include "judge/internal.h"

#include "ir/interp_eval.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

const DtEntryPoint *dt_judge_entry(const DtModule *module, const char *name)
{
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (strcmp(module->entries.at[i].name, name) == 0)
            return &module->entries.at[i];
    return NULL;
}

DtStore *dt_judge_store(const DtModule *module, DtStoreKind kind, const char *path)
{
    for (uint32_t i = 0; i < module->stores.n; i++) {
        DtStore *store = module->stores.at[i];
        if (store->kind == kind && strcmp(store->path, path) == 0)
            return store;
    }
    return NULL;
}

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

/* ---- what ranks hold ---- */

static DtTensor **slices(DtJudge *j, const DtTensor *whole, const DtType *type)
{
    DtTensor **parts = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
    for (uint32_t rank = 0; rank < j->n; rank++)
        parts[rank] = dt_ranks_slice(j->arena, whole, type, j->mesh, rank);
    return parts;
}

static DtTensor *initial(DtJudge *j, const DtStore *store)
{
    DtTensor *tensor = dt_interp_tensor(j->arena, store->type);
    dt_judge_initial(store, j->seed, tensor);
    return tensor;
}

/* The op that packs a bucket, or takes one store out of it; only its attributes and types matter. */
static DtOp bucket_op(DtJudge *j, DtOpKind kind, const DtType *bucket, int64_t offset)
{
    DtOp op = {.kind = kind,
               .number = (double)offset,
               .axes = DT_NEW_ARRAY(j->arena, const char *, DT_MAX_RANK)};
    while (op.n_axes < bucket->rank && bucket->axes[op.n_axes].name[0] != '@') {
        op.axes[op.n_axes] = bucket->axes[op.n_axes].name;
        op.n_axes++;
    }
    return op;
}

static DtTensor *run_bucket_op(DtJudge *j, DtOp *op, DtTensor *const *in, const DtType *type)
{
    const DtFunc func = {.module = (DtModule *)(uintptr_t)j->of->placed, .name = "bucket"};
    DtInterp interp = {.arena = j->arena, .func = &func};
    DtValue *values = DT_NEW_ARRAY(j->arena, DtValue, op->n_in + 1), *out = &values[op->n_in];
    op->in = DT_NEW_ARRAY(j->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++) {
        values[i].type = in[i]->type;
        op->in[i] = &values[i];
    }
    out->type = type;
    op->out = &out;
    op->n_out = 1;
    DtTensor *made;
    dt_interp_op(&interp, op, in, &made);
    return made;
}

/* A bucket that holds the initial values of its stores. */
static DtTensor *initial_bucket(DtJudge *j, const DtStore *bucket)
{
    const DtModule *module = j->of->placed;
    DtOp op = bucket_op(j, DT_OP_PACK, bucket->type, 0);
    DtTensor **in = DT_NEW_ARRAY(j->arena, DtTensor *, module->stores.n);
    int64_t *offset = DT_NEW_ARRAY(j->arena, int64_t, module->stores.n + 1);
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->bucket != bucket)
            continue;
        uint32_t at = op.n_in++; /* in order of offsets */
        for (; at > 0 && offset[at - 1] > store->bucket_offset; at--) {
            offset[at] = offset[at - 1];
            in[at] = in[at - 1];
        }
        offset[at] = store->bucket_offset;
        in[at] = initial(j, store);
    }
    return op.n_in ? run_bucket_op(j, &op, in, bucket->type) : NULL;
}

static bool is_remembered(DtStoreKind kind)
{
    return kind == DT_STORE_PARAM || kind == DT_STORE_STATE || kind == DT_STORE_MOMENT1 ||
           kind == DT_STORE_MOMENT2;
}

void dt_judge_begin(DtJudge *j)
{
    const DtModule *serial = j->of->serial, *placed = j->of->placed;
    j->serial = DT_NEW_ARRAY(j->arena, DtTensor *, serial->stores.n + 1);
    j->parts = DT_NEW_ARRAY(j->arena, DtParts, placed->stores.n + 1);
    for (uint32_t i = 0; i < serial->stores.n; i++)
        if (is_remembered(serial->stores.at[i]->kind))
            j->serial[i] = initial(j, serial->stores.at[i]);
    for (uint32_t i = 0; i < placed->stores.n; i++) {
        const DtStore *store = placed->stores.at[i];
        if (!is_remembered(store->kind) || store->bucket)
            continue;
        DtTensor *whole = initial_bucket(j, store);
        j->parts[i].at = slices(j, whole ? whole : initial(j, store), store->type);
    }
}

DtTensor *dt_judge_whole(DtJudge *j, const DtStore *store)
{
    const DtStore *holder = store->bucket ? store->bucket : store;
    if (!j->parts[holder->index].at)
        return NULL;
    DtTensor *whole = dt_ranks_join(j->arena, j->parts[holder->index].at, holder->type, j->mesh);
    if (holder == store)
        return whole;
    DtOp op = bucket_op(j, DT_OP_UNPACK, holder->type, store->bucket_offset);
    op.n_in = 1;
    return run_bucket_op(j, &op, &whole, store->type);
}

/* ---- running ---- */

static DtTensor *source(void *context, const DtOp *op, uint32_t rank)
{
    DtJudge *j = context;
    if (op->kind == DT_OP_PARAM)
        return j->parts[op->store->index].at ? j->parts[op->store->index].at[rank] : NULL;
    for (uint32_t i = 0; i < j->early.n; i++)
        if (strcmp(j->early.at[i].name, op->text) == 0)
            return j->early.at[i].at[rank];
    const DtType *type = op->out[0]->type;
    DtTensor *whole = dt_interp_tensor(j->arena, type);
    if (op->text[0] == '@') {
        whole->at[0] = dt_judge_scalar(j->of->train, op->text, j->step);
        return type->rank == 0 && !isnan(whole->at[0]) ? whole : NULL;
    }
    if (!dt_judge_input(j->of->train, op->text, j->step, whole))
        return NULL;
    return dt_ranks_slice(j->arena, whole, type, j->mesh, rank);
}

/* Of each rank: the sum (maximum, minimum) of the parts of the ranks that differ from it in these mesh
 * axes only, in order of ranks. */
static DtTensor **combined(DtJudge *j, DtTensor *const *parts, const DtType *type, uint16_t bits)
{
    static const DtOpKind kinds[] = {DT_OP_ADD, DT_OP_MAX, DT_OP_MIN};
    DtOpKind kind = type->partial ? kinds[type->pending] : DT_OP_ADD;
    DtTensor **made = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
    for (uint32_t rank = 0; rank < j->n; rank++) {
        uint32_t first = rank;
        for (uint32_t m = 0; m < j->mesh->n; m++)
            if (bits >> m & 1)
                first = dt_ranks_move(j->mesh, first, m, 0);
        if (made[first]) {
            DtTensor *sum = made[rank] = made[first];
            for (int64_t i = 0; i < dt_type_elements(sum->type); i++)
                sum->at[i] = dt_interp_binary(kind, type->dtype, sum->at[i], parts[rank]->at[i]);
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

/* What the last micro-batch left, for all of them. */
static DtTensor **of_last_micro(DtJudge *j, DtTensor *const *parts)
{
    DtTensor **made = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
    for (uint32_t rank = 0; rank < j->n; rank++)
        made[rank] = parts[dt_ranks_move(j->mesh, rank, 0, j->mesh->axes[0].size - 1)];
    return made;
}

static bool settle(DtJudge *j, const DtEntryPoint *entry, uint32_t result, DtTensor **parts,
                   DtSettled *ret)
{
    const DtEntryResult *to = &entry->results.at[result];
    const DtType *type = entry->func->results.at[result]->type;
    uint16_t stays = to->store ? to->store->type->partial : 0;
    uint16_t bits = type->partial & (uint16_t) ~(stays | j->time);
    if (to->accumulate && j->time)
        bits |= j->time;
    else if (j->time && !is_split_over(type, j->time))
        parts = of_last_micro(j, parts);
    ret->at = bits ? combined(j, parts, type, bits) : parts;
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

static bool run(DtJudge *j, const DtEntryPoint *entry, DtSettled **ret_settled)
{
    const DtFunc *func = entry->func;
    DtRanks ranks = {.arena = j->arena,
                     .seed = j->seed,
                     .step = j->step,
                     .mesh = j->mesh,
                     .source = source,
                     .context = j};
    DtTensor **results = DT_NEW_ARRAY(j->arena, DtTensor *, func->results.n * j->n + 1);
    dt_ranks_run(&ranks, func, NULL, results);
    note_copies(j, &ranks, entry->name);
    *ret_settled = DT_NEW_ARRAY(j->arena, DtSettled, entry->results.n + 1);
    for (uint32_t i = 0; i < entry->results.n; i++)
        if (!settle(j, entry, i, results + i * j->n, &(*ret_settled)[i]))
            return false;
    return true;
}

/* A prologue's results are inputs of the entry that it belongs to. */
static bool run_prologue(DtJudge *j, const char *entry)
{
    const DtEntryPoint *prologue =
        dt_judge_entry(j->of->placed, dt_arena_printf(j->arena, "%s.prologue", entry));
    DtSettled *settled;
    j->early.n = 0;
    if (!prologue)
        return true;
    if (!run(j, prologue, &settled))
        return false;
    for (uint32_t i = 0; i < prologue->results.n; i++)
        DT_PUSH(j->arena, j->early, ((DtParts){prologue->results.at[i].name, settled[i].at}));
    return true;
}

bool dt_judge_run(DtJudge *j, const char *entry, const DtEntryPoint **ret_entry,
                  DtSettled **ret_settled)
{
    *ret_entry = dt_judge_entry(j->of->placed, entry);
    if (!*ret_entry)
        return dt_judge_problem(j, "the placed program has no entry %s", entry);
    return run_prologue(j, entry) && run(j, *ret_entry, ret_settled);
}
