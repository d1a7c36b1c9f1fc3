/* SPDX-License-Identifier: Apache-2.0 */
/* Prints kernels of attention. The function of a score is printed from the function's own ops,
 * inside loops over tiles, with products of tiles (kernels/attend.h).
 *
 * Names, in addition to those of print.h. For a block: r0 is the first row and c0 the first
 * column of the tile; t<k>, u<k> and m<k> are tiles of rows, of columns and of both; k<k> has
 * the value of node k for each column of the tile. For a thread and its two rows: w<k> is the
 * value of node k, s<k> the partial result of a reduction, z<k> scores, y<k> sums, e<k> partial
 * results of stores. */
#include "codegen/cuda/attend.h"
#include "codegen/cuda/attend_print.h"

#include "base/bug.h"

#include <string.h>

#define line dt_print_line

static void open_braces(DtPrint *c, const char *text)
{
    line(c, "%s {", text);
    c->depth++;
}

const char *dt_attend_element(DtDtype dtype)
{
    return dtype == DT_F32 ? "f32" : dtype == DT_BF16 ? "bf16" : "f16";
}

/* ---- nodes ---- */

static bool is_held(const DtAttendPrint *a, uint32_t k)
{
    const uint32_t axes = a->c->k->nodes.at[k].axes;
    return !(axes >> a->role->cols & 1) && axes >> a->role->rows & 1;
}

static bool is_held_by_column(const DtAttendPrint *a, uint32_t k)
{
    for (uint32_t i = 0; i < a->role->n_held; i++)
        if (a->role->held[i] == k)
            return true;
    return false;
}

/* Marks the nodes that node k depends on, up to values that the block already holds (which are
 * marked too). rows: continues into the operands of held nodes. */
static void mark(DtAttendPrint *a, uint32_t k, bool rows)
{
    const DtKNode *node = &a->c->k->nodes.at[k];
    if (a->c->needed[k])
        return;
    a->c->needed[k] = true;
    if (node->kind == DT_KNODE_REDUCE || (!rows && is_held(a, k)) || a->have[k] ||
        is_held_by_column(a, k))
        return;
    for (uint32_t i = 0; i < node->n_args; i++)
        mark(a, node->args[i], rows);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != DT_KNONE)
            mark(a, node->index[d].node, rows);
}

void dt_attend_mark(DtAttendPrint *a, uint32_t node) { mark(a, node, false); }

/* Marks a node that is computed per column, and all the nodes that it is computed from. */
static void mark_column(DtAttendPrint *a, uint32_t k)
{
    const DtKNode *node = &a->c->k->nodes.at[k];
    if (a->c->needed[k])
        return;
    a->c->needed[k] = true;
    for (uint32_t i = 0; i < node->n_args; i++)
        mark_column(a, node->args[i]);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != DT_KNONE)
            mark_column(a, node->index[d].node);
}

/* Prints the definition of node k for one element: a score is read from the registers of its
 * product, any other node is computed. A draw calls the generator for each element. */
static void define(DtAttendPrint *a, uint32_t k)
{
    const DtKNode *node = &a->c->k->nodes.at[k];
    if (node->kind == DT_KNODE_SCORE)
        line(a->c, "const float n%u = z%u[u][2 * h + j];", k, k);
    else
        dt_print_node(a->c, k);
}

/* Computes marked nodes that depend on no column, for both rows, into w<k>. */
void dt_attend_print_rows(DtAttendPrint *a)
{
    DtPrint *c = a->c;
    bool any = false;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        any = any || (c->needed[k] && is_held(a, k) && !a->have[k]);
    if (!any)
        return;
    bool *wanted = DT_NEW_ARRAY(c->arena, bool, c->k->nodes.n + 1);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        wanted[k] = c->needed[k] && is_held(a, k) && !a->have[k];
    dt_print_forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (wanted[k])
            mark(a, k, true);
    open_braces(c, "DT_UNROLL for (int h = 0; h < 2; h++)");
    line(c, "const int64_t i%u = rows[h];", a->role->rows);
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        if (!c->needed[k])
            continue;
        if (a->have[k])
            line(c, "const %s n%u = w%u[h];", dt_print_register(c->k->nodes.at[k].dtype), k, k);
        else
            define(a, k);
        if (wanted[k])
            line(c, "w%u[h] = n%u;", k, k);
    }
    dt_print_close(c, 1);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        a->have[k] = a->have[k] || wanted[k];
}

/* Prints the definitions of marked nodes: with `rows` of those that depend on the row, else of
 * those that depend on columns alone. Values that the block already holds are read. */
static void print_column_nodes(DtAttendPrint *a, bool rows)
{
    for (uint32_t k = 0; k < a->c->k->nodes.n; k++) {
        const uint32_t axes = a->c->k->nodes.at[k].axes;
        const char *type = dt_print_register(a->c->k->nodes.at[k].dtype);
        if (!a->c->needed[k] || (axes >> a->role->rows & 1) != rows)
            continue;
        if (is_held(a, k))
            line(a->c, "const %s n%u = w%u[h];", type, k, k);
        else if (is_held_by_column(a, k))
            line(a->c, "const %s n%u = k%u[8 * u + 2 * (lane %% 4) + j];", type, k, k);
        else
            define(a, k);
    }
}

/* ---- addresses ---- */

/* Returns the text of a row's address, such as "p3 + 64 * i0 + r0 * 768", in which `index` stands
 * for the index along `axis`. */
static const char *address(DtAttendPrint *a, const DtKRows *rows, uint32_t axis, const char *index)
{
    int64_t stride[DT_MAX_RANK];
    memcpy(stride, rows->stride, sizeof stride);
    stride[axis] = 0;
    return dt_arena_printf(a->c->arena, "p%u + %s + %s * %lld", rows->pointer,
                           dt_print_affine(a->c, rows->offset, stride), index,
                           (long long)rows->stride[axis]);
}

enum { ACCESS = 16 }; /* bytes */

/* Whether rows of the tile can be read 16 bytes at a time: elements are adjacent, and each row
 * begins at a multiple of 16 bytes. */
static bool is_vector(const DtAttendPrint *a, const DtATile *t)
{
    const int64_t each = ACCESS / (int64_t)dt_dtype_size(t->dtype);
    bool even = t->rows->along == 1 && t->rows->depth % each == 0 && t->rows->offset % each == 0 &&
                a->c->k->pointers.at[t->rows->pointer].align >= ACCESS;
    for (uint32_t i = 0; i < DT_MAX_RANK; i++)
        even = even && t->rows->stride[i] % each == 0;
    return even;
}

static void load_tile(DtAttendPrint *a, const DtATile *t, uint32_t i, char name, uint32_t axis,
                      uint32_t size, const char *first)
{
    const char *element = dt_attend_element(t->dtype), *at = address(a, t->rows, axis, first);
    const long long extent = (long long)a->c->k->extent[axis];
    const char *left = extent % size ? dt_arena_printf(a->c->arena, "%lld - %s", extent, first)
                                     : dt_arena_printf(a->c->arena, "%u", size);
    line(a->c, "dt_load_%s(%c%u, %u, %u, %u, %u, %s, %lld, %lld, %s, %d, %u);", element, name, i,
         t->ld, size, t->rows->depth, t->padded, at, (long long)t->rows->stride[axis],
         (long long)t->rows->along, left, is_vector(a, t), a->tile->threads);
}

static bool same_rows(const DtKRows *x, const DtKRows *y)
{
    return x->pointer == y->pointer && x->depth == y->depth && x->along == y->along &&
           memcmp(x->stride, y->stride, sizeof x->stride) == 0;
}

static uint32_t tile_of(const DtATile *tiles, uint32_t n, const DtKRows *rows)
{
    for (uint32_t i = 0; i < n; i++)
        if (same_rows(tiles[i].rows, rows))
            return i;
    DT_BUG("attention lacks a tile of what it multiplies");
}

/* ---- a tile of columns ---- */

/* Whether a marked score or sum has the tile of columns as an operand. */
static bool passes(const DtAttendPrint *a, const DtATile *t)
{
    const DtKAttend *k = a->c->k->attend;
    bool is = false;
    for (uint32_t i = 0; i < k->scores.n; i++)
        is = is || (a->c->needed[k->scores.at[i].node] &&
                    same_rows(t->rows, a->role->rows == k->queries ? &k->scores.at[i].key
                                                                   : &k->scores.at[i].query));
    for (uint32_t i = 0; i < a->role->n_sums; i++) {
        const DtKSum *sum = &k->sums.at[a->role->sums[i]];
        is = is || (a->c->needed[sum->node] && same_rows(t->rows, &sum->of));
    }
    return is;
}

static void print_scores(DtAttendPrint *a)
{
    const DtRole *role = a->role;
    const bool queries = role->rows == a->c->k->attend->queries;
    for (uint32_t i = 0; i < a->c->k->attend->scores.n; i++) {
        const DtKScore *score = &a->c->k->attend->scores.at[i];
        if (!role->scores[i] || !a->c->needed[score->node])
            continue;
        const uint32_t own = tile_of(role->own, role->n_own, queries ? &score->query : &score->key),
                       passing = tile_of(role->passing, role->n_passing,
                                         queries ? &score->key : &score->query);
        line(a->c, "float z%u[%u][4] = {{0}};", score->node, a->tile->cols / 8);
        line(a->c, "dt_nt_%s(z%u, %u, t%u + warp * %u, %u, u%u, %u, %u);",
             dt_attend_element(score->dtype), score->node, a->tile->cols / 8, own,
             16 * role->own[own].ld, role->own[own].ld, passing, role->passing[passing].ld,
             role->passing[passing].padded);
    }
}

/* Whether every tile of columns ends within the axis. */
static bool is_whole(const DtAttendPrint *a)
{
    return a->c->k->extent[a->role->cols] % a->tile->cols == 0;
}

static const char *value_inside(DtAttendPrint *a, uint32_t node, const char *outside)
{
    return dt_arena_printf(a->c->arena, is_whole(a) ? "n%u" : "in ? n%u : %s", node, outside);
}

static const char *size_text(DtDtype dtype) { return dtype == DT_F32 ? "32" : "16"; }

/* Returns the node whose values fill tile i, an operand of a product. In a single pass (online)
 * that is the exponential, which is divided only at the end. */
static uint32_t made_of(const DtAttendPrint *a, uint32_t i)
{
    return a->online ? a->online->product->exp : a->role->made[i].node;
}

/* Prints what is done with one element of this phase: reductions accumulate it, tiles for products
 * take it, and stores write it. */
static void take_element(DtAttendPrint *a, uint32_t phase)
{
    DtPrint *c = a->c;
    const DtRole *role = a->role;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (a->reduces[k] && c->k->nodes.at[c->k->nodes.at[k].args[0]].phase == phase) {
            if (!is_whole(a)) {
                line(c, "if (in) {");
                c->depth++;
            }
            dt_print_accumulate(c, k, "h");
            dt_print_close(c, !is_whole(a));
        }
    for (uint32_t i = 0; i < role->n_made; i++)
        if (c->needed[made_of(a, i)])
            line(c, "DT_PUT_%s(%s, m%u, %u, g%u, %s);", size_text(role->made[i].dtype),
                 dt_attend_element(role->made[i].dtype), i, role->made[i].ld, i,
                 value_inside(a, made_of(a, i), "0.0f"));
    for (uint32_t i = 0; i < role->n_stores; i++) {
        const DtKStore *store = &c->k->stores.at[role->stores[i]];
        const DtKNode *node = &c->k->nodes.at[store->node];
        const uint32_t value = node->after_rows ? node->args[0] : store->node;
        if (!c->needed[value] || !(c->k->nodes.at[value].axes >> role->cols & 1))
            continue;
        line(c, role->single ? "e%u[u][2 * h + j] += %s;" : "e%u[h] += %s;", i,
             value_inside(a, value, "0"));
    }
}

/* Opens the loop over the groups of eight columns of a tile; a thread has two columns of each
 * group. */
static void open_eights(DtAttendPrint *a, uint32_t eights)
{
    open_braces(a->c,
                dt_arena_printf(a->c->arena, "DT_UNROLL for (int u = 0; u < %u; u++)", eights));
}

static void open_pair(DtAttendPrint *a)
{
    open_braces(a->c, "DT_UNROLL for (int j = 0; j < 2; j++)");
}

static void open_columns(DtAttendPrint *a, uint32_t eights)
{
    open_eights(a, eights);
    open_pair(a);
}

/* Computes values per column of a tile, by one thread each, into k<k>. */
static void print_held_columns(DtAttendPrint *a)
{
    DtPrint *c = a->c;
    const DtRole *role = a->role;
    bool *kept = DT_NEW_ARRAY(c->arena, bool, c->k->nodes.n + 1), any = false;
    memcpy(kept, c->needed, c->k->nodes.n * sizeof *kept);
    dt_print_forget(c);
    for (uint32_t i = 0; i < role->n_held; i++)
        if (kept[role->held[i]]) {
            mark_column(a, role->held[i]);
            any = true;
        }
    if (any) {
        const bool once = a->tile->threads >= a->tile->cols;
        if (once)
            line(c, "const int x = DT_THREAD;");
        open_braces(
            c, dt_arena_printf(c->arena,
                               once ? "if (x < %u)" : "for (int x = DT_THREAD; x < %u; x += %u)",
                               a->tile->cols, a->tile->threads));
        line(c, "const int64_t i%u = dt_least(c0 + x, %lld);", role->cols,
             (long long)c->k->extent[role->cols] - 1);
        for (uint32_t k = 0; k < c->k->nodes.n; k++)
            if (c->needed[k])
                define(a, k);
        for (uint32_t i = 0; i < role->n_held; i++)
            if (kept[role->held[i]])
                line(c, "k%u[x] = n%u;", role->held[i], role->held[i]);
        dt_print_close(c, 1);
    }
    memcpy(c->needed, kept, c->k->nodes.n * sizeof *kept);
}

void dt_attend_print_elements(DtAttendPrint *a, uint32_t phase)
{
    DtPrint *c = a->c;
    const uint32_t cols = a->role->cols;
    const long long n = (long long)c->k->extent[cols];
    open_eights(a, a->tile->cols / 8);
    for (uint32_t i = 0; i < a->role->n_made; i++)
        if (c->needed[made_of(a, i)])
            line(c, "float g%u[2];", i);
    open_pair(a);
    if (is_whole(a)) {
        line(c, "const int64_t i%u = c0 + 8 * u + 2 * (lane %% 4) + j;", cols);
    } else {
        line(c, "const int64_t at = c0 + 8 * u + 2 * (lane %% 4) + j;");
        line(c, "const int in = at < %lld;", n);
        line(c, "const int64_t i%u = in ? at : %lld;", cols, n - 1);
    }
    line(c, "(void)i%u;", cols);
    print_column_nodes(a, false);
    open_braces(c, "DT_UNROLL for (int h = 0; h < 2; h++)");
    line(c, "const int64_t i%u = rows[h];", a->role->rows);
    line(c, "(void)i%u;", a->role->rows);
    print_column_nodes(a, true);
    take_element(a, phase);
    dt_print_close(c, 3);
}

void dt_attend_print_sums(DtAttendPrint *a)
{
    const DtRole *role = a->role;
    bool any = false;
    for (uint32_t i = 0; i < role->n_sums; i++) {
        const DtKSum *sum = &a->c->k->attend->sums.at[role->sums[i]];
        if (!a->c->needed[sum->node])
            continue;
        if (!any)
            line(a->c, "dt_warp();");
        any = true;
        uint32_t made = 0;
        while (role->made[made].node != sum->node || role->made[made].dtype != sum->dtype)
            made++;
        const uint32_t of = tile_of(role->passing, role->n_passing, &sum->of);
        line(a->c, "dt_nn_%s(y%u, %u, m%u, %u, u%u, %u, %u);", dt_attend_element(sum->dtype), i,
             role->passing[of].padded / 8, made, role->made[made].ld, of, role->passing[of].ld,
             a->tile->cols);
    }
}

void dt_attend_print_load(DtAttendPrint *a)
{
    const DtRole *role = a->role;
    line(a->c, "dt_block();");
    for (uint32_t i = 0; i < role->n_passing; i++)
        if (passes(a, &role->passing[i]))
            load_tile(a, &role->passing[i], i, 'u', role->cols, a->tile->cols, "c0");
    print_held_columns(a);
    line(a->c, "dt_block();");
    for (uint32_t i = 0; i < role->n_made; i++)
        if (a->c->needed[role->made[i].node])
            line(a->c, "DT_MADE_%s(m%u, %u, %u, %u);", size_text(role->made[i].dtype), i,
                 role->made[i].at, role->made[i].ld, a->tile->cols);
    print_scores(a);
}

/* Marks the nodes that the columns of this phase need; false: there are none. */
static bool mark_phase(DtAttendPrint *a, uint32_t phase)
{
    DtPrint *c = a->c;
    const DtRole *role = a->role;
    bool any = false;
    dt_print_forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (a->reduces[k] && c->k->nodes.at[c->k->nodes.at[k].args[0]].phase == phase) {
            mark(a, c->k->nodes.at[k].args[0], false);
            any = true;
        }
    for (uint32_t i = 0; i < role->n_sums; i++) {
        const uint32_t node = c->k->attend->sums.at[role->sums[i]].node;
        if (c->k->nodes.at[node].phase == phase) {
            mark(a, node, false);
            any = true;
        }
    }
    for (uint32_t i = 0; i < role->n_stores; i++) {
        const DtKNode *node = &c->k->nodes.at[c->k->stores.at[role->stores[i]].node];
        const uint32_t value =
            node->after_rows ? node->args[0] : c->k->stores.at[role->stores[i]].node;
        if (c->k->nodes.at[value].axes >> role->cols & 1 && c->k->nodes.at[value].phase == phase) {
            mark(a, value, false);
            any = true;
        }
    }
    return any;
}

static void print_phase(DtAttendPrint *a, uint32_t phase)
{
    DtPrint *c = a->c;
    const DtRole *role = a->role;
    if (!mark_phase(a, phase))
        return;
    dt_attend_print_rows(a);
    mark_phase(a, phase);
    bool reduces = false;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (a->reduces[k] && c->k->nodes.at[c->k->nodes.at[k].args[0]].phase == phase) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "%s s%u[2];", dt_print_register(node->dtype), k);
            line(c, "s%u[0] = s%u[1] = %s;", k, k, dt_print_identity(c, node));
            reduces = true;
        }
    const long long n = (long long)c->k->extent[role->cols];
    open_braces(c, "");
    if (!role->single) {
        if (reduces)
            line(c, "int visited = 0;");
        open_braces(c, dt_arena_printf(c->arena, "for (int64_t c0 = 0; c0 < %lld; c0 += %u)", n,
                                       a->tile->cols));
        dt_attend_print_hidden(a, reduces);
    } else {
        open_braces(c, "for (int once = 0; once < 1; once++)");
        dt_attend_print_hidden(a, false);
    }
    dt_attend_print_load(a);
    dt_attend_print_elements(a, phase);
    dt_attend_print_sums(a);
    dt_print_close(c, 2);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (a->reduces[k] && c->k->nodes.at[c->k->nodes.at[k].args[0]].phase == phase) {
            line(c, "for (int h = 0; h < 2; h++) w%u[h] = %s_quad(s%u[h]);", k,
                 dt_print_reduce(&c->k->nodes.at[k]), k);
            a->have[k] = true;
        }
}

/* ---- results ---- */

static void open_rows(DtAttendPrint *a)
{
    open_braces(a->c, "DT_UNROLL for (int h = 0; h < 2; h++)");
    line(a->c, "const int64_t i%u = r0 + 16 * warp + lane / 4 + 8 * h;", a->role->rows);
    open_braces(a->c, dt_arena_printf(a->c->arena, "if (i%u < %lld)", a->role->rows,
                                      (long long)a->c->k->extent[a->role->rows]));
}

static void store_sum(DtAttendPrint *a, uint32_t i)
{
    DtPrint *c = a->c;
    const DtKSum *sum = &c->k->attend->sums.at[a->role->sums[i]];
    const DtDtype dtype = c->k->pointers.at[sum->to.pointer].view->dtype;
    const char *element = dt_attend_element(dtype);
    const uint32_t depth = sum->to.depth;
    open_rows(a);
    line(c, "%s *to = p%u + %s;", dt_print_type(c, dtype), sum->to.pointer,
         dt_print_affine(c, sum->to.offset, sum->to.stride));
    open_columns(a, (depth + 15) / 16 * 2);
    line(c, "const int d = 8 * u + 2 * (lane %% 4) + j;");
    const char *guard = depth % 16 ? dt_arena_printf(c->arena, "if (d < %u) ", depth) : "";
    if (sum->accumulate)
        line(c, "%sto[%lld * d] = dt_to_%s(dt_from_%s(to[%lld * d]) + y%u[u][2 * h + j]);", guard,
             (long long)sum->to.along, element, element, (long long)sum->to.along, i);
    else
        line(c, "%sto[%lld * d] = dt_to_%s(y%u[u][2 * h + j]);", guard, (long long)sum->to.along,
             element, i);
    dt_print_close(c, 4);
}

/* Stores a value of a row, or of a row and a column. */
static void store_node(DtAttendPrint *a, uint32_t i)
{
    DtPrint *c = a->c;
    const DtRole *role = a->role;
    const DtKStore *store = &c->k->stores.at[role->stores[i]];
    const DtKNode *node = &c->k->nodes.at[store->node];
    const char *type = dt_print_register(node->dtype);
    if (!role->single && node->after_rows)
        line(c, "for (int h = 0; h < 2; h++) e%u[h] = dt_sum_quad(e%u[h]);", i, i);
    open_rows(a);
    if (!role->single) {
        line(c, "const %s n%u = %s%u[h];", type, store->node, node->after_rows ? "e" : "w",
             node->after_rows ? i : store->node);
        line(c, "if (lane %% 4 == 0) {");
        c->depth++;
        dt_print_store(c, store);
        dt_print_close(c, 3);
        return;
    }
    open_columns(a, a->tile->cols / 8);
    line(c, "const int64_t i%u = c0 + 8 * u + 2 * (lane %% 4) + j;", role->cols);
    line(c, "const %s n%u = e%u[u][2 * h + j];", type, store->node, i);
    line(c, "if (i%u < %lld) {", role->cols, (long long)c->k->extent[role->cols]);
    c->depth++;
    dt_print_store(c, store);
    dt_print_close(c, 5);
}

/* ---- a role ---- */

/* Prints the block's tile. Tiles of queries run in descending order: under a causal mask the last
 * ones see most keys, and long blocks should start first. */
static void print_place(DtAttendPrint *a)
{
    DtPrint *c = a->c;
    const DtRole *role = a->role;
    const long long tiles = (c->k->extent[role->rows] + a->tile->rows - 1) / a->tile->rows;
    const bool turned = role->rows == c->k->attend->queries;
    const char *number = turned ? dt_arena_printf(c->arena, "(%lld - b %% %lld)", tiles - 1, tiles)
                                : dt_arena_printf(c->arena, "b %% %lld", tiles);
    line(c, "const int64_t r0 = %s * %ul;", number, a->tile->rows);
    line(c, "b /= %lld;", tiles);
    if (role->single) {
        const long long n = (c->k->extent[role->cols] + a->tile->cols - 1) / a->tile->cols;
        line(c, "const int64_t c0 = b %% %lld * %ul;", n, a->tile->cols);
        line(c, "b /= %lld;", n);
    }
    for (uint32_t x = c->k->attend->queries; x-- > 0;) {
        if (role->away >> x & 1)
            continue;
        line(c, "const int64_t i%u = b %% %lld; /* %s */", x, (long long)c->k->extent[x],
             c->k->axis[x]);
        line(c, "b /= %lld;", (long long)c->k->extent[x]);
    }
}

static void declare_tiles(DtAttendPrint *a, const DtATile *tiles, uint32_t n, char name)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *type = dt_print_type(a->c, tiles[i].dtype);
        line(a->c, "%s *const %c%u = (%s *)(DT_SHARED + %u);", type, name, i, type, tiles[i].at);
    }
    for (uint32_t i = 0; i < a->role->n_held && name == 'u'; i++) {
        const uint32_t k = a->role->held[i];
        const char *type = dt_print_register(a->c->k->nodes.at[k].dtype);
        line(a->c, "%s *const k%u = (%s *)(DT_SHARED + %zu);", type, k, type,
             a->role->held_at + i * a->tile->cols * sizeof(float));
    }
}

/* Prints the reductions of the role, and the values that it holds for its rows. */
static void begin_role(DtAttendPrint *a)
{
    DtPrint *c = a->c;
    const DtRole *role = a->role;
    memset(a->have, 0, c->k->nodes.n * sizeof *a->have);
    memset(a->reduces, 0, c->k->nodes.n * sizeof *a->reduces);
    memset(c->live, 0, c->k->nodes.n * sizeof *c->live);
    for (uint32_t i = 0; i < role->n_sums; i++)
        dt_print_live(c, c->k->attend->sums.at[role->sums[i]].node);
    for (uint32_t i = 0; i < role->n_stores; i++)
        dt_print_live(c, c->k->stores.at[role->stores[i]].node);
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        a->reduces[k] = c->live[k] && c->k->nodes.at[k].kind == DT_KNODE_REDUCE &&
                        !c->k->nodes.at[k].after_rows;
        if (c->live[k] && is_held(a, k) && !c->k->nodes.at[k].after_rows)
            line(c, "%s w%u[2];", dt_print_register(c->k->nodes.at[k].dtype), k);
    }
    for (uint32_t i = 0; i < role->n_sums; i++)
        line(c, "float y%u[%u][4] = {{0}};", i,
             (c->k->attend->sums.at[role->sums[i]].to.depth + 15) / 16 * 2);
    for (uint32_t i = 0; i < role->n_stores; i++) {
        const DtKNode *node = &c->k->nodes.at[c->k->stores.at[role->stores[i]].node];
        if (role->single)
            line(c, "%s e%u[%u][4] = {{0}};", dt_print_register(node->dtype), i, a->tile->cols / 8);
        else if (node->after_rows)
            line(c, "%s e%u[2] = {0};", dt_print_register(node->dtype), i);
    }
}

static void print_role(DtAttendPrint *a)
{
    DtPrint *c = a->c;
    const DtRole *role = a->role;
    uint32_t opened = 0;
    print_place(a);
    line(c, "int64_t rows[2];");
    line(c,
         "for (int h = 0; h < 2; h++) rows[h] = dt_least(r0 + 16 * warp + lane / 4 + 8 * h, %lld);",
         (long long)c->k->extent[role->rows] - 1);
    declare_tiles(a, role->own, role->n_own, 't');
    declare_tiles(a, role->passing, role->n_passing, 'u');
    begin_role(a);
    for (uint32_t x = 0; x < c->k->attend->queries; x++)
        if (role->away >> x & 1) {
            open_braces(c, dt_arena_printf(c->arena, "for (int64_t i%u = 0; i%u < %lld; i%u++)", x,
                                           x, (long long)c->k->extent[x], x));
            opened++;
        }
    line(c, "dt_block();");
    for (uint32_t i = 0; i < role->n_own; i++)
        load_tile(a, &role->own[i], i, 't', role->rows, a->tile->rows, "r0");
    DtOnline online;
    if (dt_attend_is_online(a, &online))
        dt_attend_print_online(a, &online);
    else
        for (uint32_t phase = 0; phase <= c->last_phase; phase++)
            print_phase(a, phase);
    dt_print_close(c, opened);
    dt_print_forget(c);
    for (uint32_t i = 0; i < role->n_stores; i++) /* of a row, made of reductions */
        if (!role->single && !c->k->nodes.at[c->k->stores.at[role->stores[i]].node].after_rows)
            mark(a, c->k->stores.at[role->stores[i]].node, true);
    dt_attend_print_rows(a);
    for (uint32_t i = 0; i < role->n_sums; i++)
        store_sum(a, i);
    for (uint32_t i = 0; i < role->n_stores; i++)
        store_node(a, i);
}

/* Whether all operands of products have 16 bits. Then values that are rounded to 16 bits need not
 * be exact to the last of 24 bits before. */
static bool is_coarse(const DtKAttend *k)
{
    bool is = k->scores.n > 0;
    for (uint32_t i = 0; i < k->scores.n; i++)
        is = is && k->scores.at[i].dtype != DT_F32;
    for (uint32_t i = 0; i < k->sums.n; i++)
        is = is && k->sums.at[i].dtype != DT_F32;
    return is;
}

void dt_attend_print(DtPrint *c, const DtAttendTile *tile)
{
    DtAttendPrint print = {.c = c, .tile = tile}, *a = &print;
    int64_t first = 0;
    c->coarse = is_coarse(c->k->attend);
    a->have = DT_NEW_ARRAY(c->arena, bool, c->k->nodes.n + 1);
    a->reduces = DT_NEW_ARRAY(c->arena, bool, c->k->nodes.n + 1);
    line(c, "const int lane = DT_THREAD %% 32, warp = DT_THREAD / 32;");
    open_braces(c,
                dt_arena_printf(c->arena, "DT_EACH_BLOCK(block, %lld)", (long long)tile->blocks));
    for (uint32_t i = 0; i < tile->n_roles; i++) {
        a->role = &tile->roles[i];
        open_braces(c, dt_arena_printf(c->arena, "if (block >= %lld && block < %lld)",
                                       (long long)first, (long long)(first + a->role->blocks)));
        line(c, "int64_t b = block - %lld;", (long long)first);
        print_role(a);
        dt_print_close(c, 1);
        first += a->role->blocks;
    }
    dt_print_close(c, 1);
}
