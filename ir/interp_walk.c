/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers of the interpreter share: tensors, walks over their elements, the abort of a broken
 * invariant. */
#include "ir/interp_eval.h"

#include "base/bug.h"

static void describe_values(DtText *text, const char *what, DtValue *const *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        dt_text_printf(text, "\n  %s %u: ", what, i);
        dt_type_print_extents(values[i]->type, NULL, text);
    }
}

void dt_interp_fail(const DtInterp *interp, const DtOp *op, const char *format, ...)
{
    DtText text = {0};
    va_list args;
    va_start(args, format);
    dt_text_vprintf(&text, format, args);
    va_end(args);
    const DtFunc *func = interp->func;
    dt_text_printf(&text, "\n  in %s, instance path `%s`", func ? func->name : "no function",
                   interp->path ? interp->path : "");
    if (op) {
        dt_text_printf(&text, "\n  op %s, layer path `%s`", dt_op_info[op->kind].text,
                       op->path ? op->path : "");
        describe_values(&text, "operand", op->in, op->n_in);
        describe_values(&text, "result", op->out, op->n_out);
        DtDiags *diags = func && func->module ? func->module->diags : NULL;
        if (diags && op->span.file) {
            uint32_t line, column;
            dt_diag_position(diags, op->span, &line, &column);
            dt_text_printf(&text, "\n  --> %s:%u:%u", dt_diag_path(diags, op->span.file), line,
                           column);
        }
    }
    if (func) {
        dt_text_printf(&text, "\n");
        dt_irtext_print_func(func, &text);
    }
    DT_BUG("interpreter: %s", text.at);
}

DtTensor *dt_interp_tensor(DtArena *arena, const DtType *type)
{
    int64_t elements = dt_type_elements(type);
    if (elements < 0 || (uint64_t)elements > SIZE_MAX / sizeof(double))
        DT_BUG("interpreter: a tensor with more elements than memory can hold");
    DtTensor *tensor = DT_NEW(arena, DtTensor);
    tensor->type = type;
    tensor->at = DT_NEW_ARRAY(arena, double, elements);
    return tensor;
}

DtWalk dt_interp_walk(const DtInterp *interp, const DtOp *op, const DtType *type,
                      const DtType *more)
{
    DtWalk walk = {0};
    if (!dt_walk_add(&walk, type) || (more && !dt_walk_add(&walk, more)))
        dt_interp_fail(interp, op, "axes with one name have different extents");
    return walk;
}

void dt_interp_strides(const DtInterp *interp, const DtOp *op, const DtWalk *walk,
                       const DtType *type, uint32_t n_except, const char *const *except,
                       int64_t ret_strides[DT_WALK_AXES])
{
    dt_walk_strides(walk, type, ret_strides);
    for (uint32_t i = 0; i < type->rank; i++) {
        const DtAxis *axis = &type->axes[i];
        int place = dt_walk_find(walk, axis->name);
        bool excepted = false;
        for (uint32_t k = 0; k < n_except; k++)
            excepted |= except[k] == axis->name;
        if (excepted) {
            if (place >= 0)
                ret_strides[place] = 0;
        } else if (place < 0) {
            dt_interp_fail(interp, op, "an operand or result has axis `%s`, which nothing gives",
                           axis->name);
        } else if (walk->extent[place] != axis->extent) {
            dt_interp_fail(interp, op, "axis `%s` has extents %lld and %lld", axis->name,
                           (long long)walk->extent[place], (long long)axis->extent);
        }
    }
}

void dt_interp_spread(const DtInterp *interp, const DtOp *op, const DtTensor *from, DtTensor *to)
{
    DtWalk walk = dt_interp_walk(interp, op, to->type, NULL);
    int64_t strides[DT_WALK_AXES];
    dt_interp_strides(interp, op, &walk, from->type, 0, NULL, strides);
    double *result = to->at;
    do {
        *result++ = from->at[dt_walk_offset(&walk, strides)];
    } while (dt_walk_next(&walk));
}

uint32_t dt_interp_axis(const DtInterp *interp, const DtOp *op, const DtType *type,
                        const char *axis)
{
    int found = dt_type_find(type, axis);
    if (found < 0)
        dt_interp_fail(interp, op, "axis `%s` is missing", axis);
    return (uint32_t)found;
}
