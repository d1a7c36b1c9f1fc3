/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier's rules for one op: operands known, results well made, exactly the attributes
 * that its kind has, and the shape rule giving the result types that are there. */
#include "ir/verify_internal.h"

#include "base/intern.h"
#include "ir/irtext.h"
#include "ir/shape.h"

#include <string.h>

enum {
    AXES = 1,
    AXES2 = 2,
    RANGES = 4,
    RELABELS = 8,
    NUMBER = 16,
    REDUCE = 32,
    REVERSE = 64,
    TEXT = 128,
    STORE = 256,
    FUNC = 512,
    LOOP = 1024,
    MESH = 2048,
    STAGES = 4096,
    GRADIENTS = 8192,
    AHEAD = 16384,
    OF = 32768,
    STARTS = 65536,
    DRAWS = 131072
};

/* Attributes that ops of a kind may have; maps have none but `sqrt`. The shape rule of a kind
 * checks the required ones. */
static const uint32_t allowed[DT_OP_COUNT] = {
    [DT_OP_PARAM] = TEXT | STORE,
    [DT_OP_INPUT] = TEXT,
    [DT_OP_CONST] = NUMBER,
    [DT_OP_IOTA] = AXES,
    [DT_OP_RNG] = TEXT | DRAWS,
    [DT_OP_BIND] = TEXT,
    [DT_OP_RELABEL] = RELABELS,
    [DT_OP_SLICE] = AXES | RANGES,
    [DT_OP_PAD] = AXES | RANGES | NUMBER,
    [DT_OP_CONCAT] = AXES,
    [DT_OP_TERMS] = AXES,
    [DT_OP_WINDOW] = AXES | RANGES | NUMBER,
    [DT_OP_FOLD] = AXES | RANGES,
    [DT_OP_DOT] = AXES,
    [DT_OP_REDUCE] = AXES | REDUCE,
    [DT_OP_SCAN] = AXES | REVERSE,
    [DT_OP_TOPK] = AXES,
    [DT_OP_GATHER] = AXES,
    [DT_OP_SCATTER_ADD] = AXES | AXES2,
    [DT_OP_CALL] = TEXT | FUNC | AXES | MESH,
    [DT_OP_FUSED] = TEXT | FUNC | AXES,
    [DT_OP_LOOP] = FUNC | LOOP,
    [DT_OP_WHEN] = FUNC | RANGES | OF,
    [DT_OP_AT] = AXES | RANGES,
    [DT_OP_RINGBUF_PUT] = NUMBER,
    [DT_OP_RINGBUF_GET] = NUMBER,
    [DT_OP_PACK] = AXES,
    [DT_OP_UNPACK] = AXES | NUMBER,
    [DT_OP_ALL_GATHER] = MESH | TEXT | AHEAD | STARTS,
    [DT_OP_REDUCE_SCATTER] = MESH | TEXT | REDUCE | GRADIENTS | STARTS,
    [DT_OP_ALL_REDUCE] = MESH | TEXT | REDUCE | STAGES | GRADIENTS | STARTS,
    [DT_OP_ALL_TO_ALL] = MESH | TEXT | STARTS,
    [DT_OP_SHIFT] = MESH | TEXT | REVERSE | STARTS,
    [DT_OP_PARTNER] = AXES | MESH | TEXT | REVERSE | NUMBER | STARTS,
    [DT_OP_SHARD] = MESH | TEXT,
    [DT_OP_SQRT] = GRADIENTS,
};

static const char *const attribute_names[] = {"axes", "a second list of axes", "ranges",
                                              "relabel entries", "a number", "a reduction",
                                              "reverse", "text", "a store", "a function", "a loop",
                                              "mesh axes", "pipeline stages", "gradients",
                                              "iterations that it is ahead",
                                              "a loop that it gathers for", "a start", "draws"};

static uint32_t present(const DtOp *op)
{
    uint64_t number;
    memcpy(&number, &op->number, sizeof number);
    const bool has[] = {op->n_axes || op->axes,
                        op->n_axes2 || op->axes2,
                        op->ranges,
                        op->n_relabels || op->relabels,
                        number,
                        op->reduce,
                        op->reverse,
                        op->text,
                        op->store,
                        op->func,
                        op->loop,
                        op->mesh,
                        op->stages,
                        op->gradients,
                        op->ahead != 0,
                        op->of,
                        op->starts,
                        op->draws != 0};
    unsigned bits = 0;
    for (unsigned i = 0; i < DT_COUNT(has); i++)
        bits |= has[i] ? 1u << i : 0;
    return bits;
}

static bool check_attributes(DtVerify *v, const DtOp *op)
{
    unsigned extra = present(op) & ~(unsigned)allowed[op->kind];
    for (unsigned i = 0; extra && i < DT_COUNT(attribute_names); i++) {
        if (extra & 1u << i)
            dt_verify_fail(v, op->span, "`%s` has %s", dt_op_info[op->kind].text,
                           attribute_names[i]);
    }
    const bool sums = op->kind == DT_OP_ALL_REDUCE || op->kind == DT_OP_REDUCE_SCATTER;
    if (op->late && (!op->starts || !sums || op->reduce != DT_REDUCE_SUM))
        dt_verify_fail(v, op->span, "`%s` is late, which only sums are that are started",
                       dt_op_info[op->kind].text);
    return extra == 0;
}

static bool check_names(DtVerify *v, const DtOp *op)
{
    bool ok = true;
    if ((op->n_axes && !op->axes) || (op->n_axes2 && !op->axes2) ||
        (op->n_relabels && !op->relabels))
        return dt_verify_fail(v, op->span, "a list of axes or relabel entries is missing");
    for (uint32_t i = 0; i < op->n_axes; i++)
        ok = dt_verify_name(v, op->span, "an axis", op->axes[i]) && ok;
    for (uint32_t i = 0; i < op->n_axes2; i++)
        ok = dt_verify_name(v, op->span, "an axis", op->axes2[i]) && ok;
    for (uint32_t e = 0; e < op->n_relabels; e++) {
        const DtRelabel *r = &op->relabels[e];
        if (r->n_from > DT_COUNT(r->from) || r->n_to > DT_COUNT(r->to))
            return dt_verify_fail(v, op->span, "a relabel entry has more than 4 axes on one side");
        for (uint32_t i = 0; i < r->n_from; i++)
            ok = dt_verify_name(v, op->span, "an axis", r->from[i]) && ok;
        for (uint32_t i = 0; i < r->n_to; i++)
            ok = dt_verify_name(v, op->span, "an axis", r->to[i]) && ok;
    }
    if (op->text)
        ok = dt_verify_name(v, op->span, "the text", op->text) && ok;
    if (op->path)
        ok = dt_verify_name(v, op->span, "the layer path", op->path) && ok;
    if (op->loop)
        ok = dt_verify_name(v, op->span, "the loop's label", op->loop->label) &&
             dt_verify_name(v, op->span, "the loop's axis", op->loop->axis) && ok;
    return ok;
}

static bool check_references(DtVerify *v, const DtOp *op)
{
    const DtModule *module = v->module;
    if (op->func && !dt_verify_has_func(v, op->func))
        return dt_verify_fail(v, op->span, "the op refers to a function outside its module");
    if (op->store &&
        (op->store->index >= module->stores.n || module->stores.at[op->store->index] != op->store))
        return dt_verify_fail(v, op->span, "the op refers to a store outside its module");
    bool is_source = op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT;
    if (is_source && v->func->kind != DT_FUNC_ENTRY)
        return dt_verify_fail(v, op->span, "`%s` stands outside an entry function",
                              dt_op_info[op->kind].text);
    if (op->kind == DT_OP_TURN && v->func->kind != DT_FUNC_BODY && v->func->kind != DT_FUNC_ENTRY)
        return dt_verify_fail(v, op->span,
                              "`turn` stands outside a loop's body and outside an entry function");
    if (op->kind == DT_OP_AT && op->n_in == 2 &&
        (v->func->kind != DT_FUNC_BRANCH || v->func->inputs.n == 0 ||
         op->in[1] != v->func->inputs.at[0]))
        return dt_verify_fail(v, op->span, "`at` goes by a counter that no `when` has looked at");
    if (op->kind == DT_OP_PARAM && (!op->text || !op->store || op->text != op->store->path))
        return dt_verify_fail(v, op->span, "`param` does not name the path of its store");
    if (op->kind == DT_OP_PARAM && op->store->bucket)
        return dt_verify_fail(v, op->span, "`param` of store `%s`, whose elements lie in a bucket",
                              op->store->path);
    if (op->stages && !module->pipeline)
        return dt_verify_fail(v, op->span, "the op adds up over stages of no pipeline");
    return true;
}

static bool check_operands(DtVerify *v, const DtOp *op)
{
    if (op->n_in && !op->in)
        return dt_verify_fail(v, op->span, "the list of operands is missing");
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtValue *x = op->in[i];
        if (!x)
            return dt_verify_fail(v, op->span, "operand %u is missing", i);
        if (x->id >= v->func->n_values || v->values[x->id] != x)
            return dt_verify_fail(v, op->span, "operand %u is not defined before its use", i);
        if (!dt_verify_is_good(v, x->type))
            return dt_verify_fail(v, op->span, "operand %u has a broken type", i);
    }
    return true;
}

static bool check_results(DtVerify *v, const DtOp *op)
{
    bool ok = true;
    if (op->n_out && !op->out)
        return dt_verify_fail(v, op->span, "the list of results is missing");
    for (uint32_t i = 0; i < op->n_out; i++)
        ok = dt_verify_define(v, op->span, op->out[i], op, i) && ok;
    return ok;
}

static bool check_shape(DtVerify *v, const DtOp *op)
{
    if (dt_shape_results(op) != op->n_out)
        return dt_verify_fail(v, op->span, "the op has %u results, not %u", op->n_out,
                              dt_shape_results(op));
    const DtType **wish = DT_NEW_ARRAY(v->scratch, const DtType *, op->n_out + 1);
    const DtType **types = DT_NEW_ARRAY(v->scratch, const DtType *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++)
        wish[i] = op->out[i]->type;
    const char *reason = dt_shape_check(op, &v->module->mesh, wish, types);
    if (reason)
        return dt_verify_fail(v, op->span, "%s", reason);
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (types[i] == op->out[i]->type)
            continue;
        DtText text = {0};
        dt_type_print_extents(op->out[i]->type, &v->module->mesh, &text);
        dt_text_add(&text, " where its rule gives ");
        dt_type_print_extents(types[i], &v->module->mesh, &text);
        dt_verify_fail(v, op->span, "result %u is %s", i, text.at);
        dt_text_free(&text);
        return false;
    }
    return true;
}

bool dt_verify_op(DtVerify *v, const DtOp *op)
{
    v->op = NULL;
    if (!op || (unsigned)op->kind >= DT_OP_COUNT)
        return dt_verify_fail(v, v->func->span, "an op is missing or of no known kind");
    v->op = op;
    bool ok = op->span.lo <= op->span.hi ||
              dt_verify_fail(v, op->span, "the span of the op ends before it begins");
    ok = check_operands(v, op) && ok;
    ok = check_results(v, op) && ok;
    ok = check_attributes(v, op) && ok;
    ok = check_names(v, op) && ok;
    ok = check_references(v, op) && ok;
    ok = ok && check_shape(v, op);
    v->op = NULL;
    return ok;
}
