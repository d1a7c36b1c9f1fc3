/* SPDX-License-Identifier: Apache-2.0 */
/* Driver of the interpreter: runs the ops of a function in order, one handler of the table of ops
 * each, and checks that every tensor has the type the IR says. Here too: the ops without operands
 * (sources, random numbers) and the initial values of stores. The other handlers are in
 * interp_map.c, interp_axis.c, interp_contract.c, interp_index.c, interp_pack.c, interp_ringbuf.c
 * and interp_struct.c; what handlers share is in interp_walk.c. */
#include "ir/interp_eval.h"

#include "base/bug.h"
#include "base/hash.h"
#include "base/philox.h"
#include "ir/round.h"

#include <string.h>

/* A row of the table that names a missing handler does not compile. */
static DtEval *const handlers[DT_OP_COUNT] = {
#define DT_OP(NAME, text, inputs, class, shape, gradient, interpret, ...) \
    [DT_OP_##NAME] = dt_eval_##interpret,
#include "ir/ops.def"
#undef DT_OP
};

/* ---- the driver ---- */

static void round_tensor(DtTensor *tensor)
{
    if (!dt_dtype_is_float(tensor->type->dtype))
        return;
    int64_t elements = dt_type_elements(tensor->type);
    for (int64_t i = 0; i < elements; i++)
        tensor->at[i] = dt_round_to(tensor->type->dtype, tensor->at[i]);
}

double dt_interp_roundoff(DtDtype dtype)
{
    return dtype == DT_BF16 ? 0x1p-9 : dtype == DT_F16 ? 0x1p-12 : dtype == DT_F32 ? 0x1p-24 : 0;
}

/* Moves the elements of a tensor at random, by up to `far` roundoffs of its dtype. exact: also
 * elements that the dtype can represent exactly. */
static void move(DtInterp *interp, DtTensor *tensor, double far, bool exact)
{
    const DtDtype dtype = tensor->type->dtype;
    const double unit = dt_interp_roundoff(dtype) * far;
    const int64_t elements = dt_type_elements(tensor->type);
    const uint64_t key = ++interp->n_moved;
    for (int64_t i = 0; unit > 0 && i < elements; i++) {
        const double value = tensor->at[i];
        if (!exact && dt_round_to(dtype, value) == value)
            continue;
        const double u = dt_philox_uniform(dt_philox(key, (uint64_t)i, interp->noise, 0));
        tensor->at[i] = dt_round_to(dtype, value * (1 + unit * (2 * u - 1)));
    }
}

void dt_interp_move(DtInterp *interp, DtTensor *tensor) { move(interp, tensor, 2, true); }

/* Whether the op computes new values that must be rounded. Results of calls and loops were rounded
 * inside; results of `param` and `input` belong to the caller. */
static bool makes_values(const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_CALL:
    case DT_OP_FUSED:
    case DT_OP_WHEN:
    case DT_OP_LOOP:
    case DT_OP_PARAM:
    case DT_OP_INPUT: return false;
    default: return true;
    }
}

static DtTensor *value_of(const DtInterp *interp, const DtOp *op, DtTensor *const *values,
                          const DtValue *value)
{
    if (value->id >= interp->func->n_values || !values[value->id])
        dt_interp_fail(interp, op, "value %%%u is used before it is made", value->id);
    return values[value->id];
}

static void keep_value(const DtInterp *interp, const DtOp *op, DtTensor **values,
                       const DtValue *value, DtTensor *tensor)
{
    if (!tensor || tensor->type != value->type)
        dt_interp_fail(interp, op, "value %%%u got a tensor of another type", value->id);
    if (value->id >= interp->func->n_values)
        dt_interp_fail(interp, op, "value %%%u has a number that was never given out", value->id);
    values[value->id] = tensor;
}

void dt_interp_op(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    int wanted = dt_op_info[op->kind].inputs;
    if (wanted >= 0 && op->n_in != (uint32_t)wanted)
        dt_interp_fail(interp, op, "%u operands instead of %d", op->n_in, wanted);
    for (uint32_t i = 0; makes_values(op) && i < op->n_out; i++)
        out[i] = dt_interp_tensor(interp->arena, op->out[i]->type);
    handlers[op->kind](interp, op, in, out);
    for (uint32_t i = 0; interp->rounds && makes_values(op) && i < op->n_out; i++)
        round_tensor(out[i]);
    for (uint32_t i = 0; interp->noise && makes_values(op) && i < op->n_out; i++)
        move(interp, out[i], 1, false);
}

static void run_op(DtInterp *interp, const DtOp *op, DtTensor **values)
{
    DtTensor **in = DT_NEW_ARRAY(interp->arena, DtTensor *, op->n_in + 1);
    DtTensor **out = DT_NEW_ARRAY(interp->arena, DtTensor *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = value_of(interp, op, values, op->in[i]);
    dt_interp_op(interp, op, in, out);
    for (uint32_t i = 0; i < op->n_out; i++)
        keep_value(interp, op, values, op->out[i], out[i]);
}

void dt_interp_run(DtInterp *interp, const DtFunc *func, DtTensor *const *inputs,
                   DtTensor **ret_results)
{
    const DtFunc *outer = interp->func;
    interp->func = func;
    DtTensor **values = DT_NEW_ARRAY(interp->arena, DtTensor *, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        keep_value(interp, NULL, values, func->inputs.at[i], inputs[i]);
    for (uint32_t i = 0; i < func->ops.n; i++)
        run_op(interp, func->ops.at[i], values);
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = value_of(interp, NULL, values, func->results.at[i]);
    interp->func = outer;
}

/* ---- sources ---- */

static void take_from_source(DtInterp *interp, const DtOp *op, DtTensor **out)
{
    if (!interp->source)
        dt_interp_fail(interp, op, "`%s` has no source", op->text ? op->text : "");
    out[0] = interp->source(interp->context, op);
    if (!out[0])
        dt_interp_fail(interp, op, "the source has no `%s`", op->text ? op->text : "");
}

void dt_eval_param(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)in;
    take_from_source(interp, op, out);
}

void dt_eval_input(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)in;
    take_from_source(interp, op, out);
}

void dt_eval_constant(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)in;
    DtDtype dtype = out[0]->type->dtype;
    if (out[0]->type->rank != 0)
        dt_interp_fail(interp, op, "a constant that is not a scalar");
    if (!dt_dtype_is_float(dtype) && dt_round_to(dtype, op->number) != op->number)
        dt_interp_fail(interp, op, "constant %.17g is not a %s", op->number, dt_dtype_name(dtype));
    out[0]->at[0] = op->number;
}

void dt_eval_iota(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)in;
    const DtType *type = out[0]->type;
    if (type->rank != 1 || op->n_axes != 1)
        dt_interp_fail(interp, op, "iota has one axis");
    dt_interp_axis(interp, op, type, op->axes[0]);
    for (int64_t i = 0; i < type->axes[0].extent; i++)
        out[0]->at[i] = (double)i;
}

/* ---- random numbers ---- */

/* Fills ret_order with the numbers of the axes from `first` on, sorted by name. */
static void sort_axes(const DtType *type, uint32_t first, uint32_t ret_order[DT_MAX_RANK])
{
    for (uint32_t i = first; i < type->rank; i++) {
        uint32_t place = i - first;
        for (; place > 0; place--) {
            if (strcmp(type->axes[ret_order[place - 1]].name, type->axes[i].name) <= 0)
                break;
            ret_order[place] = ret_order[place - 1];
        }
        ret_order[place] = i;
    }
}

static uint64_t element_of(const DtType *type, uint32_t first, const int64_t *coordinate)
{
    uint32_t order[DT_MAX_RANK];
    sort_axes(type, first, order);
    uint64_t element = 0;
    for (uint32_t i = 0; i < type->rank - first; i++)
        element = element * (uint64_t)type->axes[order[i]].extent + (uint64_t)coordinate[order[i]];
    return element;
}

uint64_t dt_interp_element(const DtType *type, const int64_t *coordinate)
{
    return element_of(type, 0, coordinate);
}

uint64_t dt_interp_key(DtInterp *interp, const DtOp *op)
{
    const char *path = interp->path ? interp->path : "";
    const char *site = dt_arena_printf(interp->arena, "%s%s%s", path, *path ? "." : "", op->text);
    return dt_hash_text(site, interp->seed);
}

void dt_eval_rng(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    (void)in;
    uint64_t key = dt_interp_key(interp, op);
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL);
    double *to = out[0]->at;
    do {
        uint64_t element = dt_interp_element(out[0]->type, walk.at);
        *to++ = dt_philox_draw(key, element, op->draws, interp->step, interp->iteration);
    } while (dt_walk_next(&walk));
}

static double draw_initial(const DtInit *init, DtPhilox random)
{
    switch (init->kind) {
    case DT_INIT_CONST: return init->a;
    case DT_INIT_NORMAL: return init->a * dt_philox_normal(random);
    case DT_INIT_UNIFORM: return init->a + (init->b - init->a) * dt_philox_uniform(random);
    }
    DT_BUG("no initialiser %d", (int)init->kind);
}

void dt_interp_init(const DtStore *store, uint64_t seed, DtTensor *ret_tensor)
{
    const DtType *type = store->type;
    if (ret_tensor->type != type || store->n_loops > type->rank)
        DT_BUG("initial value of `%s`: the tensor is not of its type", store->path);
    uint64_t key = dt_hash_text(store->path + store->copy, seed);
    DtWalk walk = {0};
    dt_walk_add(&walk, type);
    double *to = ret_tensor->at;
    do {
        uint32_t iteration = 0;
        for (uint32_t i = 0; i < store->n_loops; i++)
            iteration = iteration * (uint32_t)type->axes[i].extent +
                        (uint32_t)(walk.at[i] + (i == 0 ? store->first : 0));
        uint64_t element = element_of(type, store->n_loops, walk.at);
        *to++ = draw_initial(&store->init, dt_philox(key, element, 0, iteration));
    } while (dt_walk_next(&walk));
}
