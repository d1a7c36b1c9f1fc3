/* SPDX-License-Identifier: Apache-2.0 */
/* The text of nodes: statements that define them, stores, accumulation; and which nodes are
 * needed where. */
#include "codegen/print.h"

#include "base/bug.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text that cannot be printed is not left out: the remaining text would not compile, or have
 * another meaning. */
_Noreturn void dt_print_fail(const DtPrint *c, const char *what)
{
    DT_BUG("kernel `%s`: `%s` has no C text", c->k->name, what);
}

const char *dt_print_type(const DtPrint *c, DtDtype dtype)
{
    switch (dtype) {
    case DT_BOOL: case DT_U8: return "unsigned char";
    case DT_I32: return "int";
    case DT_F32: return "float";
    case DT_F16: case DT_BF16: return "unsigned short";
    default: dt_print_fail(c, dt_dtype_name(dtype));
    }
}

const char *dt_print_register(DtDtype dtype) { return dt_dtype_is_float(dtype) ? "float" : "int"; }

void dt_print_line(DtPrint *c, const char *format, ...)
{
    va_list args;
    for (uint32_t i = 0; i < c->depth; i++)
        dt_text_add_n(c->out, "    ", 4);
    va_start(args, format);
    dt_text_vprintf(c->out, format, args);
    va_end(args);
    dt_text_add_n(c->out, "\n", 1);
}

#define line dt_print_line

static const char *whole_extent(DtPrint *c, uint32_t axis)
{
    return dt_arena_printf(c->arena, "%lld", (long long)c->k->extent[axis]);
}

bool dt_print_in_pieces(const DtPrint *c, uint32_t axis) 
{
    return c->k->pieces_of == DT_KPIECES_AXIS && axis == c->k->piece_axis;
}

bool dt_print_is_row_sum(const DtPrint *c, uint32_t k)
{
    return c->k->nodes.at[k].kind == DT_KNODE_REDUCE && c->k->nodes.at[k].after_rows && c->live[k];
}

bool dt_print_adds_at(const DtPrint *c, uint32_t k, uint32_t phase)
{
    return dt_print_is_row_sum(c, k) && c->k->nodes.at[k].phase == phase;
}

bool dt_print_is_row_sum_store(const DtPrint *c, uint32_t s)
{
    return c->k->nodes.at[c->k->stores.at[s].node].after_rows;
}

bool dt_print_is_in_pieces(const DtPrint *c, uint32_t k)
{
    return c->k->pieces_of == DT_KPIECES_ROWS ? dt_print_is_row_sum(c, k)
                                              : c->k->pieces && dt_print_reduces_at(c, k, 0);
}

const char *dt_print_row_sum_element(DtPrint *c, int64_t *ret_n)
{
    int64_t stride[DT_MAX_RANK] = {0};
    *ret_n = 1;
    for (uint32_t a = c->k->n_axes; a-- > c->k->n_outer; *ret_n *= c->k->extent[a])
        stride[a] = *ret_n;
    return dt_print_affine(c, 0, stride);
}


uint32_t dt_print_open(DtPrint *c, uint32_t axis)
{
    if (c->known >> axis & 1)
        return 0;
    if (dt_print_in_pieces(c, axis))
        line(c, "for (int64_t i%u = from; i%u < to; i%u++) { /* %s */", axis, axis, axis,
             c->k->axis[axis]);
    else
        line(c, "for (int64_t i%u = 0; i%u < %s; i%u++) { /* %s */", axis, axis, c->extent(c, axis),
             axis, c->k->axis[axis]);
    c->depth++;
    return 1;
}

void dt_print_close(DtPrint *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        c->depth--;
        line(c, "}");
    }
}

const char *dt_print_affine(DtPrint *c, int64_t base, const int64_t *coef)
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
    const char *copy =
        dt_arena_strndup(c->arena, text.len ? text.at : "0", text.len ? text.len : 1);
    dt_text_free(&text);
    return copy;
}

static const char *c_number(DtPrint *c, DtDtype dtype, double value)
{
    if (!dt_dtype_is_float(dtype))
        return dt_arena_printf(c->arena, "%lld", (long long)value);
    if (isnan(value))
        return "__builtin_nanf(\"\")";
    if (isinf(value) || isinf((float)value))
        return value < 0 ? "-__builtin_inff()" : "__builtin_inff()";
    return dt_arena_printf(c->arena, "%af", (double)(float)value);
}

/* Prints the definition of x<k>_<d>, the index of dimension d of load k; returns the condition
 * under which it is valid, or NULL if it always is. */
static const char *index_line(DtPrint *c, uint32_t k, uint32_t d, const DtKIndex *index)
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
             dt_print_affine(c, index->base, index->coef), name, name, (long long)index->div);
        guard = dt_arena_printf(c->arena, "%s * %lld == %s_", name, (long long)index->div, name);
    } else if (index->div || index->mod) {
        const char *inner = dt_print_affine(c, index->base, index->coef);
        if (index->div)
            inner = dt_arena_printf(c->arena, "(%s) / %lld", inner, (long long)index->div);
        if (index->mod)
            inner = dt_arena_printf(c->arena, "(%s) %% %lld", inner, (long long)index->mod);
        line(c, "const int64_t %s = %s;", name, inner);
    } else {
        line(c, "const int64_t %s = %s;", name, dt_print_affine(c, index->base, index->coef));
    }
    if (!index->guard)
        return guard;
    const char *range =
        dt_arena_printf(c->arena, "(uint64_t)%s < %lldu", name, (long long)index->extent);
    return guard ? dt_arena_printf(c->arena, "%s && %s", guard, range) : range;
}

/* Text of the load's index, "768 * i0 + 64 * x3_0", and of the condition under which it is valid;
 * NULL: always. */
static const char *load_address(DtPrint *c, uint32_t k, const char **ret_guard)
{
    const DtKNode *node = &c->k->nodes.at[k];
    const char *guard = NULL, *address = dt_print_affine(c, node->offset, node->coef);
    for (uint32_t d = 0; d < node->n_index; d++) {
        const char *g = index_line(c, k, d, &node->index[d]);
        if (g)
            guard = guard ? dt_arena_printf(c->arena, "%s && %s", guard, g) : g;
        address = dt_arena_printf(c->arena, "%s + %lld * x%u_%u", address,
                                  (long long)node->index[d].stride, k, d);
    }
    *ret_guard = guard;
    return address;
}

const char *dt_print_address(DtPrint *c, uint32_t k)
{
    const char *guard, *address = load_address(c, k, &guard);
    if (guard)
        dt_print_fail(c, "a wide load with a guard");
    return address;
}

static const char *widen(DtDtype dtype)
{
    return dtype == DT_BF16 ? "dt_from_bf16" : dtype == DT_F16 ? "dt_from_f16" : "";
}

/* Element l of a vector in words; for a 16-bit float its bits. */
static const char *wide_element(DtPrint *c, DtDtype dtype, const char *words)
{
    static const char *const gets[] = {[1] = "dt_get1", [2] = "dt_get2", [4] = "dt_get4"};
    const char *get = dtype == DT_F32 ? "dt_getf" : gets[dt_dtype_size(dtype)];
    return dt_arena_printf(c->arena, "%s(%s(%s, l))", widen(dtype), get, words);
}

static void load_lines(DtPrint *c, uint32_t k, const DtKNode *node)
{
    const char *guard, *type = dt_print_register(node->dtype), *wide = widen(node->dtype);
    if (c->wide && c->wide[k]) {
        line(c, "const %s n%u = %s;", type, k,
             wide_element(c, node->dtype, dt_arena_printf(c->arena, "v%u", k)));
        return;
    }
    const char *address = load_address(c, k, &guard);
    if (c->where)
        guard = guard ? dt_arena_printf(c->arena, "%s && %s", c->where, guard) : c->where;
    const char *outside = guard ? c_number(c, node->dtype, node->number) : NULL;
    if (!guard) {
        line(c, "const %s n%u = %s(p%u[%s]);", type, k, wide, node->pointer, address);
    } else if (c->narrow) { /* the load is always executed, at index 0 if the guard is false, since
                             * gcc miscompiles some conditional loads */
        line(c, "const int g%u = %s;", k, guard);
        line(c, "const %s n%u = %s(g%u, %s(p%u[g%u ? %s : 0]), %s);", type, k,
             dt_print_pick(node->dtype), k, wide, node->pointer, k, address, outside);
    } else {
        line(c, "const %s n%u = (%s) ? %s(p%u[%s]) : %s;", type, k, guard, wide, node->pointer,
             address, outside);
    }
}

/* Prints a position as the lane's number plus a base, in an int if possible. With 64-bit indices
 * compilers need two vectors for a vector of positions, and seven instructions instead of one. */
static void iota_line(DtPrint *c, uint32_t k, const DtKNode *node)
{
    const int64_t along = c->lane ? node->coef[c->lane_axis] : 0;
    int64_t coef[DT_MAX_RANK];
    memcpy(coef, node->coef, sizeof coef);
    const bool by_lane = along && along == (int)along;
    if (by_lane)
        coef[c->lane_axis] = 0;
    const char *base =
        node->integer != DT_KNONE ? dt_arena_printf(c->arena, "q[%u] + ", node->integer) : "";
    const char *rest = dt_arena_printf(c->arena, "%s%s", base, dt_print_affine(c, 0, coef));
    if (!by_lane) {
        line(c, "const int n%u = (int)(%s);", k, rest);
        return;
    }
    const char *lane =
        along == 1 ? c->lane
                   : dt_arena_printf(c->arena, "dt_imul(%lld, %s)", (long long)along, c->lane);
    if (strcmp(rest, "0") != 0)
        lane = dt_arena_printf(c->arena, "dt_iadd((int)(%s), %s)", rest, lane);
    line(c, "const int n%u = %s;", k, lane);
}

void dt_print_node(DtPrint *c, uint32_t k)
{
    const DtKNode *node = &c->k->nodes.at[k];
    const char *type = dt_print_register(node->dtype);
    switch (node->kind) {
    case DT_KNODE_CONST:
        line(c, "const %s n%u = %s;", type, k, c_number(c, node->dtype, node->number));
        break;
    case DT_KNODE_IOTA: iota_line(c, k, node); break;
    case DT_KNODE_INT: line(c, "const int n%u = (int)q[%u];", k, node->integer); break;
    case DT_KNODE_RNG: c->draw(c, k); break;
    case DT_KNODE_LOAD: load_lines(c, k, node); break;
    case DT_KNODE_MAP: line(c, "const %s n%u = %s;", type, k, dt_print_map(c, node)); break;
    case DT_KNODE_REDUCE: case DT_KNODE_SCORE: break; /* defined where lanes are combined (REDUCE)
                                                       * or products computed (SCORE) */
    }
}

void dt_print_store(DtPrint *c, const DtKStore *store)
{
    /* the store's number */
    const uint32_t s = c->wide_stores ? (uint32_t)(store - c->k->stores.at) : 0;
    const DtDtype dtype = c->k->pointers.at[store->pointer].view->dtype;
    const bool wide = c->wide_stores && c->wide_stores[s],
               half = dtype == DT_F16 || dtype == DT_BF16;
    const char *to = dt_arena_printf(c->arena, "p%u[%s]", store->pointer,
                                     dt_print_affine(c, store->offset, store->stride));
    const char *value = dt_arena_printf(c->arena, "n%u", store->node);
    if (store->accumulate && (wide || half)) {
        const char *old = wide ? wide_element(c, dtype, dt_arena_printf(c->arena, "o%u", s))
                               : dt_arena_printf(c->arena, "%s(%s)", widen(dtype), to);
        value = dt_arena_printf(c->arena, "%s + %s", old, value);
    }
    if (half)
        value = dt_arena_printf(c->arena, "%s(%s)", dtype == DT_F16 ? "dt_to_f16" : "dt_to_bf16",
                                value);
    if (wide)
        line(c, "dt_put%s(w%u, l, %s);",
             dtype == DT_F32   ? "f"
             : dtype == DT_I32 ? "4"
             : half            ? "2"
                               : "1",
             s, value);
    else
        line(c, "%s %s %s;", to, store->accumulate && !half ? "+=" : "=", value);
}

void dt_print_skip(DtPrint *c, uint32_t mask)
{
    const DtKernel *k = c->k;
    const char *none = NULL;
    for (uint32_t n = 0; n < k->nodes.n; n++)
        if (c->live[n] && k->nodes.at[n].kind == DT_KNODE_REDUCE)
            return;
    for (uint32_t s = 0; s < k->stores.n; s++) {
        const uint32_t only = k->stores.at[s].only;
        if (only == DT_KNONE || (k->nodes.at[only].axes & ~mask))
            return;
        none = none ? dt_arena_printf(c->arena, "%s && !n%u", none, only)
                    : dt_arena_printf(c->arena, "!n%u", only);
    }
    dt_print_forget(c);
    for (uint32_t s = 0; s < k->stores.n; s++)
        dt_print_need(c, k->stores.at[s].only);
    dt_print_define(c, mask, true);
    if (none)
        line(c, "if (%s) continue;", none);
}

/* ---- random numbers ---- */

/* The element's number in the draw, for example "(uint64_t)(q[1] + 768 * i0 + i1)". */
const char *dt_print_element(DtPrint *c, const DtKNode *node, const int64_t *coef)
{
    const char *base =
        node->integer != DT_KNONE ? dt_arena_printf(c->arena, "q[%u] + ", node->integer) : "";
    for (uint32_t i = 0; i < node->n_more; i++)
        base = dt_arena_printf(c->arena, "%sq[%u] + ", base, node->more[i]);
    return dt_arena_printf(c->arena, "(uint64_t)(%s%s)", base, dt_print_affine(c, 0, coef));
}

/* The further arguments of the generator's call, after the key. */
const char *dt_print_counters(DtPrint *c, const DtKNode *node)
{
    return dt_arena_printf(c->arena, "dt_step(q[%u]), (uint32_t)q[%u]", node->step,
                           node->iteration);
}

void dt_print_draw(DtPrint *c, uint32_t k)
{
    const DtKNode *node = &c->k->nodes.at[k];
    line(c, "const float n%u = dt_draw_%u(0x%llxull, %s, %s);", k, node->draws,
         (unsigned long long)node->key, dt_print_element(c, node, node->coef),
         dt_print_counters(c, node));
}

/* ---- which nodes a place needs ---- */

void dt_print_need(DtPrint *c, uint32_t k)
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
        dt_print_need(c, node->args[i]);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != DT_KNONE)
            dt_print_need(c, node->index[d].node);
}

void dt_print_forget(DtPrint *c) { memset(c->needed, 0, c->k->nodes.n * sizeof c->needed[0]); }

/* A path as text inside a comment, which it must not end. */
static const char *in_comment(DtPrint *c, const char *path)
{
    char *copy = dt_arena_strndup(c->arena, path, strlen(path));
    for (char *at = copy; *at; at++)
        if (at[0] == '*' && at[1] == '/')
            at[0] = '?';
    return copy;
}

/* Prints a comment before the first node that comes from another line of the program. */
static void line_of(DtPrint *c, const DtKNode *node)
{
    uint32_t row = 0, column = 0;
    if (!c->lines || !node->op || !node->op->span.file)
        return;
    dt_diag_position(c->lines, node->op->span, &row, &column);
    if (row != c->row)
        line(c, "/* %s:%u */", in_comment(c, dt_diag_path(c->lines, node->op->span.file)), row);
    c->row = row;
}

void dt_print_define(DtPrint *c, uint32_t mask, bool sticky)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        const DtKNode *node = &c->k->nodes.at[k];
        if (!c->needed[k] || c->defined[k] || (node->axes & ~mask) || node->kind == DT_KNODE_REDUCE)
            continue;
        line_of(c, node);
        if (c->kept[k] == DT_PRINT_KEPT)
            line(c, "const %s n%u = c%u[%s];", dt_print_register(node->dtype), k, k, c->kept_at);
        else
            dt_print_node(c, k);
        if (c->kept[k] == DT_PRINT_KEEP)
            line(c, "c%u[%s] = n%u;", k, c->kept_at, k);
        c->defined[k] = sticky;
        c->needed[k] = false;
    }
}

/* ---- reductions ---- */

const char *dt_print_identity(DtPrint *c, const DtKNode *node)
{
    double value = node->reduce == DT_REDUCE_SUM   ? 0
                   : node->reduce == DT_REDUCE_MAX ? -INFINITY
                                                   : INFINITY;
    if (!dt_dtype_is_float(node->dtype) && node->reduce != DT_REDUCE_SUM)
        return node->reduce == DT_REDUCE_MAX ? "(-2147483647 - 1)" : "2147483647";
    return c_number(c, node->dtype, value);
}

const char *dt_print_reduce(const DtKNode *node)
{
    static const char *const names[2][3] = {{"dt_isum", "dt_imax", "dt_imin"},
                                            {"dt_sum", "dt_max", "dt_min"}};
    return names[dt_dtype_is_float(node->dtype)][node->reduce];
}

const char *dt_print_combine(DtPrint *c, const DtKNode *node, const char *x, const char *y)
{
    const bool is_float = dt_dtype_is_float(node->dtype);
    if (node->reduce == DT_REDUCE_SUM && is_float)
        return dt_arena_printf(c->arena, "%s + %s", x, y);
    if (c->coarse && is_float)
        return dt_arena_printf(c->arena, "dt_coarse_%s(%s, %s)",
                               node->reduce == DT_REDUCE_MAX ? "max" : "min", x, y);
    return dt_arena_printf(c->arena, "%s(%s, %s)",
                           node->reduce == DT_REDUCE_SUM ? "dt_iadd" : dt_print_reduce(node), x, y);
}

void dt_print_accumulate(DtPrint *c, uint32_t k, const char *at)
{
    const DtKNode *node = &c->k->nodes.at[k];
    const char *lane = dt_arena_printf(c->arena, "s%u[%s]", k, at);
    line(c, "%s = %s;", lane,
         dt_print_combine(c, node, lane, dt_arena_printf(c->arena, "n%u", node->args[0])));
}

bool dt_print_reduces_at(const DtPrint *c, uint32_t k, uint32_t phase)
{
    const DtKNode *node = &c->k->nodes.at[k];
    return node->kind == DT_KNODE_REDUCE && !node->after_rows && c->live[k] &&
           c->k->nodes.at[node->args[0]].phase == phase;
}

/* ---- a whole kernel ---- */

void dt_print_live(DtPrint *c, uint32_t k)
{
    if (c->live[k])
        return;
    c->live[k] = true;
    const DtKNode *node = &c->k->nodes.at[k];
    if (node->phase > c->last_phase)
        c->last_phase = node->phase;
    for (uint32_t i = 0; i < node->n_args; i++)
        dt_print_live(c, node->args[i]);
    for (uint32_t d = 0; d < node->n_index; d++)
        if (node->index[d].node != DT_KNONE)
            dt_print_live(c, node->index[d].node);
}

void dt_print_begin(const DtKernel *kernel, DtText *out, DtPrint *ret)
{
    const uint32_t n = kernel->nodes.n + 1;
    DtPrint *c = ret;
    *c = (DtPrint){.k = kernel, .out = out, .arena = dt_arena_new(), .draw = dt_print_draw,
                    .extent = whole_extent};
    c->needed = dt_arena_alloc(c->arena, n * sizeof *c->needed);
    c->defined = dt_arena_alloc(c->arena, n * sizeof *c->defined);
    c->live = dt_arena_alloc(c->arena, n * sizeof *c->live);
    c->kept = dt_arena_alloc(c->arena, n);
    c->kept_at = dt_arena_printf(c->arena, "i%u", kernel->n_axes - 1);
    c->store_axes = DT_NEW_ARRAY(c->arena, uint32_t, kernel->stores.n + 1);
    c->store_phase = DT_NEW_ARRAY(c->arena, uint32_t, kernel->stores.n + 1);
    for (uint32_t s = 0; s < kernel->stores.n; s++) {
        const DtKStore *store = &kernel->stores.at[s];
        dt_print_live(c, store->node);
        c->store_axes[s] = kernel->nodes.at[store->node].axes;
        for (uint32_t a = 0; a < kernel->n_axes; a++)
            c->store_axes[s] |= (uint32_t)(store->stride[a] != 0) << a;
        c->store_phase[s] = kernel->nodes.at[store->node].phase;
    }
}

void dt_print_title(DtPrint *c, const DtDiags *diags)
{
    const DtKernel *k = c->k;
    uint32_t row = 0, column = 0;
    if (diags && k->span.file) {
        dt_diag_position(diags, k->span, &row, &column);
        line(c, "/* %s: %s:%u */", k->name, in_comment(c, dt_diag_path(diags, k->span.file)), row);
    } else {
        line(c, "/* %s */", k->name);
    }
}

void dt_print_arguments(DtPrint *c)
{
    for (uint32_t i = 0; i < c->k->pointers.n; i++) {
        const DtKPointer *pointer = &c->k->pointers.at[i];
        const char *type = dt_print_type(c, pointer->view->dtype),
                   *mode = pointer->written ? "" : "const ";
        line(c, "%s%s *p%u = (%s%s *)p[%u]; /* %s%s */", mode, type, i, mode, type, i,
             pointer->written ? "writes " : "", pointer->value->name ? pointer->value->name : "");
    }
    line(c, "(void)p, (void)q;");
}
