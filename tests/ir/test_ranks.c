/* SPDX-License-Identifier: Apache-2.0 */
/* The local rule of every op under placements of its operands: whatever placement the op's shape
 * rule accepts, all ranks in lockstep must compute what one rank computes. Placements are
 * generated: over one mesh axis all of them (up to a number), over two axes, with the order of
 * splits and zigzag, drawn at random. A wrong rule of ir/shape*.c shows here as a number; so does a
 * wrong evaluator. */
#include "base/intern.h"
#include "ir/interp_eval.h"
#include "ir/interp_ranks.h"
#include "ir/irtext.h"
#include "ir/shape.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

enum { M, N, MAX_OPERANDS = 8, MAX_ONE = 4000, TRIES_TWO = 3000, MAX_RUNS = 400 };

/* Axes can be divided by the 6 ranks of the mesh, and by 12 if they are in zigzag order. */
static const char mesh_text[] = "mesh m=2, n=3\n";

typedef struct Rule {
    char args[240], line[160];
    int least; /* this many placements must be accepted, so that the rule is not vacuous */
} Rule;

static Rule rules[] = {
    {"arg %x : f32[a=12, b=6]", "= exp(%x) : f32[a=12, b=6]", 5},
    {"arg %x : f32[a=12, b=6]", "= neg(%x) : f32[a=12, b=6]", 5},
    {"arg %x : f32[a=12, b=6]", "= stop(%x) : f32[a=12, b=6]", 9},
    {"arg %x : f32[a=12, b=6]", "= cast(%x) : bf16[a=12, b=6]", 9},
    {"arg %x : f32[a=12, b=6]", "= cast(%x) : i32[a=12, b=6]", 5},
    {"arg %x : f32[a=12, b=6] arg %y : f32[b=6, c=6]", "= add(%x, %y) : f32[a=12, b=6, c=6]", 9},
    {"arg %x : f32[a=12, b=6] arg %y : f32[b=6, a=12]", "= sub(%x, %y) : f32[a=12, b=6]", 6},
    {"arg %x : f32[a=12, b=6] arg %y : f32[b=6, c=6]", "= mul(%x, %y) : f32[a=12, b=6, c=6]", 9},
    {"arg %x : f32[a=12, b=6] arg %y : f32[b=6]", "= div(%x, %y) : f32[a=12, b=6]", 6},
    {"arg %x : f32[a=12, b=6] arg %y : f32[b=6]", "= max(%x, %y) : f32[a=12, b=6]", 4},
    {"arg %x : i32[a=12, b=6] arg %y : i32[b=6]", "= mod(%x, %y) : i32[a=12, b=6]", 4},
    {"arg %x : f32[a=12, b=6] arg %y : f32[b=6]", "= lt(%x, %y) : bool[a=12, b=6]", 4},
    {"arg %c : bool[a=12] arg %x : f32[a=12, b=6] arg %y : f32[b=6]",
     "= where(%c, %x, %y) : f32[a=12, b=6]", 9},
    {"arg %x : f32[a=12, b=6]", "= relabel(%x) : f32[c=12, b=6] relabel(a -> c=12)", 5},
    {"arg %x : f32[a=12, b=6]", "= relabel(%x) : f32[c=6, d=2, b=6] relabel(a -> c=6, d=2)", 5},
    {"arg %x : f32[a=12, b=6]", "= relabel(%x) : f32[c=2, d=6, b=6] relabel(a -> c=2, d=6)", 5},
    {"arg %x : f32[a=6, b=12]", "= relabel(%x) : f32[c=72] relabel(a, b -> c=72)", 4},
    {"arg %x : f32[a=6, b=12]", "= relabel(%x) : f32[b=12, a=6]", 5},
    {"arg %x : f32[a=6, b=12]",
     "= relabel(%x) : f32[b=6, a=12] relabel(a -> b=6) relabel(b -> a=12)", 5},
    {"arg %x : f32[a=12, b=6]", "= slice[a](%x) : f32[a=4, b=6] ranges=(1 0 3 4)", 4},
    {"arg %x : f32[a=12, b=6]", "= slice[a](%x) : f32[a=12, b=6] ranges=(0 0 1 12)", 5},
    {"arg %x : f32[a=12, b=6]", "= pad[a](%x) : f32[a=15, b=6] ranges=(1 2 1 0)", 3},
    {"arg %x : f32[a=6, b=6] arg %y : f32[a=6, b=6]", "= concat[a](%x, %y) : f32[a=12, b=6]", 4},
    {"arg %x : f32[a=12, b=6]", "= expand(%x) : f32[c=6, a=12, b=6]", 9},
    {"arg %x : f32[a=12, b=6]", "= window[a, w](%x) : f32[a=6, b=6, w=3] ranges=(1 1 2 3)", 3},
    {"arg %x : f32[a=6, b=6, w=3]", "= fold[a, w](%x) : f32[a=12, b=6] ranges=(1 1 2 3)", 3},
    {"arg %x : f32[a=12, b=6] arg %y : f32[b=6, c=6]", "= dot[b](%x, %y) : f32[a=12, c=6]", 9},
    {"arg %x : f32[a=6, b=6, k=12] arg %y : f32[k=12, b=6, c=6]",
     "= dot[k](%x, %y) : f32[a=6, b=6, c=6]", 9},
    {"arg %x : f32[a=12, b=6, c=6]", "= reduce[b, a](%x) : f32[c=6]", 5},
    {"arg %x : f32[a=12, b=6]", "= reduce[a](%x) : f32[b=6] reduce=max", 4},
    {"arg %x : f32[a=12, b=6]", "= reduce[a](%x) : f32[b=6] reduce=min", 4},
    {"arg %x : f32[a=12, b=6]", "= scan[a](%x) : f32[a=12, b=6]", 3},
    {"arg %x : f32[a=12, b=6]", "= scan[a](%x) : f32[a=12, b=6] reverse", 3},
    {"arg %x : f32[a=12, b=6]", "%z, %y = topk[b, c](%x) : f32[a=12, c=2], i32[a=12, c=2]", 2},
    {"arg %x : f32[v=12, e=6] arg %i : i32[a=6, b=6]", "= gather[v](%x, %i) : f32[a=6, b=6, e=6]",
     9},
    {"arg %x : f32[v=12, e=6] arg %i : i32[v=6]", "= gather[v](%x, %i) : f32[v=6, e=6]", 5},
    {"arg %x : f32[v=12, w=6, a=6] arg %i : i32[a=6, b=6] arg %j : i32[b=6]",
     "= gather[v, w](%x, %i, %j) : f32[b=6, a=6]", 5},
    {"arg %x : f32[a=6, e=6] arg %i : i32[a=6]", "= scatter_add[v; a](%x, %i) : f32[v=12, e=6]", 9},
    {"arg %x : f32[a=6, b=6, e=6] arg %i : i32[b=6] arg %j : i32[a=6, b=6]",
     "= scatter_add[v, w; b](%x, %i, %j) : f32[a=6, v=6, w=12, e=6]", 9},
    {"", "= iota[a]() : i32[a=12]", 2},
    {"", "= rng() : f32[b=6, a=12] draws=1 text=dropout", 3},
    {"", "= rng() : f32[b=6, a=12] draws=4 text=dropout", 3},
};

/* ---- random numbers ---- */

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static double draw_value(DtDtype dtype)
{
    if (dtype == DT_BOOL)
        return draw(2);
    if (!dt_dtype_is_float(dtype))
        return (double)draw(18) - 3; /* as an index, the value may be out of range */
    return ((double)draw(64) - 31.5) / 4;
}

static DtTensor *random_tensor(DtArena *arena, const DtType *type)
{
    DtTensor *tensor = dt_interp_tensor(arena, type);
    for (int64_t i = 0; i < dt_type_elements(type); i++)
        tensor->at[i] = draw_value(type->dtype);
    return tensor;
}

/* ---- placements ---- */

/* Returns how many choices there are for what one mesh axis does to a value. Choice 0: nothing; up
 * to the rank: it splits axis number choice - 1; the others: a reduction over it is pending. */
static uint32_t choices_of(const DtType *type) { return type->rank + 4u; }

/* Applies choice number `choice` on mesh axis m; NULL if the type cannot have it. */
static const DtType *placed(const DtType *type, uint8_t m, uint32_t choice)
{
    DtAxis axes[DT_MAX_RANK + 1];
    uint16_t partial = type->partial;
    DtReduce pending = (DtReduce)type->pending;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    if (choice > type->rank) {
        if (type->partial && type->pending != choice - type->rank - 1)
            return NULL;
        pending = (DtReduce)(choice - type->rank - 1);
        partial |= (uint16_t)(1u << m);
    } else if (choice > 0) {
        DtAxis *axis = &axes[choice - 1];
        axis->split[axis->n_split++] = m;
    }
    if (dt_type_check(type->dtype, type->rank, axes, partial, pending))
        return NULL;
    return dt_type_make(type->dtype, type->rank, axes, partial, pending);
}

static bool divides(const DtType *type, const DtMesh *mesh)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t parts = type->axes[i].zigzag ? 2 : 1;
        for (uint32_t k = 0; k < type->axes[i].n_split; k++)
            parts *= mesh->axes[type->axes[i].split[k]].size;
        if (type->axes[i].extent % parts != 0)
            return false;
    }
    return true;
}

/* Puts all split axes of this name into zigzag order. */
static const DtType *zigzag(const DtType *type, const char *name)
{
    DtAxis axes[DT_MAX_RANK + 1];
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    for (uint32_t i = 0; i < type->rank; i++)
        axes[i].zigzag = axes[i].n_split && axes[i].name == name;
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

/* ---- one rule under one placement ---- */

typedef struct Case {
    DtArena *arena;
    DtModule *module;
    const DtOp *op; /* the serial op */
    const Rule *rule;
    DtTensor *in[MAX_OPERANDS], *want[MAX_OPERANDS];
    int runs;
} Case;

/* Makes parts that together mean the tensor. The terms of a pending sum are random and add up to
 * it; of a pending maximum one rank has the value. */
static void random_parts(Case *c, const DtTensor *whole, const DtType *type, DtTensor **ret_parts)
{
    const DtMesh *mesh = &c->module->mesh;
    const uint32_t n = dt_ranks_count(mesh);
    for (uint32_t rank = 0; rank < n; rank++)
        ret_parts[rank] = dt_ranks_slice(c->arena, whole, type, mesh, rank);
    for (uint32_t m = 0; m < mesh->n; m++)
        for (uint32_t rank = 0; (type->partial >> m & 1) && rank < n; rank++) {
            const uint32_t first = dt_ranks_move(mesh, rank, m, 0);
            DtTensor *part = ret_parts[rank], *from = ret_parts[first];
            /* copies on different ranks must be equal, so terms depend only on the element and the
             * coordinate along the pending axes */
            for (int64_t i = 0; first != rank && i < dt_type_elements(part->type); i++) {
                const double term =
                    (double)((i * 7 + 3 * dt_ranks_coordinate(mesh, rank, m)) % 16) / 4;
                if (type->pending == DT_REDUCE_SUM) {
                    part->at[i] += term;
                    from->at[i] -= term;
                } else if (isfinite(from->at[i])) {
                    part->at[i] =
                        type->pending == DT_REDUCE_MAX ? from->at[i] - term : from->at[i] + term;
                }
            }
        }
}

static void describe(const Case *c, const DtOp *copy, DtText *text)
{
    dt_irtext_print_op(c->module->funcs.at[c->module->funcs.n - 1], copy, text);
    for (uint32_t i = 0; i < copy->n_in; i++) {
        dt_text_add(text, "\n  operand ");
        dt_type_print_extents(copy->in[i]->type, &c->module->mesh, text);
    }
}

static bool close_to(double got, double want)
{
    return got == want || (isnan(got) && isnan(want)) ||
           fabs(got - want) <= 1e-12 * fmax(1, fmax(fabs(got), fabs(want)));
}

static void compare(Case *c, const DtOp *copy, DtTensor *const *parts, const DtRanks *ranks)
{
    DtText text = {0};
    describe(c, copy, &text);
    cr_assert(ranks->differs.value == NULL, "ranks hold different copies after %s", text.at);
    for (uint32_t i = 0; i < copy->n_out; i++) {
        const DtType *type = copy->out[i]->type;
        const uint32_t n = dt_ranks_count(&c->module->mesh);
        const DtTensor *got = dt_ranks_join(c->arena, parts + i * n, type, &c->module->mesh);
        for (int64_t k = 0; k < dt_type_elements(got->type); k++)
            cr_assert(close_to(got->at[k], c->want[i]->at[k]),
                      "element %lld of result %u is %.17g, serially %.17g, by %s", (long long)k, i,
                      got->at[k], c->want[i]->at[k], text.at);
    }
    dt_text_free(&text);
}

/* Runs the op on operands of these types, if its rule accepts them. */
static void try(Case *c, const DtType *const *types, const DtType *const *wishes)
{
    DtModule *module = c->module;
    DtValue operands[MAX_OPERANDS], *in[MAX_OPERANDS], results[MAX_OPERANDS], *out[MAX_OPERANDS];
    const DtType *derived[MAX_OPERANDS];
    DtOp draft = *c->op;
    draft.in = in;
    draft.out = out;
    for (uint32_t i = 0; i < draft.n_in; i++) {
        if (!types[i] || !divides(types[i], &module->mesh))
            return;
        operands[i] = (DtValue){.type = types[i]};
        in[i] = &operands[i];
    }
    for (uint32_t i = 0; i < draft.n_out; i++) {
        if (!wishes[i] || !divides(wishes[i], &module->mesh))
            return;
        results[i] = *c->op->out[i];
        results[i].type = wishes[i];
        out[i] = &results[i];
    }
    if (dt_shape_check(&draft, &module->mesh, wishes, derived))
        return;
    for (uint32_t i = 0; i < draft.n_out; i++)
        if (!divides(derived[i], &module->mesh))
            return;
    DtFunc *func = dt_graph_func(module, "placed", DT_FUNC_FN);
    const uint32_t n = dt_ranks_count(&module->mesh);
    DtTensor **inputs = DT_NEW_ARRAY(c->arena, DtTensor *, n * MAX_OPERANDS);
    DtTensor **made = DT_NEW_ARRAY(c->arena, DtTensor *, n * MAX_OPERANDS);
    for (uint32_t i = 0; i < draft.n_in; i++) {
        in[i] = dt_graph_arg(func, types[i], NULL);
        random_parts(c, c->in[i], types[i], inputs + i * n);
    }
    DtOp *copy = dt_graph_copy(&(DtBuilder){.func = func}, &draft, in);
    for (uint32_t i = 0; i < copy->n_out; i++)
        dt_graph_return(func, copy->out[i]);
    DtRanks ranks = {.arena = c->arena, .seed = 3, .step = 2, .mesh = &module->mesh};
    dt_ranks_run(&ranks, func, inputs, made);
    compare(c, copy, made, &ranks);
    c->runs++;
}

static bool declares(DtOpKind kind)
{
    return kind == DT_OP_EXPAND || kind == DT_OP_SCATTER_ADD || kind == DT_OP_IOTA ||
           kind == DT_OP_RNG;
}

/* Tries every placement over one mesh axis, up to a limit. */
static void all_over_one(Case *c, uint8_t m)
{
    const DtOp *op = c->op;
    uint32_t n_results = declares(op->kind) ? op->n_out : 0, n = op->n_in + n_results;
    uint32_t choice[2 * MAX_OPERANDS] = {0};
    const DtType *types[2 * MAX_OPERANDS] = {0};
    for (int tries = 0; tries < MAX_ONE; tries++) {
        for (uint32_t i = 0; i < n; i++)
            types[i] =
                placed((i < op->n_in ? op->in[i] : op->out[i - op->n_in])->type, m, choice[i]);
        for (uint32_t i = n_results; i < op->n_out; i++)
            types[op->n_in + i] = op->out[i]->type;
        try(c, types, types + op->n_in);
        uint32_t i = 0;
        for (; i < n; i++) {
            if (++choice[i] < choices_of((i < op->n_in ? op->in[i] : op->out[i - op->n_in])->type))
                break;
            choice[i] = 0;
        }
        if (i == n)
            return;
    }
}

/* Chooses by the name of the axis, so that operands often fit together. */
static const DtType *placed_by_name(const DtType *type, uint8_t m, const char *name)
{
    int axis = name ? dt_type_find(type, name) : -1;
    return placed(type, m, (uint32_t)(axis + 1));
}

static const char *any_axis(const DtOp *op)
{
    const uint32_t i = draw(op->n_in + op->n_out);
    const DtType *type = (i < op->n_in ? op->in[i] : op->out[i - op->n_in])->type;
    return type->rank ? type->axes[draw(type->rank)].name : NULL;
}

static void random_over_two(Case *c)
{
    const DtOp *op = c->op;
    const DtType *types[2 * MAX_OPERANDS];
    for (uint32_t i = 0; i < op->n_in + op->n_out; i++)
        types[i] = (i < op->n_in ? op->in[i] : op->out[i - op->n_in])->type;
    const uint32_t n = op->n_in + (declares(op->kind) ? op->n_out : 0);
    const uint8_t first = (uint8_t)draw(2);
    for (uint8_t k = 0; k < 2; k++) {
        const char *name = any_axis(op);
        const bool alike = draw(4) > 0;
        for (uint32_t i = 0; i < n; i++) {
            if (!types[i])
                continue;
            types[i] = alike && (i == op->n_in || draw(5) > 0)
                           ? placed_by_name(types[i], k ^ first, name)
                           : placed(types[i], k ^ first, draw(choices_of(types[i])));
        }
    }
    const char *crossed = draw(3) == 0 ? any_axis(op) : NULL;
    for (uint32_t i = 0; crossed && i < n; i++)
        types[i] = types[i] ? zigzag(types[i], crossed) : NULL;
    try(c, types, types + op->n_in);
}

static DtFunc *read_function(DtArena *arena, const char *args, const char *line)
{
    DtDiags *diags = dt_diag_new(arena);
    DtText text = {0};
    dt_text_printf(&text, "%sfunc f : fn {\n%s\n%s%s\nreturn %%z\n}\n", mesh_text, args,
                   line[0] == '%' ? "" : "%z ", line);
    DtModule *module = dt_irtext_read(arena, diags, text.at, text.len);
    if (!module)
        dt_diag_print(diags, stderr, false);
    cr_assert(module != NULL, "%s", text.at);
    dt_text_free(&text);
    return module->funcs.at[0];
}

static void check_rule(const Rule *rule)
{
    DtArena *arena = dt_arena_new();
    Case c = {.arena = arena, .rule = rule};
    state = 12345;
    DtFunc *func = read_function(arena, rule->args, rule->line);
    c.module = func->module;
    c.op = func->ops.at[0];
    func->results.n = 0;
    for (uint32_t i = 0; i < c.op->n_out; i++)
        dt_graph_return(func, c.op->out[i]);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        c.in[i] = random_tensor(arena, func->inputs.at[i]->type);
    DtInterp interp = {.arena = arena, .seed = 3, .step = 2, .path = ""};
    dt_interp_run(&interp, func, c.in, c.want);
    all_over_one(&c, M);
    all_over_one(&c, N);
    cr_expect(c.runs >= rule->least, "only %d placements of %s", c.runs, rule->line);
    const int one = c.runs;
    for (int i = 0; i < TRIES_TWO && c.runs < one + MAX_RUNS; i++)
        random_over_two(&c);
    cr_expect(c.runs > one, "no placement of %s over two mesh axes", rule->line);
    dt_arena_free(arena);
}

ParameterizedTestParameters(ranks, local_rules)
{
    return cr_make_param_array(Rule, rules, DT_COUNT(rules));
}

ParameterizedTest(Rule *rule, ranks, local_rules) { check_rule(rule); }

/* ---- communication ---- */

typedef struct Types {
    const DtType *at[300];
    uint32_t n;
} Types;

static void add_type(Types *types, const DtType *type)
{
    for (uint32_t i = 0; i < types->n; i++)
        if (types->at[i] == type)
            return;
    cr_assert(types->n < DT_COUNT(types->at));
    types->at[types->n++] = type;
}

/* Tries all placements over both mesh axes, in both orders, as blocks and in zigzag order. */
static Types all_types(const DtType *type)
{
    Types types = {.n = 0};
    for (uint8_t first = 0; first < 2; first++)
        for (uint32_t i = 0; i < choices_of(type) * choices_of(type); i++) {
            const DtType *one = placed(type, first, i / choices_of(type));
            const DtType *both = one ? placed(one, !first, i % choices_of(type)) : NULL;
            if (both) {
                add_type(&types, both);
                add_type(&types, zigzag(both, dt_intern("a")));
            }
        }
    return types;
}

static int run_collective(Case *c, DtOpKind kind, const DtType *from, const DtType *to,
                          uint16_t mesh)
{
    DtValue operand = {.type = from}, *in = &operand;
    DtOp draft = {.kind = kind, .in = &in, .n_in = 1, .mesh = mesh};
    const DtType *derived;
    const uint32_t n = dt_ranks_count(&c->module->mesh);
    if (dt_shape_check(&draft, &c->module->mesh, &to, &derived))
        return 0;
    DtFunc *func = dt_graph_func(c->module, "placed", DT_FUNC_FN);
    DtValue *x = dt_graph_arg(func, from, NULL);
    DtValue *y = dt_graph_comm(&(DtBuilder){.func = func}, kind, x, mesh, to);
    DtTensor **inputs = DT_NEW_ARRAY(c->arena, DtTensor *, n);
    DtTensor **made = DT_NEW_ARRAY(c->arena, DtTensor *, n);
    random_parts(c, c->in[0], from, inputs);
    dt_graph_return(func, y);
    DtRanks ranks = {.arena = c->arena, .mesh = &c->module->mesh};
    dt_ranks_run(&ranks, func, inputs, made);
    compare(c, y->op, made, &ranks);
    return 1;
}

/* A collective changes the parts of ranks, but not the value. */
static void check_collectives(uint32_t from, uint32_t step)
{
    static const DtOpKind kinds[] = {DT_OP_ALL_GATHER, DT_OP_REDUCE_SCATTER, DT_OP_ALL_REDUCE,
                                     DT_OP_ALL_TO_ALL, DT_OP_SHARD};
    int runs[DT_COUNT(kinds)] = {0};
    DtArena *arena = dt_arena_new();
    DtFunc *func = read_function(arena, "arg %x : f32[a=12, b=12]", "= stop(%x) : f32[a=12, b=12]");
    Case c = {.arena = arena, .module = func->module};
    const Types types = all_types(func->inputs.at[0]->type);
    c.in[0] = c.want[0] = random_tensor(arena, func->inputs.at[0]->type);
    for (uint32_t i = from; i < types.n; i += step)
        for (uint32_t k = 0; k < types.n; k++)
            for (uint16_t mesh = 1; mesh < 4; mesh++)
                for (size_t kind = 0; kind < DT_COUNT(kinds); kind++)
                    runs[kind] += run_collective(&c, kinds[kind], types.at[i], types.at[k], mesh);
    for (size_t kind = 0; kind < DT_COUNT(kinds); kind++)
        cr_expect(runs[kind] > 5, "%s: %d", dt_op_info[kinds[kind]].text, runs[kind]);
    dt_arena_free(arena);
}

Test(ranks, collectives_even) { check_collectives(0, 2); }
Test(ranks, collectives_odd) { check_collectives(1, 2); }

/* ---- structure ---- */

static DtModule *read_module(DtArena *arena, const char *text)
{
    DtDiags *diags = dt_diag_new(arena);
    DtModule *module = dt_irtext_read(arena, diags, text, strlen(text));
    if (!module)
        dt_diag_print(diags, stderr, false);
    cr_assert(module != NULL);
    return module;
}

static const char serial_loop[] =
    "func body : body { arg %n : i32[] arg %x : f32[a=12] arg %s : f32[] arg %w : f32[a=12]\n"
    "  %r = rng() : f32[a=12] draws=1 text=dropout#0\n"
    "  %y = mul(%x, %r) : f32[a=12]\n"
    "  %z = add(%y, %w) : f32[a=12]\n"
    "  %q = reduce[a](%z) : f32[]\n"
    "  %t = add(%s, %q) : f32[]\n"
    "  return %z, %t, %y }\n"
    "func main : fn { arg %x : f32[a=12] arg %w : f32[l=3, a=12]\n"
    "  %c = const() : f32[]\n"
    "  %o, %s, %y = loop(%x, %c, %w) : f32[a=12], f32[], f32[l=3, a=12] func=body "
    "loop(label=h axis=l count=3 carried=2 stacked=1 stacked_out=1)\n"
    "  return %o, %s, %y }\n";

static const char placed_loop[] =
    "mesh t=2 time, m=3\n"
    "func body : body { arg %n : i32[] arg %x : f32[a=12/t.m] arg %s : f32[]{sum t m}\n"
    "  arg %w : f32[a=12/t.m]\n"
    "  %r = rng() : f32[a=12/t.m] draws=1 text=dropout#0\n"
    "  %y = mul(%x, %r) : f32[a=12/t.m]\n"
    "  %z = add(%y, %w) : f32[a=12/t.m]\n"
    "  %q = reduce[a](%z) : f32[]{sum t m}\n"
    "  %t = add(%s, %q) : f32[]{sum t m}\n"
    "  return %z, %t, %y }\n"
    "func main : fn { arg %x : f32[a=12/t.m] arg %w : f32[l=3, a=12/t.m]\n"
    "  %c = const() : f32[]\n"
    "  %k = iota[t]() : i32[t=6/t.m]\n"
    "  %e = cast(%k) : f32[t=6/t.m]\n"
    "  %f = mul(%e, %c) : f32[t=6/t.m]\n"
    "  %g = reduce[t](%f) : f32[]{sum t m}\n"
    "  %o, %s, %y = loop(%x, %g, %w) : f32[a=12/t.m], f32[]{sum t m}, f32[l=3, a=12/t.m] func=body "
    "loop(label=h axis=l count=3 carried=2 stacked=1 stacked_out=1)\n"
    "  return %o, %s, %y }\n";

/* Iterations, random draws and pending carried values, if an axis is split over time as well as
 * ranks. */
Test(ranks, loop)
{
    DtArena *arena = dt_arena_new();
    DtModule *serial = read_module(arena, serial_loop), *module = read_module(arena, placed_loop);
    const DtFunc *func = dt_graph_find(serial, "main"), *other = dt_graph_find(module, "main");
    const uint32_t n = dt_ranks_count(&module->mesh);
    DtTensor *in[2], *want[3], *parts[2 * 6], *made[3 * 6];
    for (uint32_t i = 0; i < 2; i++) {
        in[i] = random_tensor(arena, func->inputs.at[i]->type);
        for (uint32_t rank = 0; rank < n; rank++)
            parts[i * n + rank] =
                dt_ranks_slice(arena, in[i], other->inputs.at[i]->type, &module->mesh, rank);
    }
    DtInterp interp = {.arena = arena, .seed = 3, .step = 2, .path = ""};
    DtRanks ranks = {.arena = arena, .seed = 3, .step = 2, .mesh = &module->mesh};
    dt_interp_run(&interp, func, in, want);
    dt_ranks_run(&ranks, other, parts, made);
    cr_assert(ranks.differs.value == NULL);
    for (uint32_t i = 0; i < 3; i++) {
        const DtTensor *got =
            dt_ranks_join(arena, made + i * n, other->results.at[i]->type, &module->mesh);
        for (int64_t k = 0; k < dt_type_elements(got->type); k++)
            cr_expect(close_to(got->at[k], want[i]->at[k]), "result %u, element %lld", i,
                      (long long)k);
    }
    dt_arena_free(arena);
}

/* ---- the judge itself ---- */

/* Placements that no rule accepts: the test must notice that the ranks compute something else. */
static const struct {
    const char *args, *line;
} wrong[] = {
    {"arg %x : f32[a=6]{sum m}", "= exp(%x) : f32[a=6]{sum m}"},
    {"arg %x : f32[a=6]{sum m}", "= stop(%x) : f32[a=6]"}, /* a reduction forgotten */
    {"arg %x : f32[a=6]{sum m}", "= mul(%x, %x) : f32[a=6]{sum m}"},
    {"arg %x : f32[a=6]{sum m} arg %y : f32[a=6]", "= add(%x, %y) : f32[a=6]{sum m}"},
    {"arg %x : f32[a=6/m]", "= reduce[a](%x) : f32[]"},
    {"arg %x : f32[a=6/m]", "= reduce[a](%x) : f32[]{sum n}"},
    {"arg %x : f32[a=6/m]", "= scan[a](%x) : f32[a=6/m]"},
    {"arg %x : f32[a=6]{sum m n}", "= all_reduce(%x) : f32[a=6] mesh={m}"}, /* a group too small */
    {"arg %x : f32[a=6/m, b=6]", "= relabel(%x) : f32[c=36/m] relabel(b, a -> c=36)"},
};

static const DtType *without_splits(const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        axes[i] = (DtAxis){.name = type->axes[i].name, .extent = type->axes[i].extent};
    return dt_type_plain(type->dtype, type->rank, axes);
}

/* Evaluates the same op on whole tensors. */
static DtTensor *evaluate_whole(DtArena *arena, const DtFunc *func, DtTensor *const *in)
{
    DtInterp interp = {.arena = arena, .path = "", .func = func};
    DtOp op = *func->ops.at[0];
    DtValue result = *op.out[0], *out = &result;
    DtTensor *operands[2], *made;
    if (dt_op_info[op.kind].op_class == DT_CLASS_COMM)
        return in[0];
    for (uint32_t i = 0; i < op.n_in; i++)
        operands[i] = in[op.in[i]->index];
    result.type = without_splits(result.type);
    op.out = &out;
    dt_interp_op(&interp, &op, operands, &made);
    return made;
}

Test(ranks, wrong_placements_are_seen)
{
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        DtArena *arena = dt_arena_new();
        Case c = {.arena = arena};
        DtText text = {0};
        dt_text_printf(&text, "%sfunc f : fn {\n%s\n%%z %s\nreturn %%z\n}\n", mesh_text,
                       wrong[i].args, wrong[i].line);
        c.module = dt_irtext_parse(arena, dt_diag_new(arena), text.at, text.len);
        cr_assert(c.module != NULL, "%s", text.at);
        const DtFunc *func = c.module->funcs.at[0];
        DtTensor *parts[2 * 6], *made[6], *in[2];
        for (uint32_t k = 0; k < func->inputs.n; k++) {
            in[k] = random_tensor(arena, without_splits(func->inputs.at[k]->type));
            random_parts(&c, in[k], func->inputs.at[k]->type, parts + k * 6);
        }
        DtRanks ranks = {.arena = arena, .mesh = &c.module->mesh};
        dt_ranks_run(&ranks, func, parts, made);
        const DtTensor *got =
            dt_ranks_join(arena, made, func->results.at[0]->type, &c.module->mesh);
        const DtTensor *want = evaluate_whole(arena, func, in);
        bool same = ranks.differs.value == NULL;
        for (int64_t k = 0; k < dt_type_elements(got->type); k++)
            same = same && close_to(got->at[k], want->at[k]);
        cr_expect(!same, "not seen: %s", wrong[i].line);
        dt_text_free(&text);
        dt_arena_free(arena);
    }
}
