/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR as text (kir/read.c reads it): words, a line for each node and store, counts before
 * lists. */
#include "codegen/print.h"
#include "codegen/interpreted/interpreted.h"

#include <math.h>

static const char *const dtypes[] = {
    [DT_BOOL] = "bool", [DT_U8] = "u8",   [DT_I32] = "i32",
    [DT_F32] = "f32",   [DT_F16] = "f16", [DT_BF16] = "bf16"};
static const char *const reduces[] = {
    [DT_REDUCE_SUM] = "sum", [DT_REDUCE_MAX] = "max", [DT_REDUCE_MIN] = "min"};

static void add_list(DtText *t, const int64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        dt_text_printf(t, " %lld", (long long)numbers[i]);
}

static void add_reference(DtText *t, uint32_t number)
{
    if (number == DT_KNONE)
        dt_text_add(t, " -");
    else
        dt_text_printf(t, " %u", number);
}

static void add_number(DtText *t, DtDtype dtype, double value)
{
    if (!dt_dtype_is_float(dtype))
        dt_text_printf(t, " %lld", (long long)value);
    else if (isnan(value))
        dt_text_add(t, " nan");
    else
        dt_text_printf(t, " %a", (double)(float)value);
}

static void add_index(DtText *t, const DtKernel *k, const DtKIndex *index)
{
    dt_text_printf(t, "  %lld %lld", (long long)index->stride, (long long)index->base);
    add_list(t, index->coef, k->n_axes);
    dt_text_printf(t, " %lld %lld %d %lld", (long long)index->div, (long long)index->mod,
                   index->exact && index->div, index->guard ? (long long)index->extent : -1);
    add_reference(t, index->node);
    add_reference(t, index->bases);
}

static void add_load(DtText *t, const DtKernel *k, const DtKNode *node)
{
    dt_text_printf(t, "load %s %u %lld", dtypes[node->dtype], node->pointer,
                   (long long)node->offset);
    add_list(t, node->coef, k->n_axes);
    add_number(t, node->dtype, node->number);
    dt_text_printf(t, " %u", node->n_index);
    for (uint32_t d = 0; d < node->n_index; d++)
        add_index(t, k, &node->index[d]);
}

static void add_draw(DtText *t, const DtKernel *k, const DtKNode *node)
{
    const uint32_t first = node->integer != DT_KNONE;
    dt_text_printf(t, "rng %llx %u %u", (unsigned long long)node->key, node->draws,
                   first + node->n_more);
    if (first)
        dt_text_printf(t, " %u", node->integer);
    for (uint32_t i = 0; i < node->n_more; i++)
        dt_text_printf(t, " %u", node->more[i]);
    dt_text_printf(t, " %u %u", node->step, node->iteration);
    add_list(t, node->coef, k->n_axes);
}

static void add_node(DtText *t, const DtKernel *k, uint32_t n)
{
    const DtKNode *node = &k->nodes.at[n];
    dt_text_printf(t, "/* %u */ ", n);
    switch (node->kind) {
    case DT_KNODE_CONST:
        dt_text_printf(t, "const %s", dtypes[node->dtype]);
        add_number(t, node->dtype, node->number);
        break;
    case DT_KNODE_IOTA:
        dt_text_add(t, "iota");
        add_reference(t, node->integer);
        add_list(t, node->coef, k->n_axes);
        break;
    case DT_KNODE_INT: dt_text_printf(t, "int %u", node->integer); break;
    case DT_KNODE_RNG: add_draw(t, k, node); break;
    case DT_KNODE_LOAD: add_load(t, k, node); break;
    case DT_KNODE_MAP:
        dt_text_printf(t, "map %s %s", dt_op_info[node->map].text, dtypes[node->dtype]);
        for (uint32_t i = 0; i < node->n_args; i++)
            dt_text_printf(t, " %u", node->args[i]);
        break;
    case DT_KNODE_REDUCE:
        dt_text_printf(t, "reduce %s %s %u %d %u", reduces[node->reduce], dtypes[node->dtype],
                       node->args[0], node->after_rows, node->axes);
        break;
    case DT_KNODE_SCORE: dt_text_add(t, "score"); break;
    }
    dt_text_add(t, "\n");
}

/* ---- a kernel ---- */

static int64_t special_of(const DtKernel *k)
{
    if (k->pattern == DT_KPATTERN_TOPK)
        return dt_type_extent(k->special->out[0]->type, k->special->axes[1]);
    return k->pattern == DT_KPATTERN_SCAN && k->special->reverse;
}

/* Where the part begins that the symbol does not decide. */
static size_t add_head(DtText *t, const DtKernel *k)
{
    static const char *const patterns[] = {"row", "column", "scan", "topk", "scatter", "attend"};
    static const char *const pieces[] = {"none", "axis", "rows", "points"};
    dt_text_printf(t, "kernel %s", k->symbol);
    const size_t body = t->len;
    dt_text_printf(t, " %s %u %u", patterns[k->pattern], k->n_axes, k->n_outer);
    add_list(t, k->extent, k->n_axes);
    dt_text_printf(t, "\npointers %u", k->pointers.n);
    for (uint32_t i = 0; i < k->pointers.n; i++)
        dt_text_printf(t, " %s", dtypes[k->pointers.at[i].view->dtype]);
    dt_text_printf(t, "\nintegers %u\npieces %s %u %lld %lld\nlanes %u %s\nspecial %lld\n",
                   k->ints.n, pieces[k->pieces_of],
                   k->pieces_of == DT_KPIECES_AXIS ? k->piece_axis : 0, (long long)k->pieces,
                   (long long)k->piece, dt_kernel_row_lanes(k), k->row_threads ? "pairs" : "halves",
                   (long long)special_of(k));
    return body;
}

static void add_stores(DtText *t, const DtKernel *k)
{
    dt_text_printf(t, "stores %u\n", k->stores.n);
    for (uint32_t i = 0; i < k->stores.n; i++) {
        const DtKStore *store = &k->stores.at[i];
        const bool indices =
            k->pattern == DT_KPATTERN_TOPK && k->pointers.at[store->pointer].value->index == 1;
        dt_text_printf(t, "%u %u %lld %d %d", store->pointer, store->node, (long long)store->offset,
                       store->accumulate, indices);
        add_list(t, store->stride, k->n_axes);
        dt_text_add(t, "\n");
    }
    dt_text_printf(t, "targets %u\n", k->n_target);
    for (uint32_t i = 0; i < k->n_target; i++) {
        dt_text_printf(t, "%u", k->target[i].node);
        add_reference(t, k->target[i].bases);
        dt_text_printf(t, " %lld %lld\n", (long long)k->target[i].extent,
                       (long long)k->target[i].stride);
    }
}

static void add_rows(DtText *t, const DtKernel *k, const DtKRows *rows)
{
    dt_text_printf(t, "  %u %u %lld %lld", rows->pointer, rows->depth, (long long)rows->offset,
                   (long long)rows->along);
    add_list(t, rows->stride, k->n_axes);
}

static void add_attention(DtText *t, const DtKernel *k)
{
    const DtKAttend *a = k->attend;
    dt_text_printf(t, "scores %u\n", a ? a->scores.n : 0);
    for (uint32_t i = 0; a && i < a->scores.n; i++) {
        dt_text_printf(t, "%u", a->scores.at[i].node);
        add_rows(t, k, &a->scores.at[i].query);
        add_rows(t, k, &a->scores.at[i].key);
        dt_text_add(t, "\n");
    }
    dt_text_printf(t, "sums %u\n", a ? a->sums.n : 0);
    for (uint32_t i = 0; a && i < a->sums.n; i++) {
        const DtKSum *sum = &a->sums.at[i];
        dt_text_printf(t, "%u %s %d %d %u", sum->node, dtypes[sum->dtype], sum->over_keys,
                       sum->accumulate, sum->away);
        add_rows(t, k, &sum->of);
        add_rows(t, k, &sum->to);
        dt_text_add(t, "\n");
    }
}

/* The kernel between a library's statistic of rows, s = m + log l, and m and l
 * (codegen/cuda/attend_statistic.c). */
static void add_statistic(DtText *t, const DtKernel *k)
{
    const DtPlanSdpa *s = k->sdpa;
    const long long heads = s->heads, queries = s->queries;
    dt_text_printf(t,
                   "kernel %s%s row 3 3 %lld %lld %lld\npointers 3 f32 f32 f32\nintegers 0\n"
                   "pieces none 0 0 0\nlanes 16 halves\nspecial 0\n",
                   k->symbol, DT_PLAN_STATISTIC, (long long)s->batch, heads, queries);
    DtText m = {0}, l = {0};
    const uint32_t parts[] = {DT_SDPA_MAX, DT_SDPA_SUM};
    for (uint32_t i = 0; i < 2; i++)
        dt_text_printf(i ? &l : &m, "%lld %lld %lld", (long long)s->of_batch[parts[i]],
                       (long long)s->of_head[parts[i]], (long long)s->of_row[parts[i]]);
    if (s->backward)
        dt_text_printf(
            t,
            "nodes 4\nload f32 1 %lld %s 0x0p+0 0\nload f32 2 %lld %s 0x0p+0 0\nmap log f32 1\n"
            "map add f32 0 2\nstores 1\n0 3 0 0 0 %lld %lld 1\n",
            (long long)s->offset[DT_SDPA_MAX], m.at, (long long)s->offset[DT_SDPA_SUM], l.at,
            heads * queries, queries);
    else
        dt_text_printf(t,
                       "nodes 2\nload f32 0 0 %lld %lld 1 0x0p+0 0\nconst f32 0x1p+0\nstores 2\n1 "
                       "0 %lld 0 0 %s\n"
                       "2 1 %lld 0 0 %s\n",
                       heads * queries, queries, (long long)s->offset[DT_SDPA_MAX], m.at,
                       (long long)s->offset[DT_SDPA_SUM], l.at);
    dt_text_add(t, "targets 0\nscores 0\nsums 0\n");
    dt_text_free(&m);
    dt_text_free(&l);
}

size_t dt_interpreted_print(const DtKernel *k, DtDiags *diags, bool lines, DtText *ret_text)
{
    DtPrint print;
    (void)lines;
    dt_print_begin(k, ret_text, &print);
    dt_print_title(&print, diags);
    dt_arena_free(print.arena);
    const size_t body = add_head(ret_text, k);
    dt_text_printf(ret_text, "nodes %u\n", k->nodes.n);
    for (uint32_t n = 0; n < k->nodes.n; n++)
        add_node(ret_text, k, n);
    add_stores(ret_text, k);
    add_attention(ret_text, k);
    if (k->sdpa && k->sdpa->pointer[DT_SDPA_MAX] >= 0)
        add_statistic(ret_text, k);
    dt_text_add(ret_text, "\n");
    return body;
}
