/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys a mask hides from a block of attention. The mask of where(mask, x, -inf), or 0 for
 * -inf, is evaluated in intervals at every point, that is for all coordinates and ring steps on
 * which its positions depend. Then the file traces how hidden scores affect the function: they may
 * be left out only if each sum over keys adds zeros for them, each maximum sees -inf, and what
 * blocks write per key is zero there. */
#include "verify/plan_internal.h"

#include <math.h>
#include <string.h>

/* MOST_VISITS: values evaluated for one part of the mask; a value used twice is visited twice. The
 * limit is larger than that of codegen/visible.c; otherwise masks that the compiler understands
 * would be refused here. */
enum { MOST_POINTS = 4096, MOST_VISITS = 2048 };

typedef struct Span { /* an interval; lo > hi: nothing is known */
    int64_t lo, hi;
} Span;
static const Span unknown = {1, 0}, either = {0, 1};

/* A function on the way from the mask to the functions around it. */
typedef struct Where {
    const CertFunc *func;
    const CertOp *op;        /* the call or loop that runs it; NULL: an entry */
    uint32_t reg;            /* iteration range of a loop */
    const struct Where *outer;
} Where;

/* Local indices along queries and keys, with the names of these axes where a value is evaluated;
 * NULL: the value lacks the axis. */
typedef struct Part {
    const char *axis[2];
    Span at[2];
} Part;

static bool is(const CertOp *op, const char *kind) { return strcmp(op->kind, kind) == 0; }
static bool known(Span x) { return x.lo <= x.hi; }
static Span span(int64_t lo, int64_t hi)
{
    return lo < INT32_MIN || hi > INT32_MAX ? unknown : (Span){lo, hi};
}
static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

static const CertOp *maker(const CertFunc *func, uint32_t value)
{
    uint32_t lo = 0, hi = func->ops.n; /* the last op that makes a value with this number or a
                                        * smaller one */
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (func->ops.at[middle]->first_out <= value)
            lo = middle + 1;
        else
            hi = middle;
    }
    const CertOp *op = lo > 0 ? func->ops.at[lo - 1] : NULL;
    return op && value - op->first_out < op->n_out ? op : NULL;
}

static const CertType *type_of(const CertFunc *func, uint32_t value)
{
    const CertOp *op = maker(func, value);
    return op ? op->types[value - op->first_out] : func->args.at[value];
}

/* ---- intervals ---- */

static Span evaluate(PlanWalk *walk, const Where *where, uint32_t value, Part part);

static Span of_argument(PlanWalk *walk, const Where *where, uint32_t value, Part part)
{
    PlanMask *mask = &walk->tiles.mask;
    const CertLoop *loop = where->op ? where->op->loop : NULL;
    if (!where->op || !where->outer)
        return unknown;
    if (!loop)
        return evaluate(walk, where->outer, where->op->in[value], part);
    if (value == 0 && loop->axis && loop->axis[0] == '@' && !loop->reverse && !loop->step) {
        mask->loops[where->reg] = loop;
        return span(loop->first + mask->reg[where->reg], loop->first + mask->reg[where->reg]);
    }
    if (value <= loop->carried || value > loop->carried + loop->invariant)
        return unknown;
    return evaluate(walk, where->outer, where->op->in[value - 1], part);
}

static Span of_iota(PlanWalk *walk, const CertOp *op, const Part *part)
{
    PlanMask *mask = &walk->tiles.mask;
    const CertAxis *axis = &op->types[0]->axes[0];
    int64_t length = dt_certplan_local(walk, op->types[0], 0), block = 0;
    Span at = {0, length - 1};
    for (uint32_t s = 0; s < axis->n; s++) {
        if (axis->zigzag || axis->split[s] < walk->first_device)
            return unknown;
        mask->axes |= (uint16_t)(1u << axis->split[s]);
        block = block * walk->program->size[axis->split[s]] + mask->coord[axis->split[s]];
    }
    for (uint32_t k = 0; k < 2; k++)
        if (part->axis[k] == op->axes[0])
            at = part->at[k];
    return span(block * length + at.lo, block * length + at.hi);
}

/* Returns the one of these axes along which a rank has several elements; "" if none is so, NULL if
 * several are. */
static const char *only(const PlanWalk *walk, const CertType *type, const char *const *axes,
                        uint32_t n)
{
    const char *found = "";
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < type->rank; d++)
            if (type->axes[d].name == axes[i] && dt_certplan_local(walk, type, d) > 1) {
                if (found[0])
                    return NULL;
                found = axes[i];
            }
    return found;
}

static bool names(const char *axis, const char *const *axes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (axes[i] == axis)
            return true;
    return false;
}

static Span of_relabel(PlanWalk *walk, const Where *where, const CertOp *op, const Part *part)
{
    Part before = *part;
    for (uint32_t e = 0; e < op->n_relabels; e++) {
        const CertRelabel *relabel = &op->relabels[e];
        const char *from =
                       only(walk, type_of(where->func, op->in[0]), relabel->from, relabel->n_from),
                   *to = only(walk, op->types[0], relabel->to, relabel->n_to);
        if (!from || !to)
            return unknown;
        for (uint32_t k = 0; k < 2; k++) {
            const bool stays = !names(part->axis[k], relabel->from, relabel->n_from) &&
                               !names(part->axis[k], relabel->to, relabel->n_to);
            if (!stays) /* the operand has another axis of this name */
                before.axis[k] = to[0] && part->axis[k] == to ? from : NULL;
        }
    }
    return evaluate(walk, where, op->in[0], before);
}

static Span times(Span x, Span y)
{
    const int64_t a = x.lo * y.lo, b = x.lo * y.hi, c = x.hi * y.lo, d = x.hi * y.hi;
    return span(least(least(a, b), least(c, d)), most(most(a, b), most(c, d)));
}

static Span of_whole(const CertOp *op, Span x, Span y)
{
    if (is(op, "add"))
        return span(x.lo + y.lo, x.hi + y.hi);
    if (is(op, "sub"))
        return span(x.lo - y.hi, x.hi - y.lo);
    if (is(op, "mul"))
        return times(x, y);
    if (is(op, "min"))
        return span(least(x.lo, y.lo), least(x.hi, y.hi));
    if (is(op, "max"))
        return span(most(x.lo, y.lo), most(x.hi, y.hi));
    if (is(op, "lt"))
        return span(x.hi < y.lo, x.lo < y.hi);
    if (is(op, "le"))
        return span(x.hi <= y.lo, x.lo <= y.hi);
    if (y.lo != y.hi || y.lo <= 0)
        return unknown;
    if (is(op, "floordiv"))
        return span(dt_cert_down(x.lo, y.lo), dt_cert_down(x.hi, y.lo));
    if (is(op, "mod") && dt_cert_down(x.lo, y.lo) == dt_cert_down(x.hi, y.lo))
        return span(x.lo - dt_cert_down(x.lo, y.lo) * y.lo, x.hi - dt_cert_down(x.lo, y.lo) * y.lo);
    return is(op, "mod") ? span(0, y.lo - 1) : unknown;
}

static Span of_choice(Span c, Span x, Span y)
{
    if (known(c) && c.lo == c.hi)
        return c.lo ? x : y;
    return known(x) && known(y) ? span(least(x.lo, y.lo), most(x.hi, y.hi)) : unknown;
}

static Span of_op(PlanWalk *walk, const Where *where, const CertOp *op, const Part *part)
{
    Span x[3] = {unknown, unknown, unknown};
    if (is(op, "const"))
        return fabs(op->number) < INT32_MAX && op->number == floor(op->number)
                   ? span((int64_t)op->number, (int64_t)op->number)
                   : unknown;
    if (is(op, "iota"))
        return of_iota(walk, op, part);
    if (is(op, "relabel"))
        return of_relabel(walk, where, op, part);
    if (!op->rule || op->n_in > 3 || op->n_axes || op->mesh)
        return unknown;
    for (uint32_t i = 0; i < op->n_in; i++)
        x[i] = evaluate(walk, where, op->in[i], *part);
    if (is(op, "where"))
        return of_choice(x[0], x[1], x[2]);
    if (op->n_in == 1)
        return is(op, "expand") || is(op, "stop") ? x[0]
               : is(op, "not") && known(x[0])     ? span(!x[0].hi, !x[0].lo)
               : is(op, "neg") && known(x[0])     ? span(-x[0].hi, -x[0].lo)
                                                  : unknown;
    if (is(op, "and") || is(op, "or")) {
        const Span a = known(x[0]) ? x[0] : either, b = known(x[1]) ? x[1] : either;
        return is(op, "and") ? span(a.lo && b.lo, a.hi && b.hi) : span(a.lo || b.lo, a.hi || b.hi);
    }
    return op->n_in == 2 && known(x[0]) && known(x[1]) ? of_whole(op, x[0], x[1]) : unknown;
}

static Span evaluate(PlanWalk *walk, const Where *where, uint32_t value, Part part)
{
    const char *dtype = type_of(where->func, value)->dtype;
    const CertOp *op = maker(where->func, value);
    if ((strcmp(dtype, "i32") != 0 && strcmp(dtype, "bool") != 0) ||
        walk->tiles.mask.visits++ >= MOST_VISITS)
        return unknown;
    if (!op)
        return of_argument(walk, where, value, part);
    if (!is(op, "call") || op->n_axes || op->mesh)
        return of_op(walk, where, op, &part);
    const CertFunc *callee = dt_certtext_func(walk->program, op->func);
    if (!callee || callee->n_args != op->n_in || callee->results.n != op->n_out)
        return unknown;
    const Where inner = {callee, op, 0, where};
    return evaluate(walk, &inner, callee->results.at[value - op->first_out], part);
}

static Span mask_of(PlanWalk *walk, Part part)
{
    PlanMask *mask = &walk->tiles.mask;
    mask->visits = 0;
    return evaluate(walk, mask->where, mask->value, part);
}

static const Where *chain(PlanWalk *walk, const PlanFrame *frame)
{
    Where *where = DT_NEW(walk->arena, Where);
    *where = (Where){frame->func, frame->kind == PLAN_ENTRY ? NULL : frame->op, frame->reg,
                     frame->outer ? chain(walk, frame->outer) : NULL};
    return where;
}

int dt_certplan_sees(PlanWalk *walk, uint32_t value, const char *queries, const char *keys,
                     int64_t query, int64_t from, int64_t to)
{
    const PlanMask kept = walk->tiles.mask;
    const Part part = {{queries, keys}, {{query, query}, {from, to}}};
    walk->tiles.mask = (PlanMask){.value = value, .where = chain(walk, walk->frame)};
    const Span span = mask_of(walk, part);
    bool alike = walk->tiles.mask.axes == 0;
    for (uint32_t r = 0; r < DT_PLAN_REGS; r++)
        alike = alike && !walk->tiles.mask.loops[r];
    walk->tiles.mask = kept;
    return alike && known(span) && span.lo == span.hi ? (int)span.lo : -1;
}

static bool hides(PlanWalk *walk, Part part)
{
    const PlanTiles *tiles = &walk->tiles;
    const int64_t half[2] = {tiles->n_queries / 2, tiles->n_keys / 2};
    for (uint32_t k = 0; k < 2; k++) /* in zigzag order positions are consecutive within each half
                                      * only */
        if (part.at[k].lo < half[k] && part.at[k].hi >= half[k]) {
            Part lower = part, upper = part;
            lower.at[k].hi = half[k] - 1;
            upper.at[k].lo = half[k];
            return hides(walk, lower) && hides(walk, upper);
        }
    const Span seen = mask_of(walk, part);
    return known(seen) && seen.hi == 0;
}

/* Whether half of the queries see no key of half of the keys, except perhaps the first key. Most
 * blocks of a ring need to know only this. */
static bool hides_quarter(PlanWalk *walk, uint32_t q, uint32_t k)
{
    const PlanTiles *tiles = &walk->tiles;
    const int64_t queries = tiles->n_queries / 2, keys = tiles->n_keys / 2;
    const Part part = {{tiles->queries, tiles->keys},
                       {{q ? queries : 0, (q ? tiles->n_queries : queries) - 1},
                        {k ? most(keys, 1) : 1, (k ? tiles->n_keys : keys) - 1}}};
    return !known(part.at[0]) || !known(part.at[1]) || hides(walk, part);
}

/* Whether queries in `part` see none of its keys at point p. The caller leaves out the first
 * key. */
static bool hides_at(PlanWalk *walk, int64_t p, const Part *part)
{
    const PlanTiles *tiles = &walk->tiles;
    bool all = true;
    for (uint32_t q = 0; q < 2; q++)
        for (uint32_t k = 0; k < 2; k++) {
            const bool in =
                (q ? part->at[0].hi >= tiles->n_queries / 2
                   : part->at[0].lo < tiles->n_queries / 2) &&
                (k ? part->at[1].hi >= tiles->n_keys / 2 : part->at[1].lo < tiles->n_keys / 2);
            all = all && (!in || tiles->mask.hidden[4 * p + 2 * q + k]);
        }
    return (all && part->at[1].lo > 0) || hides(walk, *part);
}

/* ---- the effect of hidden scores ---- */

/* What is known of a value wherever the mask hides its score: nothing; it is 0; it is -inf or
 * nearly so. */
typedef enum Hidden { ANYTHING, ZERO, LOWEST } Hidden;

static bool is_number(const CertFunc *func, uint32_t value, double number)
{
    const CertOp *op = maker(func, value);
    return op && is(op, "const") && op->number == number;
}

static Hidden of_hidden(const PlanTiles *tiles, const CertFunc *func, const CertOp *op,
                        const Hidden *hidden)
{
    const Hidden x = op->n_in ? hidden[op->in[0]] : ANYTHING,
                 y = op->n_in > 1 ? hidden[op->in[1]] : ANYTHING;
    if (is(op, "where") && op->in[0] == tiles->mask.value)
        return is_number(func, op->in[2], -INFINITY) ? LOWEST
               : is_number(func, op->in[2], 0)       ? ZERO
                                                     : hidden[op->in[2]];
    if (is(op, "where"))
        return y == hidden[op->in[2]] ? y : ANYTHING;
    if (is(op, "relabel"))
        return op->n_relabels ? ANYTHING : x;
    if (is(op, "expand") || is(op, "cast") || is(op, "stop"))
        return x;
    if (is(op, "const"))
        return op->number == 0 ? ZERO : ANYTHING;
    if (is(op, "neg"))
        return x == ZERO ? ZERO : ANYTHING;
    /* minus infinity, or nearly: subtraction leaves it so, unless the second operand has keys and
     * may be infinite */
    if (is(op, "sub") && x == LOWEST)
        return dt_certtext_axis(type_of(func, op->in[1]), tiles->keys) ? ANYTHING : LOWEST;
    if (is(op, "exp"))
        return x == LOWEST ? ZERO : ANYTHING;
    if (is(op, "mul"))
        return x == ZERO || y == ZERO ? ZERO : ANYTHING;
    if (is(op, "div"))
        return x == ZERO ? ZERO : ANYTHING;
    if (is(op, "add") || is(op, "sub"))
        return x == ZERO && y == ZERO ? ZERO : ANYTHING;
    return ANYTHING;
}

static bool has_keys(const PlanTiles *tiles, const CertType *type)
{
    return dt_certtext_axis(type, tiles->keys) != NULL;
}

/* Whether the op gives the same result without hidden scores: it works along keys, or sums queries
 * into keys. */
static bool leaves_out(const PlanTiles *tiles, const CertFunc *func, const CertOp *op,
                       const Hidden *hidden)
{
    bool over = names(tiles->keys, op->axes2, op->n_axes2),
         of_keys = op->n_out && has_keys(tiles, op->types[0]);
    for (uint32_t i = 0; i < op->n_relabels; i++) /* later ops would call the axis by another
                                                   * name */
        if (names(tiles->keys, op->relabels[i].from, op->relabels[i].n_from))
            return false;
    for (uint32_t i = 0; op->func && i < op->n_in; i++)
        if (has_keys(tiles, type_of(func, op->in[i])))
            return false;
    for (uint32_t i = 0; i < op->n_axes; i++)
        over = over || op->axes[i] == tiles->keys || (op->axes[i] == tiles->queries && of_keys);
    if (!over || is(op, "iota"))
        return true;
    const Hidden x = hidden[op->in[0]];
    if (is(op, "dot"))
        return x == ZERO || hidden[op->in[1]] == ZERO;
    if (!is(op, "reduce"))
        return false;
    const char *how = op->reduce ? op->reduce : "sum";
    return strcmp(how, "max") == 0 ? x == LOWEST : strcmp(how, "sum") == 0 && x == ZERO;
}

/* ---- points ---- */

static bool set_point(PlanWalk *walk, int64_t number)
{
    PlanMask *mask = &walk->tiles.mask;
    for (uint32_t m = 0; m < walk->program->n_mesh; m++)
        if (mask->axes >> m & 1) {
            mask->coord[m] = number % walk->program->size[m];
            number /= walk->program->size[m];
        }
    for (uint32_t r = 0; r < DT_PLAN_REGS; r++)
        if (mask->loops[r]) {
            mask->reg[r] = number % mask->loops[r]->count;
            number /= mask->loops[r]->count;
        }
    return number == 0;
}

/* Whether the whole function gives the same results if blocks leave out the keys that the mask
 * hides. */
static bool hides_from_all(PlanWalk *walk)
{
    PlanTiles *tiles = &walk->tiles;
    const CertFunc *func = walk->frame->func;
    Hidden *hidden = DT_NEW_ARRAY(walk->arena, Hidden, func->n_values + 1);
    bool *zero = DT_NEW_ARRAY(walk->arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        if (!leaves_out(tiles, func, op, hidden))
            return false;
        for (uint32_t k = 0; k < op->n_out; k++) {
            hidden[op->first_out + k] = of_hidden(tiles, func, op, hidden);
            zero[op->first_out + k] = hidden[op->first_out + k] == ZERO;
        }
    }
    tiles->mask.zero = zero;
    return true;
}

bool dt_certplan_hides(const PlanWalk *walk, uint32_t value)
{
    return walk->tiles.mask.zero[value];
}

/* A cached check of a mask, for the note at which its attention begins. */
typedef struct PlanMaskMemo {
    const uint8_t *note;
    const DtPlanEntry *entry;
    PlanMask mask;
} PlanMaskMemo;

static bool is_known(PlanWalk *walk)
{
    PlanMask *mask = &walk->tiles.mask;
    for (uint32_t i = 0; i < walk->masks.n; i++)
        if (walk->masks.at[i]->note == walk->note && walk->masks.at[i]->entry == walk->at_entry) {
            *mask = walk->masks.at[i]->mask;
            memset(mask->next, 0, (size_t)mask->n * sizeof mask->next[0]);
            return true;
        }
    return false;
}

static bool keep(PlanWalk *walk)
{
    PlanMaskMemo *memo = DT_NEW(walk->arena, PlanMaskMemo);
    *memo = (PlanMaskMemo){walk->note, walk->at_entry, walk->tiles.mask};
    DT_PUSH(walk->arena, walk->masks, memo);
    return true;
}

bool dt_certplan_mask(PlanWalk *walk)
{
    PlanTiles *tiles = &walk->tiles;
    PlanMask *mask = &tiles->mask;
    if (is_known(walk))
        return true;
    const CertFunc *func = walk->frame->func;
    if (--mask->value >= func->n_values || !hides_from_all(walk))
        return dt_certplan_fail(
            walk, "blocks may leave out keys, but no mask hides any from all of the function");
    mask->where = chain(walk, walk->frame);
    const Part all = {{tiles->queries, tiles->keys},
                      {{0, tiles->n_queries - 1}, {0, tiles->n_keys - 1}}};
    mask_of(walk, all); /* marks the registers and coordinates on which the mask depends */
    mask->n = 1;
    for (uint32_t m = 0; m < walk->program->n_mesh; m++)
        mask->n *= mask->axes >> m & 1 ? walk->program->size[m] : 1;
    for (uint32_t r = 0; r < DT_PLAN_REGS && mask->n <= MOST_POINTS; r++)
        mask->n *= mask->loops[r] ? mask->loops[r]->count : 1;
    if (mask->n > MOST_POINTS)
        return dt_certplan_fail(walk, "a mask depends on too many coordinates and steps");
    mask->next = DT_NEW_ARRAY(walk->arena, int64_t, mask->n + 1);
    mask->hidden = DT_NEW_ARRAY(walk->arena, bool, 4 * mask->n + 4);
    for (int64_t p = 0; set_point(walk, p); p++)
        for (uint32_t quarter = 0; quarter < 4; quarter++)
            mask->hidden[4 * p + quarter] = hides_quarter(walk, quarter / 2, quarter % 2);
    return keep(walk);
}

/* ---- guards ---- */

/* Computes the guard's integer at the present point. False if it depends on anything that points do
 * not distinguish. */
static bool guard_at(const PlanWalk *walk, const DtPlanArg *arg, int64_t *ret_value)
{
    const PlanMask *mask = &walk->tiles.mask;
    const int64_t limit = INT32_MAX;
    *ret_value = arg->base;
    if (arg->kind != DT_ARG_INTEGER || arg->base > limit || arg->base < -limit)
        return false;
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++) {
        if (arg->reg[r] && (!mask->loops[r] || arg->reg[r] > limit || arg->reg[r] < -limit))
            return false;
        *ret_value += arg->reg[r] ? arg->reg[r] * mask->reg[r] : 0;
    }
    for (uint32_t c = 0; c < DT_PLAN_COORDS; c++) {
        const uint32_t m = arg->coord_axis[c] + walk->first_device;
        if (arg->coord[c] && (m >= walk->program->n_mesh || !(mask->axes >> m & 1) ||
                              arg->coord[c] > limit || arg->coord[c] < -limit))
            return false;
        *ret_value += arg->coord[c] ? arg->coord[c] * mask->coord[m] : 0;
    }
    return true;
}

/* Checks the first instruction of a block at every point where its guards let it run: the block's
 * queries must come next, and the mask must hide all keys that the block leaves out. */
static bool begin(PlanWalk *walk, const DtPlanArg *guards, uint32_t n)
{
    PlanTiles *tiles = &walk->tiles;
    const PlanMask *mask = &tiles->mask;
    const Part rest = {{tiles->queries, tiles->keys},
                       {{tiles->at, tiles->at + tiles->rows - 1},
                        {tiles->width, tiles->n_keys - 1}}};
    for (int64_t p = 0; set_point(walk, p); p++) {
        bool runs = true;
        for (uint32_t i = 0; i < n; i++) {
            int64_t value;
            if (!guard_at(walk, &guards[i], &value))
                return dt_certplan_fail(
                    walk, "a guard is of something else than what the mask depends on");
            runs = runs && value >= 0;
        }
        if (!runs)
            continue;
        if (mask->next[p] != tiles->at)
            return dt_certplan_fail(
                walk, "a block of attention from query %lld on runs where %lld is next",
                (long long)tiles->at, (long long)mask->next[p]);
        mask->next[p] += tiles->rows;
        if (tiles->width < tiles->n_keys && !hides_at(walk, p, &rest))
            return dt_certplan_fail(walk, "a block leaves out keys that the mask does not");
    }
    return true;
}

bool dt_certplan_guards(PlanWalk *walk, const DtPlanInst *inst)
{
    PlanTiles *tiles = &walk->tiles;
    const DtPlanArg *guards = walk->plan->args + inst->first_arg + inst->n_args - inst->guards;
    if (!tiles->open || !tiles->block || !tiles->causal)
        return !inst->guards ||
               dt_certplan_fail(walk, "an instruction has guards outside of attention's blocks");
    if (tiles->guarded != tiles->block) {
        tiles->guarded = tiles->block;
        tiles->guards = guards, tiles->n_guards = inst->guards;
        return begin(walk, guards, inst->guards);
    }
    return (inst->guards == tiles->n_guards &&
            memcmp(guards, tiles->guards, inst->guards * sizeof *guards) == 0) ||
           dt_certplan_fail(walk, "instructions of one block of attention have different guards");
}

bool dt_certplan_covered(const PlanWalk *walk)
{
    const PlanTiles *tiles = &walk->tiles;
    for (int64_t p = 0; p < tiles->mask.n; p++)
        if (tiles->mask.next[p] != tiles->n_queries)
            return false;
    return true;
}
