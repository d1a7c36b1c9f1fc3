/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: draws of operands, and the comparison of what two functions make of them. */
#include "verify/box_internal.h"

#include "base/hash.h"
#include "base/intern.h"

#include <stdarg.h>
#include <stdlib.h>

enum { LEAST_DRAWS = 3, MORE_TRIES = 6, MOST_DRAWS = 400, MOST_RESULTS = 64, INTEGERS = 160 };
#define MOST_ELEMENTS (INT64_C(1) << 24)

struct DtBoxes {
    DtArena *arena;
    DtResidues r;
    DT_VEC(const char *) proved; /* interned texts of both functions */
    DtBoxCounts counts;
};

DtBoxes *dt_box_begin(DtArena *arena)
{
    DtBoxes *boxes = DT_NEW(arena, DtBoxes);
    boxes->arena = arena;
    return boxes;
}

DtBoxCounts dt_box_counts(const DtBoxes *boxes) { return boxes->counts; }

bool dt_box_fail(Box *b, const CertOp *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!b->problem->len) {
        dt_text_vprintf(b->problem, format, args);
        if (op)
            dt_text_printf(b->problem, ": `%.*s`", (int)strcspn(op->at, "\n"), op->at);
    }
    va_end(args);
    return false;
}

/* ---- what was proved before ---- */

typedef struct Writer {
    DtText text;
    DtArena *arena;
    DT_VEC(const CertFunc *) funcs; /* of one program */
} Writer;

static void write_type(Writer *w, const CertType *type)
{
    dt_text_add(&w->text, type->dtype);
    for (uint32_t d = 0; d < type->rank; d++) {
        const CertAxis *axis = &type->axes[d];
        dt_text_add(&w->text, " \"");
        dt_text_add(&w->text, axis->name);
        dt_text_add(&w->text, "\"");
        dt_text_integer(&w->text, axis->extent);
        dt_text_add(&w->text, ",");
        dt_text_integer(&w->text, axis->logical);
        for (uint32_t s = 0; s < axis->n; s++) {
            dt_text_add(&w->text, "/");
            dt_text_integer(&w->text, axis->split[s]);
        }
        dt_text_add(&w->text, axis->zigzag ? "~" : "");
    }
    if (type->partial) {
        dt_text_add(&w->text, type->pending);
        dt_text_integer(&w->text, type->partial);
    }
    dt_text_add(&w->text, ";");
}

/* The number of a function that is to be written, too. */
static void write_func_number(Writer *w, const CertFunc *func)
{
    uint32_t i = 0;
    while (i < w->funcs.n && w->funcs.at[i] != func)
        i++;
    if (i == w->funcs.n)
        DT_PUSH(w->arena, w->funcs, func);
    dt_text_add(&w->text, " func");
    dt_text_integer(&w->text, i);
}

static void write_op(Writer *w, const CertProgram *program, const CertOp *op)
{
    const CertFunc *func = op->func ? dt_certtext_func(program, op->func) : NULL;
    const bool named = op->text && (op->func || dt_cert_is(op->kind, "rng")); /* sites of random numbers */
    dt_text_add(&w->text, op->kind);
    dt_text_add(&w->text, op->attributes);
    for (uint32_t i = 0; i < op->n_in; i++) {
        dt_text_add(&w->text, " %");
        dt_text_integer(&w->text, op->in[i]);
    }
    dt_text_add(&w->text, " mesh");
    dt_text_integer(&w->text, op->mesh);
    if (named)
        dt_text_printf(&w->text, " text\"%s\"", op->text);
    if (func)
        write_func_number(w, func);
    if (op->loop)
        dt_text_printf(&w->text, " loop\"%s\"%lld,%lld,%lld,%lld,%d", op->loop->label, (long long)op->loop->count,
                       (long long)op->loop->first, (long long)op->loop->carried, (long long)op->loop->invariant,
                       op->loop->reverse);
    for (uint32_t i = 0; i < op->n_out; i++)
        write_type(w, op->types[i]);
    dt_text_add(&w->text, "\n");
}

static void write_func(Writer *w, const CertProgram *program, const CertFunc *func)
{
    w->funcs.n = 0;
    DT_PUSH(w->arena, w->funcs, func);
    for (uint32_t i = 0; i < w->funcs.n; i++) {
        const CertFunc *f = w->funcs.at[i];
        dt_text_add(&w->text, "func\n");
        for (uint32_t k = 0; k < f->n_args; k++)
            write_type(w, f->args.at[k]);
        for (uint32_t k = 0; k < f->ops.n; k++)
            write_op(w, program, f->ops.at[k]);
        for (uint32_t k = 0; k < f->results.n; k++) {
            dt_text_add(&w->text, " %");
            dt_text_integer(&w->text, f->results.at[k]);
        }
    }
    dt_text_add(&w->text, "\nend\n");
}

/* Both functions without names of values and functions, and without spans: equal ones do the same. */
static const char *written(DtBoxes *boxes, const CertProgram *a, const CertFunc *x, const CertProgram *b,
                           const CertFunc *y)
{
    Writer w = {.arena = boxes->arena};
    write_func(&w, a, x);
    write_func(&w, b, y);
    const char *text = dt_intern_n(w.text.at, w.text.len);
    dt_text_free(&w.text);
    return text;
}

/* ---- draws ---- */

typedef struct Draw {
    Box *b;
    uint64_t seed;
    uint32_t number;
    int64_t integers[INTEGERS];
    uint32_t n_integers;
} Draw;

static void add_integer(Draw *d, int64_t x)
{
    if (d->n_integers < INTEGERS)
        d->integers[d->n_integers++] = x;
}

/* Positions that are looked at, of which each rank has both ends of its blocks; then what is outside of all axes, and
 * what the program compares with. */
static void collect_integers(Draw *d)
{
    const Box *b = d->b;
    for (uint32_t i = 0; i < b->n_lenses; i++) {
        const BoxLens *lens = &b->lenses[i];
        const int64_t n = lens->of == i && lens->position && lens->k ? lens->longest / lens->unit * lens->k : 0;
        for (int64_t k = 0; k < n && d->n_integers < INTEGERS / 2; k++)
            add_integer(d, dt_boxsmall_true(lens, n <= INTEGERS / 2 ? k : k * n / (INTEGERS / 2)));
    }
    for (int64_t k = -1; k < 8; k++)
        add_integer(d, k);
    add_integer(d, INT32_MIN);
    add_integer(d, INT32_MAX);
    for (uint32_t i = 0; i < b->n_lenses; i++)
        if (b->lenses[i].of == i && b->lenses[i].position) {
            add_integer(d, b->lenses[i].longest);
            add_integer(d, b->lenses[i].longest + 1);
            add_integer(d, -b->lenses[i].longest);
        }
    for (uint32_t i = 0; i < b->n_constants; i++)
        for (int64_t k = -1; k <= 1; k++)
            add_integer(d, b->constants[i] + k);
}

/* Some lines of a mask hide all, others nothing. */
static bool draw_bool(const Draw *d, const BoxShape *shape, uint64_t seed, uint64_t hash, const int64_t *at)
{
    for (uint32_t a = 0; a < shape->rank; a++) {
        uint64_t line = dt_residue_mix(seed, a);
        for (uint32_t k = 0; k < shape->rank; k++)
            line = k == a ? line : dt_residue_mix(line, (uint64_t)at[k]);
        if (line % 8 < 2)
            return line % 8 == 1;
    }
    return hash % (2 + d->number % 3) != 0;
}

static uint64_t whole_elements(const BoxShape *shape)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < shape->rank; k++)
        n *= (uint64_t)shape->axes[k].extent;
    return n;
}

static DtResidue draw_one(const Draw *d, const BoxShape *shape, uint64_t seed, const int64_t *at)
{
    uint64_t hash = seed;
    for (uint32_t k = 0; k < shape->rank; k++)
        hash = dt_residue_mix(hash, (uint64_t)at[k]);
    if (shape->is_bool)
        return dt_residue_whole(draw_bool(d, shape, seed, hash, at));
    if (!shape->is_float) { /* one after the other: in all draws, each of them */
        uint64_t linear = 0;
        for (uint32_t k = 0; k < shape->rank; k++)
            linear = linear * (uint64_t)shape->axes[k].extent + (uint64_t)at[k];
        return dt_residue_whole(d->integers[(linear + d->number * (whole_elements(shape) + 1)) % d->n_integers]);
    }
    /* equal numbers, too */
    return dt_residue_random(d->b->r, d->number % 2 && hash % 2 ? dt_residue_mix(seed, hash >> 8 & 3) : hash);
}

/* Argument number i: equal on ranks that hold the same of it. */
static bool draw_argument(const Draw *d, uint32_t i, BoxTensor *x)
{
    const Box *b = d->b;
    const BoxShape *shape = x->shape;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        uint64_t seed = dt_residue_mix(dt_residue_mix(b->r->hash, d->seed), i);
        for (uint32_t m = 0; m < b->n_mesh; m++)
            if (shape->partial >> m & 1)
                seed = dt_residue_mix(seed, (uint64_t)dt_boxsmall_coordinate(b, rank, m));
        for (int64_t k = 0; k < shape->n; k++) {
            int64_t at[CERT_RANK] = {0};
            for (uint32_t a = 0; a < shape->rank; a++)
                at[a] = dt_boxsmall_global(b, &shape->axes[a], rank, k / shape->stride[a] % shape->axes[a].local);
            x->at[rank * shape->n + k] = draw_one(d, shape, seed, at);
        }
    }
    return true;
}

/* ---- comparison ---- */

typedef enum Verdict { EQUAL, AGAIN, DIFFERENT } Verdict;

typedef struct Seen {
    bool *at[MOST_RESULTS]; /* by element: it was compared */
    int64_t n[MOST_RESULTS];
} Seen;

/* The sum that is pending over the mesh axes of the shape: over all ranks that differ in these. */
static DtResidue completed(const Box *b, const BoxTensor *x, uint32_t rank, int64_t k)
{
    DtResidue sum = x->at[rank * x->shape->n + k];
    const BoxReduce reduction = dt_boxrun_reduction(x->shape->type->pending);
    for (uint32_t other = 0; x->shape->partial && other < b->ranks; other++)
        if (other != rank && dt_boxsmall_together(b, x->shape->partial, rank, other))
            sum = dt_boxrun_combine(b, reduction, x->shape, sum, x->at[other * x->shape->n + k]);
    return sum;
}

static Verdict compare_one(const BoxShape *shape, DtResidue x, DtResidue y, bool *seen)
{
    const bool odd_x = x.q == DT_RESIDUE_NONE, odd_y = y.q == DT_RESIDUE_NONE; /* of an integer: it is none */
    const bool whole = !shape->is_float && (!odd_x || !odd_y);
    if ((x.p == DT_RESIDUE_UNDEFINED && (shape->is_float || odd_x)) ||
        (y.p == DT_RESIDUE_UNDEFINED && (shape->is_float || odd_y)))
        return AGAIN;
    const bool same = shape->is_float ? dt_residue_same(x, y) : x.p == y.p && x.q == y.q;
    *seen = *seen || whole || x.p < DT_RESIDUE_ABSENT;
    return same ? EQUAL : DIFFERENT;
}

static Verdict compare(Box *b, uint32_t result, const BoxTensor *x, const BoxTensor *y, Seen *seen)
{
    const BoxShape *shape = x->shape;
    Verdict worst = EQUAL;
    if (!dt_boxrun_same_type(shape->type, y->shape->type)) {
        dt_box_fail(b, NULL, "result %u is of another type", result);
        return DIFFERENT;
    }
    if (!seen->at[result])
        seen->at[result] = DT_NEW_ARRAY(b->arena, bool, shape->n * b->ranks);
    seen->n[result] = shape->n * b->ranks;
    for (uint32_t rank = 0; rank < b->ranks; rank++)
        for (int64_t k = 0; k < shape->n; k++) {
            const Verdict one = compare_one(shape, completed(b, x, rank, k), completed(b, y, rank, k),
                                            &seen->at[result][rank * shape->n + k]);
            if (one == DIFFERENT)
                dt_box_fail(b, NULL, "result %u is another one on rank %u", result, rank);
            worst = one > worst ? one : worst;
        }
    return worst;
}

/* ---- both functions ---- */

typedef struct Side {
    const CertProgram *program;
    const CertFunc *func;
} Side;

/* How constants lie among other numbers in this draw: all ways, and one of them twice as often. */
static uint32_t order_of(const DtResidues *r, uint32_t draw)
{
    const uint32_t k = draw % (r->n_known + 3);
    return k < 2 ? r->n_known + 1 : k - 2;
}

static Verdict compare_draw(Box *b, const Side *sides, Draw *d, Seen *seen)
{
    const uint32_t n_args = sides[0].func->n_args, n_results = sides[0].func->results.n;
    BoxTensor **args = DT_NEW_ARRAY(b->scratch, BoxTensor *, n_args + 1), *results[2][MOST_RESULTS];
    Verdict worst = EQUAL;
    dt_residue_draw(b->r, d->seed, order_of(b->r, d->number));
    for (uint32_t i = 0; i < n_args; i++) {
        args[i] = dt_boxsmall_tensor(b, sides[0].func->args.at[i]);
        if (!args[i])
            return DIFFERENT;
        draw_argument(d, i, args[i]);
    }
    for (int k = 0; k < 2; k++)
        if (!dt_boxrun_func(b, sides[k].program, sides[k].func, args, results[k]))
            return DIFFERENT;
    for (uint32_t i = 0; i < n_results; i++) {
        const Verdict one = compare(b, i, results[0][i], results[1][i], seen);
        worst = one > worst ? one : worst;
    }
    return worst;
}

static bool all_seen(Box *b, const Seen *seen, uint32_t n_results)
{
    for (uint32_t i = 0; i < n_results; i++)
        for (int64_t k = 0; k < seen->n[i]; k++)
            if (!seen->at[i][k])
                return dt_box_fail(b, NULL, "result %u is made of positions that are not looked at", i);
    return true;
}

/* One for each order of constants and other numbers, or more, where few ranks have rows of their own; as many as
 * arguments that are integers need to be each of n, twice, to meet others. */
static uint32_t draws_for(Box *b, const CertFunc *func, uint32_t n)
{
    const bool compares = b->r->n_known > 1; /* 0 always is */
    uint64_t wanted = compares ? (b->r->n_known + 3) * b->again : LEAST_DRAWS;
    for (uint32_t i = 0; i < func->n_args; i++) {
        const BoxShape *shape = dt_boxsmall_shape(b, func->args.at[i]);
        const uint64_t each = shape->is_float || shape->is_bool ? 0 : 2 * (n / whole_elements(shape) + 1);
        wanted = each > wanted ? each : wanted;
    }
    return wanted < MOST_DRAWS ? (uint32_t)wanted : MOST_DRAWS;
}

static bool compare_draws(Box *b, const Side *sides)
{
    Seen seen = {0};
    uint32_t good = 0, wanted = 1;
    for (uint32_t i = 0; i < wanted + MORE_TRIES && good < wanted; i++) {
        Draw draw = {.b = b, .seed = i, .number = good};
        b->left = MOST_ELEMENTS;
        b->depth = 0;
        collect_integers(&draw);
        wanted = draws_for(b, sides[0].func, draw.n_integers);
        dt_arena_reset(b->scratch);
        const Verdict verdict = compare_draw(b, sides, &draw, &seen);
        if (verdict == DIFFERENT)
            return false;
        good += verdict == EQUAL;
    }
    if (good < wanted)
        return dt_box_fail(b, NULL, "something is undefined, however operands are drawn: a division by zero, or inf");
    return all_seen(b, &seen, sides[0].func->results.n);
}

static bool begin(Box *b, const Side *sides)
{
    const CertProgram *p = sides[0].program, *o = sides[1].program;
    const CertFunc *x = sides[0].func, *y = sides[1].func;
    b->n_mesh = p->n_mesh;
    for (uint32_t m = 0; m < p->n_mesh; m++) {
        b->size[m] = 1;
        b->whole_size[m] = p->size[m];
    }
    bool same = p->n_mesh == o->n_mesh && memcmp(p->size, o->size, sizeof p->size) == 0 && x->n_args == y->n_args &&
                x->results.n == y->results.n && x->results.n <= MOST_RESULTS;
    for (uint32_t i = 0; same && i < x->n_args; i++)
        same = dt_boxrun_same_type(x->args.at[i], y->args.at[i]);
    if (!same)
        return dt_box_fail(b, NULL, "operands or results are others");
    for (int k = 0; k < 2; k++)
        if (!dt_boxsmall_collect(b, sides[k].program, sides[k].func))
            return false;
    return dt_boxsmall_decide(b);
}

bool dt_box_equal(DtBoxes *boxes, const CertProgram *a, const CertFunc *x, const CertProgram *b, const CertFunc *y,
                  DtText *ret_problem)
{
    const Side sides[2] = {{a, x}, {b, y}};
    const char *text = written(boxes, a, x, b, y);
    boxes->counts.boxes++;
    for (uint32_t i = 0; i < boxes->proved.n; i++)
        if (boxes->proved.at[i] == text)
            return true;
    if (!boxes->r.p.m)
        dt_residue_begin(&boxes->r);
    Box *box = DT_NEW(boxes->arena, Box);
    const DtResidues all = boxes->r;
    *box = (Box){.arena = boxes->arena, .scratch = dt_arena_child(boxes->arena), .r = &boxes->r, .path = "",
                 .problem = ret_problem};
    const bool equal = begin(box, sides) && compare_draws(box, sides);
    boxes->r = all; /* without this box's constants */
    dt_arena_free(box->scratch);
    if (equal) {
        boxes->counts.proved++;
        DT_PUSH(boxes->arena, boxes->proved, text);
    }
    return equal;
}
