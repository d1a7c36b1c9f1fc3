/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in one pass along the columns: the merge of blocks that `attend` states (std.dsl, stream), for a function
 * whose nodes say the same in three passes:
 *
 *     m = max x    e = exp(x - g(m))    l = sum e    y = (e / d(l)) v
 *
 * A row keeps m, l and the sum of e v of the tiles so far. When m grows, l and the sum are multiplied by
 * exp(g(old m) - g(m)), which is at most 1 since g is m or max(m, constant); d(l) divides at the end, so e is rounded
 * for the product, not e / d(l). (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.) */
#include "codegen/cuda/attend_print.h"

#include <string.h>

#define line dt_print_line

static bool is_map(const DtKernel *k, uint32_t node, DtOpKind map)
{
    return k->nodes.at[node].kind == DT_KNODE_MAP && k->nodes.at[node].map == map;
}

/* The only reduction along the columns of that kind; DT_KNONE: there is none, or more. */
static uint32_t reduction(const DtAttendPrint *a, DtReduce reduce)
{
    uint32_t found = DT_KNONE, n = 0;
    for (uint32_t k = 0; k < a->c->k->nodes.n; k++)
        if (a->reduces[k] && a->c->k->nodes.at[k].reduce == reduce) {
            found = k;
            n++;
        }
    return n == 1 ? found : DT_KNONE;
}

/* Whether the node is the reduction, or the larger one of it and a constant. */
static bool grows_with(const DtKernel *k, uint32_t node, uint32_t max)
{
    const DtKNode *n = &k->nodes.at[node];
    return node == max ||
           (is_map(k, node, DT_OP_MAX) && n->args[0] == max && k->nodes.at[n->args[1]].kind == DT_KNODE_CONST);
}

/* Whether the product takes e, or e divided by something of its row. */
static bool takes(DtAttendPrint *a, DtOnline *o, uint32_t node)
{
    const DtKernel *k = a->c->k;
    while (is_map(k, node, DT_OP_CAST)) /* the product rounds what it takes */
        node = k->nodes.at[node].args[0];
    const DtKNode *n = &k->nodes.at[node];
    if (node == o->exp)
        return o->divisor == DT_KNONE;
    if (!is_map(k, node, DT_OP_DIV) || n->args[0] != o->exp || k->nodes.at[n->args[1]].axes >> a->role->cols & 1)
        return false;
    o->divisor = n->args[1];
    return true;
}

bool dt_attend_is_online(DtAttendPrint *a, DtOnline *ret_online)
{
    const DtKernel *k = a->c->k;
    const DtRole *role = a->role;
    DtOnline o = {.max = reduction(a, DT_REDUCE_MAX), .sum = reduction(a, DT_REDUCE_SUM), .divisor = DT_KNONE};
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        n += a->reduces[i];
    if (role->single || role->away || n != 2 || o.max == DT_KNONE || o.sum == DT_KNONE || role->n_sums != 1 ||
        role->n_made != 1)
        return false;
    o.exp = k->nodes.at[o.sum].args[0];
    if (!is_map(k, o.exp, DT_OP_EXP) || !is_map(k, k->nodes.at[o.exp].args[0], DT_OP_SUB))
        return false;
    o.from = k->nodes.at[o.exp].args[0];
    o.grown = k->nodes.at[o.from].args[1];
    o.node = k->attend->sums.at[role->sums[0]].node;
    if (k->nodes.at[k->nodes.at[o.from].args[0]].phase != 0 || k->nodes.at[k->nodes.at[o.max].args[0]].phase != 0 ||
        !grows_with(k, o.grown, o.max) || !takes(a, &o, o.node))
        return false;
    for (uint32_t i = 0; i < role->n_stores; i++)
        if (k->nodes.at[k->stores.at[role->stores[i]].node].axes >> role->cols & 1)
            return false;
    *ret_online = o;
    return true;
}

/* w<grown> of what the row has seen so far. */
static void print_grown(DtAttendPrint *a, const DtOnline *o)
{
    line(a->c, "for (int h = 0; h < 2; h++) w%u[h] = s%u[h];", o->max, o->max);
    a->have[o->max] = true;
    if (o->grown == o->max)
        return;
    a->have[o->grown] = false;
    dt_print_forget(a->c);
    dt_attend_mark(a, o->grown);
    dt_attend_print_rows(a);
}

/* What came before is multiplied by what the row's maximum has grown by. */
static void print_growth(DtAttendPrint *a, const DtOnline *o, uint32_t eights)
{
    DtPrint *c = a->c;
    line(c, "float f[2];");
    line(c, "for (int h = 0; h < 2; h++) {");
    c->depth++;
    line(c, "f[h] = w%u[h];", o->grown);
    line(c, "s%u[h] = dt_max_quad(s%u[h]);", o->max, o->max);
    dt_print_close(c, 1);
    print_grown(a, o);
    line(c, "DT_UNROLL for (int h = 0; h < 2; h++) {");
    c->depth++;
    line(c, "const float n%u = f[h] - w%u[h];", o->from, o->grown);
    dt_print_node(c, o->exp);
    line(c, "f[h] = n%u;", o->exp);
    line(c, "s%u[h] = s%u[h] * f[h];", o->sum, o->sum);
    dt_print_close(c, 1);
    line(c, "DT_UNROLL for (int u = 0; u < %u; u++)", eights);
    line(c, "    DT_UNROLL for (int x = 0; x < 4; x++) y0[u][x] = y0[u][x] * f[x / 2];");
}

static void mark_tile(DtAttendPrint *a, const DtOnline *o)
{
    dt_print_forget(a->c);
    dt_attend_mark(a, a->c->k->nodes.at[o->max].args[0]);
    dt_attend_mark(a, o->exp);
}

static void print_tile(DtAttendPrint *a, const DtOnline *o, uint32_t eights)
{
    DtPrint *c = a->c;
    mark_tile(a, o);
    c->needed[o->node] = true;
    dt_attend_print_load(a);
    dt_print_forget(c);
    dt_attend_mark(a, c->k->nodes.at[o->max].args[0]);
    dt_attend_print_elements(a, 0);
    print_growth(a, o, eights);
    dt_print_forget(c);
    dt_attend_mark(a, o->exp);
    dt_attend_print_elements(a, 1);
    c->needed[o->node] = true;
    dt_attend_print_sums(a);
}

/* What rows have that neither depends on what they have seen. */
static void print_known(DtAttendPrint *a, const DtOnline *o)
{
    dt_print_forget(a->c);
    dt_attend_mark(a, a->c->k->nodes.at[o->max].args[0]);
    dt_attend_mark(a, a->c->k->nodes.at[o->from].args[0]);
    dt_attend_print_rows(a);
}

void dt_attend_print_online(DtAttendPrint *a, const DtOnline *o)
{
    DtPrint *c = a->c;
    const uint32_t eights = (c->k->attend->sums.at[a->role->sums[0]].to.depth + 15) / 16 * 2;
    const long long n = (long long)c->k->extent[a->role->cols];
    a->online = o;
    print_known(a, o);
    line(c, "float s%u[2], s%u[2] = {0};", o->max, o->sum);
    line(c, "s%u[0] = s%u[1] = %s;", o->max, o->max, dt_print_identity(c, &c->k->nodes.at[o->max]));
    print_grown(a, o);
    line(c, "int visited = 0;");
    line(c, "for (int64_t c0 = 0; c0 < %lld; c0 += %u) {", n, a->tile->cols);
    c->depth++;
    dt_attend_print_hidden(a, true);
    print_tile(a, o, eights);
    dt_print_close(c, 1);
    line(c, "(void)visited;");
    line(c, "for (int h = 0; h < 2; h++) w%u[h] = dt_sum_quad(s%u[h]);", o->sum, o->sum);
    a->have[o->sum] = true;
    a->online = NULL;
    if (o->divisor == DT_KNONE)
        return;
    dt_print_forget(c);
    dt_attend_mark(a, o->divisor);
    dt_attend_print_rows(a);
    line(c, "DT_UNROLL for (int u = 0; u < %u; u++)", eights);
    line(c, "    DT_UNROLL for (int x = 0; x < 4; x++) y0[u][x] = y0[u][x] / w%u[x / 2];", o->divisor);
}
