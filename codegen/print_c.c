/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR as canonical C: the same bits from gcc and clang, with any vector width. Explicit loops, every
 * reduction in fixed lanes and combined by a fixed tree, functions from the prelude, no fast-math.
 *
 * ROW:     for outer { scalars of the row; for each phase { for inner { lanes }; combine } }
 * COLUMN:  for outer but the last { for chunks of lanes along the last outer axis { for inner { lanes } } }
 *
 * Names in the text: p = pointers, i<a> = index along space axis a, n<k> = node k, s<k> = lanes of
 * reduction k, c<k> = a row of node k kept for later phases. */
#include "codegen/print_c.h"

#include "base/bug.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What has no C text is not left out: a text without it would not compile, or mean something else. */
_Noreturn void dt_print_c_fail(const DtPrintC *c, const char *what)
{
    DT_BUG("kernel `%s`: `%s` has no C text", c->k->name, what);
}

static const char *c_type(const DtPrintC *c, DtDtype dtype)
{
    switch (dtype) {
    case DT_BOOL: return "unsigned char";
    case DT_I32: return "int";
    case DT_F32: return "float";
    case DT_F16: case DT_BF16: return "unsigned short";
    default: dt_print_c_fail(c, dt_dtype_name(dtype));
    }
}

/* Of a scalar in a register: booleans are ints, so that lanes have one width; 16-bit floats are widened
 * when loaded and rounded when stored. */
static const char *register_type(DtDtype dtype) { return dt_dtype_is_float(dtype) ? "float" : "int"; }

void dt_print_c_line(DtPrintC *c, const char *format, ...)
{
    va_list args;
    for (uint32_t i = 0; i < c->depth; i++)
        dt_text_add_n(c->out, "    ", 4);
    va_start(args, format);
    dt_text_vprintf(c->out, format, args);
    va_end(args);
    dt_text_add_n(c->out, "\n", 1);
}

#define line dt_print_c_line

enum { UNROLLED = 16 }; /* loops that are as short as this may become straight code */

/* How often a loop over the whole axis runs: "7", or "e2" if a check of the code may shorten it. */
const char *dt_print_c_extent(DtPrintC *c, uint32_t axis)
{
    return c->trips[axis] ? dt_arena_printf(c->arena, "e%u", axis)
                          : dt_arena_printf(c->arena, "%lld", (long long)c->k->extent[axis]);
}

void dt_print_c_open_loop(DtPrintC *c, uint32_t axis)
{
    line(c, "for (int64_t i%u = 0; i%u < %s; i%u++) { /* %s */", axis, axis, dt_print_c_extent(c, axis), axis,
         c->k->axis[axis]);
    c->depth++;
}

void dt_print_c_close(DtPrintC *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        c->depth--;
        line(c, "}");
    }
}

/* "off + 768 * i0 + i2" */
const char *dt_print_c_affine(DtPrintC *c, int64_t base, const int64_t *coef)
{
    DtText text = {0};
    if (base != 0)
        dt_text_printf(&text, "%lld", (long long)base);
    for (uint32_t a = 0; a < c->k->n_axes; a++) {
        if (coef[a] == 0)
            continue;
        const char *plus = text.len ? " + " : "";
        if (coef[a] == 1)
            dt_text_printf(&text, "%si%u", plus, a);
        else
            dt_text_printf(&text, "%s%lld * i%u", plus, (long long)coef[a], a);
    }
    const char *copy = dt_arena_strndup(c->arena, text.len ? text.at : "0", text.len ? text.len : 1);
    dt_text_free(&text);
    return copy;
}

static const char *c_number(DtPrintC *c, DtDtype dtype, double value)
{
    if (!dt_dtype_is_float(dtype))
        return dt_arena_printf(c->arena, "%lld", (long long)value);
    if (isnan(value))
        return "__builtin_nanf(\"\")";
    if (isinf(value) || isinf((float)value))
        return value < 0 ? "-__builtin_inff()" : "__builtin_inff()";
    return dt_arena_printf(c->arena, "%af", (double)(float)value);
}

/* Defines x<k>_<d>, the index of dimension d of load k, and returns its guard, or NULL. */
static const char *index_line(DtPrintC *c, uint32_t k, uint32_t d, const DtKIndex *index)
{
    const char *name = dt_arena_printf(c->arena, "x%u_%u", k, d);
    const char *guard = NULL;
    if (index->node != DT_KNONE) {
        if (index->bases != DT_KNONE)
            line(c, "const int64_t %s = (int64_t)n%u - q[%u];", name, index->node, index->bases);
        else
            line(c, "const int64_t %s = n%u;", name, index->node);
    } else if (index->div && index->exact) {
        line(c, "const int64_t %s_ = %s, %s = dt_div(%s_, %lld);", name,
             dt_print_c_affine(c, index->base, index->coef), name, name, (long long)index->div);
        guard = dt_arena_printf(c->arena, "%s * %lld == %s_", name, (long long)index->div, name);
    } else if (index->div || index->mod) {
        const char *inner = dt_print_c_affine(c, index->base, index->coef);
        if (index->div)
            inner = dt_arena_printf(c->arena, "(%s) / %lld", inner, (long long)index->div);
        if (index->mod)
            inner = dt_arena_printf(c->arena, "(%s) %% %lld", inner, (long long)index->mod);
        line(c, "const int64_t %s = %s;", name, inner);
    } else {
        line(c, "const int64_t %s = %s;", name, dt_print_c_affine(c, index->base, index->coef));
    }
    if (!index->guard)
        return guard;
    const char *range = dt_arena_printf(c->arena, "(uint64_t)%s < %lldu", name, (long long)index->extent);
    return guard ? dt_arena_printf(c->arena, "%s && %s", guard, range) : range;
}

static void load_lines(DtPrintC *c, uint32_t k, const DtKNode *node)
{
    const char *guard = NULL;
    const char *address = dt_print_c_affine(c, node->offset, node->coef);
    for (uint32_t d = 0; d < node->n_index; d++) {
        const char *g = index_line(c, k, d, &node->index[d]);
        if (g)
            guard = guard ? dt_arena_printf(c->arena, "%s && %s", guard, g) : g;
        address = dt_arena_printf(c->arena, "%s + %lld * x%u_%u", address, (long long)node->index[d].stride, k, d);
    }
    const char *type = register_type(node->dtype);
    const char *widen = node->dtype == DT_BF16 ? "dt_from_bf16" : node->dtype == DT_F16 ? "dt_from_f16" : "";
    const char *outside = guard ? c_number(c, node->dtype, node->number) : NULL;
    if (!guard) {
        line(c, "const %s n%u = %s(p%u[%s]);", type, k, widen, node->pointer, address);
    } else if (c->narrow) { /* a load that always happens, since gcc confuses some that depend on a condition */
        line(c, "const int g%u = %s;", k, guard);
        line(c, "const %s n%u = %s(g%u, %s(p%u[g%u ? %s : 0]), %s);", type, k, dt_print_c_pick(node->dtype), k, widen,
             node->pointer, k, address, outside);
    } else {
        line(c, "const %s n%u = (%s) ? %s(p%u[%s]) : %s;", type, k, guard, widen, node->pointer, address, outside);
    }
}

/* The statement that defines n<k>. */
void dt_print_c_node(DtPrintC *c, uint32_t k)
{
    const DtKNode *node = &c->k->nodes.at[k];
    const char *type = register_type(node->dtype);
    const char *base = node->integer != DT_KNONE ? dt_arena_printf(c->arena, "q[%u] + ", node->integer) : "";
    switch (node->kind) {
    case DT_KNODE_CONST:
        line(c, "const %s n%u = %s;", type, k, c_number(c, node->dtype, node->number));
        break;
    case DT_KNODE_IOTA: line(c, "const int n%u = (int)(%s%s);", k, base, dt_print_c_affine(c, 0, node->coef)); break;
    case DT_KNODE_INT: line(c, "const int n%u = (int)q[%u];", k, node->integer); break;
    case DT_KNODE_RNG: dt_print_c_draw(c, k); break;
    case DT_KNODE_LOAD: load_lines(c, k, node); break;
    case DT_KNODE_MAP: line(c, "const %s n%u = %s;", type, k, dt_print_c_map(c, node)); break;
    case DT_KNODE_REDUCE: break; /* defined where its lanes are combined */
    }
}

void dt_print_c_store(DtPrintC *c, const DtKStore *store)
{
    DtDtype dtype = c->k->pointers.at[store->pointer].view->dtype;
    const char *at = dt_print_c_affine(c, store->offset, store->stride);
    if (dtype == DT_F16 || dtype == DT_BF16) {
        const char *name = dtype == DT_F16 ? "f16" : "bf16";
        if (store->accumulate)
            line(c, "p%u[%s] = dt_to_%s(dt_from_%s(p%u[%s]) + n%u);", store->pointer, at, name,
                 name, store->pointer, at, store->node);
        else
            line(c, "p%u[%s] = dt_to_%s(n%u);", store->pointer, at, name, store->node);
        return;
    }
    line(c, "p%u[%s] %s n%u;", store->pointer, dt_print_c_affine(c, store->offset, store->stride),
         store->accumulate ? "+=" : "=", store->node);
}

/* ---- which nodes a place needs ---- */

/* Marks what node k needs, itself included, stopping at nodes that are already defined. */
static void need(DtPrintC *c, uint32_t k)
{
    if (c->needed[k] || c->defined[k])
        return;
    c->needed[k] = true;
    const DtKNode *node = &c->k->nodes.at[k];
    if (node->kind == DT_KNODE_REDUCE)
        return;
    if (c->kept[k] == DT_PRINT_KEPT)
        return;
    for (uint32_t i = 0; i < node->n_args; i++)
        need(c, node->args[i]);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != DT_KNONE)
            need(c, node->index[d].node);
}

static void forget(DtPrintC *c) { memset(c->needed, 0, c->k->nodes.n * sizeof c->needed[0]); }

/* Defines the needed nodes whose axes are within mask, in order. sticky: they stay defined. */
static void define(DtPrintC *c, uint32_t mask, bool sticky)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        const DtKNode *node = &c->k->nodes.at[k];
        if (!c->needed[k] || c->defined[k] || (node->axes & ~mask) || node->kind == DT_KNODE_REDUCE)
            continue;
        if (c->kept[k] == DT_PRINT_KEPT)
            line(c, "const %s n%u = c%u[i%u];", register_type(node->dtype), k, k, c->k->n_axes - 1);
        else
            dt_print_c_node(c, k);
        if (c->kept[k] == DT_PRINT_KEEP)
            line(c, "c%u[i%u] = n%u;", k, c->k->n_axes - 1, k);
        c->defined[k] = sticky;
        c->needed[k] = false;
    }
}

/* ---- reductions ---- */

static const char *identity(DtPrintC *c, const DtKNode *node)
{
    double value = node->reduce == DT_REDUCE_SUM ? 0 : node->reduce == DT_REDUCE_MAX ? -INFINITY : INFINITY;
    if (!dt_dtype_is_float(node->dtype) && node->reduce != DT_REDUCE_SUM)
        return node->reduce == DT_REDUCE_MAX ? "(-2147483647 - 1)" : "2147483647";
    return c_number(c, node->dtype, value);
}

static const char *reduce_name(const DtKNode *node)
{
    static const char *const names[2][3] = {{"dt_isum", "dt_imax", "dt_imin"}, {"dt_sum", "dt_max", "dt_min"}};
    return names[dt_dtype_is_float(node->dtype)][node->reduce];
}

/* s<k>[at] = s<k>[at] + n<arg>, or max, min. */
static void accumulate_line(DtPrintC *c, uint32_t k, const char *at)
{
    const DtKNode *node = &c->k->nodes.at[k];
    if (node->reduce == DT_REDUCE_SUM && dt_dtype_is_float(node->dtype))
        line(c, "s%u[%s] = s%u[%s] + n%u;", k, at, k, at, node->args[0]);
    else if (node->reduce == DT_REDUCE_SUM)
        line(c, "s%u[%s] = dt_iadd(s%u[%s], n%u);", k, at, k, at, node->args[0]);
    else
        line(c, "s%u[%s] = %s(s%u[%s], n%u);", k, at, reduce_name(node), k, at, node->args[0]);
}

static bool reduces_at(const DtPrintC *c, uint32_t k, uint32_t phase)
{
    const DtKNode *node = &c->k->nodes.at[k];
    return node->kind == DT_KNODE_REDUCE && !node->late && c->live[k] &&
           c->k->nodes.at[node->args[0]].phase == phase;
}

/* ---- sums over rows ---- */

static bool is_late_sum(const DtPrintC *c, uint32_t k)
{
    return c->k->nodes.at[k].kind == DT_KNODE_REDUCE && c->k->nodes.at[k].late && c->live[k];
}

static bool adds_at(const DtPrintC *c, uint32_t k, uint32_t phase)
{
    return is_late_sum(c, k) && c->k->nodes.at[k].phase == phase;
}

static bool is_late_store(const DtPrintC *c, uint32_t s) { return c->k->nodes.at[c->k->stores.at[s].node].late; }

static bool has_late(const DtPrintC *c)
{
    bool any = false;
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        any = any || is_late_store(c, s);
    return any;
}

/* The element of such a sum that a point of the row adds to, and how many there are. */
static const char *late_element(DtPrintC *c, int64_t *ret_n)
{
    int64_t stride[DT_MAX_RANK] = {0};
    *ret_n = 1;
    for (uint32_t a = c->k->n_axes; a-- > c->k->n_outer; *ret_n *= c->k->extent[a])
        stride[a] = *ret_n;
    return dt_print_c_affine(c, 0, stride);
}

static void open_row(DtPrintC *c)
{
    for (uint32_t a = c->k->n_outer; a < c->k->n_axes; a++) {
        if (a + 1 == c->k->n_axes)
            line(c, "DT_LANES");
        dt_print_c_open_loop(c, a);
    }
}

/* Before all rows. */
static void late_begin(DtPrintC *c)
{
    int64_t n;
    const char *at = late_element(c, &n);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (is_late_sum(c, k))
            line(c, "%s s%u[%lld];", register_type(c->k->nodes.at[k].dtype), k, (long long)n);
    open_row(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (is_late_sum(c, k))
            line(c, "s%u[%s] = %s;", k, at, identity(c, &c->k->nodes.at[k]));
    dt_print_c_close(c, c->k->n_axes - c->k->n_outer);
}

/* Behind them. */
static void late_end(DtPrintC *c)
{
    int64_t n;
    const char *at = late_element(c, &n);
    memset(c->defined, 0, c->k->nodes.n * sizeof c->defined[0]);
    memset(c->kept, 0, c->k->nodes.n * sizeof c->kept[0]); /* rows that were kept are gone */
    dt_print_c_draws_end(c, 0);
    open_row(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (is_late_sum(c, k)) {
            line(c, "const %s n%u = s%u[%s];", register_type(c->k->nodes.at[k].dtype), k, k, at);
            c->defined[k] = true;
        }
    forget(c);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (is_late_store(c, s))
            need(c, c->k->stores.at[s].node);
    define(c, UINT32_MAX, false);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (is_late_store(c, s))
            dt_print_c_store(c, &c->k->stores.at[s]);
    dt_print_c_close(c, c->k->n_axes - c->k->n_outer);
}

static void lanes_begin(DtPrintC *c, uint32_t phase, uint32_t lanes)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (reduces_at(c, k, phase)) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "%s s%u[%u];", register_type(node->dtype), k, lanes);
            line(c, "for (int l = 0; l < %u; l++) s%u[l] = %s;", lanes, k, identity(c, node));
        }
}

static void lanes_end(DtPrintC *c, uint32_t phase, uint32_t lanes)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (reduces_at(c, k, phase)) {
            const DtKNode *node = &c->k->nodes.at[k];
            line(c, "const %s n%u = %s_%u(s%u);", register_type(node->dtype), k, reduce_name(node), lanes, k);
            c->defined[k] = true;
        }
}

/* ---- ROW ---- */

/* Stores along the row, in that phase. */
static bool stores_at(const DtPrintC *c, uint32_t s, uint32_t phase, uint32_t inner)
{
    return (c->store_axes[s] & inner) && c->store_phase[s] == phase && !is_late_store(c, s);
}

static void need_point(DtPrintC *c, uint32_t phase, uint32_t inner)
{
    forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (reduces_at(c, k, phase) || adds_at(c, k, phase))
            need(c, c->k->nodes.at[k].args[0]);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, inner))
            need(c, c->k->stores.at[s].node);
}

/* What one point of the space does in a phase: reductions take part, stores are made. */
static void point(DtPrintC *c, uint32_t phase, uint32_t inner, bool lanes)
{
    int64_t n;
    need_point(c, phase, inner);
    define(c, UINT32_MAX, false);
    for (uint32_t k = 0; lanes && k < c->k->nodes.n; k++)
        if (reduces_at(c, k, phase))
            accumulate_line(c, k, "l");
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (adds_at(c, k, phase))
            accumulate_line(c, k, late_element(c, &n));
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (stores_at(c, s, phase, inner))
            dt_print_c_store(c, &c->k->stores.at[s]);
}

/* n points of the row, from that one on. */
static void row_lanes(DtPrintC *c, uint32_t phase, uint32_t inner, bool reduces, const char *first, uint32_t n)
{
    const uint32_t last = c->k->n_axes - 1;
    dt_print_c_draws_lanes(c, first, n);
    line(c, "DT_LANES");
    line(c, "for (int l = 0; l < %u; l++) {", n);
    c->depth++;
    line(c, "const int64_t i%u = %s + l; /* %s */", last, first, c->k->axis[last]);
    point(c, phase, inner, reduces);
    dt_print_c_close(c, 1);
}

/* most: lanes of reductions. */
static void inner_loops(DtPrintC *c, uint32_t phase, uint32_t first_inner, uint32_t inner, bool reduces, uint32_t most)
{
    const uint32_t last = c->k->n_axes - 1, lanes = reduces ? most : DT_PRINT_LANES;
    const long long n = (long long)c->k->extent[last], rest = n % lanes;
    need_point(c, phase, inner);
    const bool whole = !reduces && !dt_print_c_draws_along(c);
    for (uint32_t a = first_inner; a < last; a++) {
        dt_print_c_open_loop(c, a);
        dt_print_c_draws_axis(c, a, NULL, true);
    }
    c->narrow = n <= UNROLLED;
    if (whole) {
        line(c, "DT_LANES");
        dt_print_c_open_loop(c, last);
        point(c, phase, inner, false);
        dt_print_c_close(c, 1);
    }
    if (!whole && n >= lanes) {
        line(c, "for (int64_t j = 0; j + %u <= %s; j += %u) {", lanes, dt_print_c_extent(c, last), lanes);
        c->depth++;
        row_lanes(c, phase, inner, reduces, "j", lanes);
        dt_print_c_close(c, 1);
    }
    if (!whole && rest) {
        need_point(c, phase, inner);
        c->narrow = rest <= UNROLLED;
        row_lanes(c, phase, inner, reduces,
                  c->trips[last] ? dt_arena_printf(c->arena, "e%u - %lld", last, rest)
                                 : dt_arena_printf(c->arena, "%lld", n - rest),
                  (uint32_t)rest);
    }
    dt_print_c_close(c, last - first_inner);
    dt_print_c_draws_end(c, first_inner);
}

/* Marks what node k needs at all phases up to its own, noting in which phases a dear node is used. */
static void uses(DtPrintC *c, uint32_t k, uint32_t phase, uint8_t *first, uint8_t *last)
{
    const DtKNode *node = &c->k->nodes.at[k];
    if (node->kind == DT_KNODE_REDUCE || (first[k] <= phase && phase <= last[k]))
        return; /* noted already, and so for its operands */
    if (first[k] > phase)
        first[k] = (uint8_t)phase;
    if (last[k] < phase)
        last[k] = (uint8_t)phase;
    for (uint32_t i = 0; i < node->n_args; i++)
        uses(c, node->args[i], phase, first, last);
}

enum { KEEP_ELEMENTS = 4096 }; /* a row of a dear node kept on the stack: 16 KiB */

/* Nodes with a dear function that several phases use are kept in a row, if the row is short. */
static void choose_kept(DtPrintC *c, uint32_t first_inner, uint32_t inner)
{
    uint32_t n = c->k->nodes.n;
    uint8_t *first = dt_arena_alloc(c->arena, n + 1), *last = dt_arena_alloc(c->arena, n + 1);
    memset(first, 255, n);
    if (first_inner + 1 != c->k->n_axes || c->k->extent[first_inner] > KEEP_ELEMENTS)
        return;
    for (uint32_t k = 0; k < n; k++)
        if (c->live[k] && c->k->nodes.at[k].kind == DT_KNODE_REDUCE)
            uses(c, c->k->nodes.at[k].args[0], c->k->nodes.at[c->k->nodes.at[k].args[0]].phase, first, last);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if ((c->store_axes[s] & inner) && !is_late_store(c, s))
            uses(c, c->k->stores.at[s].node, c->store_phase[s], first, last);
    for (uint32_t k = 0; k < n; k++)
        if (dt_print_c_is_dear(&c->k->nodes.at[k]) && !dt_print_c_is_across(c, k) &&
            (c->k->nodes.at[k].axes & inner) && first[k] < last[k]) {
            c->kept[k] = DT_PRINT_KEEP;
            c->keep_phase[k] = first[k];
            line(c, "%s c%u[%lld];", register_type(c->k->nodes.at[k].dtype), k, (long long)c->k->extent[first_inner]);
        }
}

static void row_scalars(DtPrintC *c, uint32_t phase, uint32_t outer, uint32_t inner)
{
    forget(c);
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (c->live[k] && !(c->k->nodes.at[k].axes & ~outer) && c->k->nodes.at[k].phase == phase)
            need(c, k);
    define(c, outer, true);
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        if (!(c->store_axes[s] & inner) && c->store_phase[s] == phase && !is_late_store(c, s))
            dt_print_c_store(c, &c->k->stores.at[s]);
}

static bool phase_has_points(const DtPrintC *c, uint32_t phase, uint32_t inner, bool *ret_reduces)
{
    bool any = false;
    *ret_reduces = false;
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        *ret_reduces = *ret_reduces || reduces_at(c, k, phase);
        any = any || adds_at(c, k, phase);
    }
    for (uint32_t s = 0; s < c->k->stores.n; s++)
        any = any || stores_at(c, s, phase, inner);
    return any || *ret_reduces;
}

static void print_row(DtPrintC *c)
{
    const DtKernel *k = c->k;
    bool has_inner = k->n_outer < k->n_axes;
    uint32_t first_inner = has_inner ? k->n_outer : k->n_axes ? k->n_axes - 1 : 0;
    uint32_t outer = (1u << first_inner) - 1, inner = ((1u << k->n_axes) - 1) & ~outer;
    uint32_t lanes = k->n_axes && k->extent[k->n_axes - 1] >= 128 ? 64 : 16;
    if (has_late(c))
        late_begin(c);
    for (uint32_t a = 0; a < first_inner; a++) {
        dt_print_c_open_loop(c, a);
        dt_print_c_draws_axis(c, a, NULL, false);
    }
    choose_kept(c, first_inner, inner);
    for (uint32_t phase = 0; phase <= c->last_phase; phase++) {
        bool reduces;
        row_scalars(c, phase, outer, inner);
        if (!phase_has_points(c, phase, inner, &reduces))
            continue;
        if (reduces)
            lanes_begin(c, phase, lanes);
        if (k->n_axes == first_inner) /* a scalar space has no inner loop */
            point(c, phase, inner, false);
        else
            inner_loops(c, phase, first_inner, inner, reduces, lanes);
        for (uint32_t n = 0; n < k->nodes.n; n++)
            if (c->kept[n] == DT_PRINT_KEEP && c->keep_phase[n] == phase)
                c->kept[n] = DT_PRINT_KEPT;
        if (reduces)
            lanes_end(c, phase, lanes);
    }
    dt_print_c_close(c, first_inner);
    if (has_late(c))
        late_end(c);
}

/* ---- COLUMN ---- */

static void column_lanes(DtPrintC *c, uint32_t v, const char *width)
{
    line(c, "DT_LANES");
    line(c, "for (int l = 0; l < %s; l++) {", width);
    c->depth++;
    line(c, "const int64_t i%u = j + l; /* %s */", v, c->k->axis[v]);
}

static void column_chunk(DtPrintC *c, uint32_t v, uint32_t lanes)
{
    const DtKernel *k = c->k;
    const char *width = dt_arena_printf(c->arena, "%u", lanes);
    c->narrow = lanes <= UNROLLED;
    lanes_begin(c, 0, lanes);
    need_point(c, 0, 0);
    for (uint32_t a = k->n_outer; a < k->n_axes; a++) {
        dt_print_c_open_loop(c, a);
        dt_print_c_draws_axis(c, a, width, true);
    }
    dt_print_c_draws_lanes(c, "j", lanes);
    column_lanes(c, v, width);
    point(c, 0, 0, true);
    dt_print_c_close(c, 1 + k->n_axes - k->n_outer);
    dt_print_c_draws_end(c, v);
    forget(c);
    for (uint32_t s = 0; s < k->stores.n; s++)
        need(c, k->stores.at[s].node);
    dt_print_c_draws_lanes(c, "j", lanes);
    column_lanes(c, v, width);
    for (uint32_t n = 0; n < k->nodes.n; n++)
        if (reduces_at(c, n, 0)) {
            line(c, "const %s n%u = s%u[l];", register_type(k->nodes.at[n].dtype), n, n);
            c->defined[n] = true;
        }
    define(c, UINT32_MAX, false);
    for (uint32_t s = 0; s < k->stores.n; s++)
        dt_print_c_store(c, &k->stores.at[s]);
    for (uint32_t n = 0; n < k->nodes.n; n++)
        if (reduces_at(c, n, 0))
            c->defined[n] = false;
    dt_print_c_close(c, 1);
    dt_print_c_draws_end(c, v);
}

static void print_column(DtPrintC *c)
{
    const DtKernel *k = c->k;
    uint32_t v = k->n_outer - 1;
    long long n = (long long)k->extent[v];
    const uint32_t lanes = DT_PRINT_LANES;
    for (uint32_t a = 0; a < v; a++)
        dt_print_c_open_loop(c, a);
    if (n >= lanes) {
        line(c, "for (int64_t j = 0; j + %u <= %s; j += %u) {", lanes, dt_print_c_extent(c, v), lanes);
        c->depth++;
        column_chunk(c, v, lanes);
        dt_print_c_close(c, 1);
    }
    if (n % lanes) {
        line(c, "{");
        c->depth++;
        if (c->trips[v])
            line(c, "const int64_t j = e%u - %lld;", v, n % lanes);
        else
            line(c, "const int64_t j = %lld;", n - n % lanes);
        column_chunk(c, v, (uint32_t)(n % lanes));
        dt_print_c_close(c, 1);
    }
    dt_print_c_close(c, v);
}

/* ---- long axes ---- */

/* A check of machine code (base/hostcc.c) runs it with dt_most = SHORT. A kernel with more than FULL points
 * takes from dt_trips how often its longest loops run, in steps of LANES along the axis that is vectorised,
 * which keeps what the compiler knows of the rest; so what is checked is the code that will run. */
enum { FULL = 1 << 16, LANES = DT_PRINT_LANES, SHORT = 2 };

int64_t dt_print_c_vector_axis(const DtKernel *k)
{
    return k->form == DT_KFORM_ROW ? (int64_t)k->n_axes - 1 : k->form == DT_KFORM_COLUMN ? (int64_t)k->n_outer - 1 : -1;
}

static int64_t trips_of(const DtKernel *k, uint32_t axis)
{
    if (axis == dt_print_c_vector_axis(k))
        return k->extent[axis] / LANES;
    return k->extent[axis] > UNROLLED ? k->extent[axis] : 0;
}

static void choose_trips(DtPrintC *c)
{
    const DtKernel *k = c->k;
    double points = 1;
    if (k->form == DT_KFORM_TOPK)
        points = (double)dt_type_extent(k->special->out[0]->type, k->special->axes[1]);
    for (uint32_t a = 0; a < k->n_axes; a++)
        points *= (double)k->extent[a];
    while (points > FULL) {
        uint32_t best = k->n_axes;
        for (uint32_t a = 0; a < k->n_axes; a++)
            if (!c->trips[a] && trips_of(k, a) > SHORT && (best == k->n_axes || trips_of(k, a) > trips_of(k, best)))
                best = a;
        if (best == k->n_axes)
            return;
        points *= SHORT / (double)trips_of(k, best);
        c->trips[best] = true;
    }
}

static void trips_lines(DtPrintC *c)
{
    const DtKernel *k = c->k;
    for (uint32_t a = 0; a < k->n_axes; a++) {
        const long long trips = (long long)trips_of(k, a), rest = k->extent[a] % LANES;
        if (!c->trips[a])
            continue;
        if (a != dt_print_c_vector_axis(k))
            line(c, "const int64_t e%u = dt_trips(%lld); /* %s */", a, trips, k->axis[a]);
        else if (rest)
            line(c, "const int64_t e%u = %d * dt_trips(%lld) + %lld; /* %s */", a, LANES, trips, rest, k->axis[a]);
        else
            line(c, "const int64_t e%u = %d * dt_trips(%lld); /* %s */", a, LANES, trips, k->axis[a]);
    }
}

/* ---- a whole kernel ---- */

static void mark_live(DtPrintC *c, uint32_t k)
{
    if (c->live[k])
        return;
    c->live[k] = true;
    const DtKNode *node = &c->k->nodes.at[k];
    if (node->phase > c->last_phase)
        c->last_phase = node->phase;
    for (uint32_t i = 0; i < node->n_args; i++)
        mark_live(c, node->args[i]);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != DT_KNONE)
            mark_live(c, node->index[d].node);
}

/* A path as text inside a comment, which it must not end. */
static const char *in_comment(DtPrintC *c, const char *path)
{
    char *copy = dt_arena_strndup(c->arena, path, strlen(path));
    for (char *at = copy; *at; at++)
        if (at[0] == '*' && at[1] == '/')
            at[0] = '?';
    return copy;
}

/* Returns where the text begins that neither source nor symbol decides. */
static size_t head(DtPrintC *c, const DtDiags *diags)
{
    const DtKernel *k = c->k;
    uint32_t row = 0, column = 0;
    if (diags && k->span.file) {
        dt_diag_position(diags, k->span, &row, &column);
        line(c, "/* %s: %s:%u */", k->name, in_comment(c, dt_diag_path(diags, k->span.file)), row);
    } else {
        line(c, "/* %s */", k->name);
    }
    dt_text_printf(c->out, "void %s", k->symbol);
    size_t body = c->out->len;
    line(c, "(char *const *p, const int64_t *q)");
    line(c, "{");
    c->depth++;
    for (uint32_t i = 0; i < k->pointers.n; i++) {
        const DtKPointer *pointer = &k->pointers.at[i];
        const char *type = c_type(c, pointer->view->dtype), *mode = pointer->written ? "" : "const ";
        line(c, "%s%s *p%u = (%s%s *)p[%u]; /* %s%s */", mode, type, i, mode, type, i,
             pointer->written ? "writes " : "", pointer->value->name ? pointer->value->name : "");
    }
    line(c, "(void)p, (void)q;");
    return body;
}

static bool *flags(DtPrintC *c) { return dt_arena_alloc(c->arena, c->k->nodes.n + 1); }

size_t dt_print_c_kernel(const DtKernel *kernel, const DtDiags *diags, DtText *ret_text)
{
    DtPrintC print = {.k = kernel, .out = ret_text, .arena = dt_arena_new()}, *c = &print;
    c->needed = flags(c);
    c->defined = flags(c);
    c->live = flags(c);
    c->drawn = flags(c);
    c->draw_axis = dt_arena_alloc(c->arena, kernel->nodes.n + 1);
    c->kept = dt_arena_alloc(c->arena, kernel->nodes.n + 1);
    c->keep_phase = dt_arena_alloc(c->arena, kernel->nodes.n + 1);
    c->store_axes = DT_NEW_ARRAY(c->arena, uint32_t, kernel->stores.n + 1);
    c->store_phase = DT_NEW_ARRAY(c->arena, uint32_t, kernel->stores.n + 1);
    for (uint32_t s = 0; s < kernel->stores.n; s++) {
        const DtKStore *store = &kernel->stores.at[s];
        mark_live(c, store->node);
        c->store_axes[s] = kernel->nodes.at[store->node].axes;
        for (uint32_t a = 0; a < kernel->n_axes; a++)
            c->store_axes[s] |= (uint32_t)(store->stride[a] != 0) << a;
        c->store_phase[s] = kernel->nodes.at[store->node].phase;
    }
    c->narrow = kernel->n_axes && kernel->extent[kernel->n_axes - 1] <= UNROLLED;
    choose_trips(c);
    size_t body = head(c, diags);
    trips_lines(c);
    dt_print_c_draws_begin(c);
    switch (kernel->form) {
    case DT_KFORM_ROW: print_row(c); break;
    case DT_KFORM_COLUMN: print_column(c); break;
    default: dt_print_c_special(c); break;
    }
    c->depth = 0;
    line(c, "}");
    dt_text_add(ret_text, "\n");
    dt_arena_free(c->arena);
    return body;
}
