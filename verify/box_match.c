/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two programs that may differ in boxes. Functions are walked together, op by op: each
 * op of the final program is an op of the placed program with the same operands, or a call that
 * does what an op of the placed program does. In a box one side is that op, with the positions
 * and constants that make its operands, and the other side is the call. Ops of the placed
 * program that become unused are left out. */
#include "verify/box_internal.h"

#include <stdarg.h>

enum { MOST_SKIPPED = 1024, MOST_CONE = 512, MOST_TRIED = 4 };

typedef struct Pair {
    const CertFunc *placed, *final;
} Pair;

typedef struct Match {
    DtArena *arena, *scratch; /* scratch: for the two functions of the comparison in progress */
    CertProgram placed, final;
    DtBoxes *boxes;
    DtText *problem;
    const char *ring, *why; /* as in DtBoxCounts: the first difference in a ring call */
    DT_VEC(Pair) done;
    uint32_t depth;
} Match;

/* By value of a function: its number in the function being built. The number is valid only if
 * `turn` equals Numbers.turn, which grows with each function that is built. */
typedef struct Number {
    uint32_t turn, number;
} Number;
typedef struct Numbers {
    uint32_t turn;
    Number *of;
} Numbers;

/* Two functions that are walked together. */
typedef struct Frame {
    Match *m;
    const CertFunc *placed, *final;
    const CertOp **makes; /* by value of placed: the op that makes it; NULL: an argument */
    uint32_t *means;      /* by value of final: the number of the value of placed that it equals */
    const bool *positional; /* by value of placed: see find_positional; NULL: not computed yet */
    uint32_t at;          /* ops of placed before this one were matched or left out */
    /* for the functions built for both sides of a comparison; `of` is NULL before the first one */
    Numbers numbers[2];
} Frame;

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

static bool fail(Match *m, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool fail(Match *m, const CertOp *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!m->problem->len) {
        dt_text_vprintf(m->problem, format, args);
        if (op)
            dt_text_printf(m->problem, ": `%.*s`", (int)strcspn(op->at, "\n"), op->at);
    }
    va_end(args);
    return false;
}

/* ---- the rest of the texts ---- */

/* The next line that is not in a function and is no comment; NULL at the end. */
static const char *next_line(const char **text, size_t *ret_len)
{
    while (**text) {
        const char *line = *text, *end = strchr(line, '\n');
        *ret_len = end ? (size_t)(end - line) : strlen(line);
        *text = end ? end + 1 : line + *ret_len;
        if (strncmp(line, "func ", 5) == 0) {
            const char *close = line[*ret_len - 1] == '{' ? strstr(line, "\n}") : NULL;
            *text = close ? close + 2 + strcspn(close + 2, "\n") : *text;
            *text += **text == '\n';
        } else if (*ret_len && line[0] != '#') {
            return line;
        }
    }
    return NULL;
}

static bool same_rest(Match *m)
{
    const char *a = m->placed.text, *b = m->final.text;
    for (;;) {
        size_t n_a, n_b;
        const char *x = next_line(&a, &n_a), *y = next_line(&b, &n_b);
        if (!x && !y)
            return true;
        if (!x || !y || n_a != n_b || memcmp(x, y, n_a) != 0)
            return fail(m, NULL, "the program behind `expand` has another line `%.*s`",
                        (int)(y ? n_b : n_a), y ? y : x);
    }
}

/* ---- equal ops ---- */

static bool same_names(uint32_t n, const char *const *a, uint32_t n_b, const char *const *b)
{
    return n == n_b && memcmp(a, b, n * sizeof *a) == 0;
}

static bool same_loop(const CertLoop *a, const CertLoop *b)
{
    if (!a || !b)
        return a == b;
    return a->label == b->label && a->axis == b->axis && a->count == b->count &&
           a->first == b->first && a->carried == b->carried && a->invariant == b->invariant &&
           a->stacked == b->stacked && a->stacked_out == b->stacked_out && a->step == b->step &&
           a->reverse == b->reverse;
}

static bool same_results(const CertOp *a, const CertOp *b)
{
    bool same = a->n_out == b->n_out;
    for (uint32_t i = 0; same && i < a->n_out; i++)
        same = dt_boxsmall_same_type(a->types[i], b->types[i]);
    return same;
}

static bool same_number(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Whether two ops have equal kinds, attributes, axes and types; the functions that they call may
 * differ. */
static bool same_op(const Frame *f, const CertOp *placed, const CertOp *final)
{
    bool same = is(placed->kind, final->kind) && placed->attributes == final->attributes &&
                placed->text == final->text && placed->path == final->path &&
                placed->store == final->store && placed->ahead == final->ahead &&
                placed->mesh == final->mesh && dt_stages_same(placed->stages, final->stages) &&
                placed->reduce == final->reduce && !placed->func == !final->func &&
                placed->n_in == final->n_in && same_number(placed->number, final->number) &&
                same_loop(placed->loop, final->loop) &&
                same_names(placed->n_axes, placed->axes, final->n_axes, final->axes) &&
                same_names(placed->n_axes2, placed->axes2, final->n_axes2, final->axes2);
    for (uint32_t i = 0; same && i < final->n_in; i++)
        same = f->means[final->in[i]] == placed->in[i];
    return same && same_results(placed, final);
}

/* ---- boxes ---- */

/* A function that is built from one op of the placed program, or from the call in the final
 * program, together with the maps, positions and constants that compute its operands. */
typedef struct Cone {
    const Frame *f;
    CertFunc *func;
    Numbers *numbers;
    uint32_t steps; /* steps so far from a value to its operands */
} Cone;

static bool has_number(const Cone *c, uint32_t value)
{
    return c->numbers->of[value].turn == c->numbers->turn;
}

static void set_number(Cone *c, uint32_t value, uint32_t number)
{
    c->numbers->of[value].turn = c->numbers->turn;
    c->numbers->of[value].number = number;
}

static bool is_source(const CertOp *op) { return is(op->kind, "const") || is(op->kind, "iota"); }

static bool is_map(const CertOp *op)
{
    return op->rule && op->rule->map && op->n_out == 1 && op->store < 0 && !op->func && !op->mesh;
}

/* Returns, by value of the placed function, whether it is computed from positions and constants
 * alone. */
static bool *find_positional(const Frame *f)
{
    bool *positional = DT_NEW_ARRAY(f->m->arena, bool, f->placed->n_values + 1);
    for (uint32_t i = 0; i < f->placed->ops.n; i++) {
        const CertOp *op = f->placed->ops.at[i];
        bool all = is_source(op) || is_map(op);
        for (uint32_t k = 0; all && k < op->n_in; k++)
            all = positional[op->in[k]];
        for (uint32_t k = 0; all && k < op->n_out; k++)
            positional[op->first_out + k] = true;
    }
    return positional;
}

/* Adds a copy of op with these operands; returns the number of its first result. */
static uint32_t add_op(Cone *c, const CertOp *op, uint32_t n_in, uint32_t *in)
{
    DtArena *arena = c->f->m->scratch;
    CertOp *copy = DT_NEW(arena, CertOp);
    *copy = *op;
    copy->in = in;
    copy->n_in = n_in;
    copy->first_out = c->func->n_values;
    c->func->n_values += op->n_out;
    c->func->most_in = c->func->most_in > n_in ? c->func->most_in : n_in;
    DT_PUSH(arena, c->func->ops, copy);
    return copy->first_out;
}

/* Adds a value, and the maps that compute it, to the function being built; *ret_number becomes its
 * number there. False: it depends on an op that is no map, and is no argument. */
static bool add_value(Cone *c, uint32_t value, uint32_t *ret_number)
{
    const CertOp *op = c->f->makes[value];
    if (!has_number(c, value)) {
        if (!op || !(is_source(op) || is_map(op)) || c->steps++ >= MOST_CONE)
            return false;
        uint32_t *in = DT_NEW_ARRAY(c->f->m->scratch, uint32_t, op->n_in + 1);
        for (uint32_t i = 0; i < op->n_in; i++)
            if (!add_value(c, op->in[i], &in[i]))
                return false;
        set_number(c, value, add_op(c, op, op->n_in, in));
    }
    *ret_number = c->numbers->of[value].number;
    return true;
}

/* Whether add_value would succeed; left: how many values may still be visited. */
static bool can_be_made(const Cone *c, uint32_t value, uint32_t *left)
{
    const CertOp *op = c->f->makes[value];
    if (has_number(c, value))
        return true;
    if (!op || !(is_source(op) || is_map(op)) || !*left)
        return false;
    --*left;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!can_be_made(c, op->in[i], left))
            return false;
    return true;
}

static void add_arg(Cone *c, uint32_t value)
{
    const CertOp *made = c->f->makes[value];
    const CertType *type =
        made ? made->types[value - made->first_out] : c->f->placed->args.at[value];
    set_number(c, value, c->func->n_values++);
    DT_PUSH(c->f->m->scratch, c->func->args, type);
}

/* Begins a function whose arguments are the call's operands. Operands of op that cannot be computed
 * from those by maps become further arguments, on which the results must not depend. */
static Cone begin_cone(const Frame *f, Numbers *numbers, const CertOp *op, const CertOp *call,
                       const bool *positional)
{
    DtArena *arena = f->m->scratch;
    Cone c = {.f = f, .func = DT_NEW(arena, CertFunc), .numbers = numbers};
    if (!numbers->of)
        numbers->of = DT_NEW_ARRAY(f->m->arena, Number, f->placed->n_values + 1);
    numbers->turn++;
    for (uint32_t i = 0; i < call->n_in; i++) {
        const uint32_t value = f->means[call->in[i]];
        if (!has_number(&c, value) && !positional[value])
            add_arg(&c, value);
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t left = MOST_CONE;
        if (!can_be_made(&c, op->in[i], &left))
            add_arg(&c, op->in[i]);
    }
    c.func->n_args = c.func->n_values;
    return c;
}

/* Appends op with these operands and returns its results from the function. False: an operand
 * cannot be computed from the arguments. */
static bool end_cone(Cone *c, const CertOp *op, const uint32_t *values)
{
    DtArena *arena = c->f->m->scratch;
    uint32_t *in = DT_NEW_ARRAY(arena, uint32_t, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!add_value(c, values[i], &in[i]))
            return false;
    const uint32_t first = add_op(c, op, op->n_in, in);
    for (uint32_t i = 0; i < op->n_out; i++)
        DT_PUSH(arena, c->func->results, first + i);
    return true;
}

/* Whether the call computes the same as op. If not, the problem says why; it stays empty if one of
 * the two cannot be written as a function of the same arguments. */
static bool is_box(Frame *f, const CertOp *op, const CertOp *call, const bool *positional)
{
    Match *m = f->m;
    dt_arena_reset(m->scratch);
    Cone a = begin_cone(f, &f->numbers[0], op, call, positional);
    Cone b = begin_cone(f, &f->numbers[1], op, call, positional);
    uint32_t *values = DT_NEW_ARRAY(m->scratch, uint32_t, call->n_in + 1);
    for (uint32_t i = 0; i < call->n_in; i++)
        values[i] = f->means[call->in[i]];
    if (!end_cone(&a, op, op->in) || !end_cone(&b, call, values))
        return false;
    return dt_box_equal(m->boxes, &m->placed, a.func, &m->final, b.func,
                        op->func && op->n_axes ? DT_BOX_PARTS : DT_BOX_ALIKE, m->problem);
}

/* ---- functions ---- */

static void note(Frame *f, uint32_t number, const CertOp *final)
{
    const CertOp *placed = f->placed->ops.at[number];
    for (uint32_t i = 0; i < final->n_out; i++)
        f->means[final->first_out + i] = placed->first_out + i;
    f->at = number + 1;
}

static bool match_funcs(Match *m, const CertFunc *placed, const CertFunc *final);

/* Whether the op is a ring call (only these have axes) of a streaming function; false for loops. */
static bool is_stream(const Frame *f, const CertOp *op)
{
    const CertFunc *func = op->n_axes ? dt_certtext_func(&f->m->placed, op->func) : NULL;
    return func && !(func->ops.n == 1 && func->ops.at[0]->loop);
}

static bool match_call(Frame *f, const CertOp *call)
{
    const bool *positional = f->positional = f->positional ? f->positional : find_positional(f);
    DtText said = {0};
    uint32_t tried = 0;
    for (uint32_t i = f->at; i < f->placed->ops.n && i - f->at < MOST_SKIPPED && tried < MOST_TRIED;
         i++) {
        const CertOp *op = f->placed->ops.at[i];
        if (!same_results(op, call) || op->n_out == 0 || op->loop)
            continue;
        if (is_box(f, op, call, positional)) {
            dt_text_free(&said);
            f->m->ring = NULL;
            note(f, i, call);
            return true;
        }
        if (!f->m->problem->len)
            continue;
        tried++;
        if (!said.len) {
            f->m->ring = is_stream(f, op) ? op->func : NULL;
            f->m->why = dt_arena_strndup(f->m->arena, f->m->problem->at, f->m->problem->len);
            dt_text_printf(&said, "`%s` does not do what is meant by `%.*s`: %s", call->func,
                           (int)strcspn(op->at, "\n"), op->at, f->m->problem->at);
        }
        f->m->problem->len = 0;
    }
    fail(f->m, said.len ? NULL : call, "%s", said.len ? said.at : "a call that stands for nothing");
    dt_text_free(&said);
    return false;
}

static bool match_op(Frame *f, const CertOp *final)
{
    for (uint32_t i = f->at; i < f->placed->ops.n && i - f->at < MOST_SKIPPED; i++) {
        const CertOp *placed = f->placed->ops.at[i];
        if (!same_op(f, placed, final))
            continue;
        if (final->func && !match_funcs(f->m, dt_certtext_func(&f->m->placed, placed->func),
                                        dt_certtext_func(&f->m->final, final->func)))
            return false;
        note(f, i, final);
        return true;
    }
    return is(final->kind, "call") && !final->n_axes && !final->mesh
               ? match_call(f, final)
               : fail(f->m, final, "the program before `expand` has no such op");
}

static bool match_ops(Match *m, const CertFunc *placed, const CertFunc *final)
{
    Frame f = {.m = m, .placed = placed, .final = final};
    f.makes = DT_NEW_ARRAY(m->arena, const CertOp *, placed->n_values + 1);
    f.means = DT_NEW_ARRAY(m->arena, uint32_t, final->n_values + 1);
    bool same = placed->n_args == final->n_args && placed->results.n == final->results.n;
    for (uint32_t i = 0; same && i < final->n_args; i++) {
        f.means[i] = i;
        same = dt_boxsmall_same_type(placed->args.at[i], final->args.at[i]);
    }
    if (!same)
        return fail(m, NULL, "function `%s` takes or leaves something else than before `expand`",
                    final->name);
    for (uint32_t i = 0; i < placed->ops.n; i++)
        for (uint32_t k = 0; k < placed->ops.at[i]->n_out; k++)
            f.makes[placed->ops.at[i]->first_out + k] = placed->ops.at[i];
    for (uint32_t i = 0; i < final->ops.n; i++)
        if (!match_op(&f, final->ops.at[i]))
            return false;
    for (uint32_t i = 0; i < final->results.n; i++)
        if (f.means[final->results.at[i]] != placed->results.at[i])
            return fail(m, NULL, "function `%s` leaves another value than before `expand`",
                        final->name);
    return true;
}

static bool match_funcs(Match *m, const CertFunc *placed, const CertFunc *final)
{
    if (!placed || !final || m->depth == CERT_DEPTH)
        return fail(m, NULL, "a function that is missing, or calls itself");
    const Pair pair = {placed->same, final->same};
    for (uint32_t i = 0; i < m->done.n; i++)
        if (m->done.at[i].placed == pair.placed && m->done.at[i].final == pair.final)
            return true;
    m->depth++;
    const bool same = match_ops(m, placed, final);
    m->depth--;
    if (same)
        DT_PUSH(m->arena, m->done, pair);
    return same;
}

bool dt_box_prove(DtArena *arena, const char *placed, const char *final, DtBoxCounts *ret_counts,
                  DtText *ret_problem)
{
    Match *m = DT_NEW(arena, Match);
    *ret_counts = (DtBoxCounts){0};
    if (strcmp(placed, final) == 0)
        return true;
    *m = (Match){.arena = arena, .problem = ret_problem};
    if (!dt_certtext_read(arena, placed, &m->placed, ret_problem) ||
        !dt_certtext_read(arena, final, &m->final, ret_problem) || !same_rest(m))
        return false;
    m->scratch = dt_arena_child(arena);
    m->boxes = dt_box_begin(arena);
    bool same = m->placed.entries.n == m->final.entries.n;
    for (uint32_t i = 0; same && i < m->final.entries.n; i++)
        same = match_funcs(m, m->placed.entries.at[i].func, m->final.entries.at[i].func);
    *ret_counts = dt_box_counts(m->boxes);
    ret_counts->ring = same ? NULL : m->ring;
    ret_counts->why = m->why;
    dt_box_end(m->boxes);
    dt_arena_free(m->scratch);
    return same || fail(m, NULL, "other entries than before `expand`");
}
