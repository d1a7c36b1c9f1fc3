/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose order of work is part of their meaning: scan, top-k and scatter. */
#include "codegen/print.h"

#define line dt_print_line

static void all_nodes(DtPrint *c, const DtKernel *k)
{
    for (uint32_t n = 0; n < k->nodes.n; n++)
        if (c->live[n])
            dt_print_node(c, n);
}

static const char *type_of(DtDtype dtype) { return dt_dtype_is_float(dtype) ? "float" : "int"; }

static void open_reverse(DtPrint *c, uint32_t axis)
{
    line(c, "for (int64_t i%u = %s; i%u-- > 0;) { /* %s */", axis, c->extent(c, axis), axis,
         c->k->axis[axis]);
    c->depth++;
}

static void print_scan(DtPrint *c)
{
    const DtKernel *k = c->k;
    DtDtype dtype = k->special->out[0]->type->dtype;
    uint32_t node = k->stores.at[0].node;
    uint32_t open = 0;
    for (uint32_t a = 0; a < k->n_outer; a++)
        open += dt_print_open(c, a);
    line(c, "%s sum = 0;", type_of(dtype));
    for (uint32_t a = k->n_outer; a < k->n_axes; a++) {
        if (k->special->reverse)
            open_reverse(c, a);
        else
            dt_print_open(c, a);
        open++;
    }
    all_nodes(c, k);
    line(c, dt_dtype_is_float(dtype) ? "sum = sum + n%u;" : "sum = dt_iadd(sum, n%u);", node);
    line(c, "{");
    c->depth++;
    line(c, "const %s n%u = sum;", type_of(dtype), node);
    dt_print_store(c, &k->stores.at[0]);
    dt_print_close(c, 1 + open);
}

/* c rounds of choosing the largest element that comes after the last chosen one in the order
 * (larger first, NaN before all, lower index first). */
static void print_topk(DtPrint *c)
{
    const DtKernel *k = c->k;
    uint32_t a = k->n_outer, node = k->stores.at[0].node;
    const DtType *type = k->special->out[0]->type;
    DtDtype dtype = type->dtype;
    int64_t count = dt_type_extent(type, k->special->axes[1]);
    uint32_t open = 0;
    for (uint32_t o = 0; o < k->n_outer; o++)
        open += dt_print_open(c, o);
    line(c, "%s last = 0; int64_t last_at = -1;", type_of(dtype));
    line(c, "for (int64_t r = 0; r < %lld; r++) {", (long long)count);
    c->depth++;
    line(c, "%s best = 0; int64_t best_at = -1;", type_of(dtype));
    dt_print_open(c, a);
    all_nodes(c, k);
    line(c, "const int later = last_at < 0 || dt_before(last, last_at, n%u, i%u);", node, a);
    line(c,
         "if (later && (best_at < 0 || dt_before(n%u, i%u, best, best_at))) best = n%u, best_at = "
         "i%u;",
         node, a, node, a);
    dt_print_close(c, 1);
    line(c, "last = best, last_at = best_at;");
    line(c, "const int64_t i%u = r;", a);
    for (uint32_t s = 0; s < k->stores.n; s++) {
        bool indices = k->pointers.at[k->stores.at[s].pointer].value->index == 1;
        line(c, "{");
        c->depth++;
        line(c, "const %s n%u = %s;", indices ? "int" : type_of(dtype), node,
             indices ? "(int)best_at" : "best");
        dt_print_store(c, &k->stores.at[s]);
        dt_print_close(c, 1);
    }
    dt_print_close(c, 1 + open);
}

void dt_print_target(DtPrint *c, uint32_t t)
{
    const DtKIndex *index = &c->k->target[t];
    if (index->bases != DT_KNONE)
        line(c, "const int64_t t%u = (int64_t)n%u - q[%u];", t, index->node, index->bases);
    else
        line(c, "const int64_t t%u = n%u;", t, index->node);
    line(c, "if ((uint64_t)t%u >= %lldu) continue;", t, (long long)index->extent);
}

void dt_print_scatter_add(DtPrint *c)
{
    const DtKernel *k = c->k;
    const DtKStore *store = &k->stores.at[0];
    DtDtype dtype = k->pointers.at[store->pointer].view->dtype;
    if (dtype == DT_F16 || dtype == DT_BF16)
        line(c, "p%u[at] = dt_to_%s(dt_from_%s(p%u[at]) + n%u);", store->pointer,
             dt_dtype_name(dtype), dt_dtype_name(dtype), store->pointer, store->node);
    else if (dtype == DT_F32)
        line(c, "p%u[at] = p%u[at] + n%u;", store->pointer, store->pointer, store->node);
    else
        line(c, "p%u[at] = dt_iadd(p%u[at], n%u);", store->pointer, store->pointer, store->node);
}

void dt_print_indices(DtPrint *c, uint32_t axes, const char *number)
{
    long long inside = 1;
    for (uint32_t a = c->k->n_axes; a-- > 0;) {
        if (!(axes >> a & 1))
            continue;
        line(c, "const int64_t i%u = %s / %lld %% %lld; /* %s */", a, number, inside,
             (long long)c->k->extent[a], c->k->axis[a]);
        inside *= c->k->extent[a];
    }
}

/* Point by point, each piece by itself; results are in the order of places, then of items. */
static void print_scatter_pieces(DtPrint *c)
{
    const DtKernel *k = c->k;
    const DtKStore *store = &k->stores.at[0];
    const bool is_float = dt_dtype_is_float(k->pointers.at[store->pointer].view->dtype);
    const char *type = is_float ? "float" : "int", *add = is_float ? "dt_add" : "dt_iadd";
    long long items = 1, points = 1, places = 1;
    uint32_t kept = 0; /* axes that the result has as they are */
    for (uint32_t a = 0; a < k->n_axes; a++) {
        *(store->stride[a] ? &items : &points) *= k->extent[a];
        kept |= (uint32_t)(store->stride[a] != 0) << a;
    }
    for (uint32_t t = 0; t < k->n_target; t++)
        places *= k->target[t].extent;
    line(c, "%s s[%lld], t[%lld][16];", type, places * items, places * items);
    line(c, "for (int64_t x = 0; x < %lld; x++) for (int l = 0; l < 16; l++) t[x][l] = 0;",
         places * items);
    line(c, "for (int64_t piece = 0; piece < %lld; piece++) {", (long long)k->pieces);
    c->depth++;
    line(c, "const int64_t from = piece * %lld, to = piece == %lld ? %lld : from + %lld;",
         (long long)k->piece, (long long)k->pieces - 1, points, (long long)k->piece);
    line(c, "for (int64_t x = 0; x < %lld; x++) s[x] = 0;", places * items);
    line(c, "for (int64_t g = from; g < to; g++) for (int64_t r = 0; r < %lld; r++) {", items);
    c->depth++;
    dt_print_indices(c, ~kept, "g");
    dt_print_indices(c, kept, "r");
    all_nodes(c, k);
    line(c, "int64_t place = 0;");
    for (uint32_t t = 0; t < k->n_target; t++) {
        dt_print_target(c, t);
        line(c, "place = place * %lld + t%u;", (long long)k->target[t].extent, t);
    }
    line(c, "s[place * %lld + r] = %s(s[place * %lld + r], n%u);", items, add, items, store->node);
    dt_print_close(c, 1);
    line(c, "for (int64_t x = 0; x < %lld; x++) t[x][piece %% 16] = %s(t[x][piece %% 16], s[x]);",
         places * items, add);
    dt_print_close(c, 1);
    line(c, "for (int64_t x = 0; x < %lld; x++) {", places * items);
    c->depth++;
    line(c, "const int64_t r = x %% %lld;", items);
    dt_print_indices(c, kept, "r");
    line(c, "const %s n%u = %s_16(t[x]);", type, store->node, is_float ? "dt_sum" : "dt_isum");
    line(c, "int64_t at = %s;", dt_print_affine(c, store->offset, store->stride));
    for (long long t = k->n_target, inside = 1; t-- > 0; inside *= k->target[t].extent)
        line(c, "at += x / %lld %% %lld * %lld;", items * inside, (long long)k->target[t].extent,
             (long long)k->target[t].stride);
    dt_print_scatter_add(c);
    dt_print_close(c, 1);
}

/* Adds in the order of the index space, so that equal targets add in index order. The target is
 * zeroed by the instruction before. */
static void print_scatter(DtPrint *c)
{
    const DtKernel *k = c->k;
    const DtKStore *store = &k->stores.at[0];
    uint32_t open = 0;
    for (uint32_t a = 0; a < k->n_axes; a++)
        open += dt_print_open(c, a);
    if (open == 0) { /* one element: a loop of one round for `continue` */
        line(c, "for (int once = 1; once; once = 0) {");
        c->depth++;
        open++;
    }
    all_nodes(c, k);
    line(c, "int64_t at = 0;");
    for (uint32_t a = 0; a < k->n_axes; a++)
        if (store->stride[a])
            line(c, "at += %lld * i%u;", (long long)store->stride[a], a);
    for (uint32_t t = 0; t < k->n_target; t++) {
        dt_print_target(c, t);
        line(c, "at += %lld * t%u;", (long long)k->target[t].stride, t);
    }
    dt_print_scatter_add(c);
    dt_print_close(c, open);
}

void dt_print_special_live(DtPrint *c)
{
    for (uint32_t t = 0; t < c->k->n_target; t++)
        c->live[c->k->target[t].node] = true;
    for (uint32_t n = c->k->nodes.n; n-- > 0;) /* a node's operands come before it, so one pass
                                                * backwards marks all */
        if (c->live[n]) {
            const DtKNode *node = &c->k->nodes.at[n];
            for (uint32_t i = 0; i < node->n_args; i++)
                c->live[node->args[i]] = true;
            for (uint32_t d = 0; d < node->n_index; d++)
                if (node->index[d].node != DT_KNONE)
                    c->live[node->index[d].node] = true;
        }
}

void dt_print_special(DtPrint *c)
{
    switch (c->k->pattern) {
    case DT_KPATTERN_SCAN: print_scan(c); break;
    case DT_KPATTERN_TOPK: print_topk(c); break;
    default: (c->k->pieces ? print_scatter_pieces : print_scatter)(c); break;
    }
}
