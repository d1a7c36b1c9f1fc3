/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which values an integer input may have. An index out of range is legal, and reads 0; so a
 * token outside of a table's axis would silently give zeros.
 *
 * The program shows whether it wants that. Either it uses the value that it read only under a
 * condition on the same index (`where(y >= 0 and y < size[c], ... z[c = y], 0)`, as in xent; a
 * product with such a condition), or it bounds the index first (`where(t < n, t, 0)`, `min(t, n -
 * 1)`). If it uses the value otherwise, an index outside the axis is a fault of the data. So for
 * each value v of the program this file computes sets of integers, in terms of the input's element
 * at the same place (the "root"): the facts of ranges_fact.h, among them `bad`, the roots for which
 * v depends on a value that was read out of range.
 *
 * Ops are taken in order: a gather at index v adds "is, outside of the axis" to bad; results of
 * maps follow rules (ranges_fact.c). Values of the root that are still in bad at an op that
 * combines several places (a sum, a product of matrices, the loss) are not allowed. If an op moves
 * elements to other places (slices, renamed axes, iterations), its result becomes a root of its
 * own, whose elements are some of the first root's.
 *
 * A sum over places is 0 if no element of the root is in the term's `yes` ("sums"). So a loss per
 * valid label, `sum(where(y >= 0, ..)) / sum(y >= 0)`, has no value if the data can have no label
 * of 0 or more (dt_ranges_idle). */
#include "ir/ranges.h"
#include "ir/ranges_fact.h"

#include <string.h>

enum { BUDGET = 1 << 21, ROUNDS = 8 };

/* A root: the input, or a value made of other roots' elements at other places. */
typedef struct Root {
    const DtOp *made_by;   /* NULL: the input */
    uint32_t n_parents;
    const DtFact *parents; /* operands of made_by that it is made of */
    DtIntSet bad, used;    /* bad: elements that are not allowed; used: those that are inside all
                            * axes that it indexes */
    const DtOp *by;
    uint32_t index;
} Root;

/* A call that was examined: facts of its inputs, and those of its results that follow. of_loss: by
 * result, whether a loss or a state depends on it. */
typedef struct Seen {
    const DtFunc *func;
    DtFact *const *in, *const *results;
    const bool *of_loss;
} Seen;

/* A sum that the program divides by, or its loss: it is 0 if no element of the root is in `some`.
 * of_loss: a loss or a state depends on it, and so do gradients; false: at most a metric does. */
typedef struct Counted {
    uint32_t root;
    DtIntSet some;
    DtSums sums;
    bool divides, of_loss;
    DtSpan span;
} Counted;

typedef struct Walk {
    DtArena *scratch;
    DT_VEC(Root) roots; /* roots[0] is the input */
    DT_VEC(Counted) counted;
    DT_VEC(Seen) seen;
    uint32_t budget;    /* the most ops that are examined; further calls of a program are not
                         * checked */
    bool counts;        /* whether divisions of this entry are of interest */
    bool of_loss;       /* whether a loss or a state depends on the op being walked */
} Walk;

static DtFact **walk_func(Walk *w, const DtFunc *func, DtFact *const *in, const bool *of_loss);

/* ---- facts ---- */

static bool same_facts(uint32_t n, DtFact *const *a, DtFact *const *b)
{
    for (uint32_t i = 0; i < n; i++)
        if (!dt_fact_same(a[i], b[i]))
            return false;
    return true;
}

/* Returns a permanent copy of the facts without those about forbidden values; NULL if nothing is
 * left. */
static DtFact *keep(Walk *w, DtFact fact)
{
    DtIntSet new = dt_intset_others(&w->roots.at[fact.root].bad);
    fact.bad = dt_intset_common(&fact.bad, &new);
    if (dt_fact_says_nothing(&fact))
        return NULL;
    DtFact *kept = DT_NEW(w->scratch, DtFact);
    *kept = fact;
    return kept;
}

/* ---- roots ---- */

/* Returns the facts of the root itself: it is exactly the root's element. */
static DtFact *the_root(Walk *w, uint32_t root)
{
    DtFact fact = dt_fact_nothing(root);
    fact.is = dt_intset_all;
    fact.exact = true;
    return keep(w, fact);
}

static int64_t indexed_extent(const DtOp *op, uint32_t index)
{
    return dt_type_extent(op->kind == DT_OP_GATHER ? op->in[0]->type : op->out[0]->type,
                          op->axes[index]);
}

/* Records that these elements of the root are not allowed. */
static void forbid(Walk *w, uint32_t root, const DtIntSet *bad, const DtOp *by, uint32_t index)
{
    Root *r = &w->roots.at[root];
    if (dt_intset_within(bad, &r->bad))
        return;
    r->bad = dt_intset_union(&r->bad, bad);
    if (!r->by || indexed_extent(by, index) < indexed_extent(r->by, r->index)) {
        r->by = by;
        r->index = index;
    }
    for (uint32_t i = 0; i < r->n_parents; i++) {
        const DtFact *parent = &w->roots.at[root].parents[i];
        DtIntSet theirs = dt_intset_shift(bad, -parent->shift);
        theirs = dt_intset_common(&theirs, &parent->is);
        if (theirs.n)
            forbid(w, parent->root, &theirs, by, index);
    }
}

/* Records that the root indexes an axis that has the elements in `inside`. */
static void use(Walk *w, uint32_t root, const DtIntSet *inside)
{
    Root *r = &w->roots.at[root];
    r->used = dt_intset_common(&r->used, inside);
    for (uint32_t i = 0; i < r->n_parents; i++) {
        const DtFact *parent = &w->roots.at[root].parents[i];
        DtIntSet theirs = dt_intset_shift(inside, -parent->shift);
        use(w, parent->root, &theirs);
    }
}

/* Records that the value is used at all places: elements of the root in bad are not allowed. */
static void settle(Walk *w, const DtFact *fact)
{
    if (fact && fact->bad.n)
        forbid(w, fact->root, &fact->bad, fact->by, fact->index);
}

/* Makes the result of op, which moves elements to other places, a root of its own and returns its
 * facts; NULL: no operand has facts. */
static DtFact *moved(Walk *w, const DtOp *op, uint32_t n, DtFact *const *in)
{
    DtFact *parents = DT_NEW_ARRAY(w->scratch, DtFact, n + 1);
    uint32_t n_parents = 0;
    for (uint32_t i = 0; i < n; i++) {
        settle(w, in[i]);
        if (in[i] && in[i]->is.n)
            parents[n_parents++] = *in[i];
    }
    if (!n_parents)
        return NULL;
    uint32_t root = 1;
    for (; root < w->roots.n; root++) {
        const Root *r = &w->roots.at[root];
        bool same = r->made_by == op && r->n_parents == n_parents;
        for (uint32_t i = 0; same && i < n_parents; i++)
            same = dt_fact_same(&r->parents[i], &parents[i]);
        if (same)
            break;
    }
    if (root == w->roots.n) {
        Root made = {.made_by = op, .n_parents = n_parents, .parents = parents,
                     .used = dt_intset_all};
        DT_PUSH(w->scratch, w->roots, made);
    }
    return the_root(w, root);
}

/* ---- sums ---- */

static void count(Walk *w, const DtFact *fact, bool divides, DtSpan span)
{
    const Counted counted = {fact->root, fact->yes, fact->sums, divides, w->of_loss, span};
    if (w->counts)
        DT_PUSH(w->scratch, w->counted, counted);
}

/* The facts of the sum over places of a value with these facts. */
static DtFact *sum_of(Walk *w, const DtFact *fact)
{
    if (!fact || fact->sums == DT_SUMS_BOUNDED)
        return NULL;
    DtFact out = dt_fact_nothing(fact->root);
    out.yes = fact->yes;
    out.sums = DT_SUMS_ZERO;
    return keep(w, out);
}

/* The facts of a map whose operands are sums, or values without facts. */
static DtFact *map_of_sums(Walk *w, const DtOp *op, DtFact *const *in)
{
    const DtFact *a = in[0], *b = op->n_in > 1 ? in[1] : NULL;
    double number;
    switch (op->kind) {
    case DT_OP_NEG:
    case DT_OP_STOP:
    case DT_OP_BIND:
    case DT_OP_CAST:
    case DT_OP_EXPAND: return in[0];
    case DT_OP_MUL: return sum_of(w, a && a->sums == DT_SUMS_ZERO ? a : b);
    case DT_OP_DIV: return sum_of(w, a);
    case DT_OP_ADD: return a && b && dt_fact_same(a, b) ? sum_of(w, a) : NULL;
    case DT_OP_MAX: {
        const uint32_t x = a ? 0 : 1;
        if ((a && b) || !dt_fact_constant(op->in[1 - x], &number))
            return NULL;
        DtFact out = *in[x];
        out.sums = DT_SUMS_BOUNDED;
        return keep(w, out);
    }
    default: return NULL;
    }
}

static bool is_sum(const DtFact *fact) { return fact && fact->sums != DT_SUMS_NOT; }

/* Facts for a map of elements, ignoring operands that are sums; NULL: it has no others. */
static DtFact **elements(Walk *w, const DtOp *op, DtFact *const *in)
{
    DtFact **own = DT_NEW_ARRAY(w->scratch, DtFact *, op->n_in + 1);
    bool any_element = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        own[i] = is_sum(in[i]) ? NULL : in[i];
        any_element = any_element || own[i];
    }
    return any_element ? own : NULL;
}

static DtFact *map_elements(Walk *w, const DtOp *op, DtFact *const *in)
{
    uint32_t root = UINT32_MAX;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (in[i] && root == UINT32_MAX)
            root = in[i]->root;
        else if (in[i] && in[i]->root != root)
            settle(w, in[i]);
    return keep(w, dt_fact_map(op, in, root));
}

static DtFact *map(Walk *w, const DtOp *op, DtFact *const *in)
{
    bool has_sum = false;
    for (uint32_t i = 0; i < op->n_in; i++)
        has_sum = has_sum || is_sum(in[i]);
    if (!has_sum)
        return map_elements(w, op, in);
    if (op->kind == DT_OP_DIV && is_sum(in[1]))
        count(w, in[1], true, op->span);
    DtFact **own = elements(w, op, in);
    return own ? map_elements(w, op, own) : map_of_sums(w, op, in);
}

/* ---- indices ---- */

/* Returns the elements of the root that are outside of the indexed axis; records that the root
 * indexes that axis. */
static DtIntSet missed(Walk *w, const DtOp *op, uint32_t index, const DtFact *fact)
{
    DtIntSet inside = dt_intset_range(-fact->shift, indexed_extent(op, index) - fact->shift);
    use(w, fact->root, &inside);
    DtIntSet outside = dt_intset_others(&inside);
    return dt_intset_common(&outside, &fact->is);
}

static DtFact *gather(Walk *w, const DtOp *op, DtFact *const *in)
{
    DtFact *table = moved(w, op, 1, in);
    DtFact out = dt_fact_nothing(0);
    bool first = true;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const DtFact *index = in[i + 1];
        if (!index)
            continue;
        if (first)
            out = dt_fact_nothing(index->root);
        DtFact own = dt_fact_nothing(index->root);
        if (index->bad.n)
            dt_fact_add_bad(&own, &index->bad, index->by, index->index);
        if (index->is.n) {
            DtIntSet bad = missed(w, op, i, index);
            dt_fact_add_bad(&own, &bad, op, i);
        }
        if (own.root != out.root || table)
            settle(w, &own);
        else if (own.bad.n)
            dt_fact_add_bad(&out, &own.bad, own.by, own.index);
        first = false;
    }
    return table ? table : first ? NULL : keep(w, out);
}

/* Elements that scatter_add would add outside of the axis are lost, however the result is used:
 * records them as not allowed. */
static void scatter(Walk *w, const DtOp *op, DtFact *const *in)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        settle(w, in[i]);
        if (i == 0 || i > op->n_axes || !in[i] || !in[i]->is.n)
            continue;
        DtIntSet bad = missed(w, op, i - 1, in[i]);
        if (bad.n)
            forbid(w, in[i]->root, &bad, op, i - 1);
    }
}

/* ---- functions and loops ---- */

static DtFact *joined(Walk *w, DtFact *a, DtFact *b)
{
    if (!a || !b || dt_fact_same(a, b))
        return a ? a : b;
    if (a->root != b->root || a->sums != b->sums || (a->is.n && b->is.n && a->shift != b->shift)) {
        settle(w, a);
        settle(w, b);
        return NULL;
    }
    DtFact out = *a;
    if (b->bad.n)
        dt_fact_add_bad(&out, &b->bad, b->by, b->index);
    out.shift = a->is.n ? a->shift : b->shift;
    out.is = dt_intset_union(&a->is, &b->is);
    out.yes = dt_intset_union(&a->yes, &b->yes);
    out.no = dt_intset_union(&a->no, &b->no);
    out.exact = a->exact && b->exact;
    return keep(w, out);
}

/* Returns the facts of a carried value, from those of its initial and its next value: facts that
 * are not true for both are dropped. */
static DtFact *met(Walk *w, DtFact *a, DtFact *b)
{
    DtFact *out = joined(w, a, b);
    if (!out || (a && b))
        return out;
    DtFact weak = *out;
    weak.exact = false;
    weak.yes = weak.no = dt_intset_all;
    return keep(w, weak);
}

static bool any(uint32_t n, DtFact *const *facts)
{
    for (uint32_t i = 0; i < n; i++)
        if (facts[i])
            return true;
    return false;
}

/* Returns, by value, whether one of the marked results depends on it. */
static bool *leading_to(Walk *w, const DtFunc *func, const bool *results)
{
    bool *leads = DT_NEW_ARRAY(w->scratch, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->results.n; i++)
        if (results[i])
            leads[func->results.at[i]->id] = true;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        bool any_result = false;
        for (uint32_t k = 0; k < op->n_out; k++)
            any_result = any_result || leads[op->out[k]->id];
        for (uint32_t k = 0; any_result && k < op->n_in; k++)
            leads[op->in[k]->id] = true;
    }
    return leads;
}

/* An iteration's results are operands of the next one, so they count alike. */
static void walk_loop(Walk *w, const DtOp *op, DtFact *const *in, DtFact **out)
{
    const DtLoop *loop = op->loop;
    bool *of_loss = DT_NEW_ARRAY(w->scratch, bool, op->func->results.n + 1);
    for (uint32_t i = 0; i < op->func->results.n; i++)
        of_loss[i] = w->of_loss;
    DtFact **inner = DT_NEW_ARRAY(w->scratch, DtFact *, op->n_in + 2);
    for (uint32_t i = 0; i < op->n_in; i++)
        inner[1 + i] = i < loop->n_carried + loop->n_invariant ? in[i] : moved(w, op, 1, &in[i]);
    for (uint32_t round = 0;; round++) {
        DtFact **results = walk_func(w, op->func, inner, of_loss);
        bool stable = true;
        for (uint32_t i = 0; i < loop->n_carried; i++) {
            DtFact *next = met(w, inner[1 + i], results[i]);
            if (dt_fact_same(next, inner[1 + i]))
                continue;
            if (round >= ROUNDS && next) { /* the iteration number, for example: it has no known
                                            * bounds */
                settle(w, next);
                next = NULL;
            }
            stable = false;
            inner[1 + i] = next;
        }
        for (uint32_t i = 0; i < op->n_out; i++)
            out[i] = i < loop->n_carried ? inner[1 + i] : moved(w, op, 1, &results[i]);
        if (stable || round > 2 * ROUNDS)
            return;
    }
}

static bool only_moves(const DtOp *op)
{
    return (dt_op_info[op->kind].op_class == DT_CLASS_AXIS &&
            dt_op_info[op->kind].data != DT_DATA_MAKE) ||
           (op->kind == DT_OP_REDUCE && op->reduce != DT_REDUCE_SUM);
}

/* leads: by value of the caller, whether a loss or a state depends on it. */
static void walk_call(Walk *w, const DtOp *op, const bool *leads, DtFact *const *in, DtFact **out)
{
    bool *of_loss = DT_NEW_ARRAY(w->scratch, bool, op->func->results.n + 1);
    for (uint32_t i = 0; i < op->func->results.n; i++)
        of_loss[i] = i < op->n_out ? leads[op->out[i]->id] : w->of_loss;
    memcpy(out, walk_func(w, op->func, in, of_loss), op->n_out * sizeof *out);
}

static void walk_op(Walk *w, const DtOp *op, const bool *leads, DtFact *const *in, DtFact **out)
{
    w->of_loss = false;
    for (uint32_t i = 0; i < op->n_out; i++)
        w->of_loss = w->of_loss || leads[op->out[i]->id];
    if (op->kind == DT_OP_LOOP)
        walk_loop(w, op, in, out);
    else if (op->func)
        walk_call(w, op, leads, in, out);
    else if (op->kind == DT_OP_GATHER)
        out[0] = gather(w, op, in);
    else if (op->kind == DT_OP_SCATTER_ADD)
        scatter(w, op, in);
    else if (dt_op_is_pointwise(op->kind))
        out[0] = map(w, op, in);
    else if (op->kind == DT_OP_EXPAND && is_sum(in[0]))
        out[0] = in[0];
    else if (op->kind == DT_OP_REDUCE && op->reduce == DT_REDUCE_SUM && in[0]) {
        settle(w, in[0]);
        out[0] = sum_of(w, in[0]);
    } else if (only_moves(op))
        out[0] = moved(w, op, op->n_in, in);
    else
        for (uint32_t i = 0; i < op->n_in; i++)
            settle(w, in[i]);
}

/* facts: by value. input: the name of the `input` that is the root; NULL: none. of_loss: by result
 * of the function. */
static void walk_ops(Walk *w, const DtFunc *func, const char *input, const bool *of_loss,
                     DtFact **facts)
{
    const bool *leads = leading_to(w, func, of_loss);
    for (uint32_t i = 0; i < func->ops.n && w->budget; i++, w->budget--) {
        const DtOp *op = func->ops.at[i];
        DtFact **in = DT_NEW_ARRAY(w->scratch, DtFact *, op->n_in + op->n_out + 1),
             **out = in + op->n_in;
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = facts[op->in[k]->id];
        if (input && op->kind == DT_OP_INPUT && op->text == input)
            out[0] = the_root(w, 0);
        else if (any(op->n_in, in))
            walk_op(w, op, leads, in, out);
        for (uint32_t k = 0; k < op->n_out; k++)
            facts[op->out[k]->id] = out[k];
    }
}

/* The facts of func's results, for these facts of its inputs; of_loss: by result, as in Seen. */
static DtFact **walk_func(Walk *w, const DtFunc *func, DtFact *const *in, const bool *of_loss)
{
    for (uint32_t i = 0; i < w->seen.n; i++)
        if (w->seen.at[i].func == func && same_facts(func->inputs.n, w->seen.at[i].in, in) &&
            !memcmp(w->seen.at[i].of_loss, of_loss, func->results.n * sizeof *of_loss))
            return (DtFact **)w->seen.at[i].results;
    DtFact **results = DT_NEW_ARRAY(w->scratch, DtFact *, func->results.n + 1);
    if (!any(func->inputs.n, in))
        return results;
    DtFact **facts = DT_NEW_ARRAY(w->scratch, DtFact *, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        facts[func->inputs.at[i]->id] = in[i];
    walk_ops(w, func, NULL, of_loss, facts);
    for (uint32_t i = 0; i < func->results.n; i++)
        results[i] = facts[func->results.at[i]->id];
    DtFact **given = DT_NEW_ARRAY(w->scratch, DtFact *, func->inputs.n + 1);
    memcpy(given, in, func->inputs.n * sizeof *given);
    Seen seen = {.func = func, .in = given, .results = results, .of_loss = of_loss};
    DT_PUSH(w->scratch, w->seen, seen);
    return results;
}

/* ---- inputs ---- */

/* Returns how many of the entry's first results are losses: its objective's, or those of all. */
static uint32_t n_losses(const DtModule *module, const DtEntryPoint *entry)
{
    uint32_t n = entry->kind == DT_ENTRY_LOSS;
    for (uint32_t i = 0; entry->kind == DT_ENTRY_EVAL && i < module->entries.n; i++)
        n += module->entries.at[i].kind == DT_ENTRY_LOSS;
    return n;
}

static void walk_entry(Walk *w, const DtModule *module, const DtEntryPoint *entry,
                       const char *input)
{
    const DtFunc *func = entry->func;
    const uint32_t losses = n_losses(module, entry);
    DtFact **facts = DT_NEW_ARRAY(w->scratch, DtFact *, func->n_values + 1);
    bool *of_loss = DT_NEW_ARRAY(w->scratch, bool, func->results.n + 1);
    for (uint32_t i = 0; i < func->results.n; i++)
        of_loss[i] = i < losses || (i < entry->results.n && entry->results.at[i].store);
    w->counts = entry->kind == DT_ENTRY_LOSS || entry->kind == DT_ENTRY_EVAL;
    walk_ops(w, func, input, of_loss, facts);
    for (uint32_t i = 0; i < func->results.n; i++) {
        const DtFact *fact = facts[func->results.at[i]->id];
        settle(w, fact);
        if (i == 0 && entry->kind == DT_ENTRY_LOSS && is_sum(fact) && func->results.at[i]->op) {
            w->of_loss = true;
            count(w, fact, false, func->results.at[i]->op->span);
        }
    }
}

static Walk walk_module(const DtModule *module, const char *input)
{
    Walk w = {.scratch = dt_arena_child(module->arena), .budget = BUDGET};
    Root first = {.used = dt_intset_all};
    DT_PUSH(w.scratch, w.roots, first);
    for (uint32_t i = 0; i < module->entries.n; i++)
        walk_entry(&w, module, &module->entries.at[i], input);
    return w;
}

DtInputRange dt_ranges_input(const DtModule *module, const char *input)
{
    const Walk w = walk_module(module, input);
    const Root *root = &w.roots.at[0];
    DtInputRange range = {.allowed = dt_intset_others(&root->bad)};
    const DtIntSet drawn = dt_intset_common(&root->used, &range.allowed),
                   *from = drawn.n ? &drawn : &range.allowed;
    if (from->n && from->lo[0] != INT64_MIN && from->hi[0] != INT64_MAX) {
        range.lo = from->lo[0];
        range.hi = from->hi[0];
    }
    if (root->by) {
        range.axis = root->by->axes[root->index];
        range.extent = indexed_extent(root->by, root->index);
        range.span = root->by->span;
    }
    dt_arena_free(w.scratch);
    return range;
}

/* Whether the elements of the root are elements of the input at the same places: only axes have
 * other names. */
static bool is_input(const Walk *w, uint32_t root)
{
    while (root) {
        const Root *r = &w->roots.at[root];
        if (r->made_by->kind != DT_OP_RELABEL || r->n_parents != 1 || !r->parents[0].exact ||
            r->parents[0].shift)
            return false;
        root = r->parents[0].root;
    }
    return true;
}

bool dt_ranges_idle(const DtModule *module, const char *input, const DtIntSet *values,
                    DtIdleSum *ret_idle)
{
    const Walk w = walk_module(module, input);
    bool found = false;
    for (uint32_t i = 0; i < w.counted.n; i++) {
        const Counted *c = &w.counted.at[i];
        const DtIntSet both = dt_intset_common(&c->some, values);
        if (both.n || !is_input(&w, c->root) || (found && (ret_idle->of_loss || !c->of_loss)))
            continue;
        found = true;
        *ret_idle = (DtIdleSum){c->span, c->some, c->divides, c->sums == DT_SUMS_BOUNDED,
                                c->of_loss};
    }
    dt_arena_free(w.scratch);
    return found;
}
