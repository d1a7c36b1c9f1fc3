/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: what an op wants of its operands.
 *
 * The op's shape rule (ir/shape.h) is the oracle: it says whether operands in these placements
 * give a result, and in which. For each mesh axis by itself, all other splits and sums left out,
 * operands stay as they are if the rule accepts them. Otherwise every combination is tried of: an
 * operand as it is, whole, or split along an axis that another operand, or a rule placement,
 * splits by this mesh axis. Among the accepted ones that is taken which costs least: the bytes of
 * the conversions, and those from the result to its rule placement, over the bandwidth of the mesh
 * axis; a contraction that can give its result in the rule placement does so. Then the mesh axes
 * are put together; if the whole type is refused (by the order of splits, say), mesh axes are
 * gathered until it is not.
 *
 * A library call is like an op whose rule is that of all ops of its function in turn. */
#include "passes/place/place_internal.h"

#include "ir/shape.h"

#include <math.h>
#include <string.h>

enum { MAX_OPTIONS = 12, MAX_EACH = 3 };

/* ---- the oracle ---- */

const DtType *dt_placechoose_wish(const DtPlacer *p, const DtPlaceLike *like, const DtOp *op,
                                  uint32_t i, const DtType *const *in)
{
    const DtType *plain = op->out[i]->type;
    if (!like || (op->n_in && op->kind != DT_OP_EXPAND))
        return dt_placerule_wish(p, op, i, in);
    uint16_t used = op->n_in ? (uint16_t)(in[0]->partial | dt_placerule_bits(in[0])) : 0;
    for (uint32_t d = 0; d < plain->rank; d++)
        for (uint32_t k = 0; k < like->n; k++) {
            int at = dt_type_find(like->types[k], plain->axes[d].name);
            for (uint32_t m = 0; at >= 0 && m < p->module->mesh.n; m++)
                if (dt_placerule_state(like->types[k], m) == at && !(used >> m & 1)) {
                    plain = dt_placerule_with(p, plain, m, (int)d);
                    used |= (uint16_t)(1u << m);
                }
        }
    return plain;
}

static const char *derive(const DtPlacer *p, const DtOp *op, const DtType *const *in,
                          const DtPlaceLike *like, const DtType **ret_out);

static const char *derive_call(const DtPlacer *p, const DtOp *op, const DtType *const *in,
                               const DtType **ret_out)
{
    const DtFunc *func = op->func;
    DtArena *arena = p->module->arena;
    const DtType **types = DT_NEW_ARRAY(arena, const DtType *, func->n_values + 1);
    const DtPlaceLike like = {in, op->n_in};
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (in[i]->partial)
            return "an argument of a library function is a pending sum";
        types[func->inputs.at[i]->id] = in[i];
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *inner = func->ops.at[i];
        const DtType *out[8], *operands[16];
        if (inner->n_in > DT_COUNT(operands) || inner->n_out > DT_COUNT(out))
            return "a library function with an op of many operands";
        for (uint32_t k = 0; k < inner->n_in; k++)
            operands[k] = types[inner->in[k]->id];
        const char *reason = derive(p, inner, operands, &like, out);
        if (reason)
            return reason;
        for (uint32_t k = 0; k < inner->n_out; k++)
            types[inner->out[k]->id] = out[k];
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_out[i] = types[func->results.at[i]->id];
    return NULL;
}

static const char *derive(const DtPlacer *p, const DtOp *op, const DtType *const *in,
                          const DtPlaceLike *like, const DtType **ret_out)
{
    if (op->kind == DT_OP_CALL)
        return derive_call(p, op, in, ret_out);
    if (op->n_in && dt_placehalo_is(op, in[0])) {
        const DtType *whole = dt_placehalo_whole(op, in[0]);
        const char *reason = derive(p, op, &whole, like, ret_out);
        return reason ? reason : dt_placehalo_derive(p, op, in[0], ret_out);
    }
    DtArena *arena = p->module->arena;
    DtValue few[4], *at[4], *operands = few, **list = at;
    const DtType *wishes[4], **wish = wishes;
    if (op->n_in > DT_COUNT(few)) {
        operands = DT_NEW_ARRAY(arena, DtValue, op->n_in);
        list = DT_NEW_ARRAY(arena, DtValue *, op->n_in);
    }
    if (op->n_out > DT_COUNT(wishes))
        wish = DT_NEW_ARRAY(arena, const DtType *, op->n_out);
    for (uint32_t i = 0; i < op->n_in; i++) {
        operands[i] = *op->in[i];
        operands[i].type = in[i];
        list[i] = &operands[i];
    }
    DtOp draft = *op;
    draft.in = list;
    for (uint32_t i = 0; i < op->n_out; i++)
        wish[i] = dt_placechoose_wish(p, like, op, i, in);
    return dt_shape_derive(&draft, &p->module->mesh, wish, ret_out);
}

const char *dt_placechoose_derive(const DtPlaceScope *s, const DtOp *op, const DtType *const *in,
                                  const DtType **ret_out)
{
    return derive(s->p, op, in, s->like, ret_out);
}

/* ---- one mesh axis ---- */

typedef struct Choice { /* the choice of the operands' states on one mesh axis */
    DtPlaceScope *s;
    const DtOp *op;
    DtValue *const *in;
    const DtType **wanted; /* by operand: the type chosen on the mesh axes before m */
    uint32_t m;
    uint32_t n_out;
    const char *axes[DT_MAX_RANK]; /* axes of operands that mesh axis m may split */
    uint32_t n_axes;
    /* by operand, as states on mesh axis m (number of the axis it splits, or DT_PLACE_WHOLE,
     * DT_PLACE_PENDING): the best one found so far, and the present one */
    int *best, *now;
    double least;    /* the least cost so far; INFINITY: none accepted */
    uint32_t most_by_rule;
    bool is_bound; /* a combination was found that gives the result in its rule placement */
    const DtType **types, **out;
} Choice;

static bool may_wait(const DtPlaceScope *s, const DtOp *op)
{
    return s->p->lazy || (op->n_out == 1 && s->lazy[op->out[0]->id]);
}

/* Returns the seconds of converting the results, in the types of this choice, to their rule
 * placement. A sum that may wait until the end of the step costs nothing yet. Results of a library
 * call may end with a split under another name of the axis; that every rank does the whole call
 * counts as much as exchanging its result. */
static double behind(const Choice *c)
{
    const bool calls = c->op->kind == DT_OP_CALL;
    const DtPlacer *p = c->s->p;
    double cost = 0;
    for (uint32_t i = 0; i < c->n_out; i++) {
        const DtType *plain = c->op->out[i]->type, *rule = dt_placerule_of(p, plain, NULL, 0);
        int is = dt_placerule_state(c->out[i], c->m), wanted = dt_placerule_state(rule, c->m);
        if (is >= 0) /* axes may be in another order */
            is = dt_type_find(rule, c->out[i]->axes[is].name);
        if (is == wanted || (is == DT_PLACE_WHOLE && !calls))
            continue;
        if (is == DT_PLACE_PENDING && wanted == DT_PLACE_WHOLE && may_wait(c->s, c->op))
            continue;
        double n = (double)p->module->mesh.axes[c->m].size;
        const DtType *whole = dt_placerule_with(p, rule, c->m, DT_PLACE_WHOLE);
        double v = (double)dt_type_local_elements(whole, &p->module->mesh) *
                   (double)dt_dtype_size(plain->dtype) * p->seconds[c->m] * (n - 1) / n;
        if (is == DT_PLACE_PENDING)
            cost += wanted == DT_PLACE_WHOLE && !calls ? 2 * v : v;
        else
            cost += wanted == DT_PLACE_WHOLE || is == DT_PLACE_WHOLE ? v : v / n;
    }
    return cost;
}

/* Whether the result gets its rule placement on the mesh axis, or is a sum that will be whole. A
 * contraction should do so, so that activations move and not parameters. */
static bool gives_rule(const Choice *c)
{
    const DtType *rule = dt_placerule_of(c->s->p, c->op->out[0]->type, NULL, 0);
    int is = dt_placerule_state(c->out[0], c->m), wanted = dt_placerule_state(rule, c->m);
    return is == wanted || (is == DT_PLACE_PENDING && wanted == DT_PLACE_WHOLE) ||
           (is >= 0 && wanted >= 0 && c->out[0]->axes[is].name == rule->axes[wanted].name);
}

static void consider(Choice *c, const int *states)
{
    double cost = 0;
    uint32_t by_rule = 0;
    for (uint32_t i = 0; i < c->op->n_in; i++) {
        const DtType *type = dt_placerule_project(c->in[i]->type, c->m);
        c->types[i] =
            states[i] == c->now[i] ? type : dt_placerule_with(c->s->p, type, c->m, states[i]);
        cost += dt_placeconvert_cost(c->s, c->in[i], c->m, states[i]);
        by_rule += states[i] == dt_placerule_state(dt_placeconvert_rule(c->s, c->in[i]), c->m);
    }
    if (dt_placechoose_derive(c->s, c->op, c->types, c->out))
        return;
    const bool is_bound = c->op->kind == DT_OP_DOT && gives_rule(c);
    cost += behind(c);
    if (is_bound == c->is_bound &&
        (cost > c->least || (cost == c->least && by_rule <= c->most_by_rule)))
        return;
    if (c->is_bound && !is_bound)
        return;
    c->is_bound = is_bound;
    c->least = cost;
    c->most_by_rule = by_rule;
    memcpy(c->best, states, c->op->n_in * sizeof *states);
}

static void add_axis(Choice *c, const DtType *type, int state)
{
    if (state < 0 || c->n_axes == DT_COUNT(c->axes))
        return;
    for (uint32_t i = 0; i < c->n_axes; i++)
        if (c->axes[i] == type->axes[state].name)
            return;
    c->axes[c->n_axes++] = type->axes[state].name;
}

/* Lists the axes that this mesh axis splits in some operand now, or in an operand or result by
 * rule. For a library call lists all axes of its operands. */
static void find_axes(Choice *c)
{
    for (uint32_t i = 0; i < c->op->n_in; i++) {
        for (uint32_t d = 0; c->op->kind == DT_OP_CALL && d < c->in[i]->type->rank; d++)
            add_axis(c, c->in[i]->type, (int)d);
        const DtType *rule = dt_placeconvert_rule(c->s, c->in[i]);
        add_axis(c, c->in[i]->type, c->now[i]);
        add_axis(c, rule, dt_placerule_state(rule, c->m));
    }
    for (uint32_t i = 0; i < c->n_out; i++) {
        const DtType *rule = dt_placerule_of(c->s->p, c->op->out[i]->type, NULL, 0);
        add_axis(c, rule, dt_placerule_state(rule, c->m));
    }
}

/* Returns the state of operand i if mesh axis m splits this axis of it: the axis' number, or
 * DT_PLACE_WHOLE if the operand lacks the axis or m cannot split it. */
static int split_state(const Choice *c, uint32_t i, const char *axis)
{
    const DtType *type = c->in[i]->type;
    int d = dt_type_find(type, axis);
    if (d < 0)
        return DT_PLACE_WHOLE;
    type = dt_placerule_with(c->s->p, c->wanted[i], c->m, DT_PLACE_WHOLE);
    return d == c->now[i] || dt_placerule_divides(c->s->p, type, (uint32_t)d, c->m)
               ? d
               : DT_PLACE_WHOLE;
}

static uint32_t options_of(const Choice *c, uint32_t i, int *ret)
{
    uint32_t n = 0;
    ret[n++] = c->now[i];
    if (c->now[i] != DT_PLACE_WHOLE)
        ret[n++] = DT_PLACE_WHOLE;
    const bool scatters = c->now[i] != DT_PLACE_PENDING || c->in[i]->type->pending == DT_REDUCE_SUM;
    for (uint32_t k = 0; scatters && k < c->n_axes && n < MAX_OPTIONS - 1; k++) {
        int state = split_state(c, i, c->axes[k]);
        if (state >= 0 && state != c->now[i])
            ret[n++] = state;
    }
    if (c->now[i] == DT_PLACE_WHOLE && dt_op_is_joint(c->op, i) && may_wait(c->s, c->op))
        ret[n++] = DT_PLACE_PENDING; /* the first rank keeps the value, the others zero */
    return n;
}

static void try_all(Choice *c)
{
    int options[MAX_EACH][MAX_OPTIONS], states[MAX_EACH];
    uint32_t n[MAX_EACH] = {1, 1, 1}, at[MAX_EACH] = {0};
    for (uint32_t i = 0; i < c->op->n_in; i++)
        n[i] = options_of(c, i, options[i]);
    for (uint32_t k = 0; k < n[0] * n[1] * n[2]; k++) {
        at[0] = k % n[0], at[1] = k / n[0] % n[1], at[2] = k / n[0] / n[1];
        for (uint32_t i = 0; i < c->op->n_in; i++)
            states[i] = options[i][at[i]];
        consider(c, states);
    }
}

/* Tries each candidate axis for all operands: those that have the axis are split along it, the
 * others are whole. */
static void try_alike(Choice *c)
{
    int *states = DT_NEW_ARRAY(c->s->p->module->arena, int, c->op->n_in);
    bool keep = may_wait(c->s, c->op);
    consider(c, c->now);
    for (uint32_t k = 0; k < c->n_axes; k++) {
        for (uint32_t i = 0; i < c->op->n_in; i++)
            states[i] = split_state(c, i, c->axes[k]);
        consider(c, states);
    }
    for (uint32_t i = 0; i < c->op->n_in; i++)
        states[i] = DT_PLACE_WHOLE;
    consider(c, states);
    for (uint32_t i = 0; i < c->op->n_in; i++) {
        keep = keep && dt_op_is_joint(c->op, i) && c->now[i] < 0;
        states[i] = DT_PLACE_PENDING;
    }
    if (keep)
        consider(c, states);
}

/* For a line with `ring`: considers the choice in which queries keep their split and keys are
 * gathered. Returns whether the op accepts it, whatever that costs, since the ring will replace the
 * gather. */
static bool try_ring(Choice *c)
{
    const char *queries = dt_placering_queries(c->s->p, c->op, c->in, c->m);
    int *states = DT_NEW_ARRAY(c->s->p->module->arena, int, c->op->n_in + 1);
    for (uint32_t i = 0; queries && i < c->op->n_in; i++)
        states[i] = split_state(c, i, queries);
    if (queries)
        consider(c, states);
    return c->least < INFINITY;
}

static bool accepts_now(Choice *c)
{
    for (uint32_t i = 0; i < c->op->n_in; i++)
        c->types[i] = dt_placerule_project(c->in[i]->type, c->m);
    return !dt_placechoose_derive(c->s, c->op, c->types, c->out);
}

/* Settles operands on the time axis, over which nothing can be exchanged: a term of a sum is kept
 * in the first micro-batch only, values computed from positions are recomputed, and other sums must
 * be completed by the prologue. */
static bool settle_time(Choice *c, DtValue **in)
{
    DtPlacer *p = c->s->p;
    bool sums = false, joins = true;
    int split = -1;
    for (uint32_t i = 0; i < c->op->n_in; i++) {
        sums = sums || c->now[i] == DT_PLACE_PENDING;
        split = c->now[i] >= 0 && split < 0 ? (int)i : split;
    }
    for (uint32_t i = 0; sums && i < c->op->n_in; i++)
        joins = joins && (c->now[i] == DT_PLACE_PENDING
                              ? dt_op_is_joint(c->op, i) && in[i]->type->pending == DT_REDUCE_SUM
                              : c->now[i] == DT_PLACE_WHOLE);
    for (uint32_t i = 0; i < c->op->n_in; i++) {
        if (sums && joins && dt_op_is_joint(c->op, i) && c->now[i] == DT_PLACE_WHOLE)
            c->best[i] = DT_PLACE_PENDING;
        else if (split >= 0 && c->now[i] == DT_PLACE_WHOLE &&
                 dt_placeconvert_info(c->s, in[i])->is_free)
            c->best[i] = split_state(c, i, in[split]->type->axes[c->now[split]].name);
    }
    for (uint32_t i = c->op->n_in;
         sums && !joins && i-- > 0 && !accepts_now(c);) /* the last operand first, as for x / sum */
        if (c->now[i] == DT_PLACE_PENDING && !(in[i] = dt_placelazy_before_all(c->s, in[i], c->op)))
            return false;
    dt_placelazy_meet_sums(c->s, in, c->op->n_in); /* for x * x, where x is a sum */
    return !p->failed;
}

/* Decides the states of all operands on mesh axis m, into c->best; false after a diagnostic. If the
 * op accepts no choice, a change along another mesh axis may help. */
static bool choose_axis(Choice *c, DtValue **in)
{
    const bool always = dt_op_info[c->op->kind].op_class == DT_CLASS_INDEX;
    for (uint32_t i = 0; i < c->op->n_in; i++)
        c->best[i] = c->now[i] = dt_placerule_state(in[i]->type, c->m);
    if (accepts_now(c) && (!always || behind(c) == 0))
        return true;
    if (c->s->p->time >> c->m & 1)
        return accepts_now(c) || settle_time(c, in);
    c->least = INFINITY;
    c->most_by_rule = c->n_axes = 0;
    c->is_bound = false;
    if (c->op->kind == DT_OP_CALL && try_ring(c))
        return true;
    find_axes(c);
    if (c->op->n_in <= MAX_EACH)
        try_all(c);
    else
        try_alike(c);
    return true; /* no choice is accepted; changes along other mesh axes may help */
}

/* ---- all together ---- */

static const char *reason_for(DtPlaceScope *s, const DtOp *op, const DtType *const *types,
                              const DtType **out)
{
    const char *reason = dt_placechoose_derive(s, op, types, out);
    return reason ? dt_arena_strndup(s->p->module->arena, reason, strlen(reason)) : NULL;
}

/* Makes operands whole on one mesh axis after the other, from the last on, until the op accepts
 * them. Returns NULL, or why it accepted none. */
static const char *gather_until(DtPlaceScope *s, const DtOp *op, const DtType **types,
                                const DtType **out)
{
    const char *first = reason_for(s, op, types, out), *reason = first;
    for (uint32_t m = s->p->module->mesh.n; reason && m-- > 0;) {
        if (s->p->time >> m & 1)
            continue;
        for (uint32_t i = 0; i < op->n_in; i++)
            if (dt_placerule_state(types[i], m) != DT_PLACE_WHOLE)
                types[i] = dt_placerule_with(s->p, types[i], m, DT_PLACE_WHOLE);
        reason = reason_for(s, op, types, out);
    }
    return reason ? first : NULL;
}

/* Returns the name under which the op appears in programs, if the compiler calls it otherwise. */
static const char *as_written(const DtOp *op)
{
    static const struct {
        DtOpKind kind;
        const char *text;
    } words[] = {{DT_OP_DOT, "@"}, {DT_OP_SCAN, "cumsum"}, {DT_OP_RELABEL, "->"}};
    for (size_t i = 0; i < DT_COUNT(words); i++)
        if (words[i].kind == op->kind)
            return words[i].text;
    return dt_op_info[op->kind].text;
}

/* Returns the axis of the type that micro-batches split; NULL if there is none. */
static const char *cut_by_time(const DtPlacer *p, const DtType *type)
{
    for (uint32_t m = 0; m < p->module->mesh.n; m++) {
        const int state = p->time >> m & 1 ? dt_placerule_state(type, m) : DT_PLACE_WHOLE;
        if (state >= 0)
            return type->axes[state].name;
    }
    return NULL;
}

/* Reports an error and returns true if op combines two operands of which micro-batches split
 * different axes: then samples of one micro-batch would need those of others. */
static bool fail_meeting(DtPlaceScope *s, const DtOp *op, DtValue *const *in)
{
    const char *first = NULL, *other = NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const char *axis = cut_by_time(s->p, in[i]->type);
        first = first ? first : axis;
        other = axis && axis != first ? axis : other;
    }
    if (!other)
        return false;
    DtDiag *diag = dt_placerefuse_at(
        s->p, E0591, op->span,
        dt_arena_printf(
            s->p->module->arena,
            "each sample of `%s` meets all of `%s` here, and `micro` runs parts of the batch one "
            "after the other",
            first, other));
    dt_placerefuse_call(diag, op);
    dt_diag_note(diag, "a micro-batch cannot see the samples of others");
    dt_diag_help(diag, "drop `micro`, or let samples meet within groups: `x[batch -> (pool, "
                       "each)]`, then `each` alone");
    return true;
}

/* Returns the loop along this axis that computed the value, or a value on which it depends through
 * other ops; or NULL. */
static const DtOp *loop_along(const DtValue *value, const char *axis)
{
    while (value && axis && value->op && dt_type_find(value->type, axis) >= 0) {
        const DtOp *op = value->op;
        if (op->kind == DT_OP_LOOP && op->loop->axis == axis && value->index >= op->loop->n_carried)
            return op;
        axis = op->n_in == 1 ? dt_placeconvert_name_before(op, axis) : axis;
        value = NULL;
        for (uint32_t i = 0; op->kind != DT_OP_LOOP && i < op->n_in && !value; i++)
            value = axis && dt_type_find(op->in[i]->type, axis) >= 0 ? op->in[i] : NULL;
    }
    return NULL;
}

/* Reports an error and returns true if an operand that micro-batches split comes from a loop over
 * all samples: the loop would need the samples of other micro-batches. */
static bool fail_loop(DtPlaceScope *s, const DtOp *op, DtValue *const *in)
{
    const char *axis = NULL;
    const DtOp *loop = NULL;
    for (uint32_t i = 0; i < op->n_in && !axis; i++)
        axis = cut_by_time(s->p, in[i]->type);
    for (uint32_t i = 0; i < op->n_in && axis && !loop; i++)
        loop = loop_along(in[i], axis);
    if (loop)
        dt_placerefuse_samples(s->p, loop);
    return loop != NULL;
}

/* Reports an error and returns true if op splits the axis of samples into groups (`batch -> (pool,
 * each)`) and the number of micro-batches does not divide the number of groups. */
static bool fail_groups(DtPlaceScope *s, const DtOp *op, DtValue *const *in)
{
    DtArena *arena = s->p->module->arena;
    const char *axis =
        op->kind == DT_OP_RELABEL && s->p->time ? cut_by_time(s->p, in[0]->type) : NULL;
    const DtRelabel *r = NULL;
    for (uint32_t i = 0; axis && i < op->n_relabels; i++)
        if (op->relabels[i].n_from == 1 && op->relabels[i].n_to > 1 &&
            op->relabels[i].from[0] == axis)
            r = &op->relabels[i];
    const int64_t groups = r ? dt_type_extent(op->out[0]->type, r->to[0]) : 0,
                  n = s->p->module->mesh.axes[0].size;
    if (!r || groups % n == 0)
        return false;
    DtDiag *diag = dt_placerefuse_at(
        s->p, E0591, op->span,
        dt_arena_printf(arena,
                        "%lld micro-batches cannot cut the groups of `%s` evenly: `%s` is %lld",
                        (long long)n, axis, r->to[0], (long long)groups));
    dt_placerefuse_call(diag, op);
    dt_diag_note(diag, "`micro` runs parts of the batch one after the other, each of whole groups");
    dt_diag_help(diag,
                 "a number of micro-batches that divides `%s`, or a multiple of %lld for `%s`",
                 r->to[0], (long long)n, r->to[0]);
    return true;
}

/* Reports an error and returns true if op pads the axis that micro-batches split, since only the
 * last micro-batch would have the padding. */
static bool fail_padding(DtPlaceScope *s, const DtOp *op, DtValue *const *in)
{
    const char *axis = op->kind == DT_OP_PAD ? cut_by_time(s->p, in[0]->type) : NULL;
    const int64_t now = axis ? dt_type_extent(op->out[0]->type, axis) : 0;
    if (!axis || now == dt_type_extent(in[0]->type, axis))
        return false;
    DtDiag *diag =
        dt_placerefuse_at(s->p, E0591, op->span,
                          dt_arena_printf(s->p->module->arena,
                                          "`%s` becomes %lld long here, but micro-batches cut it",
                                          axis, (long long)now));
    dt_placerefuse_call(diag, op);
    dt_diag_note(diag, "only the last micro-batch would have the padding");
    dt_diag_help(diag, "choose an extent of `%s` that needs no `pad`, or drop `micro`", axis);
    return true;
}

static bool fail(DtPlaceScope *s, const DtOp *op, DtValue *const *in, const char *why)
{
    if (fail_meeting(s, op, in) || fail_loop(s, op, in) || fail_groups(s, op, in) ||
        fail_padding(s, op, in))
        return false;
    DtDiag *diag = dt_placerefuse_at(
        s->p, E0591, op->span,
        dt_arena_printf(s->p->module->arena, "`%s` cannot be computed in this layout: %s",
                        as_written(op), why));
    dt_placerefuse_call(diag, op);
    dt_diag_note(diag, "no way to split its operands was found that it accepts");
    return false;
}

static Choice start(DtPlaceScope *s, const DtOp *op, DtValue **in)
{
    DtArena *arena = s->p->module->arena;
    Choice c = {.s = s, .op = op, .in = in, .n_out = dt_shape_results(op)};
    c.wanted = DT_NEW_ARRAY(arena, const DtType *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        c.wanted[i] = in[i]->type;
    c.best = DT_NEW_ARRAY(arena, int, op->n_in + 1);
    c.now = DT_NEW_ARRAY(arena, int, op->n_in + 1);
    c.types = DT_NEW_ARRAY(arena, const DtType *, op->n_in + 1);
    c.out = DT_NEW_ARRAY(arena, const DtType *, c.n_out + 1);
    return c;
}

bool dt_placechoose_operands(DtPlaceScope *s, const DtOp *op, DtValue **in, DtPlaceRing *ret_ring)
{
    DtPlacer *p = s->p;
    ret_ring->axis = NULL;
    if (op->kind == DT_OP_CALL)
        dt_placeringless_note(s, op, in);
    Choice c = start(s, op, in);
    const DtType **wanted = c.wanted;
    if (!dt_placechoose_derive(s, op, wanted, c.out) &&
        dt_op_info[op->kind].op_class != DT_CLASS_INDEX)
        return true;
    for (uint32_t m = 0; m < p->module->mesh.n; m++) {
        c.m = m;
        if (!choose_axis(&c, in))
            return false;
        for (uint32_t i = 0; i < op->n_in; i++) {
            if (m == 0 && (p->time & 1) && c.now[i] == DT_PLACE_PENDING &&
                !(in[i]->type->partial & 1))
                wanted[i] = in[i]->type; /* the prologue has completed it, over the ranks as well */
            else if (c.best[i] != c.now[i])
                wanted[i] = dt_placerule_with(p, wanted[i], m, c.best[i]);
        }
    }
    const char *reason = gather_until(s, op, wanted, c.out);
    if (reason)
        return fail(s, op, in, reason);
    if (op->n_in && !dt_placehalo_check(s, op, in[0]->type, wanted[0]))
        return false;
    if (op->kind == DT_OP_CALL && !dt_placering_find(s, op, in, wanted, ret_ring))
        return false;
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = dt_placeconvert_to(s, in[i], wanted[i]);
    return true;
}
