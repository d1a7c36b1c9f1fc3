/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: evaluates two functions on the same random operands and compares their results. */
#include "verify/box_internal.h"

#include "base/hash.h"

#include <stdlib.h>

enum { MORE_TRIES = 6, MOST_RESULTS = 64, FOLLOWED = 4 /* most draws that follow an argument */ };
#define MOST_ELEMENTS (INT64_C(1) << 24)
/* like MOST_ELEMENTS, for an evaluation that leaves out no position */
#define MOST_WHOLE    (INT64_C(1) << 21)

/* A pair of functions that was compared and found equal. */
typedef struct Proved {
    const char *text; /* text that identifies both functions */
    size_t len;
    DtBoxRounding rounding;
    bool rounded; /* they are equal, but round at different places */
} Proved;

struct DtBoxes {
    /* arenas by lifetime: all of the proof; the pair of functions being compared (box); one
     * evaluation of it with random operands (draw) */
    DtArena *arena, *box, *draw;
    DtResidues r;
    DT_VEC(Proved) proved;
    DtBoxCounts counts;
    bool large; /* the last pair that could not be decided would take too long to evaluate */
};

DtBoxes *dt_box_begin(DtArena *arena)
{
    DtBoxes *boxes = DT_NEW(arena, DtBoxes);
    boxes->arena = arena;
    boxes->box = dt_arena_child(arena);
    boxes->draw = dt_arena_child(arena);
    return boxes;
}

void dt_box_end(DtBoxes *boxes)
{
    dt_arena_free(boxes->draw);
    dt_arena_free(boxes->box);
}

DtBoxCounts dt_box_counts(const DtBoxes *boxes) { return boxes->counts; }

/* ---- pairs of functions that were proved before ---- */

/* Builds the text that identifies a pair of functions. funcs: the functions written so far, which
 * the text names by their index in this list. */
typedef struct Writer {
    DtText text;
    DtArena *arena;
    DT_VEC(const CertFunc *) funcs; /* functions of both programs: the two may be one program */
} Writer;

/* Writes a list, its length first, so that different lists give different texts. */
static void write_text(Writer *w, const char *text)
{
    const size_t len = text ? strlen(text) : 0;
    dt_text_integer(&w->text, text ? (int64_t)len : -1);
    dt_text_add_n(&w->text, ":", 1);
    dt_text_add_n(&w->text, text ? text : "", len);
}

static void write_number(Writer *w, int64_t number)
{
    dt_text_integer(&w->text, number);
    dt_text_add_n(&w->text, " ", 1);
}

static void write_texts(Writer *w, uint32_t n, const char *const *texts)
{
    write_number(w, n);
    for (uint32_t i = 0; i < n; i++)
        write_text(w, texts[i]);
}

static void write_type(Writer *w, const CertType *type)
{
    write_text(w, type->dtype);
    write_number(w, type->rank);
    for (uint32_t d = 0; d < type->rank; d++) {
        const CertAxis *axis = &type->axes[d];
        write_text(w, axis->name);
        write_number(w, axis->extent);
        write_number(w, axis->logical);
        write_number(w, axis->zigzag);
        write_number(w, axis->n);
        for (uint32_t s = 0; s < axis->n; s++)
            write_number(w, axis->split[s]);
    }
    write_number(w, type->partial);
    write_text(w, type->partial ? type->pending : "");
}

/* Writes the index of the function in w->funcs, to which it is added if it is new. */
static void write_func_number(Writer *w, const CertFunc *func)
{
    uint32_t i = 0;
    while (i < w->funcs.n && w->funcs.at[i] != func)
        i++;
    if (i == w->funcs.n)
        DT_PUSH(w->arena, w->funcs, func);
    write_number(w, i);
}

static void write_loop(Writer *w, const CertLoop *loop)
{
    write_text(w, loop->label);
    write_text(w, loop->axis);
    for (size_t i = 0; i < 7; i++)
        write_number(w, (const int64_t[]){loop->count, loop->first, loop->carried, loop->invariant,
                                          loop->stacked, loop->stacked_out, loop->reverse}[i]);
}

/* Writes everything in an op that matters for the comparison, including unknown attributes. */
static void write_op(Writer *w, const CertProgram *program, const CertOp *op)
{
    const CertFunc *func = op->func ? dt_certtext_func(program, op->func) : NULL;
    /* the sites of random numbers */
    const bool named = op->text && (op->func || dt_cert_is(op->kind, "rng"));
    write_text(w, op->kind);
    write_text(w, op->attributes);
    write_texts(w, op->n_axes, op->axes);
    write_texts(w, op->n_axes2, op->axes2);
    int64_t bits;
    memcpy(&bits, &op->number, sizeof bits);
    write_number(w, bits);
    write_text(w, op->reduce);
    write_number(w, op->n_ranges);
    for (uint32_t i = 0; i < op->n_ranges; i++)
        for (size_t k = 0; k < 4; k++)
            write_number(w, (const int64_t[]){op->ranges[i].lo, op->ranges[i].hi,
                                              op->ranges[i].step, op->ranges[i].n}[k]);
    write_number(w, op->n_relabels);
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        write_texts(w, op->relabels[i].n_from, op->relabels[i].from);
        write_texts(w, op->relabels[i].n_to, op->relabels[i].to);
    }
    write_number(w, op->n_in);
    for (uint32_t i = 0; i < op->n_in; i++)
        write_number(w, op->in[i]);
    write_number(w, op->mesh);
    write_number(w, op->stages != NULL);
    write_text(w, named ? op->text : NULL);
    write_number(w, func != NULL);
    if (func)
        write_func_number(w, func);
    write_number(w, op->loop != NULL);
    if (op->loop)
        write_loop(w, op->loop);
    write_number(w, op->n_out);
    for (uint32_t i = 0; i < op->n_out; i++)
        write_type(w, op->types[i]);
}

static void write_func(Writer *w, const CertProgram *program, const CertFunc *func)
{
    w->funcs.n = 0;
    DT_PUSH(w->arena, w->funcs, func);
    for (uint32_t i = 0; i < w->funcs.n; i++) {
        const CertFunc *f = w->funcs.at[i];
        write_number(w, f->n_args);
        for (uint32_t k = 0; k < f->n_args; k++)
            write_type(w, f->args.at[k]);
        write_number(w, f->ops.n);
        for (uint32_t k = 0; k < f->ops.n; k++)
            write_op(w, program, f->ops.at[k]);
        write_number(w, f->results.n);
        for (uint32_t k = 0; k < f->results.n; k++)
            write_number(w, f->results.at[k]);
    }
    write_text(w, "end");
}

/* Returns a text of both functions without spans and without the names of values and functions.
 * Pairs with equal texts compute the same. */
static DtText written(DtBoxes *boxes, const CertProgram *a, const CertFunc *x, const CertProgram *b,
                      const CertFunc *y)
{
    Writer w = {.arena = boxes->box};
    write_func(&w, a, x);
    write_func(&w, b, y);
    return w.text;
}

/* ---- comparison ---- */

/* The outcome of comparing two numbers or two results, from best to worst. UNDECIDED: both are
 * undefined in this draw (a division by zero), which shows nothing. */
typedef enum Verdict { EQUAL, UNDECIDED, DIFFERENT } Verdict;

/* Which elements of results were compared with a defined value in some draw, by result. */
typedef struct Seen {
    bool *at[MOST_RESULTS]; /* by element of all ranks: whether it was compared */
    int64_t n[MOST_RESULTS];
} Seen;

/* Returns element k of the value on this rank after its pending reduction (sum, max or min):
 * combines it over all ranks that differ only in the mesh axes over which it is pending. */
static DtResidue completed(const Box *b, const BoxTensor *x, uint32_t rank, int64_t k)
{
    DtResidue sum = x->at[rank * x->shape->n + k];
    const BoxReduce reduction = dt_boxnumber_reduction(x->shape->type->pending);
    for (uint32_t other = 0; x->shape->partial && other < b->ranks; other++)
        if (other != rank && dt_boxsmall_together(b, x->shape->partial, rank, other))
            sum = dt_boxnumber_combine(b, reduction, x->shape, sum, x->at[other * x->shape->n + k]);
    return sum;
}

static Verdict compare_one(const BoxShape *shape, DtResidue x, DtResidue y, bool *seen)
{
    /* integers have no second component */
    const bool odd_x = x.q == DT_RESIDUE_NONE, odd_y = y.q == DT_RESIDUE_NONE;
    const bool whole = !shape->is_float && (!odd_x || !odd_y);
    const bool nothing_x = x.p == DT_RESIDUE_UNDEFINED && (shape->is_float || odd_x),
               nothing_y = y.p == DT_RESIDUE_UNDEFINED && (shape->is_float || odd_y);
    if (nothing_x || nothing_y)
        return nothing_x && nothing_y ? UNDECIDED : DIFFERENT;
    const bool same = shape->is_float ? dt_residue_same(x, y) : x.p == y.p && x.q == y.q;
    *seen = *seen || whole || x.p < DT_RESIDUE_ABSENT;
    return same ? EQUAL : DIFFERENT;
}

/* Compares element k of a result on this rank, after pending reductions. If roundings are followed,
 * y may also not depend on the followed argument through more roundings than x. Reports a
 * difference. */
static Verdict compare_at(Box *b, uint32_t result, const BoxTensor *x, const BoxTensor *y,
                          uint32_t rank, int64_t k, bool *seen)
{
    const DtResidue mine = completed(b, x, rank, k), other = completed(b, y, rank, k);
    const Verdict one = compare_one(x->shape, mine, other, seen);
    if (one == DIFFERENT)
        dt_box_fail(b, NULL, "result %u differs on rank %u", result, rank);
    if (one != EQUAL || !b->follows || mine.p == 0 || dt_boxnumber_no_deeper(mine, other))
        return one;
    dt_box_fail(b, NULL,
                "operand %u is rounded more often on the way to result %u: %u times, not %u",
                b->followed, result, other.depth - 1, mine.depth - (mine.depth > 0));
    return DIFFERENT;
}

static Verdict compare(Box *b, uint32_t result, const BoxTensor *x, const BoxTensor *y, Seen *seen)
{
    const BoxShape *shape = x->shape;
    Verdict worst = EQUAL;
    if (!dt_boxsmall_same_type(shape->type, y->shape->type)) {
        dt_box_fail(b, NULL, "result %u is of another type", result);
        return DIFFERENT;
    }
    if (!seen->at[result])
        seen->at[result] = DT_NEW_ARRAY(b->arena, bool, shape->n * b->ranks);
    seen->n[result] = shape->n * b->ranks;
    for (uint32_t rank = 0; rank < b->ranks; rank++)
        for (int64_t k = 0; k < shape->n; k++) {
            const Verdict one =
                compare_at(b, result, x, y, rank, k, &seen->at[result][rank * shape->n + k]);
            worst = one > worst ? one : worst;
        }
    return worst;
}

/* ---- both functions ---- */

typedef struct Side {
    const CertProgram *program;
    const CertFunc *func;
} Side;

static Verdict compare_draw(Box *b, const Side *sides, Seen *seen)
{
    const uint32_t n_args = sides[0].func->n_args, n_results = sides[0].func->results.n;
    BoxTensor **args = DT_NEW_ARRAY(b->scratch, BoxTensor *, n_args + 1), *results[2][MOST_RESULTS];
    Verdict worst = EQUAL;
    memset(&b->rounded, 0, sizeof b->rounded);
    memset(&b->products, 0, sizeof b->products);
    memset(&b->roundings, 0, sizeof b->roundings);
    b->left = b->whole ? MOST_WHOLE : MOST_ELEMENTS;
    for (uint32_t i = 0; i < n_args; i++) {
        args[i] = dt_boxsmall_tensor(b, sides[0].func->args.at[i]);
        if (!args[i])
            return DIFFERENT;
    }
    for (uint32_t i = 0; i < n_args; i++)
        dt_boxdraw_argument(b, i, args[i]);
    b->follows = b->parts && b->few && !b->ties && b->number < FOLLOWED * n_args;
    b->followed = b->number % (n_args + !n_args);
    if (b->follows)
        dt_boxnumber_follow(b, args[b->followed], true);
    for (int k = 0; k < 2; k++) {
        b->second = k == 1;
        if (!dt_boxrun_func(b, sides[k].program, sides[k].func, args, results[k]))
            return DIFFERENT;
    }
    if (b->counts && !dt_boxnumber_as_often(b))
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
                return dt_box_fail(b, NULL, "result %u is made of positions that are not looked at",
                                   i);
    return true;
}

/* Compares both functions in as many draws of random operands as needed; false after a reason. In
 * draws with ties, in which some operands are constants of the functions, both sides may be
 * undefined (a quotient by 0). */
static bool compare_draws(Box *b, const Side *sides)
{
    Seen seen = {0};
    uint32_t good = 0, seed = 0, wanted, ties;
    if (!dt_boxdraw_count(b, sides[0].func, &wanted, &ties))
        return false;
    /* counts roundings of one argument after the other */
    if (b->parts && b->few && wanted < sides[0].func->n_args)
        wanted = sides[0].func->n_args;
    while (good < wanted && seed < wanted + MORE_TRIES) {
        dt_boxdraw_next(b, seed++, good, false);
        const Verdict verdict = compare_draw(b, sides, &seen);
        if (verdict == DIFFERENT)
            return false;
        good += verdict == EQUAL;
    }
    if (good < wanted)
        return dt_box_fail(
            b, NULL,
            "something is undefined, however operands are drawn: a division by zero, or inf");
    for (uint32_t i = 0; i < ties; i++) {
        dt_boxdraw_next(b, seed++, i, true);
        if (compare_draw(b, sides, &seen) == DIFFERENT)
            return false;
    }
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
    bool same = p->n_mesh == o->n_mesh && memcmp(p->size, o->size, sizeof p->size) == 0 &&
                x->n_args == y->n_args && x->results.n == y->results.n &&
                x->results.n <= MOST_RESULTS;
    for (uint32_t i = 0; same && i < x->n_args; i++)
        same = dt_boxsmall_same_type(x->args.at[i], y->args.at[i]);
    if (!same)
        return dt_box_fail(b, NULL, "operands or results are others");
    for (int k = 0; k < 2; k++) {
        b->second = k == 1;
        if (!dt_boxsmall_collect(b, sides[k].program, sides[k].func))
            return false;
    }
    const CertProgram *programs[] = {p, o};
    const CertFunc *funcs[] = {x, y};
    return dt_boxsmall_decide(b, programs, funcs) && dt_boxdraw_begin(b, x);
}

static const Proved *was_proved(const DtBoxes *boxes, const DtText *text, DtBoxRounding rounding)
{
    for (uint32_t i = 0; i < boxes->proved.n; i++) {
        const Proved *one = &boxes->proved.at[i];
        if (one->len == text->len && one->rounding == rounding &&
            memcmp(one->text, text->at, text->len) == 0)
            return one;
    }
    return NULL;
}

/* How to evaluate both functions: initial values of the members of Box with the same names. */
typedef struct Try {
    bool whole, rounds, parts;
} Try;

/* What an evaluation found out. narrows, doubtful: as in Box; decides: some op decides by comparing
 * floats. */
typedef struct Tried {
    bool narrows[2], doubtful, decides;
} Tried;

static bool try_one(DtBoxes *boxes, const Side *sides, Try how, Tried *ret_tried, DtText *problem)
{
    Box *box = DT_NEW(boxes->box, Box);
    const DtResidues all = boxes->r;
    *box = (Box){.arena = boxes->box, .scratch = boxes->draw, .r = &boxes->r, .path = "",
                 .problem = problem, .whole = how.whole, .rounds = how.rounds, .parts = how.parts,
                 .counts = how.parts && !how.rounds};
    const bool equal = begin(box, sides) && compare_draws(box, sides);
    boxes->large = box->large;
    boxes->r = all; /* the next box begins without the constants of this one */
    *ret_tried = (Tried){{box->narrows[0], box->narrows[1]}, box->doubtful, box->decided.n > 0};
    return equal;
}

/* For functions that are equal at a few positions: evaluates them at all positions. True if they
 * differ there; false if they are equal, or if there are too many positions. */
static bool differ_elsewhere(DtBoxes *boxes, const Side *sides, Try how, DtText *problem)
{
    Tried tried;
    how.whole = true;
    const bool differ = !try_one(boxes, sides, how, &tried, problem) && !boxes->large;
    boxes->large = false;
    return differ;
}

/* Proves a box by evaluation. Two kinds of refusal may be wrong; such a box is evaluated again, in
 * another way. A function that rounds at other places may be right if the first function rounds
 * too: then roundings are ignored. A function that differs at few positions may be right at all of
 * them, as a sum over an identity matrix that it makes of positions: then all positions are
 * evaluated, if there are not too many. There is no second try if the function decides by floats:
 * each of many elements would decide so seldom that draws would miss a difference. */
static bool prove(DtBoxes *boxes, const Side *sides, DtBoxRounding rounding, bool *ret_rounded,
                  DtText *problem)
{
    bool equal = false, large = false;
    Tried tried = {0};
    DtText said = {0};
    boxes->large = false;
    if (!boxes->r.p.m && !dt_residue_begin(&boxes->r)) {
        dt_text_printf(
            problem,
            "the system gives no random numbers (getentropy), which boxes are checked with");
        return false;
    }
    for (uint32_t whole = 0; !equal && whole < 2 && !(whole && (boxes->large || tried.decides));
         whole++)
        for (uint32_t real = 0; !equal && real < 2 && !boxes->large; real++) {
            const bool may =
                rounding && (tried.narrows[0] || (rounding == DT_BOX_REALS && tried.narrows[1]));
            DtText *why = whole ? &said : problem;
            if (real && !may)
                break;
            why->len = 0;
            const Try how = {whole, !real, rounding == DT_BOX_PARTS};
            equal = try_one(boxes, sides, how, &tried, why);
            if (equal && tried.doubtful && !whole && differ_elsewhere(boxes, sides, how, problem))
                return false;
            said.len = 0;
            large = large || (boxes->large && !whole);
            *ret_rounded = real;
        }
    boxes->large = large;
    dt_text_free(&said);
    problem->len = equal ? 0 : problem->len;
    return equal;
}

bool dt_box_equal(DtBoxes *boxes, const CertProgram *a, const CertFunc *x, const CertProgram *b,
                  const CertFunc *y, DtBoxRounding rounding, DtText *ret_problem)
{
    const Side sides[2] = {{a, x}, {b, y}};
    dt_arena_reset(boxes->box);
    DtText text = written(boxes, a, x, b, y);
    const Proved *known = was_proved(boxes, &text, rounding);
    Proved proved = {.len = text.len, .rounding = rounding};
    bool equal = known != NULL;
    boxes->counts.boxes++;
    if (!equal && (equal = prove(boxes, sides, rounding, &proved.rounded, ret_problem))) {
        proved.text = dt_arena_strndup(boxes->arena, text.at, text.len);
        boxes->counts.proved++;
        DT_PUSH(boxes->arena, boxes->proved, proved);
    }
    boxes->counts.rounded += equal && (known ? known->rounded : proved.rounded);
    dt_text_free(&text);
    return equal;
}

DtBoxVerdict dt_box_functions(DtArena *arena, const char *text, const char *x, const char *y,
                              DtText *ret_problem)
{
    CertProgram program = {0};
    DtBoxes *boxes = dt_box_begin(arena);
    bool same = dt_certtext_read(arena, text, &program, ret_problem);
    const CertFunc *f = same ? dt_certtext_func(&program, x) : NULL,
                   *g = same ? dt_certtext_func(&program, y) : NULL;
    same = same && ((f && g) || (dt_text_add(ret_problem, "a function is missing"), false)) &&
           dt_box_equal(boxes, &program, f, &program, g, DT_BOX_REALS, ret_problem);
    const bool large = boxes->large;
    dt_box_end(boxes);
    return same ? DT_BOX_SAME : large ? DT_BOX_LARGE : DT_BOX_OTHER;
}
