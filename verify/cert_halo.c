/* SPDX-License-Identifier: Apache-2.0 */
/* Windows over an axis that ranks split. The placed program cuts the axis into one part per rank
 * (new axes "@axis", "@axis.part"), moves the edges of parts to neighbours by `shift`,
 * concatenates and selects, takes windows of each part, and assembles the parts. This
 * computation, from the cut to the assembly, is a box (box.h): a function of the value that was
 * cut, built from nodes, and compared with the window or fold that it claims to be. In nodes all
 * ranks are one axis, and a shift moves along it; that the parts are on the ranks in this order
 * is the local rule of each op. */
#include "verify/box.h"
#include "verify/internal.h"

#include "base/intern.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_NODES = 200, MOST_IN = 8, MOST_TRIED = 8 };

static bool is(const char *a, const char *b) { return dt_cert_is(a, b); }

/* ---- what windows say ---- */

static bool range_in(const char *attributes, CertRange *ret)
{
    const char *at = strstr(attributes, "ranges=(");
    long long lo, hi, step, n;
    if (!at || sscanf(at, "ranges=(%lld %lld %lld %lld)", &lo, &hi, &step, &n) != 4 || step <= 0)
        return false;
    *ret = (CertRange){lo, hi, step, n};
    return true;
}

/* Returns the fill as text, "-inf" of the attributes " number=-inf [height]"; "0" if they have
 * none. */
static const char *number_in(const char *attributes)
{
    const char *at = strstr(attributes, "number=");
    return at ? dt_intern_n(at + 7, strcspn(at + 7, " ")) : "0";
}

/* Whether a window reaches over the ends of the axis. */
static bool reaches_over(const CertRange *range, int64_t windows, int64_t length)
{
    return range->lo > 0 || (windows - 1) * range->step + range->n > length;
}

const char *dt_certhalo_attributes(const CertOp *op, const CertValue *in)
{
    const CertType *x = in[0].type, *y = op->types[0];
    const bool is_window = is(op->kind, "window");
    const CertAxis *lengths = dt_certtext_axis(is_window ? x : y, op->axes[0]),
                   *windows = dt_certtext_axis(is_window ? y : x, op->axes[0]);
    CertRange range;
    if (!lengths || !windows || op->n_axes != 2 || !range_in(op->attributes, &range))
        return NULL;
    const bool outside = is_window && reaches_over(&range, windows->extent, lengths->extent);
    return dt_intern_printf(" ranges=(%lld 0 %lld %lld)%s%s [%s] [%s]", (long long)range.lo,
                            (long long)range.step, (long long)range.n, outside ? " number=" : "",
                            outside ? number_in(op->attributes) : "", op->axes[0], op->axes[1]);
}

/* ---- from nodes to a function ---- */

/* The function that is built from the nodes of a window over a split axis. */
typedef struct Halo {
    CertState *state;
    const char *block, *part, *axis; /* names of axes: "@axis", "@axis.part", and the axis that was
                                      * cut */
    CertNode *source;                /* the value that was cut into parts; NULL: not found yet */
    CertFunc *func;
    uint32_t n;
    struct {
        const CertNode *node;
        uint32_t value;
    } made[MOST_NODES];
} Halo;

/* Returns a type with these axes, none of them split or padded. */
static const CertType *type_of(const Halo *h, const CertShape *shape)
{
    CertType *type = DT_NEW(h->state->arena, CertType);
    type->dtype = shape->dtype;
    type->rank = shape->rank;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const int64_t n = shape->extents[i];
        type->axes[i] = (CertAxis){.name = shape->axes[i], .extent = n, .logical = n};
    }
    return type;
}

/* Appends an op with one result of this type to the function that is being built. */
static CertOp *add_op(Halo *h, const char *kind, const char *attributes, const CertType *type,
                      uint32_t n_in, const uint32_t *in)
{
    DtArena *arena = h->state->arena;
    CertOp *op = DT_NEW(arena, CertOp);
    *op = (CertOp){.kind = kind, .at = kind, .attributes = attributes, .n_in = n_in, .n_out = 1,
                   .store = -1, .first_out = h->func->n_values++, .reduce = dt_intern("sum")};
    op->in = DT_NEW_ARRAY(arena, uint32_t, n_in + 1);
    if (n_in)
        memcpy(op->in, in, n_in * sizeof in[0]);
    op->types = DT_NEW_ARRAY(arena, const CertType *, 1);
    op->types[0] = type;
    op->ranges = DT_NEW_ARRAY(arena, CertRange, 1);
    h->func->most_in = h->func->most_in > n_in ? h->func->most_in : n_in;
    DT_PUSH(arena, h->func->ops, op);
    return op;
}

/* Reads axes, one range and a number from the attributes' text; false: there are further attributes
 * that change the meaning. */
static bool read_attributes(CertOp *op)
{
    const char *at = op->attributes;
    for (at += *at == ' '; *at; at += *at == ' ') {
        size_t n = strcspn(at, *at == '[' ? "]" : " ");
        if (*at == '[') {
            if (op->n_axes == 2 || at[n] != ']')
                return false;
            op->axes[op->n_axes++] = dt_intern_n(at + 1, n++ - 1);
        } else if (strncmp(at, "ranges=(", 8) == 0) {
            n = strcspn(at, ")") + 1;
            if (op->n_ranges++ || !range_in(at, &op->ranges[0]))
                return false;
        } else if (strncmp(at, "number=", 7) == 0) {
            op->number = strtod(at + 7, NULL);
        } else {
            return false;
        }
        at += n;
    }
    return true;
}

static CertOp *cut(Halo *h, const CertType *whole, const char *axis, uint32_t x, int64_t lo,
                   int64_t n)
{
    CertType *type = DT_NEW(h->state->arena, CertType);
    *type = *whole;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->axes[i].name == axis)
            type->axes[i].extent = type->axes[i].logical = n;
    CertOp *op = add_op(h, "slice", "", type, 1, &x);
    op->axes[op->n_axes++] = axis;
    op->ranges[op->n_ranges++] = (CertRange){lo, 0, 1, n};
    return op;
}

/* Appends ops that move the edges of parts to the previous or next rank, as the shift does; the
 * first and the last rank count as neighbours. *ret_value becomes the number of the result. */
static bool add_shift(Halo *h, const CertNode *node, uint32_t x, uint32_t *ret_value)
{
    const CertType *type = type_of(h, node->shape);
    const bool reverse = strncmp(node->attributes, " reverse", 8) == 0;
    const char *names = dt_intern_printf("%s [%s]", reverse ? " reverse" : "", h->block);
    const int64_t n = dt_certnode_extent(node->shape, h->block);
    if (n < 1 || node->attributes != names)
        return false;
    *ret_value = x;
    if (n == 1)
        return true;
    const int64_t first = reverse ? 1 : n - 1;
    const uint32_t in[2] = {cut(h, type, h->block, x, first, n - first)->first_out,
                            cut(h, type, h->block, x, 0, first)->first_out};
    CertOp *op = add_op(h, "concat", "", type, 2, in);
    op->axes[op->n_axes++] = h->block;
    *ret_value = op->first_out;
    return true;
}

static uint32_t add_relabel(Halo *h, const CertType *type, uint32_t x, bool cuts)
{
    CertOp *op = add_op(h, "relabel", "", type, 1, &x);
    op->n_relabels = 1;
    op->relabels[0] = cuts ? (CertRelabel){.n_from = 1, .n_to = 2, .from = {h->axis},
                                           .to = {h->block, h->part}}
                           : (CertRelabel){.n_from = 2, .n_to = 1, .from = {h->block, h->part},
                                           .to = {h->axis}};
    return op->first_out;
}

/* Whether a and b are equal apart from quotes in a. */
static bool same_unquoted(const char *a, const char *b)
{
    for (; *a; a++)
        if (*a != '"' && *a != *b++)
            return false;
    return *b == 0;
}

/* Appends the relabel that cuts the source into parts; *ret_value becomes its number. False: the
 * node is another relabel, or cuts another value. */
static bool add_source(Halo *h, const CertNode *node, uint32_t *ret_value)
{
    const char *text =
        dt_intern_printf(" relabel(%s -> %s=%lld, %s=%lld)", h->axis, h->block,
                         (long long)dt_certnode_extent(node->shape, h->block), h->part,
                         (long long)dt_certnode_extent(node->shape, h->part));
    if (!same_unquoted(node->attributes, text) || (h->source && h->source != node->in[0]))
        return false;
    h->source = node->in[0];
    *ret_value = add_relabel(h, type_of(h, node->shape), 0, true);
    return true;
}

static bool make(Halo *h, const CertNode *node, const uint32_t *in, uint32_t *ret_value)
{
    if (is(node->kind, "relabel"))
        return add_source(h, node, ret_value);
    if (is(node->kind, "shift"))
        return node->n_in == 1 && add_shift(h, node, in[0], ret_value);
    const char *attributes = node->attributes == dt_certkind_sum ? "" : node->attributes;
    CertOp *op = add_op(h, node->kind, attributes, type_of(h, node->shape), node->n_in, in);
    *ret_value = op->first_out;
    return read_attributes(op);
}

/* Appends the op of a node and those of its operands, unless they are there already; sets
 * *ret_value to the number of its value. False: an op is not supported, or there are too many. */
static bool add_node(Halo *h, const CertNode *node, uint32_t *ret_value)
{
    uint32_t in[MOST_IN];
    for (uint32_t i = 0; i < h->n; i++)
        if (h->made[i].node == node) {
            *ret_value = h->made[i].value;
            return true;
        }
    if (!node->shape || node->n_in > MOST_IN || node->lo || node->hi || node->index)
        return false;
    for (uint32_t i = 0; i < node->n_in && !is(node->kind, "relabel"); i++)
        if (!add_node(h, node->in[i], &in[i]))
            return false;
    if (h->n == MOST_NODES || !make(h, node, in, ret_value))
        return false;
    h->made[h->n].node = node;
    h->made[h->n++].value = *ret_value;
    return true;
}

/* Nodes of windows have no padding after the axis. */
static void complete(Halo *h)
{
    for (uint32_t i = 0; i < h->func->ops.n; i++) {
        CertOp *op = h->func->ops.at[i];
        const bool is_window = is(op->kind, "window");
        if ((!is_window && !is(op->kind, "fold")) || op->n_axes != 2 || op->n_ranges != 1)
            continue;
        const CertType *x = op->in[0] ? h->func->ops.at[op->in[0] - 1]->types[0]
                                      : h->func->args.at[0],
                       *y = op->types[0];
        const CertAxis *length = dt_certtext_axis(is_window ? x : y, op->axes[0]),
                       *windows = dt_certtext_axis(is_window ? y : x, op->axes[0]);
        CertRange *r = &op->ranges[0];
        if (length && windows)
            r->hi = (windows->extent - 1) * r->step + r->n - r->lo - length->extent;
    }
}

static Halo *begin(CertState *state, const char *const *names, const CertNode *source)
{
    Halo *h = DT_NEW(state->arena, Halo);
    *h = (Halo){.state = state, .block = names[0], .part = names[1], .axis = names[2],
                .func = DT_NEW(state->arena, CertFunc)};
    h->func->n_args = h->func->n_values = 1;
    h->func->same = h->func;
    if (source)
        DT_PUSH(state->arena, h->func->args, type_of(h, source->shape));
    return h;
}

/* ---- what they are ---- */

/* Whether the assembled value `parts` equals the window or fold `whole` of the source, compared as
 * a box. */
static bool is_whole(const Halo *parts, const CertNode *whole)
{
    CertState *state = parts->state;
    Halo *h =
        begin(state, (const char *const[]){parts->block, parts->part, parts->axis}, parts->source);
    const CertProgram *none = DT_NEW(state->arena, CertProgram);
    const uint32_t x = 0;
    DtText problem = {0};
    if (!read_attributes(
            add_op(h, whole->kind, whole->attributes, type_of(h, whole->shape), 1, &x)))
        return false;
    complete(h);
    DT_PUSH(state->arena, h->func->results, 1);
    if (!state->meant->boxes)
        state->meant->boxes = dt_box_begin(state->arena);
    const bool equal =
        dt_box_equal(state->meant->boxes, none, parts->func, none, h->func, DT_BOX_ALIKE, &problem);
    dt_text_free(&problem);
    return equal;
}

static bool may_be(const CertNode *node, const CertShape *shape)
{
    return (is(node->kind, "window") || is(node->kind, "fold")) && node->n_in == 1 &&
           node->shape == shape;
}

/* Finds the serial window or fold of the source that has the recorded number and equals the
 * assembled parts; NULL: none does. */
static CertNode *find_whole(const Halo *h, const CertShape *shape, uint32_t number)
{
    uint32_t tried = 0;
    for (const CertMeaning *m = dt_certstep_numbered(h->state, number); m && tried < MOST_TRIED;
         m = m->next)
        if (may_be(m->node, shape) && tried++ < MOST_TRIED && is_whole(h, m->node))
            return m->node;
    return NULL;
}

CertNode *dt_certhalo_merge(CertState *state, const CertOp *op, CertNode *x, const CertShape *shape,
                            uint32_t number)
{
    const CertRelabel *r = &op->relabels[0];
    uint32_t value;
    if (op->n_relabels != 1 || r->n_from != 2 || r->n_to != 1 ||
        r->from[0] != dt_intern_printf("@%s", r->to[0]) ||
        r->from[1] != dt_intern_printf("@%s.part", r->to[0]))
        return NULL;
    Halo *h = begin(state, (const char *const[]){r->from[0], r->from[1], r->to[0]}, NULL);
    if (!add_node(h, x, &value) || !h->source)
        return NULL;
    DT_PUSH(state->arena, h->func->args, type_of(h, h->source->shape));
    complete(h);
    value = add_relabel(h, type_of(h, shape), value, false);
    DT_PUSH(state->arena, h->func->results, value);
    CertNode *whole = find_whole(h, shape, number);
    if (!whole)
        return NULL;
    return dt_certnode_make(state->nodes, (CertNode){.kind = whole->kind,
                                                     .attributes = whole->attributes,
                                                     .shape = shape, .n_in = 1, .in = &h->source});
}
