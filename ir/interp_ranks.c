/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter of all ranks. Every rank finishes an op before any rank starts the next one, so
 * that a communication op finds the operands of all ranks. Most ops mean on a rank's parts what
 * they mean on whole tensors: they run by the serial handlers (interp_*.c) on a copy of the op
 * whose types and attributes have local extents. Four know where their part lies: `iota` and `rng`
 * count over whole axes, `gather` and `scatter_add` take indices that count over whole axes and
 * see nothing where another rank holds the element.
 *
 * Communication is evaluated by its meaning: each element of the result is looked up, by the types,
 * on the rank that holds it (completed reductions: on every member of the group), which must not
 * differ from the receiver in mesh axes other than the op's. */
#include "ir/interp_ranks.h"

#include "base/philox.h"
#include "ir/interp_eval.h"
#include "ir/round.h"

#include <string.h>

typedef struct Run {
    DtRanks *ranks;
    DtInterp interp; /* the present path and iteration: the same on all ranks */
    const DtMesh *mesh;
    uint32_t n;       /* number of ranks in the mesh */
    bool *takes_part; /* by rank */
} Run;

static void run_func(Run *run, const DtFunc *func, DtTensor *const *inputs, DtTensor **ret_results);

static DtTensor **tensors(Run *run, uint32_t values)
{
    return DT_NEW_ARRAY(run->interp.arena, DtTensor *, (size_t)values * run->n + 1);
}

/* ---- an op on local parts ---- */

static DtValue **local_values(Run *run, DtValue *const *values, uint32_t n)
{
    DtValue **local = DT_NEW_ARRAY(run->interp.arena, DtValue *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        local[i] = DT_NEW(run->interp.arena, DtValue);
        *local[i] = *values[i];
        local[i]->type = dt_ranks_local(values[i]->type, run->mesh);
    }
    return local;
}

/* Gives new axes of the result their local extents. */
static void localise_relabels(Run *run, DtOp *local)
{
    const DtType *result = local->out[0]->type;
    DtRelabel *entries = DT_NEW_ARRAY(run->interp.arena, DtRelabel, local->n_relabels + 1);
    for (uint32_t i = 0; i < local->n_relabels; i++) {
        entries[i] = local->relabels[i];
        for (uint32_t k = 0; k < entries[i].n_to; k++)
            entries[i].to_extent[k] = dt_type_extent(result, entries[i].to[k]);
    }
    local->relabels = entries;
}

/* Sets the range of a slice to the local extent along an axis that is split: such a slice takes all
 * of the axis. */
static void localise_slices(Run *run, DtOp *local)
{
    DtRange *ranges = DT_NEW_ARRAY(run->interp.arena, DtRange, local->n_axes + 1);
    for (uint32_t i = 0; i < local->n_axes; i++) {
        ranges[i] = local->ranges[i];
        ranges[i].n = dt_type_extent(local->out[0]->type, local->axes[i]);
    }
    local->ranges = ranges;
}

static const DtOp *local_op(Run *run, const DtOp *op)
{
    DtOp *local = DT_NEW(run->interp.arena, DtOp);
    *local = *op;
    local->in = local_values(run, op->in, op->n_in);
    local->out = local_values(run, op->out, op->n_out);
    if (op->kind == DT_OP_RELABEL)
        localise_relabels(run, local);
    if (op->kind == DT_OP_SLICE)
        localise_slices(run, local);
    return local;
}

/* ---- ops that depend on the place of their part ---- */

static void eval_iota(Run *run, const DtOp *op, uint32_t rank, DtTensor **out)
{
    const DtType *type = op->out[0]->type;
    out[0] = dt_interp_tensor(run->interp.arena, dt_ranks_local(type, run->mesh));
    for (int64_t i = 0; i < out[0]->type->axes[0].extent; i++)
        out[0]->at[i] = (double)dt_ranks_global(&type->axes[0], run->mesh, rank, i);
}

static void eval_rng(Run *run, const DtOp *op, uint32_t rank, DtTensor **out)
{
    const DtType *type = op->out[0]->type;
    const DtType *logical = dt_module_logical_type(run->interp.func->module, type);
    out[0] = dt_interp_tensor(run->interp.arena, dt_ranks_local(type, run->mesh));
    uint64_t key = dt_interp_key(&run->interp, op);
    DtWalk walk = dt_interp_walk(&run->interp, op, out[0]->type, NULL);
    double *to = out[0]->at;
    do {
        int64_t at[DT_MAX_RANK] = {0};
        for (uint32_t i = 0; i < type->rank; i++)
            at[i] = dt_ranks_global(&type->axes[i], run->mesh, rank, walk.at[i]);
        uint64_t element = dt_interp_element(logical, at);
        double drawn =
            dt_philox_draw(key, element, op->draws, run->interp.step, run->interp.iteration);
        *to++ = run->ranks->rounds ? dt_round_to(type->dtype, drawn) : drawn;
    } while (dt_walk_next(&walk));
}

/* Returns indices relative to the rank's part of the axis; -1 for an element on another rank. */
static DtTensor *local_index(Run *run, const DtTensor *index, const DtAxis *axis, uint32_t rank)
{
    DtTensor *local = dt_interp_tensor(run->interp.arena, index->type);
    for (int64_t i = 0; i < dt_type_elements(index->type); i++) {
        double global = index->at[i];
        uint32_t holder = rank;
        local->at[i] = -1;
        if (!(global >= 0 && global < (double)axis->extent))
            continue;
        int64_t found = dt_ranks_find(axis, run->mesh, (int64_t)global, rank, &holder);
        if (holder == rank)
            local->at[i] = (double)found;
    }
    return local;
}

/* Runs gather or scatter_add on a rank. addressed: the type of the tensor whose axes the indices
 * count along. */
static void eval_indexed(Run *run, const DtOp *op, const DtOp *local, const DtType *addressed,
                         uint32_t rank, DtTensor **in, DtTensor **out)
{
    for (uint32_t i = 0; i < op->n_axes; i++) {
        uint32_t axis = dt_interp_axis(&run->interp, op, addressed, op->axes[i]);
        if (addressed->axes[axis].n_split)
            in[i + 1] = local_index(run, in[i + 1], &addressed->axes[axis], rank);
    }
    dt_interp_op(&run->interp, local, in, out);
}

static void eval_local(Run *run, const DtOp *op, const DtOp *local, uint32_t rank, DtTensor **in,
                       DtTensor **out)
{
    switch (op->kind) {
    case DT_OP_PARAM:
    case DT_OP_INPUT:
        out[0] = run->ranks->source(run->ranks->context, op, rank);
        if (!out[0] || out[0]->type != local->out[0]->type)
            dt_interp_fail(&run->interp, op, "the source has no part of `%s` for rank %u",
                           op->text ? op->text : "", rank);
        break;
    case DT_OP_IOTA: eval_iota(run, op, rank, out); break;
    case DT_OP_RNG: eval_rng(run, op, rank, out); break;
    case DT_OP_GATHER: eval_indexed(run, op, local, op->in[0]->type, rank, in, out); break;
    case DT_OP_SCATTER_ADD: eval_indexed(run, op, local, op->out[0]->type, rank, in, out); break;
    default: dt_interp_op(&run->interp, local, in, out); break;
    }
}

static void run_local(Run *run, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtOp *local = local_op(run, op);
    DtTensor **own = DT_NEW_ARRAY(run->interp.arena, DtTensor *, op->n_in + 1);
    DtTensor **made = DT_NEW_ARRAY(run->interp.arena, DtTensor *, op->n_out + 1);
    for (uint32_t rank = 0; rank < run->n; rank++) {
        if (!run->takes_part[rank])
            continue;
        for (uint32_t i = 0; i < op->n_in; i++)
            own[i] = in[i * run->n + rank];
        eval_local(run, op, local, rank, own, made);
        for (uint32_t i = 0; i < op->n_out; i++)
            out[i * run->n + rank] = made[i];
    }
}

/* ---- communication ---- */

/* Whether two ranks differ in no mesh axes but the op's. */
static bool same_group(const Run *run, const DtOp *op, uint32_t a, uint32_t b)
{
    return dt_ranks_together(run->mesh, ~(unsigned)op->mesh, a, b);
}

/* Returns the operand's element at these positions of whole axes, from a rank that has it and that
 * `rank` may read (same_group). */
static double remote_element(Run *run, const DtOp *op, DtTensor *const *parts, uint32_t rank,
                             const int64_t *global)
{
    const DtType *type = op->in[0]->type;
    uint32_t holder = rank;
    int64_t offset = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t at = dt_ranks_find(&type->axes[i], run->mesh, global[i], holder, &holder);
        offset = offset * parts[rank]->type->axes[i].extent + at;
    }
    if (!same_group(run, op, rank, holder) || (op->kind == DT_OP_SHARD && holder != rank))
        dt_interp_fail(&run->interp, op, "rank %u needs an element that only rank %u has", rank,
                       holder);
    return parts[holder]->at[offset];
}

/* Returns the reduction of the operand's element at these positions over all members of the group,
 * in order of ranks. */
static double reduced_element(Run *run, const DtOp *op, DtTensor *const *parts, uint32_t rank,
                              const int64_t *global)
{
    const DtType *type = op->in[0]->type;
    const DtOpKind combine = dt_interp_combining[type->pending];
    double value = 0;
    bool is_first = true;
    for (uint32_t member = 0; member < run->n; member++) {
        if (!same_group(run, op, rank, member))
            continue;
        double term = remote_element(run, op, parts, member, global);
        value = is_first ? term : dt_interp_binary(combine, type->dtype, value, term);
        is_first = false;
    }
    return value;
}

/* Returns the part of the previous rank of the group (with op->reverse: of the next one), in the
 * order of the mesh. The first rank takes the part of the last one. */
static const DtTensor *shifted(Run *run, const DtOp *op, DtTensor *const *parts, uint32_t rank)
{
    int64_t step = op->reverse ? 1 : -1;
    for (uint32_t m = run->mesh->n; m-- > 0 && step;) {
        if (!(op->mesh >> m & 1))
            continue;
        int64_t size = run->mesh->axes[m].size;
        int64_t at = dt_ranks_coordinate(run->mesh, rank, m) + step;
        rank = dt_ranks_move(run->mesh, rank, m, (at + size) % size);
        step = at < 0 ? -1 : at / size; /* carried on to the next major one */
    }
    return parts[rank];
}

static DtTensor *received(Run *run, const DtOp *op, DtTensor *const *parts, uint32_t rank)
{
    const DtType *type = op->out[0]->type;
    bool reduces = op->kind == DT_OP_ALL_REDUCE || op->kind == DT_OP_REDUCE_SCATTER;
    DtTensor *made = dt_interp_tensor(run->interp.arena, dt_ranks_local(type, run->mesh));
    DtWalk walk = dt_interp_walk(&run->interp, op, made->type, NULL);
    double *to = made->at;
    do {
        int64_t global[DT_MAX_RANK] = {0};
        for (uint32_t i = 0; i < type->rank; i++)
            global[i] = dt_ranks_global(&type->axes[i], run->mesh, rank, walk.at[i]);
        if (op->kind == DT_OP_PARTNER) {
            const uint32_t axis = (uint32_t)dt_type_find(type, op->axes[0]);
            global[axis] = dt_interp_partner(op, type->axes[axis].extent, global[axis]);
        }
        double value = reduces ? reduced_element(run, op, parts, rank, global)
                               : remote_element(run, op, parts, rank, global);
        *to++ = run->ranks->rounds ? dt_round_to(type->dtype, value) : value;
    } while (dt_walk_next(&walk));
    return made;
}

/* Terms of a pending sum: each rank's share of the whole sum, as the serial interpreter has it
 * (dt_eval_terms), in place of the term that it has itself. */
static void run_terms(Run *run, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtType *type = op->out[0]->type, *from = op->in[0]->type;
    const uint32_t w = dt_interp_axis(&run->interp, op, type, op->axes[0]);
    DtOp group = *op;
    for (uint32_t s = 0; s < type->axes[w].n_split; s++)
        group.mesh |= (uint16_t)(1u << type->axes[w].split[s]);
    for (uint32_t rank = 0; rank < run->n; rank++) {
        if (!run->takes_part[rank])
            continue;
        out[rank] = dt_interp_tensor(run->interp.arena, dt_ranks_local(type, run->mesh));
        DtWalk walk = dt_interp_walk(&run->interp, op, out[rank]->type, NULL);
        double *to = out[rank]->at;
        do {
            int64_t at[DT_MAX_RANK] = {0}, term = 0;
            for (uint32_t i = 0; i < type->rank; i++) {
                const int64_t global =
                    dt_ranks_global(&type->axes[i], run->mesh, rank, walk.at[i]);
                const int k = dt_type_find(from, type->axes[i].name);
                *(k < 0 ? &term : &at[k]) = global;
            }
            const double value = reduced_element(run, &group, in, rank, at) *
                                 dt_interp_share(term, type->axes[w].extent);
            *to++ = run->ranks->rounds ? dt_round_to(type->dtype, value) : value;
        } while (dt_walk_next(&walk));
    }
}

static void run_comm(Run *run, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    for (uint32_t m = 0; m < DT_MAX_MESH; m++)
        if ((op->mesh >> m & 1) && (m >= run->mesh->n || run->mesh->axes[m].is_time))
            dt_interp_fail(&run->interp, op, "mesh axis %u is time, or does not exist", m);
    bool across = op->stages && run->ranks->across;
    if ((op->mesh & run->ranks->fixed) && !across)
        dt_interp_fail(&run->interp, op, "only some ranks of its group take part");
    for (uint32_t rank = 0; rank < run->n; rank++) {
        if (!run->takes_part[rank])
            continue;
        if (across) {
            out[rank] = run->ranks->across(run->ranks->context, op, in[rank], rank);
            continue;
        }
        if (op->kind != DT_OP_SHIFT) {
            out[rank] = received(run, op, in, rank);
            continue;
        }
        out[rank] = DT_NEW(run->interp.arena, DtTensor);
        *out[rank] = *shifted(run, op, in, rank);
    }
}

/* ---- structure ---- */

static void run_call(Run *run, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const char *outer = run->interp.path;
    if (op->kind == DT_OP_CALL && op->n_axes)
        dt_interp_fail(&run->interp, op, "a ring call says what is meant, not what ranks do");
    if (op->kind == DT_OP_CALL)
        run->interp.path = dt_interp_push(&run->interp, op->text);
    run_func(run, op->func, in, out);
    run->interp.path = outer;
}

/* Runs a `when` on all ranks, which have the same counter. */
static void run_when(Run *run, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    uint32_t first = 0;
    while (first < run->n && !run->takes_part[first])
        first++;
    for (uint32_t rank = first; op->ranges && rank < run->n; rank++)
        if (run->takes_part[rank] && in[rank]->at[0] != in[first]->at[0])
            dt_interp_fail(&run->interp, op, "ranks %u and %u differ in when they do it", first,
                           rank);
    if (first == run->n || dt_interp_applies(op, in[first]))
        run_func(run, op->func, in, out);
    else
        memcpy(out, in + run->n, sizeof *out * op->n_out * run->n);
}

static void copy_values(DtTensor *to, const DtTensor *from)
{
    memcpy(to->at, from->at, sizeof(double) * (size_t)dt_type_elements(from->type));
}

/* Runs one iteration. out: the carried values before it, which it replaces by those after it, then
 * the stacked results. */
static void run_iteration(Run *run, const DtOp *op, DtTensor *const *in, DtTensor **out,
                          int64_t iteration)
{
    const DtLoop *loop = op->loop;
    const DtFunc *body = op->func;
    const uint32_t n = run->n, n_carried = loop->n_carried;
    DtTensor **inputs = tensors(run, body->inputs.n), **results = tensors(run, body->results.n);
    for (uint32_t rank = 0; rank < n; rank++) {
        inputs[rank] = dt_interp_tensor(run->interp.arena, dt_type_scalar(DT_I32));
        inputs[rank]->at[0] = (double)(loop->first + iteration);
    }
    memcpy(inputs + n, out, sizeof *out * n_carried * n);
    memcpy(inputs + (1 + n_carried) * n, in + n_carried * n, sizeof *in * loop->n_invariant * n);
    for (uint32_t i = n_carried + loop->n_invariant; i < op->n_in; i++) {
        const DtType *slice = dt_ranks_local(body->inputs.at[1 + i]->type, run->mesh);
        for (uint32_t rank = 0; rank < n; rank++)
            if (run->takes_part[rank])
                inputs[(1 + i) * n + rank] =
                    dt_interp_slice(&run->interp, op, in[i * n + rank], slice, iteration);
    }
    run_func(run, body, inputs, results);
    memcpy(out, results, sizeof *out * n_carried * n);
    for (uint32_t k = n_carried * n; k < op->n_out * n; k++) {
        if (!run->takes_part[k % n])
            continue;
        copy_values(dt_interp_slice(&run->interp, op, out[k], results[k]->type, iteration),
                    results[k]);
    }
}

static void run_loop(Run *run, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    const DtLoop *loop = op->loop;
    const char *outer_path = run->interp.path;
    uint32_t outer_iteration = run->interp.iteration;
    const int64_t outer_turn = run->interp.turn;
    memcpy(out, in, sizeof *out * loop->n_carried * run->n);
    for (uint32_t i = loop->n_carried; i < op->n_out; i++) {
        const DtType *type = dt_ranks_local(op->out[i]->type, run->mesh);
        for (uint32_t rank = 0; rank < run->n; rank++)
            if (run->takes_part[rank])
                out[i * run->n + rank] = dt_interp_tensor(run->interp.arena, type);
    }
    run->interp.path = dt_interp_push(&run->interp, loop->label);
    for (int64_t k = 0; k < loop->count; k++) {
        int64_t iteration = loop->reverse ? loop->count - 1 - k : k;
        run->interp.turn = k;
        run->interp.iteration =
            outer_iteration * (uint32_t)loop->count + (uint32_t)(loop->first + iteration);
        run_iteration(run, op, in, out, iteration);
    }
    run->interp.path = outer_path;
    run->interp.iteration = outer_iteration;
    run->interp.turn = outer_turn;
}

/* ---- functions ---- */

static void note_difference(Run *run, const DtValue *value, DtTensor *const *parts)
{
    DtRanksDifference difference;
    DtRanks *ranks = run->ranks;
    if (ranks->differs.value || dt_ranks_agree(parts, value->type, run->mesh, &difference))
        return;
    ranks->differs.func = run->interp.func;
    ranks->differs.value = value;
    ranks->differs.at = difference;
}

static void run_op(Run *run, const DtOp *op, DtTensor **values)
{
    const uint32_t n = run->n;
    DtTensor **in = tensors(run, op->n_in), **out = tensors(run, op->n_out);
    for (uint32_t i = 0; i < op->n_in; i++)
        memcpy(in + i * n, values + op->in[i]->id * n, sizeof *in * n);
    if (dt_op_info[op->kind].op_class == DT_CLASS_COMM &&
        (op->kind != DT_OP_PARTNER || op->mesh))
        run_comm(run, op, in, out);
    else if (op->kind == DT_OP_TERMS && run->mesh->n > 0)
        run_terms(run, op, in, out);
    else if (op->kind == DT_OP_CALL || op->kind == DT_OP_FUSED)
        run_call(run, op, in, out);
    else if (op->kind == DT_OP_WHEN)
        run_when(run, op, in, out);
    else if (op->kind == DT_OP_LOOP)
        run_loop(run, op, in, out);
    else
        run_local(run, op, in, out);
    for (uint32_t i = 0; i < op->n_out; i++) {
        note_difference(run, op->out[i], out + i * n);
        memcpy(values + op->out[i]->id * n, out + i * n, sizeof *out * n);
    }
}

static void run_func(Run *run, const DtFunc *func, DtTensor *const *inputs, DtTensor **ret_results)
{
    const DtFunc *outer = run->interp.func;
    const uint32_t n = run->n;
    run->interp.func = func;
    DtTensor **values = tensors(run, func->n_values);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        memcpy(values + func->inputs.at[i]->id * n, inputs + i * n, sizeof *inputs * n);
    for (uint32_t i = 0; i < func->ops.n; i++)
        run_op(run, func->ops.at[i], values);
    for (uint32_t i = 0; i < func->results.n; i++)
        memcpy(ret_results + i * n, values + func->results.at[i]->id * n, sizeof *values * n);
    run->interp.func = outer;
}

void dt_ranks_run(DtRanks *ranks, const DtFunc *func, DtTensor *const *inputs,
                  DtTensor **ret_results)
{
    Run run = {.ranks = ranks,
               .interp = {.arena = ranks->arena,
                          .seed = ranks->seed,
                          .step = ranks->step,
                          .turn = ranks->turn,
                          .path = ranks->draws,
                          .rounds = ranks->rounds},
               .mesh = ranks->mesh,
               .n = dt_ranks_count(ranks->mesh)};
    run.takes_part = DT_NEW_ARRAY(ranks->arena, bool, run.n);
    for (uint32_t rank = 0; rank < run.n; rank++) {
        run.takes_part[rank] = true;
        for (uint32_t m = 0; m < run.mesh->n; m++)
            if ((ranks->fixed >> m & 1) && dt_ranks_coordinate(run.mesh, rank, m) != ranks->at[m])
                run.takes_part[rank] = false;
    }
    run_func(&run, func, inputs, ret_results);
}
