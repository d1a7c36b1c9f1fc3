/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of IR text (irtext.c has the form). One pass: stores before the functions that use
 * them, a value before its uses; functions may be named before they are defined. The text may be
 * hostile: counts are bounded by what types can hold or by the length of the text, nothing
 * recurses, and the first problem ends the reading with a diagnostic. What the parser leaves
 * open (arity, shapes, attributes) the verifier then checks. */
#include "ir/ir.h"

#include "base/intern.h"
#include "ir/irtext.h"
#include "ir/irtext_lex.h"
#include "ir/map.h"

#include <string.h>

typedef struct Parser {
    DtIrLex lex;
    DtModule *module;
    DtFunc *func;
    DtMap funcs;  /* by name, defined or only named */
    DtMap values; /* of func, by the text of the token */
    DtMap kinds;  /* op names -> dt_op_info row */
    DT_VEC(DtFunc *) named;
    DT_VEC(int64_t) of, bucket; /* by store; -1: none */
} Parser;

/* A list of pointers under construction. */
typedef DT_VEC(void *) List;

/* ---- names, spans, types ---- */

/* `key=` if it comes next. */
static bool take_key(Parser *p, const char *key)
{
    if (!dt_irlex_is_word(&p->lex, key))
        return false;
    dt_irlex_next(&p->lex);
    return dt_irlex_expect(&p->lex, '=');
}

static bool parse_name_key(Parser *p, const char *key, const char **ret_name)
{
    if (!take_key(p, key))
        return false;
    *ret_name = dt_irlex_name(&p->lex);
    return true;
}

static bool parse_u8_key(Parser *p, const char *key, uint8_t *ret_count)
{
    int64_t number;
    if (!take_key(p, key) || !dt_irlex_integer(&p->lex, 0, UINT8_MAX, &number))
        return false;
    *ret_count = (uint8_t)number;
    return true;
}

static bool parse_u32(Parser *p, uint32_t *ret_number)
{
    int64_t number;
    bool ok = dt_irlex_integer(&p->lex, 0, UINT32_MAX, &number);
    *ret_number = (uint32_t)number;
    return ok;
}

/* `lo-hi`: the lexer would take both as one number, so the characters are read here. */
static bool parse_range(Parser *p, uint32_t *ret_lo, uint32_t *ret_hi)
{
    DtIrLex *lex = &p->lex;
    uint64_t number[2] = {0, 0};
    size_t i = lex->lo;
    for (int k = 0; k < 2; k++) {
        size_t from = i;
        for (;
             i < lex->len && lex->text[i] >= '0' && lex->text[i] <= '9' && number[k] <= UINT32_MAX;
             i++)
            number[k] = number[k] * 10 + (uint64_t)(lex->text[i] - '0');
        if (i == from || number[k] > UINT32_MAX ||
            (k == 0 && (i >= lex->len || lex->text[i++] != '-')))
            return dt_irlex_fail(lex, "expected a span: @file:lo-hi");
    }
    *ret_lo = (uint32_t)number[0];
    *ret_hi = (uint32_t)number[1];
    lex->pos = i;
    dt_irlex_next(lex);
    return true;
}

static bool parse_span(Parser *p, DtSpan *ret_span)
{
    if (!dt_irlex_take(&p->lex, '@'))
        return false;
    if (!parse_u32(p, &ret_span->file))
        return false;
    if (!dt_irlex_is(&p->lex, ':'))
        return dt_irlex_fail(&p->lex, "expected a span: @file:lo-hi");
    dt_irlex_next(&p->lex);
    return parse_range(p, &ret_span->lo, &ret_span->hi);
}

static bool mesh_number(Parser *p, const char *name, size_t len, uint8_t *ret_number)
{
    for (uint32_t i = 0; i < p->module->mesh.n; i++) {
        const char *axis = p->module->mesh.axes[i].name;
        if (strlen(axis) == len && memcmp(axis, name, len) == 0) {
            *ret_number = (uint8_t)i;
            return true;
        }
    }
    return dt_irlex_fail(&p->lex, "unknown mesh axis");
}

/* One mesh axis by name or number; dots end a bare name. more: a dot follows. */
static bool parse_mesh_axis(Parser *p, uint8_t *ret_number, bool *ret_more)
{
    DtIrLex *lex = &p->lex;
    *ret_more = false;
    if (lex->token == DT_IR_NAME && lex->quoted) {
        if (!mesh_number(p, lex->name, strlen(lex->name), ret_number))
            return false;
    } else if (lex->token == DT_IR_NAME || lex->token == DT_IR_NUMBER) {
        size_t n = 0;
        while (lex->lo + n < lex->pos && lex->text[lex->lo + n] != '.')
            n++;
        const char *at = lex->text + lex->lo;
        lex->pos = lex->lo + n;
        if (lex->token == DT_IR_NAME && !mesh_number(p, at, n, ret_number))
            return false;
        if (lex->token == DT_IR_NUMBER) {
            int64_t number;
            if (!dt_irlex_integer(lex, 0, DT_MAX_MESH - 1, &number))
                return false;
            *ret_number = (uint8_t)number;
            *ret_more = dt_irlex_take(lex, '.');
            return true;
        }
    } else {
        return dt_irlex_fail(lex, "expected a mesh axis");
    }
    dt_irlex_next(lex);
    *ret_more = dt_irlex_take(lex, '.');
    return true;
}

static bool parse_split(Parser *p, DtAxis *axis)
{
    bool more = true;
    while (more) {
        if (axis->n_split == DT_MAX_SPLIT)
            return dt_irlex_fail(&p->lex, "an axis is split by more than %d mesh axes",
                                 DT_MAX_SPLIT);
        if (!parse_mesh_axis(p, &axis->split[axis->n_split], &more))
            return false;
        axis->n_split++;
    }
    axis->zigzag = dt_irlex_take(&p->lex, '~');
    return true;
}

static bool parse_axis(Parser *p, DtAxis *axis)
{
    *axis = (DtAxis){.name = dt_irlex_name(&p->lex)};
    if (!dt_irlex_expect(&p->lex, '=') || !dt_irlex_integer(&p->lex, 1, INT64_MAX, &axis->extent))
        return false;
    return !dt_irlex_take(&p->lex, '/') || parse_split(p, axis);
}

/* `{` kind mesh axes `}` */
static bool parse_mesh_set(Parser *p, uint16_t *ret_bits)
{
    *ret_bits = 0;
    while (!p->lex.failed && !dt_irlex_is(&p->lex, '}')) {
        uint8_t number = 0;
        bool more;
        if (!parse_mesh_axis(p, &number, &more))
            return false;
        *ret_bits |= (uint16_t)(1u << number);
    }
    return dt_irlex_expect(&p->lex, '}');
}

static const DtType *parse_type(Parser *p)
{
    DtIrLex *lex = &p->lex;
    DtDtype dtype;
    DtAxis axes[DT_MAX_RANK];
    uint32_t rank = 0;
    uint16_t partial = 0;
    unsigned pending = 0;
    if (lex->token != DT_IR_NAME || lex->quoted || !dt_dtype_parse(lex->name, &dtype)) {
        dt_irlex_fail(lex, "expected a type, such as f32[batch=4]");
        return NULL;
    }
    dt_irlex_next(lex);
    if (!dt_irlex_expect(lex, '['))
        return NULL;
    while (!lex->failed && !dt_irlex_is(lex, ']')) {
        if (rank == DT_MAX_RANK) {
            dt_irlex_fail(lex, "a type has more than %d axes", DT_MAX_RANK);
            return NULL;
        }
        if (!parse_axis(p, &axes[rank++]) || (!dt_irlex_is(lex, ']') && !dt_irlex_expect(lex, ',')))
            return NULL;
    }
    if (!dt_irlex_expect(lex, ']'))
        return NULL;
    if (dt_irlex_take(lex, '{') && (!dt_irlex_choice(lex, "sum, max or min", dt_irtext_reduces,
                                                     DT_COUNT(dt_irtext_reduces), &pending) ||
                                    !parse_mesh_set(p, &partial)))
        return NULL;
    const char *problem = dt_type_check(dtype, rank, axes, partial, (DtReduce)pending);
    if (problem) {
        dt_irlex_fail(lex, "%s", problem);
        return NULL;
    }
    return dt_type_make(dtype, rank, axes, partial, (DtReduce)pending);
}

static bool parse_init(Parser *p, DtInit *ret_init)
{
    unsigned kind;
    if (!take_key(p, "init") || !dt_irlex_choice(&p->lex, "an initialiser", dt_irtext_inits,
                                                 DT_COUNT(dt_irtext_inits), &kind))
        return false;
    ret_init->kind = (DtInitKind)kind;
    return dt_irlex_expect(&p->lex, '(') && dt_irlex_double(&p->lex, &ret_init->a) &&
           dt_irlex_expect(&p->lex, ',') && dt_irlex_double(&p->lex, &ret_init->b) &&
           dt_irlex_expect(&p->lex, ')');
}

/* ---- references ---- */

/* The function of that name, which may be defined later. */
static DtFunc *func_named(Parser *p, const char *name)
{
    if (!name)
        return NULL;
    DtFunc *func = dt_map_find(&p->funcs, name, strlen(name));
    if (func)
        return func;
    func = DT_NEW(p->module->arena, DtFunc);
    func->name = name;
    dt_map_add(&p->funcs, name, strlen(name), func);
    DT_PUSH(p->module->arena, p->named, func);
    return func;
}

static bool parse_func_key(Parser *p, const char *key, DtFunc **ret_func)
{
    const char *name = NULL;
    if (!parse_name_key(p, key, &name))
        return false;
    *ret_func = func_named(p, name);
    return true;
}

static bool parse_store_key(Parser *p, DtStore **ret_store)
{
    uint32_t number;
    if (!take_key(p, "store") || !parse_u32(p, &number))
        return false;
    if (number >= p->module->stores.n)
        return dt_irlex_fail(&p->lex, "store %u is not defined above", number);
    *ret_store = p->module->stores.at[number];
    return true;
}

/* ---- values ---- */

static DtValue *use_value(Parser *p)
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

/* Takes a value token and makes the value. */
static DtValue *define_value(Parser *p, DtOp *op, uint32_t index)
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

/* A list of values up to the closing mark, which is left. */
static bool parse_values(Parser *p, char close, List *ret_list)
{
    while (!p->lex.failed && !dt_irlex_is(&p->lex, close)) {
        DtValue *value = use_value(p);
        if (!value)
            return false;
        DT_PUSH(p->module->arena, *ret_list, value);
        if (!dt_irlex_take(&p->lex, ','))
            break;
    }
    return !p->lex.failed;
}

/* ---- attributes ---- */

static bool parse_ranges(Parser *p, DtOp *op)
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
    bool windowed = op->kind == DT_OP_WINDOW || op->kind == DT_OP_FOLD;
    if (ranges.n != (windowed ? 1 : op->n_axes))
        return dt_irlex_fail(&p->lex, "expected %u ranges", windowed ? 1 : op->n_axes);
    op->ranges = ranges.at;
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_relabel(Parser *p, DtRelabel *r)
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

static bool parse_loop(Parser *p, DtOp *op)
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
    parse_name_key(p, "label", &loop->label);
    parse_name_key(p, "axis", &loop->axis);
    if (take_key(p, "count"))
        dt_irlex_integer(&p->lex, INT64_MIN, INT64_MAX, &loop->count);
    if (take_key(p, "first"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &loop->first);
    loop->reverse = dt_irlex_take_word(&p->lex, "reverse");
    for (size_t i = 0; i < DT_COUNT(counts); i++) {
        if (take_key(p, counts[i].key))
            parse_u32(p, counts[i].count);
    }
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_update(Parser *p, DtOp *op)
{
    DtUpdate *u = op->update = DT_NEW(p->module->arena, DtUpdate);
    struct {
        const char *key;
        double *number;
    } numbers[] = {{"beta1", &u->beta1},
                   {"beta2", &u->beta2},
                   {"eps", &u->eps},
                   {"decay", &u->decay},
                   {"momentum", &u->momentum}};
    unsigned kind;
    if (!dt_irlex_expect(&p->lex, '(') ||
        !dt_irlex_choice(&p->lex, "an optimizer", dt_irtext_updates, DT_COUNT(dt_irtext_updates),
                         &kind))
        return false;
    u->kind = (DtUpdateKind)kind;
    for (size_t i = 0; i < DT_COUNT(numbers); i++) {
        if (take_key(p, numbers[i].key))
            dt_irlex_double(&p->lex, numbers[i].number);
    }
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_relabels(Parser *p, DtOp *op)
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

static bool parse_stages(Parser *p, uint64_t *ret_bits)
{
    int64_t stage;
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    do {
        if (!dt_irlex_integer(&p->lex, 0, DT_PIPELINE_STAGES - 1, &stage))
            return false;
        *ret_bits |= (uint64_t)1 << stage;
    } while (dt_irlex_take(&p->lex, ','));
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_stage_key(Parser *p, int32_t *ret_stage)
{
    int64_t stage = -1;
    *ret_stage = -1;
    if (take_key(p, "stage") && !dt_irlex_integer(&p->lex, 0, DT_PIPELINE_STAGES - 1, &stage))
        return false;
    *ret_stage = (int32_t)stage;
    return true;
}

static bool parse_attributes(Parser *p, DtOp *op)
{
    unsigned reduce = 0;
    if (take_key(p, "ranges") && !parse_ranges(p, op))
        return false;
    if (!parse_relabels(p, op))
        return false;
    if (take_key(p, "number"))
        dt_irlex_double(&p->lex, &op->number);
    if (take_key(p, "reduce"))
        dt_irlex_choice(&p->lex, "a reduction", dt_irtext_reduces, DT_COUNT(dt_irtext_reduces),
                        &reduce);
    op->reduce = (DtReduce)reduce;
    op->reverse = dt_irlex_take_word(&p->lex, "reverse");
    parse_name_key(p, "text", &op->text);
    parse_store_key(p, &op->store);
    parse_func_key(p, "func", &op->func);
    if (dt_irlex_take_word(&p->lex, "loop") && !parse_loop(p, op))
        return false;
    if (dt_irlex_take_word(&p->lex, "update") && !parse_update(p, op))
        return false;
    if (take_key(p, "mesh") && dt_irlex_expect(&p->lex, '{'))
        parse_mesh_set(p, &op->mesh);
    if (take_key(p, "stages") && !parse_stages(p, &op->stages))
        return false;
    parse_name_key(p, "path", &op->path);
    parse_span(p, &op->span);
    return !p->lex.failed;
}

/* ---- ops ---- */

static bool parse_axis_names(Parser *p, List *ret_names)
{
    while (p->lex.token == DT_IR_NAME) {
        DT_PUSH(p->module->arena, *ret_names, (void *)(uintptr_t)p->lex.name);
        dt_irlex_next(&p->lex);
        if (!dt_irlex_take(&p->lex, ','))
            break;
    }
    return !p->lex.failed;
}

static bool parse_op_axes(Parser *p, DtOp *op)
{
    List axes = {0}, axes2 = {0};
    if (!dt_irlex_take(&p->lex, '['))
        return true;
    if (!parse_axis_names(p, &axes) ||
        (dt_irlex_take(&p->lex, ';') && !parse_axis_names(p, &axes2)))
        return false;
    op->axes = (const char **)axes.at;
    op->n_axes = axes.n;
    op->axes2 = (const char **)axes2.at;
    op->n_axes2 = axes2.n;
    return dt_irlex_expect(&p->lex, ']');
}

/* `%a, %b =` or `() =`: the tokens of the results, defined only after the operands were read. */
static bool parse_results(Parser *p, DtOp *op, List *ret_values)
{
    if (dt_irlex_take(&p->lex, '('))
        return dt_irlex_expect(&p->lex, ')') && dt_irlex_expect(&p->lex, '=');
    do {
        DtValue *value = define_value(p, op, ret_values->n);
        if (!value)
            return false;
        DT_PUSH(p->module->arena, *ret_values, value);
    } while (dt_irlex_take(&p->lex, ','));
    return dt_irlex_expect(&p->lex, '=');
}

static bool parse_kind(Parser *p, DtOp *op)
{
    const DtOpInfo *info = NULL;
    if (p->lex.token == DT_IR_NAME && !p->lex.quoted)
        info = dt_map_find(&p->kinds, p->lex.name, strlen(p->lex.name));
    if (!info)
        return dt_irlex_fail(&p->lex, "expected the name of an operation");
    op->kind = (DtOpKind)(info - dt_op_info);
    dt_irlex_next(&p->lex);
    return true;
}

static bool is_own(const DtOp *op, const List *operands)
{
    for (uint32_t i = 0; i < operands->n; i++) {
        if (((DtValue *)operands->at[i])->op == op)
            return true;
    }
    return false;
}

static bool parse_op(Parser *p)
{
    DtOp *op = DT_NEW(p->module->arena, DtOp);
    List results = {0}, operands = {0};
    if (!parse_results(p, op, &results) || !parse_kind(p, op) || !parse_op_axes(p, op) ||
        !dt_irlex_expect(&p->lex, '(') || !parse_values(p, ')', &operands) ||
        !dt_irlex_expect(&p->lex, ')'))
        return false;
    if (is_own(op, &operands))
        return dt_irlex_fail(&p->lex, "the operation before this uses its own result");
    op->in = (DtValue **)operands.at;
    op->n_in = operands.n;
    op->out = (DtValue **)results.at;
    op->n_out = results.n;
    if (op->n_out && !dt_irlex_expect(&p->lex, ':'))
        return false;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (i && !dt_irlex_expect(&p->lex, ','))
            return false;
        op->out[i]->type = parse_type(p);
        if (!op->out[i]->type)
            return false;
    }
    DT_PUSH(p->module->arena, p->func->ops, op);
    return parse_attributes(p, op);
}

/* ---- functions ---- */

static bool parse_input(Parser *p, bool is_param)
{
    DtFunc *func = p->func;
    if (func->ops.n || (!is_param && func->params.n))
        return dt_irlex_fail(&p->lex, "arguments come first, then parameters, then operations");
    DtValue *value = define_value(p, NULL, func->inputs.n);
    if (!value || !dt_irlex_expect(&p->lex, ':') || !(value->type = parse_type(p)))
        return false;
    DT_PUSH(p->module->arena, func->inputs, value);
    if (!is_param) {
        func->n_args++;
        return true;
    }
    DtFormalParam param = {0};
    param.is_state = dt_irlex_take_word(&p->lex, "state");
    parse_name_key(p, "path", &param.path);
    parse_name_key(p, "pattern", &param.pattern);
    parse_u8_key(p, "loops", &param.n_loops);
    parse_u8_key(p, "rank", &param.written_rank);
    parse_init(p, &param.init);
    parse_span(p, &param.span);
    DT_PUSH(p->module->arena, func->params, param);
    return !p->lex.failed;
}

static bool parse_return(Parser *p)
{
    List values = {0};
    if (p->func->results.n)
        return dt_irlex_fail(&p->lex, "a function returns once, before its writes");
    if (!parse_values(p, '}', &values))
        return false;
    p->func->results.at = (DtValue **)values.at;
    p->func->results.n = p->func->n_returns = values.n;
    p->func->results.cap = values.cap;
    return true;
}

static bool parse_write(Parser *p)
{
    uint32_t param;
    if (!parse_u32(p, &param) || !dt_irlex_expect(&p->lex, '='))
        return false;
    DtValue *value = use_value(p);
    if (!value)
        return false;
    DT_PUSH(p->module->arena, p->func->results, value);
    DT_PUSH(p->module->arena, p->func->writes, param);
    return true;
}

static bool parse_line(Parser *p)
{
    if (dt_irlex_take_word(&p->lex, "arg"))
        return parse_input(p, false);
    if (dt_irlex_take_word(&p->lex, "param"))
        return parse_input(p, true);
    if (dt_irlex_take_word(&p->lex, "return"))
        return parse_return(p);
    if (dt_irlex_take_word(&p->lex, "write"))
        return parse_write(p);
    if (p->func->results.n)
        return dt_irlex_fail(&p->lex, "expected `}` after the results");
    return parse_op(p);
}

static bool parse_func(Parser *p)
{
    unsigned kind;
    DtFunc *func = p->func = func_named(p, dt_irlex_name(&p->lex));
    if (!func)
        return false;
    if (func->module)
        return dt_irlex_fail(&p->lex, "function `%s` is defined twice", func->name);
    func->module = p->module;
    DT_PUSH(p->module->arena, p->module->funcs, func);
    if (!dt_irlex_expect(&p->lex, ':') ||
        !dt_irlex_choice(&p->lex, "a kind of function", dt_irtext_func_kinds,
                         DT_COUNT(dt_irtext_func_kinds), &kind))
        return false;
    func->kind = (DtFuncKind)kind;
    parse_name_key(p, "library", &func->library);
    parse_func_key(p, "fwd", &func->fwd);
    parse_func_key(p, "bwd", &func->bwd);
    parse_func_key(p, "bwd_x", &func->bwd_x);
    parse_func_key(p, "bwd_w", &func->bwd_w);
    parse_span(p, &func->span);
    p->values = (DtMap){.arena = p->module->arena};
    if (!dt_irlex_expect(&p->lex, '{'))
        return false;
    while (!p->lex.failed && !dt_irlex_is(&p->lex, '}'))
        parse_line(p);
    return dt_irlex_expect(&p->lex, '}');
}

/* ---- the rest of a module ---- */

static bool parse_mesh(Parser *p)
{
    DtMesh *mesh = &p->module->mesh;
    if (mesh->n || p->module->stores.n || p->module->funcs.n)
        return dt_irlex_fail(&p->lex, "the mesh comes first, and once");
    do {
        DtMeshAxis axis = {.name = dt_irlex_name(&p->lex)};
        if (mesh->n == DT_MAX_MESH)
            return dt_irlex_fail(&p->lex, "a mesh has more than %d axes", DT_MAX_MESH);
        if (!dt_irlex_expect(&p->lex, '=') || !dt_irlex_integer(&p->lex, 1, INT32_MAX, &axis.size))
            return false;
        axis.is_time = dt_irlex_take_word(&p->lex, "time");
        mesh->axes[mesh->n++] = axis;
    } while (dt_irlex_take(&p->lex, ','));
    return true;
}

static bool parse_store(Parser *p)
{
    DtStore *store = DT_NEW(p->module->arena, DtStore);
    unsigned kind;
    int64_t of = -1, bucket = -1;
    if (!parse_u32(p, &store->index))
        return false;
    if (store->index != p->module->stores.n)
        return dt_irlex_fail(&p->lex, "stores are numbered 0, 1, ...");
    if (!dt_irlex_expect(&p->lex, ':') ||
        !dt_irlex_choice(&p->lex, "a kind of store", dt_irtext_store_kinds,
                         DT_COUNT(dt_irtext_store_kinds), &kind))
        return false;
    store->kind = (DtStoreKind)kind;
    store->type = parse_type(p);
    if (!store->type)
        return false;
    parse_name_key(p, "path", &store->path);
    parse_name_key(p, "pattern", &store->pattern);
    parse_u8_key(p, "loops", &store->n_loops);
    parse_u8_key(p, "rank", &store->written_rank);
    store->decays = dt_irlex_take_word(&p->lex, "decays");
    parse_init(p, &store->init);
    if (take_key(p, "of"))
        dt_irlex_integer(&p->lex, 0, UINT32_MAX, &of);
    parse_stage_key(p, &store->stage);
    if (take_key(p, "depth"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &store->depth);
    if (take_key(p, "first"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &store->first);
    if (take_key(p, "whole"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &store->whole);
    if (take_key(p, "bucket"))
        dt_irlex_integer(&p->lex, 0, UINT32_MAX, &bucket);
    if (take_key(p, "at"))
        dt_irlex_integer(&p->lex, 0, INT64_MAX, &store->bucket_offset);
    parse_span(p, &store->span);
    DT_PUSH(p->module->arena, p->module->stores, store);
    DT_PUSH(p->module->arena, p->of, of);
    DT_PUSH(p->module->arena, p->bucket, bucket);
    return !p->lex.failed;
}

static bool parse_entry(Parser *p)
{
    DtEntryPoint entry = {.name = dt_irlex_name(&p->lex)};
    if (!dt_irlex_expect(&p->lex, ':'))
        return false;
    entry.func = func_named(p, dt_irlex_name(&p->lex));
    parse_stage_key(p, &entry.stage);
    if (!dt_irlex_expect(&p->lex, '{'))
        return false;
    while (dt_irlex_take_word(&p->lex, "result")) {
        DtEntryResult result = {0};
        parse_store_key(p, &result.store);
        parse_name_key(p, "name", &result.name);
        result.accumulate = dt_irlex_take_word(&p->lex, "accumulate");
        DT_PUSH(p->module->arena, entry.results, result);
    }
    DT_PUSH(p->module->arena, p->module->entries, entry);
    return dt_irlex_expect(&p->lex, '}');
}

/* Turns numbers of stores, one per store, into links. */
static bool resolve_stores(Parser *p, const int64_t *numbers, bool owners)
{
    DtModule *module = p->module;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        if (numbers[i] < 0)
            continue;
        if (numbers[i] >= module->stores.n)
            return dt_irlex_fail(&p->lex, "store %u belongs to one that does not exist", i);
        *(owners ? &module->stores.at[i]->of : &module->stores.at[i]->bucket) = module->stores.at[numbers[i]];
    }
    return true;
}

/* Functions that were only named, and the owners and buckets of stores. */
static bool resolve(Parser *p)
{
    for (uint32_t i = 0; i < p->named.n; i++) {
        if (!p->named.at[i]->module)
            return dt_irlex_fail(&p->lex, "function `%s` is named but not defined",
                                 p->named.at[i]->name);
    }
    return resolve_stores(p, p->of.at, true) && resolve_stores(p, p->bucket.at, false);
}

static bool parse_module(Parser *p)
{
    while (!p->lex.failed && p->lex.token != DT_IR_END) {
        if (dt_irlex_take_word(&p->lex, "mesh"))
            parse_mesh(p);
        else if (dt_irlex_take_word(&p->lex, "store"))
            parse_store(p);
        else if (dt_irlex_take_word(&p->lex, "func"))
            parse_func(p);
        else if (dt_irlex_take_word(&p->lex, "entry"))
            parse_entry(p);
        else if (dt_irlex_take_word(&p->lex, "pipeline"))
            dt_irtext_read_pipeline(&p->lex, p->module);
        else
            dt_irlex_fail(&p->lex, "expected `mesh`, `store`, `func`, `entry` or `pipeline`");
    }
    return !p->lex.failed && resolve(p);
}

DtModule *dt_irtext_parse(DtArena *arena, DtDiags *diags, const char *text, size_t len)
{
    Parser p = {.module = dt_graph_module(arena, diags)};
    p.funcs.arena = p.values.arena = p.kinds.arena = arena;
    for (int i = 0; i < DT_OP_COUNT; i++)
        dt_map_add(&p.kinds, dt_op_info[i].text, strlen(dt_op_info[i].text),
                   (void *)(uintptr_t)&dt_op_info[i]);
    bool fits = len < INT32_MAX;
    const char *copy = dt_arena_strndup(arena, text, fits ? len : 0);
    dt_irlex_start(&p.lex, diags, copy, fits ? len : 0);
    if (!fits)
        dt_irlex_fail(&p.lex, "the text is longer than 2 GiB");
    return parse_module(&p) ? p.module : NULL;
}

/* Every violation that the verifier finds becomes one diagnostic. */
static void report_problems(DtDiags *diags, const char *problems)
{
    for (const char *line = problems; diags && *line;) {
        size_t n = strcspn(line, "\n");
        dt_diag_report(diags, E0951, (DtSpan){0}, "%.*s", (int)(n < 1000 ? n : 1000), line);
        line += n + (line[n] == '\n');
    }
}

DtModule *dt_irtext_read(DtArena *arena, DtDiags *diags, const char *text, size_t len)
{
    DtModule *module = dt_irtext_parse(arena, diags, text, len);
    DtText problems = {0};
    if (module && !dt_verify_module(module, &problems)) {
        report_problems(diags, problems.at);
        module = NULL;
    }
    dt_text_free(&problems);
    return module;
}
