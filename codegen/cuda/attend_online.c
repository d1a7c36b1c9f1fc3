/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in one pass along the columns: the merge of blocks that `attend` states (std.dsl,
 * stream), for a function whose nodes say the same in three passes:
 *
 *     m = max x    e = exp(x - g(m))    l = sum e    y = (e / d(l)) v
 *
 * There may be other such sums, of exponentials with another g, as of what a function saves for its
 * gradient. A row keeps m, each l and the sum of e v of the tiles so far. When m grows, l and the
 * sum are multiplied by exp(g(old m) - g(m)), which is at most 1 since g is m or max(m, c), where c
 * is a constant or the row's, as a sink is (a score without a value); d(l) divides at the end, so e
 * is rounded for the product, not e / d(l). (Milakov and Gimelshein, "Online normalizer calculation
 * for softmax", 2018.) */
#include "codegen/cuda/attend_print.h"

#include <string.h>

#define line dt_print_line

static bool is_map(const DtKernel *k, uint32_t node, DtOpKind map)
{
    return k->nodes.at[node].kind == DT_KNODE_MAP && k->nodes.at[node].map == map;
}

/* Whether the value of the node is known for a row before any column: a constant, or a value that
 * is read or computed per row. */
static bool is_known(const DtAttendPrint *a, uint32_t node)
{
    const DtKNode *n = &a->c->k->nodes.at[node];
    return n->phase == 0 && !(n->axes >> a->role->cols & 1);
}

/* Whether the node is the reduction, or the maximum of the reduction and a value that is known
 * before any column. */
static bool grows_with(const DtAttendPrint *a, uint32_t node, uint32_t max)
{
    const uint32_t *args = a->c->k->nodes.at[node].args;
    return node == max || (is_map(a->c->k, node, DT_OP_MAX) &&
                           ((grows_with(a, args[0], max) && is_known(a, args[1])) ||
                            (is_known(a, args[0]) && grows_with(a, args[1], max))));
}

/* Whether the reduction sums exp(x - g), where x needs no reduction and g follows the row's
 * maximum. *ret_sum gets the nodes of that sum. */
static bool sums_up(const DtAttendPrint *a, uint32_t max, uint32_t reduction, DtOnlineSum *ret_sum)
{
    const DtKernel *k = a->c->k;
    DtOnlineSum s = {.sum = reduction, .exp = k->nodes.at[reduction].args[0]};
    if (!is_map(k, s.exp, DT_OP_EXP) || !is_map(k, k->nodes.at[s.exp].args[0], DT_OP_SUB))
        return false;
    s.from = k->nodes.at[s.exp].args[0];
    s.grown = k->nodes.at[s.from].args[1];
    *ret_sum = s;
    return k->nodes.at[k->nodes.at[s.from].args[0]].phase == 0 && grows_with(a, s.grown, max);
}

/* Finds the maximum and the sums that a single pass updates. False if the reductions along columns
 * are not one maximum and sums of exponentials that follow it. */
static bool find_sums(const DtAttendPrint *a, DtOnline *o)
{
    const DtKernel *k = a->c->k;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (a->reduces[i] && k->nodes.at[i].reduce == DT_REDUCE_MAX) {
            if (o->max != DT_KNONE)
                return false;
            o->max = i;
        }
    if (o->max == DT_KNONE || k->nodes.at[k->nodes.at[o->max].args[0]].phase != 0)
        return false;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (a->reduces[i] && i != o->max &&
            (k->nodes.at[i].reduce != DT_REDUCE_SUM || o->n_sums == DT_ONLINE_SUMS ||
             !sums_up(a, o->max, i, &o->sums[o->n_sums++])))
            return false;
    return o->n_sums > 0;
}

/* Whether the product's operand is e of one of the sums, or that e divided by a value of its
 * row. */
static bool takes(const DtAttendPrint *a, DtOnline *o, uint32_t node)
{
    const DtKernel *k = a->c->k;
    while (is_map(k, node, DT_OP_CAST)) /* the product rounds its operand itself */
        node = k->nodes.at[node].args[0];
    const DtKNode *n = &k->nodes.at[node];
    if (is_map(k, node, DT_OP_DIV) && !(k->nodes.at[n->args[1]].axes >> a->role->cols & 1)) {
        o->divisor = n->args[1];
        node = n->args[0];
    }
    for (uint32_t i = 0; i < o->n_sums; i++)
        if (o->sums[i].exp == node)
            o->product = &o->sums[i];
    return o->product;
}

bool dt_attend_is_online(DtAttendPrint *a, DtOnline *ret_online)
{
    const DtKernel *k = a->c->k;
    const DtRole *role = a->role;
    DtOnline *o = ret_online;
    *o = (DtOnline){.max = DT_KNONE, .divisor = DT_KNONE};
    if (role->single || role->away || role->n_sums != 1 || role->n_made != 1 || !find_sums(a, o))
        return false;
    o->node = k->attend->sums.at[role->sums[0]].node;
    if (!takes(a, o, o->node))
        return false;
    for (uint32_t i = 0; i < role->n_stores; i++)
        if (k->nodes.at[k->stores.at[role->stores[i]].node].axes >> role->cols & 1)
            return false;
    return true;
}

/* Prints the values that exponentials subtract, one per sum, for the maximum of the keys that the
 * row has seen so far. */
static void print_grown(DtAttendPrint *a, const DtOnline *o)
{
    line(a->c, "for (int h = 0; h < 2; h++) w%u[h] = s%u[h];", o->max, o->max);
    dt_print_forget(a->c);
    a->have[o->max] = true;
    for (uint32_t i = 0; i < o->n_sums; i++)
        if (o->sums[i].grown != o->max) {
            a->have[o->sums[i].grown] = false;
            dt_attend_mark(a, o->sums[i].grown);
        }
    dt_attend_print_rows(a);
}

/* Prints the update of the row's maximum, and the factors by which each earlier sum is rescaled: it
 * was computed with a smaller maximum. */
static void print_growth(DtAttendPrint *a, const DtOnline *o, uint32_t eights)
{
    DtPrint *c = a->c;
    for (uint32_t i = 0; i < o->n_sums; i++)
        line(c, "float f%u[2];", o->sums[i].sum);
    line(c, "for (int h = 0; h < 2; h++) {");
    c->depth++;
    for (uint32_t i = 0; i < o->n_sums; i++)
        line(c, "f%u[h] = w%u[h];", o->sums[i].sum, o->sums[i].grown);
    line(c, "s%u[h] = dt_max_quad(s%u[h]);", o->max, o->max);
    dt_print_close(c, 1);
    print_grown(a, o);
    line(c, "DT_UNROLL for (int h = 0; h < 2; h++) {");
    c->depth++;
    for (uint32_t i = 0; i < o->n_sums; i++) {
        const DtOnlineSum *s = &o->sums[i];
        line(c, "const float n%u = f%u[h] - w%u[h];", s->from, s->sum, s->grown);
        dt_print_node(c, s->exp);
        line(c, "f%u[h] = n%u;", s->sum, s->exp);
        line(c, "s%u[h] = s%u[h] * f%u[h];", s->sum, s->sum, s->sum);
    }
    dt_print_close(c, 1);
    line(c, "DT_UNROLL for (int u = 0; u < %u; u++)", eights);
    line(c, "    DT_UNROLL for (int x = 0; x < 4; x++) y0[u][x] = y0[u][x] * f%u[x / 2];",
         o->product->sum);
}

static void mark_exponentials(DtAttendPrint *a, const DtOnline *o)
{
    for (uint32_t i = 0; i < o->n_sums; i++)
        dt_attend_mark(a, o->sums[i].exp);
}

static void print_tile(DtAttendPrint *a, const DtOnline *o, uint32_t eights)
{
    DtPrint *c = a->c;
    dt_print_forget(c);
    dt_attend_mark(a, c->k->nodes.at[o->max].args[0]);
    mark_exponentials(a, o);
    c->needed[o->node] = true;
    dt_attend_print_load(a);
    dt_print_forget(c);
    dt_attend_mark(a, c->k->nodes.at[o->max].args[0]);
    dt_attend_print_elements(a, 0);
    print_growth(a, o, eights);
    dt_print_forget(c);
    mark_exponentials(a, o);
    dt_attend_print_elements(a, 1);
    c->needed[o->node] = true;
    dt_attend_print_sums(a);
}

/* Prints the values of rows that do not depend on the keys seen so far. */
static void print_known(DtAttendPrint *a, const DtOnline *o)
{
    dt_print_forget(a->c);
    dt_attend_mark(a, a->c->k->nodes.at[o->max].args[0]);
    for (uint32_t i = 0; i < o->n_sums; i++)
        dt_attend_mark(a, a->c->k->nodes.at[o->sums[i].from].args[0]);
    dt_attend_print_rows(a);
}

void dt_attend_print_online(DtAttendPrint *a, const DtOnline *o)
{
    DtPrint *c = a->c;
    const uint32_t eights = (c->k->attend->sums.at[a->role->sums[0]].to.depth + 15) / 16 * 2;
    const long long n = (long long)c->k->extent[a->role->cols];
    a->online = o;
    print_known(a, o);
    line(c, "float s%u[2];", o->max);
    line(c, "s%u[0] = s%u[1] = %s;", o->max, o->max, dt_print_identity(c, &c->k->nodes.at[o->max]));
    for (uint32_t i = 0; i < o->n_sums; i++)
        line(c, "float s%u[2] = {0};", o->sums[i].sum);
    print_grown(a, o);
    line(c, "int visited = 0;");
    line(c, "for (int64_t c0 = 0; c0 < %lld; c0 += %u) {", n, a->tile->cols);
    c->depth++;
    dt_attend_print_hidden(a, true);
    print_tile(a, o, eights);
    dt_print_close(c, 1);
    line(c, "(void)visited;");
    for (uint32_t i = 0; i < o->n_sums; i++) {
        line(c, "for (int h = 0; h < 2; h++) w%u[h] = dt_sum_quad(s%u[h]);", o->sums[i].sum,
             o->sums[i].sum);
        a->have[o->sums[i].sum] = true;
    }
    a->online = NULL;
    if (o->divisor == DT_KNONE)
        return;
    dt_print_forget(c);
    dt_attend_mark(a, o->divisor);
    dt_attend_print_rows(a);
    line(c, "DT_UNROLL for (int u = 0; u < %u; u++)", eights);
    line(c, "    DT_UNROLL for (int x = 0; x < 4; x++) y0[u][x] = y0[u][x] / w%u[x / 2];",
         o->divisor);
}
