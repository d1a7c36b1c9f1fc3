/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of IR text: ops, with their operands, attributes and results. */
#include "ir/irtext_read.h"

#include "ir/irtext.h"
#include "ir/pipeline.h"
#include "ir/shape.h"

#include <string.h>

/* ---- values ---- */

DtValue *dt_irread_use(DtIrReader *p)
{
    DtIrLex *lex = &p->lex;
    if (lex->token != DT_IR_VALUE) {
        dt_irlex_fail(lex, "expected a value");
        return NULL;
    }
    DtValue *value = dt_map_find(&p->values, lex->text + lex->lo, lex->pos - lex->lo);
    if (!value)
        dt_irlex_fail(lex, "this value is not defined above");
    dt_irlex_next(lex);
    return value;
}

/* Takes a value token and makes result (or input) number `index` with its name and number. */
DtValue *dt_irread_define(DtIrReader *p, DtOp *op, uint32_t index)
{
    DtIrLex *lex = &p->lex;
    const char *key = lex->text + lex->lo;
    size_t len = lex->pos - lex->lo;
    if (lex->token != DT_IR_VALUE || dt_map_find(&p->values, key, len)) {
        dt_irlex_fail(lex, lex->token == DT_IR_VALUE ? "this value is defined twice"
                                                     : "expected a value");
        return NULL;
    }
    DtValue *value = DT_NEW(p->module->arena, DtValue);
    *value = (DtValue){.op = op, .index = index, .name = lex->name, .id = p->func->n_values++};
    dt_map_add(&p->values, key, len, value);
    dt_irlex_next(lex);
    return value;
}

/* Reads a list of values up to the closing mark, which is not taken, and appends them to
 * ret_list. */
bool dt_irread_values(DtIrReader *p, char close, DtIrValues *ret_list)
{
    while (!p->lex.failed && !dt_irlex_is(&p->lex, close)) {
        DtValue *value = dt_irread_use(p);
        if (!value)
            return false;
        DT_PUSH(p->module->arena, *ret_list, value);
        if (!dt_irlex_take(&p->lex, ','))
            break;
    }
    return !p->lex.failed;
}

/* ---- attributes ---- */

static bool parse_ranges(DtIrReader *p, DtOp *op)
{
    DT_VEC(DtRange) ranges = {0};
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    do {
        DtRange r;
        int64_t *fields[] = {&r.lo, &r.hi, &r.step, &r.n};
        for (size_t i = 0; i < DT_COUNT(fields); i++) {
            if (!dt_irlex_integer(&p->lex, INT64_MIN, INT64_MAX, fields[i]))
                return false;
        }
        DT_PUSH(p->module->arena, ranges, r);
    } while (dt_irlex_take(&p->lex, ','));
    if (ranges.n != dt_shape_ranges(op))
        return dt_irlex_fail(&p->lex, "expected %u ranges", dt_shape_ranges(op));
    op->ranges = ranges.at;
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_relabel(DtIrReader *p, DtRelabel *r)
{
    DtIrLex *lex = &p->lex;
    *r = (DtRelabel){0};
    if (!dt_irlex_expect(lex, '('))
        return false;
    while (!lex->failed && lex->token != DT_IR_ARROW) {
        if (r->n_from == DT_COUNT(r->from))
            return dt_irlex_fail(lex, "more than %zu axes in an entry", DT_COUNT(r->from));
        r->from[r->n_from++] = dt_irlex_name(lex);
        if (!dt_irlex_take(lex, ',') && lex->token != DT_IR_ARROW)
            return dt_irlex_fail(lex, "expected `->`");
    }
    dt_irlex_next(lex);
    while (!lex->failed && !dt_irlex_is(lex, ')')) {
        if (r->n_to == DT_COUNT(r->to))
            return dt_irlex_fail(lex, "more than %zu axes in an entry", DT_COUNT(r->to));
        r->to[r->n_to] = dt_irlex_name(lex);
        if (!dt_irlex_expect(lex, '=') ||
            !dt_irlex_integer(lex, INT64_MIN, INT64_MAX, &r->to_extent[r->n_to]))
            return false;
        r->n_to++;
        if (!dt_irlex_take(lex, ','))
            break;
    }
    return dt_irlex_expect(lex, ')');
}

static bool parse_loop(DtIrReader *p, DtOp *op)
{
    DtLoop *loop = op->loop = DT_NEW(p->module->arena, DtLoop);
    struct {
        const char *key;
        uint32_t *count;
    } counts[] = {{"carried", &loop->n_carried},
                  {"invariant", &loop->n_invariant},
                  {"stacked", &loop->n_stacked},
                  {"stacked_out", &loop->n_stacked_out}};
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    dt_irlex_name_key(&p->lex, "label", &loop->label);
    dt_irlex_name_key(&p->lex, "axis", &loop->axis);
    if (dt_irlex_key(&p->lex, "count"))
        dt_irlex_integer(&p->lex, INT64_MIN, INT64_MAX, &loop->count);
    if (dt_irlex_key(&p->lex, "first"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &loop->first);
    if (dt_irlex_key(&p->lex, "step"))
        dt_irlex_integer(&p->lex, -INT32_MAX, INT32_MAX, &loop->first_step);
    loop->reverse = dt_irlex_take_word(&p->lex, "reverse");
    for (size_t i = 0; i < DT_COUNT(counts); i++) {
        if (dt_irlex_key(&p->lex, counts[i].key))
            dt_irlex_u32(&p->lex, counts[i].count);
    }
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_relabels(DtIrReader *p, DtOp *op)
{
    DT_VEC(DtRelabel) entries = {0};
    while (dt_irlex_take_word(&p->lex, "relabel")) {
        DtRelabel entry;
        if (!parse_relabel(p, &entry))
            return false;
        DT_PUSH(p->module->arena, entries, entry);
    }
    op->relabels = entries.at;
    op->n_relabels = entries.n;
    return true;
}

/* a list such as (0, 2 to 5) */
static bool parse_stages(DtIrReader *p, const char **ret_stages)
{
    bool has[DT_STAGES_MOST] = {false};
    int64_t stage, last;
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    do {
        if (!dt_irlex_integer(&p->lex, 0, DT_STAGES_MOST - 1, &stage))
            return false;
        last = stage;
        if (dt_irlex_take_word(&p->lex, "to") &&
            !dt_irlex_integer(&p->lex, stage, DT_STAGES_MOST - 1, &last))
            return false;
        for (; stage <= last; stage++)
            has[stage] = true;
    } while (dt_irlex_take(&p->lex, ','));
    *ret_stages = dt_stages_of(has, DT_STAGES_MOST);
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_means(DtIrReader *p, DtOp *op)
{
    const bool any = dt_irlex_key(&p->lex, "means"), list = any && dt_irlex_take(&p->lex, '(');
    uint32_t number = dt_irtext_means(op);
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (any && (list || i == 0) && !dt_irlex_u32(&p->lex, &number))
            return false;
        op->out[i]->means = any && !list ? number + i : number;
    }
    return !list || dt_irlex_expect(&p->lex, ')');
}

/* Reads the numbers of results in the reference program: one number if those of all results are
 * consecutive, otherwise one for each. */
static bool parse_final(DtIrReader *p, DtOp *op)
{
    int64_t number = 0;
    if (!dt_irlex_key(&p->lex, "final"))
        return true;
    const bool list = dt_irlex_take(&p->lex, '(');
    for (uint32_t i = 0; i < op->n_out; i++, number++) {
        if ((list || i == 0) && !dt_irlex_integer(&p->lex, 0, INT32_MAX, &number))
            return false;
        op->out[i]->final = (uint32_t)number + 1;
    }
    return !list || dt_irlex_expect(&p->lex, ')');
}

static bool parse_over(DtIrReader *p, DtOp *op)
{
    if (!dt_irlex_take_word(&p->lex, "over"))
        return true;
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    do {
        DtValue *out = dt_irread_use(p);
        if (!out || !dt_irlex_expect(&p->lex, '='))
            return false;
        if (out->op != op)
            return dt_irlex_fail(&p->lex, "this is no result of the operation");
        if (!(out->over = dt_irread_use(p)))
            return false;
    } while (dt_irlex_take(&p->lex, ','));
    return dt_irlex_expect(&p->lex, ')');
}

/* Reads the axes of a type in their order in memory, each once, and the distance from row to row,
 * into *lies. */
static bool parse_order(DtIrReader *p, const DtType *type, DtLies *lies)
{
    uint32_t seen = 0;
    bool rows = false;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (i && !rows && dt_irlex_take(&p->lex, ';')) {
            lies->first = (uint8_t)i;
            rows = true;
        } else if (i && !dt_irlex_expect(&p->lex, ',')) {
            return false;
        }
        const char *name = dt_irlex_name(&p->lex);
        const int d = name ? dt_type_find(type, name) : -1;
        if (d < 0 || seen >> d & 1)
            return dt_irlex_fail(&p->lex, "expected the axes of the value, each once");
        seen |= 1u << d;
        lies->order[i] = (uint8_t)d;
    }
    return !rows || dt_irlex_integer(&p->lex, 1, INT64_MAX, &lies->row);
}

static bool parse_lies(DtIrReader *p, DtOp *op)
{
    if (!dt_irlex_take_word(&p->lex, "lies"))
        return true;
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    do {
        DtValue *out = dt_irread_use(p);
        DtLies *lies = DT_NEW(p->module->arena, DtLies);
        if (!out || !dt_irlex_expect(&p->lex, '=') || !dt_irlex_expect(&p->lex, '['))
            return false;
        if (out->op != op)
            return dt_irlex_fail(&p->lex, "this is no result of the operation");
        if (!parse_order(p, out->type, lies) || !dt_irlex_expect(&p->lex, ']'))
            return false;
        out->lies = lies;
    } while (dt_irlex_take(&p->lex, ','));
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_at(DtIrReader *p, DtOp *op)
{
    int64_t offset;
    if (dt_irlex_take_word(&p->lex, "at")) {
        if (!dt_irlex_expect(&p->lex, '('))
            return false;
        do {
            DtValue *out = dt_irread_use(p);
            if (!out || !dt_irlex_expect(&p->lex, '=') ||
                !dt_irlex_integer(&p->lex, 0, INT64_MAX - 1, &offset))
                return false;
            if (out->op != op)
                return dt_irlex_fail(&p->lex, "this is no result of the operation");
            out->at = 1 + offset;
        } while (dt_irlex_take(&p->lex, ','));
        if (!dt_irlex_expect(&p->lex, ')'))
            return false;
    }
    return !dt_irlex_key(&p->lex, "base") || dt_irlex_integer(&p->lex, 0, INT64_MAX, &op->base);
}

static bool parse_holds(DtIrReader *p, DtOp *op)
{
    if (!dt_irlex_take_word(&p->lex, "holds"))
        return true;
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    op->holds = DT_NEW_ARRAY(p->module->arena, bool, op->n_in + 1);
    while (!p->lex.failed && !dt_irlex_is(&p->lex, ')')) {
        int64_t operand;
        if (!dt_irlex_integer(&p->lex, 0, (int64_t)op->n_in - 1, &operand))
            return false;
        op->holds[operand] = true;
        if (!dt_irlex_take(&p->lex, ','))
            break;
    }
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_of(DtIrReader *p, DtOp *op)
{
    DtAheadOf *of = op->of = DT_NEW(p->module->arena, DtAheadOf);
    int64_t loop = -1, piece = -1, kind = 0;
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    if (dt_irlex_key(&p->lex, "loop"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &loop);
    if (dt_irlex_key(&p->lex, "turn"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &of->turn);
    if (dt_irlex_key(&p->lex, "piece"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX - 1, &piece);
    if (dt_irlex_key(&p->lex, "kind"))
        dt_irlex_integer(&p->lex, 0, DT_ACTION_W, &kind);
    of->loop = (uint32_t)(loop + 1);
    of->piece = (uint32_t)(piece + 1);
    of->kind = (uint32_t)kind;
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_attributes(DtIrReader *p, DtOp *op)
{
    unsigned reduce = 0;
    int64_t ahead = 0;
    if (dt_irlex_key(&p->lex, "ranges") && !parse_ranges(p, op))
        return false;
    if (!parse_relabels(p, op))
        return false;
    if (dt_irlex_key(&p->lex, "number"))
        dt_irlex_double(&p->lex, &op->number);
    if (dt_irlex_key(&p->lex, "draws"))
        dt_irlex_u32(&p->lex, &op->draws);
    if (dt_irlex_key(&p->lex, "reduce"))
        dt_irlex_choice(&p->lex, "a reduction", dt_irtext_reduces, DT_COUNT(dt_irtext_reduces),
                        &reduce);
    op->reduce = (DtReduce)reduce;
    op->reverse = dt_irlex_take_word(&p->lex, "reverse");
    op->gradients = dt_irlex_take_word(&p->lex, "gradients");
    if (dt_irlex_key(&p->lex, "ahead") && dt_irlex_integer(&p->lex, 1, INT32_MAX, &ahead))
        op->ahead = (uint32_t)ahead;
    dt_irlex_name_key(&p->lex, "text", &op->text);
    dt_irread_store_key(p, &op->store);
    dt_irread_func_key(p, "func", &op->func);
    if (dt_irlex_take_word(&p->lex, "loop") && !parse_loop(p, op))
        return false;
    if (dt_irlex_key(&p->lex, "mesh") && dt_irlex_expect(&p->lex, '{'))
        dt_irread_mesh_set(&p->lex, &p->module->mesh, &op->mesh);
    if (dt_irlex_key(&p->lex, "stages") && !parse_stages(p, &op->stages))
        return false;
    if (dt_irlex_take_word(&p->lex, "of") && !parse_of(p, op))
        return false;
    if (!parse_means(p, op) || !parse_final(p, op) || !parse_over(p, op) || !parse_lies(p, op) ||
        !parse_at(p, op) || !parse_holds(p, op))
        return false;
    op->copies = dt_irlex_take_word(&p->lex, "copies");
    if (dt_irlex_take_word(&p->lex, "anew")) {
        if (op->n_out != 1 || (op->kind != DT_OP_RNG && !dt_op_is_pointwise(op->kind)))
            return dt_irlex_fail(&p->lex, "`%s` is not drawn", dt_op_info[op->kind].text);
        op->out[0]->made_anew = 2;
    }
    dt_irlex_name_key(&p->lex, "path", &op->path);
    dt_irread_span(&p->lex, &op->span);
    return !p->lex.failed;
}

/* ---- ops ---- */

typedef DT_VEC(const char *) Names;

static bool parse_axis_names(DtIrReader *p, Names *ret_names)
{
    while (p->lex.token == DT_IR_NAME) {
        DT_PUSH(p->module->arena, *ret_names, p->lex.name);
        dt_irlex_next(&p->lex);
        if (!dt_irlex_take(&p->lex, ','))
            break;
    }
    return !p->lex.failed;
}

static bool parse_op_axes(DtIrReader *p, DtOp *op)
{
    Names axes = {0}, axes2 = {0};
    if (!dt_irlex_take(&p->lex, '['))
        return true;
    if (!parse_axis_names(p, &axes) ||
        (dt_irlex_take(&p->lex, ';') && !parse_axis_names(p, &axes2)))
        return false;
    op->axes = axes.at;
    op->n_axes = axes.n;
    op->axes2 = axes2.at;
    op->n_axes2 = axes2.n;
    return dt_irlex_expect(&p->lex, ']');
}

/* Reads `%a, %b =` or `() =`: keeps the tokens of results, which are defined only after the
 * operands were read. */
static bool parse_results(DtIrReader *p, DtOp *op, DtIrValues *ret_values)
{
    if (dt_irlex_take(&p->lex, '('))
        return dt_irlex_expect(&p->lex, ')') && dt_irlex_expect(&p->lex, '=');
    do {
        DtValue *value = dt_irread_define(p, op, ret_values->n);
        if (!value)
            return false;
        DT_PUSH(p->module->arena, *ret_values, value);
    } while (dt_irlex_take(&p->lex, ','));
    return dt_irlex_expect(&p->lex, '=');
}

static bool parse_kind(DtIrReader *p, DtOp *op)
{
    const DtOpInfo *info = NULL;
    op->starts = dt_irlex_take_word(&p->lex, "start");
    op->late = op->starts && dt_irlex_take_word(&p->lex, "late");
    if (p->lex.token == DT_IR_NAME && !p->lex.quoted)
        info = dt_map_find(&p->kinds, p->lex.name, strlen(p->lex.name));
    if (!info)
        return dt_irlex_fail(&p->lex, "expected the name of an operation");
    op->kind = (DtOpKind)(info - dt_op_info);
    dt_irlex_next(&p->lex);
    return true;
}

static bool is_own(const DtOp *op, const DtIrValues *operands)
{
    for (uint32_t i = 0; i < operands->n; i++) {
        if (operands->at[i]->op == op)
            return true;
    }
    return false;
}

bool dt_irread_op(DtIrReader *p)
{
    DtOp *op = DT_NEW(p->module->arena, DtOp);
    DtIrValues results = {0}, operands = {0};
    if (!parse_results(p, op, &results) || !parse_kind(p, op) || !parse_op_axes(p, op) ||
        !dt_irlex_expect(&p->lex, '(') || !dt_irread_values(p, ')', &operands) ||
        !dt_irlex_expect(&p->lex, ')'))
        return false;
    if (is_own(op, &operands))
        return dt_irlex_fail(&p->lex, "the operation before this uses its own result");
    op->in = operands.at;
    op->n_in = operands.n;
    op->out = results.at;
    op->n_out = results.n;
    if (op->n_out && !dt_irlex_expect(&p->lex, ':'))
        return false;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (i && !dt_irlex_expect(&p->lex, ','))
            return false;
        op->out[i]->type = dt_irread_type(&p->lex, &p->module->mesh);
        if (!op->out[i]->type)
            return false;
    }
    DT_PUSH(p->module->arena, p->func->ops, op);
    return parse_attributes(p, op);
}
