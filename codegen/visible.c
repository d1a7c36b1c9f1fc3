/* SPDX-License-Identifier: Apache-2.0 */
/* How many keys a mask leaves visible: attention's mask where(mask, scores, -inf), if it is made
 * of positions, leaves a block of queries only the first so many keys. Positions depend on the
 * rank's coordinates and, in a ring, on the step: one combination of these is a *point*. The
 * mask is evaluated in intervals for each point, and points are joined to *cases* that an affine
 * form of the rank's number and the step distinguishes, since guards of instructions can express
 * that. The number is a coordinate, or the rank's number among the ranks of several mesh axes
 * that split positions:
 *
 *   %block = mod(sub(iota["@ring"], %step), 4)         context 0..3, step 1..3
 *   %mask  = le(%block * 16 + iota[kseq], iota[seq])   all keys if context - step >= 0, else none
 *
 * A block of queries has at least one key: a hidden key contributes nothing. */
#include "codegen/emit.h"

#include <math.h>
#include <string.h>

/* MOST_WIDTHS: numbers of keys that blocks may have, each of which needs a kernel of its own.
 * MOST_VISITS: evaluated nodes per block. (A value used twice is visited twice, so n lines may cost
 * 2^n visits; with more, nothing is known of the mask.) The certificate's limit
 * (verify/plan_mask.c) is larger. */
enum { MOST_POINTS = 4096, MOST_SUMS = 32, MOST_WIDTHS = 16, MOST_VISITS = 256 };

/* The whole numbers lo .. hi, one of which a value is; not known: any number. */
typedef struct Range {
    bool known;
    int64_t lo, hi;
} Range;

/* The ranges of indices of a block along the two axes of the scores, under the names that these
 * axes have where the value is evaluated; NULL: the value lacks the axis. */
typedef struct Area {
    const char *axis[2];
    int64_t first[2], last[2];
} Area;

/* Where a value is: in a scope, or in the callee of a call in another function. */
typedef struct Inside {
    const DtScope *scope;
    const DtOp *call;
    const struct Inside *outer;
} Inside;

static const Range any = {.known = false};

static Range of(int64_t lo, int64_t hi)
{
    const bool fits = lo >= INT32_MIN && hi <= INT32_MAX; /* positions do not wrap around */
    return fits ? (Range){true, lo, hi} : any;
}

/* ---- the values that an integer may have ---- */

static Range range_of(DtVisible *r, const Inside *in, const DtValue *value, Area block);

static Range of_input(DtVisible *r, const Inside *in, const DtValue *value, Area block)
{
    if (in->call)
        return range_of(r, in->outer, in->call->in[value->index], block);
    const DtScope *scope = in->scope;
    if (!scope->op || !scope->parent)
        return any;
    const Inside outer = {.scope = scope->parent};
    if (!scope->loop)
        return range_of(r, &outer, scope->op->in[value->index], block);
    if (value->index == 0 && scope->loop->axis[0] == '@' && scope->reg < DT_VISIBLE_REGS) {
        r->loops[scope->reg] = scope->loop;
        return of(r->step[scope->reg], r->step[scope->reg]);
    }
    const uint32_t at = value->index - 1;
    if (value->index == 0 || at < scope->loop->n_carried ||
        at >= scope->loop->n_carried + scope->loop->n_invariant)
        return any;
    return range_of(r, &outer, scope->op->in[at], block);
}

/* Records a rank number on which positions depend; if there are too many, only the first are
 * recorded. */
static void note_number(DtVisible *r, uint32_t n, const uint8_t *mesh)
{
    DtVisibleNumber number = {.n = (uint8_t)n};
    memcpy(number.mesh, mesh, n);
    for (uint32_t i = 0; i < r->n_numbers; i++)
        if (memcmp(&r->numbers[i], &number, sizeof number) == 0)
            return;
    if (n > 0 && r->n_numbers < DT_VISIBLE_NUMBERS)
        r->numbers[r->n_numbers++] = number;
}

/* Returns the positions that an iota has in the block, along a whole axis or the rank's part of
 * it. */
static Range of_iota(DtVisible *r, const DtOp *op, const Area *block)
{
    const DtMesh *mesh = &r->e->module->mesh;
    const DtAxis *axis = &op->out[0]->type->axes[0];
    const int64_t length = dt_type_local_extent(op->out[0]->type, 0, mesh);
    int64_t number = 0, first = 0, last = length - 1;
    for (uint32_t s = 0; s < axis->n_split; s++) {
        const DtMeshAxis *m = &mesh->axes[axis->split[s]];
        if (m->is_time || axis->zigzag)
            return any;
        r->uses |= (uint16_t)(1u << axis->split[s]);
        number = number * m->size + r->coord[axis->split[s]];
    }
    if (r->n_points == 0) /* numbers are recorded before any point is evaluated */
        note_number(r, axis->n_split, axis->split);
    for (uint32_t k = 0; k < 2; k++)
        if (block->axis[k] == op->axes[0])
            first = block->first[k], last = block->last[k];
    return of(number * length + first, number * length + last);
}

/* Returns the one of the named axes that is longer than 1 on a rank; "" if none is, NULL if several
 * are. */
static const char *long_one(const DtVisible *r, const DtType *type, const char *const *names,
                            uint32_t n)
{
    const char *found = "";
    for (uint32_t i = 0; i < n; i++) {
        int d = dt_type_find(type, names[i]);
        if (d < 0 || dt_type_local_extent(type, (uint32_t)d, &r->e->module->mesh) == 1)
            continue;
        if (found[0])
            return NULL;
        found = names[i];
    }
    return found;
}

static bool is_among(const char *axis, const char *const *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (names[i] == axis)
            return true;
    return false;
}

/* Returns the range of a value that renames axes, or splits and merges them without moving a rank's
 * elements. A name that the operand has for another axis than the result says nothing of the block:
 * iota[kseq][kseq -> seq] has the positions of keys along queries. */
static Range of_relabel(DtVisible *r, const Inside *in, const DtOp *op, const Area *block)
{
    Area before = *block;
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        const DtRelabel *entry = &op->relabels[i];
        const char *from = long_one(r, op->in[0]->type, entry->from, entry->n_from);
        const char *to = long_one(r, op->out[0]->type, entry->to, entry->n_to);
        if (!from || !to)
            return any;
        for (uint32_t k = 0; k < 2; k++)
            if (to[0] && block->axis[k] == to)
                before.axis[k] = from;
            else if (is_among(block->axis[k], entry->from, entry->n_from) ||
                     is_among(block->axis[k], entry->to, entry->n_to))
                before.axis[k] = NULL;
    }
    return range_of(r, in, op->in[0], before);
}

static Range of_product(Range x, Range y)
{
    const int64_t at[] = {x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi};
    Range all = {true, at[0], at[0]};
    for (uint32_t i = 1; i < 4; i++) {
        all.lo = at[i] < all.lo ? at[i] : all.lo;
        all.hi = at[i] > all.hi ? at[i] : all.hi;
    }
    return of(all.lo, all.hi);
}

static int64_t quotient(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

static Range truth(bool always, bool never) { return of(always, !never); }

static Range of_two(DtOpKind kind, Range x, Range y)
{
    const int64_t low = x.lo < y.lo ? x.lo : y.lo, high = x.hi > y.hi ? x.hi : y.hi;
    switch (kind) {
    case DT_OP_ADD: return of(x.lo + y.lo, x.hi + y.hi);
    case DT_OP_SUB: return of(x.lo - y.hi, x.hi - y.lo);
    case DT_OP_MUL: return of_product(x, y);
    case DT_OP_MIN: return of(low, x.hi < y.hi ? x.hi : y.hi);
    case DT_OP_MAX: return of(x.lo > y.lo ? x.lo : y.lo, high);
    case DT_OP_LT: return truth(x.hi < y.lo, x.lo >= y.hi);
    case DT_OP_LE: return truth(x.hi <= y.lo, x.lo > y.hi);
    case DT_OP_AND: return of(x.lo && y.lo, x.hi && y.hi);
    case DT_OP_OR: return of(x.lo || y.lo, x.hi || y.hi);
    case DT_OP_FLOORDIV:
        return y.lo == y.hi && y.lo > 0 ? of(quotient(x.lo, y.lo), quotient(x.hi, y.lo)) : any;
    case DT_OP_MOD:
        if (y.lo != y.hi || y.lo <= 0)
            return any;
        if (quotient(x.lo, y.lo) != quotient(x.hi, y.lo))
            return of(0, y.lo - 1);
        return of(x.lo - quotient(x.lo, y.lo) * y.lo, x.hi - quotient(x.lo, y.lo) * y.lo);
    default: return any;
    }
}

static Range of_op(DtVisible *r, const Inside *in, const DtOp *op, const Area *block)
{
    if (op->kind == DT_OP_CONST)
        return fabs(op->number) < INT32_MAX && op->number == floor(op->number)
                   ? of((int64_t)op->number, (int64_t)op->number)
                   : any;
    if (op->kind == DT_OP_IOTA)
        return of_iota(r, op, block);
    if (op->kind == DT_OP_RELABEL)
        return of_relabel(r, in, op, block);
    if (!dt_op_is_pointwise(op->kind))
        return any;
    Range x[3] = {any, any, any};
    for (uint32_t i = 0; i < op->n_in && i < 3; i++)
        x[i] = range_of(r, in, op->in[i], *block);
    if (op->kind == DT_OP_WHERE) {
        if (x[0].known && x[0].lo == x[0].hi)
            return x[x[0].lo ? 1 : 2];
        return x[1].known && x[2].known ? of(x[1].lo < x[2].lo ? x[1].lo : x[2].lo,
                                             x[1].hi > x[2].hi ? x[1].hi : x[2].hi)
                                        : any;
    }
    if (!x[0].known || (op->n_in > 1 && !x[1].known)) {
        if (op->kind == DT_OP_AND && ((x[0].known && !x[0].hi) || (x[1].known && !x[1].hi)))
            return of(0, 0); /* one part of the mask hides all of the block */
        return op->out[0]->type->dtype == DT_BOOL ? of(0, 1) : any;
    }
    switch (op->kind) {
    case DT_OP_EXPAND:
    case DT_OP_STOP: return x[0];
    case DT_OP_NOT: return of(!x[0].hi, !x[0].lo);
    case DT_OP_NEG: return of(-x[0].hi, -x[0].lo);
    default: return op->n_in == 2 ? of_two(op->kind, x[0], x[1]) : any;
    }
}

static Range range_of(DtVisible *r, const Inside *in, const DtValue *value, Area block)
{
    value = dt_op_copied(value);
    const DtOp *op = value->op;
    const DtDtype dtype = value->type->dtype;
    if ((dtype != DT_I32 && dtype != DT_BOOL) || r->visits++ >= MOST_VISITS)
        return any;
    if (!op)
        return of_input(r, in, value, block);
    if (op->kind != DT_OP_FUSED && (op->kind != DT_OP_CALL || op->n_axes))
        return of_op(r, in, op, &block);
    const Inside callee = {.call = op, .outer = in};
    return range_of(r, &callee, op->func->results.at[value->index], block);
}

static Range mask_of(DtVisible *r, Area block)
{
    const Inside in = {.scope = r->scope};
    r->visits = 0;
    return range_of(r, &in, r->mask, block);
}

/* ---- blocks of queries ---- */

/* Returns the values that the mask may have in the block. Each axis is tested in two pieces, since
 * halves of zigzag order have separate positions. */
static Range seen_in(DtVisible *r, Area block)
{
    const int64_t half[2] = {r->n[0] / 2, r->n[1] / 2};
    for (uint32_t k = 0; k < 2; k++)
        if (block.first[k] < half[k] && block.last[k] >= half[k]) {
            Area lower = block, upper = block;
            lower.last[k] = half[k] - 1;
            upper.first[k] = half[k];
            const Range x = seen_in(r, lower), y = seen_in(r, upper);
            return x.known && y.known ? of(x.lo < y.lo ? x.lo : y.lo, x.hi > y.hi ? x.hi : y.hi)
                                      : any;
        }
    return mask_of(r, block);
}

/* Whether no query of the block sees any of its keys. */
static bool is_hidden(DtVisible *r, Area block)
{
    const Range seen = seen_in(r, block);
    return seen.known && seen.hi == 0;
}

/* Returns how many keys each query of half q sees at the current point, if all its queries see the
 * same halves of the keys and see these whole; else 0: blocks differ. */
static int64_t keys_of_half(DtVisible *r, uint32_t q)
{
    const int64_t half[2] = {r->n[0] / 2, r->n[1] / 2};
    Area block = {{r->axis[0], r->axis[1]}, {q ? half[0] : 0, half[1]},
                  {q ? r->n[0] - 1 : half[0] - 1, r->n[1] - 1}};
    if (half[0] == 0 || half[1] < 2)
        return 0;
    const Range upper = seen_in(r, block);
    if (!upper.known || (upper.hi > 0 && upper.lo == 0))
        return 0;
    if (upper.lo > 0)
        return r->n[1];
    block.first[1] = 1, block.last[1] = half[1] - 1;
    const Range lower = seen_in(r, block);
    const int64_t grains = (half[1] + r->grain - 1) / r->grain * r->grain;
    return !lower.known       ? 0
           : lower.hi == 0    ? 1
           : lower.lo == 0    ? 0
           : grains < r->n[1] ? grains
                              : r->n[1];
}

/* Returns how many keys queries at .. at + rows - 1 see at point p, if both halves that they touch
 * see equally many; else 0. */
static int64_t keys_of_whole(const DtVisible *r, int64_t p, int64_t at, int64_t rows)
{
    const int64_t *of_half = &r->of_half[2 * p], half = r->n[0] / 2;
    if (at + rows <= half || at >= half)
        return of_half[at >= half];
    const int64_t most = of_half[0] > of_half[1] ? of_half[0] : of_half[1];
    return of_half[0] && of_half[1] ? most : 0;
}

/* Returns how many keys suffice for queries at .. at + rows - 1 at point p, which is the current
 * point: the queries see none after the first so many. It is 1, a multiple of grain, or all
 * keys. */
static int64_t keys_of(DtVisible *r, int64_t p, int64_t at, int64_t rows)
{
    Area block = {{r->axis[0], r->axis[1]}, {at, 1}, {at + rows - 1, r->n[1] - 1}};
    int64_t lo = 0, hi = (r->n[1] + r->grain - 1) / r->grain;
    const int64_t whole = keys_of_whole(r, p, at, rows);
    if (whole)
        return whole;
    if (r->n[1] == 1 || is_hidden(r, block))
        return 1;
    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;
        block.first[1] = middle > 0 ? middle * r->grain : 1;
        if (block.first[1] >= r->n[1] || is_hidden(r, block))
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo * r->grain < r->n[1] ? lo * r->grain : r->n[1];
}

/* ---- points and sums ---- */

/* Makes the point with this number the current one; false: there are no more points. */
static bool set_point(DtVisible *r, int64_t number)
{
    const DtMesh *mesh = &r->e->module->mesh;
    for (uint32_t m = 0; m < mesh->n; m++)
        if (r->uses >> m & 1) {
            r->coord[m] = number % mesh->axes[m].size;
            number /= mesh->axes[m].size;
        }
    for (uint32_t i = 0; i < DT_VISIBLE_REGS; i++)
        if (r->loops[i]) {
            r->step[i] = r->loops[i]->first + number % r->loops[i]->count;
            number /= r->loops[i]->count;
        }
    return number == 0;
}

static int64_t size_of(const DtVisible *r, uint32_t m) { return r->e->module->mesh.axes[m].size; }

/* Returns the factor of the coordinate on mesh axis k of the rank number. */
static int64_t weight_of(const DtVisible *r, const DtVisibleNumber *number, uint32_t k)
{
    int64_t weight = 1;
    for (uint32_t i = k + 1; i < number->n; i++)
        weight *= size_of(r, number->mesh[i]);
    return weight;
}

static int64_t ranks_of(const DtVisible *r, const DtVisibleNumber *number)
{
    return number->n ? weight_of(r, number, 0) * size_of(r, number->mesh[0]) : 1;
}

/* Returns the value of the sum at the current point. */
static int64_t value_of(const DtVisible *r, const DtVisibleSum *sum_of)
{
    int64_t value = sum_of->reg < 0 ? 0 : -r->step[sum_of->reg];
    for (uint32_t k = 0; sum_of->number >= 0 && k < r->numbers[sum_of->number].n; k++)
        value += weight_of(r, &r->numbers[sum_of->number], k) *
                 r->coord[r->numbers[sum_of->number].mesh[k]];
    return value;
}

static uint32_t sums_of(const DtVisible *r, DtVisibleSum *ret_sums)
{
    uint32_t n = 0;
    ret_sums[n++] = (DtVisibleSum){-1, -1};
    for (int k = -1; k < (int)r->n_numbers; k++)
        for (int i = -1; i < DT_VISIBLE_REGS; i++)
            if ((k >= 0 || i >= 0) && (i < 0 || r->loops[i]) && n < MOST_SUMS)
                ret_sums[n++] = (DtVisibleSum){k, i};
    return n;
}

/* Orders the recorded numbers: those of one mesh axis first, in the order of the mesh. */
static void list_numbers(DtVisible *r)
{
    DtVisibleNumber several[DT_VISIBLE_NUMBERS];
    const uint32_t n = r->n_numbers;
    memcpy(several, r->numbers, n * sizeof several[0]);
    memset(r->numbers, 0, sizeof r->numbers);
    r->n_numbers = 0;
    for (uint8_t m = 0; m < r->e->module->mesh.n; m++)
        if (r->uses >> m & 1)
            note_number(r, 1, &m);
    for (uint32_t i = 0; i < n; i++)
        note_number(r, several[i].n, several[i].mesh);
}

/* Finds, for each value v of this sum, the most keys that a block of queries sees, ret_keys[v -
 * least], and at how many points the sum has that value, ret_points[v - least]. Returns the work,
 * the sum of keys times points. seen: the keys by point. */
static int64_t tell(DtVisible *r, const DtVisibleSum *sum_of, const int64_t *seen,
                    int64_t *ret_keys, int64_t *ret_points)
{
    int64_t sum = 0;
    for (int64_t v = 0; v <= r->most - r->least; v++)
        ret_keys[v] = ret_points[v] = 0;
    for (int64_t p = 0; set_point(r, p); p++) {
        int64_t *most = &ret_keys[value_of(r, sum_of) - r->least];
        *most = seen[p] > *most ? seen[p] : *most;
        ret_points[value_of(r, sum_of) - r->least]++;
    }
    for (int64_t v = 0; v <= r->most - r->least; v++)
        sum += ret_keys[v] * ret_points[v];
    return sum;
}

bool dt_visible_begin(DtEmit *e, const DtScope *scope, const DtValue *mask, const char *queries,
                      int64_t n_queries, const char *keys, int64_t n_keys, DtVisible *ret_reach)
{
    DtVisible *r = ret_reach;
    *r = (DtVisible){.e = e, .scope = scope, .mask = mask, .axis = {queries, keys},
                     .n = {n_queries, n_keys}};
    if (!mask)
        return false;
    const Area all = {{queries, keys}, {0, 0}, {n_queries - 1, n_keys - 1}};
    int64_t n = 1;
    mask_of(r, all); /* marks the registers and coordinates that it depends on */
    list_numbers(r);
    for (uint32_t m = 0; m < e->module->mesh.n; m++)
        n *= r->uses >> m & 1 ? e->module->mesh.axes[m].size : 1;
    for (uint32_t i = 0; i < DT_VISIBLE_REGS && n <= MOST_POINTS; i++)
        n *= r->loops[i] ? r->loops[i]->count : 1;
    r->n_points = n;
    r->grain = r->uses && n_keys > MOST_WIDTHS ? (n_keys + MOST_WIDTHS - 1) / MOST_WIDTHS : 1;
    for (uint32_t i = 0; i < r->n_numbers; i++)
        r->most = r->most < ranks_of(r, &r->numbers[i]) ? ranks_of(r, &r->numbers[i]) : r->most;
    for (uint32_t i = 0; i < DT_VISIBLE_REGS; i++)
        if (r->loops[i] && -(r->loops[i]->first + r->loops[i]->count) < r->least)
            r->least = -(r->loops[i]->first + r->loops[i]->count);
    if (n > MOST_POINTS)
        return false;
    r->of_half = DT_NEW_ARRAY(e->scratch, int64_t, 2 * n);
    for (int64_t p = 0; set_point(r, p); p++)
        for (uint32_t q = 0; q < 2; q++)
            r->of_half[2 * p + q] = keys_of_half(r, q);
    return true;
}

/* Joins neighbouring cases until at most `most` are left, first those that add the least work;
 * returns how many are left. */
static uint32_t join(DtVisibleCase *cases, uint32_t n, uint32_t most)
{
    while (n > most) {
        uint32_t best = 0;
        int64_t least = INT64_MAX;
        for (uint32_t i = 0; i + 1 < n; i++) {
            const DtVisibleCase *a = &cases[i], *b = &cases[i + 1];
            int64_t lost = a->keys < b->keys ? (b->keys - a->keys) * a->points
                                             : (a->keys - b->keys) * b->points;
            if (lost < least)
                least = lost, best = i;
        }
        DtVisibleCase *a = &cases[best];
        a->keys = a->keys > a[1].keys ? a->keys : a[1].keys;
        a->points += a[1].points;
        a->last = a[1].last;
        memmove(a + 1, a + 2, (n - best - 2) * sizeof *a);
        n--;
    }
    return n;
}

uint32_t dt_visible_cases(DtVisible *r, int64_t at, int64_t rows, uint32_t most,
                          DtVisibleCase *ret_cases)
{
    DtArena *scratch = r->e->scratch;
    const size_t n_values = (size_t)(r->most - r->least) + 1;
    int64_t *seen = DT_NEW_ARRAY(scratch, int64_t, (size_t)r->n_points + 1);
    int64_t *keys = DT_NEW_ARRAY(scratch, int64_t, n_values),
            *points = DT_NEW_ARRAY(scratch, int64_t, n_values);
    DtVisibleSum sums[MOST_SUMS], best = {-1, -1};
    int64_t least = INT64_MAX;
    for (int64_t p = 0; set_point(r, p); p++)
        seen[p] = keys_of(r, p, at, rows);
    const uint32_t n_sums = sums_of(r, sums);
    for (uint32_t i = 0; i < n_sums; i++) {
        int64_t sum = tell(r, &sums[i], seen, keys, points);
        if (sum < least)
            least = sum, best = sums[i];
    }
    tell(r, &best, seen, keys, points);
    DtVisibleCase *cases = DT_NEW_ARRAY(scratch, DtVisibleCase, n_values);
    uint32_t n = 0;
    for (int64_t v = r->least; v <= r->most; v++) {
        const int64_t k = keys[v - r->least], here = points[v - r->least];
        if (here == 0)
            continue;
        if (n > 0 && cases[n - 1].keys == k) {
            cases[n - 1].last = v;
            cases[n - 1].points += here;
        } else {
            cases[n++] = (DtVisibleCase){.sum_of = best, .first = v, .last = v, .keys = k,
                                         .points = here};
        }
    }
    n = join(cases, n, most);
    for (uint32_t i = 0; i < n; i++) {
        cases[i].is_first = i == 0, cases[i].is_last = i + 1 == n;
        ret_cases[i] = cases[i];
    }
    return n;
}

/* Returns the argument of a guard, which must not be negative: sum - than, or than - sum for sign
 * -1. */
static DtEArg guard_of(const DtVisible *r, const DtVisibleSum *sum_of, int64_t sign, int64_t than)
{
    DtEArg arg = {.kind = DT_ARG_INTEGER, .base = -sign * than};
    const DtVisibleNumber *number = sum_of->number >= 0 ? &r->numbers[sum_of->number] : NULL;
    for (uint32_t k = 0; number && k < number->n; k++) {
        arg.coord_axis[k] = (uint8_t)(number->mesh[k] - dt_emit_first_device(&r->e->module->mesh));
        arg.coord[k] = sign * weight_of(r, number, k);
    }
    if (sum_of->reg >= 0) {
        arg.reg[sum_of->reg] = -sign;
        arg.base -= sign * r->loops[sum_of->reg]->first;
    }
    return arg;
}

void dt_visible_guard(DtVisible *r, const DtVisibleCase *of_points)
{
    DtEmit *e = r->e;
    e->n_guards = 0;
    e->share = (double)of_points->points / (double)r->n_points;
    if (!of_points->is_first)
        e->guards[e->n_guards++] = guard_of(r, &of_points->sum_of, 1, of_points->first);
    if (!of_points->is_last)
        e->guards[e->n_guards++] = guard_of(r, &of_points->sum_of, -1, of_points->last);
}
