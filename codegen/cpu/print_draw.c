/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers in kernels. A call of the generator gives four neighbouring elements of a draw, in
 * the order of its axes' names, which is seldom the order in which a kernel runs. So a kernel makes
 * those of many calls at a time, call by call in lanes, in an array u<k>, and finds its own at
 * w<k>:
 *
 *   along    Neighbouring lanes have neighbouring elements: 64 lanes need 16 calls, and one more
 *            where their first element is not the first of its call.
 *   across   Neighbours lie along an axis whose loop is around the lanes, and a step along any
 *            other axis is a multiple of four elements: every fourth round of that loop makes those
 *            of four rounds; a round reads its quarter.
 *
 * Where neither holds, each element has a call of its own. The values are the same in all three. */
#include "codegen/cpu/print.h"

#define line dt_print_line

enum {
    MOST = 8192, /* elements of a round that are kept, four times: 128 KiB of stack */
    LEAST = 16   /* lanes for which calls are made together */
};

static bool is_column(const DtKernel *k) { return k->pattern == DT_KPATTERN_COLUMN; }

/* Whether the loop over axis a is inside the loop over axis `around`; a column's lanes are
 * inside all its inner loops. */
static bool is_inside(const DtKernel *k, uint32_t a, uint32_t around)
{
    return a > around || (is_column(k) && a == dt_print_c_vector_axis(k));
}

static int64_t extent_inside(const DtKernel *k, uint32_t a)
{
    const bool chunk =
        is_column(k) && a == dt_print_c_vector_axis(k) && k->extent[a] > DT_PRINT_LANES;
    return chunk ? DT_PRINT_LANES : k->extent[a];
}

/* Returns how many elements of the draw one iteration of the loop over that axis uses (one
 * round). */
static int64_t round_size(const DtKernel *k, const DtKNode *node, uint32_t axis)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < k->n_axes && n <= MOST; a++)
        if (is_inside(k, a, axis) && (node->axes >> a & 1))
            n *= extent_inside(k, a);
    return n;
}

/* 1 + the axis along which the four elements of a call are neighbours; 0: each element has a call
 * of its own. */
static uint32_t axis_of(const DtKernel *k, const DtKNode *node)
{
    const int64_t lanes = dt_print_c_vector_axis(k);
    if (node->kind != DT_KNODE_RNG || node->draws != 4 || lanes < 0 || !(node->axes >> lanes & 1) ||
        k->extent[lanes] < LEAST)
        return 0;
    if (node->coef[lanes] == 1)
        return (uint32_t)lanes + 1;
    uint32_t found = k->n_axes;
    for (uint32_t a = 0; a < k->n_axes; a++)
        if (k->extent[a] > 1 && node->coef[a] == 1)
            found = a;
        else if (k->extent[a] > 1 && node->coef[a] % 4 != 0)
            return 0;
    if (found == k->n_axes || (is_column(k) && found < k->n_outer) ||
        round_size(k, node, found) > MOST)
        return 0;
    return found + 1;
}

static bool is_along(const DtPrint *c, uint32_t k)
{
    return c->loops->draw_axis[k] && c->loops->draw_axis[k] - 1 == dt_print_c_vector_axis(c->k);
}

/* Returns the largest number of lanes of a loop in front of which draws are computed. */
static int64_t most_lanes(const DtKernel *k)
{
    const int64_t of_rows = dt_kernel_row_lanes(k);
    return of_rows > DT_PRINT_LANES ? of_rows : DT_PRINT_LANES;
}

bool dt_print_c_is_across(const DtPrint *c, uint32_t k)
{
    return c->loops->draw_axis[k] && !is_along(c, k);
}

void dt_print_c_draws_begin(DtPrint *c)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        const DtKNode *node = &c->k->nodes.at[k];
        c->loops->draw_axis[k] = c->live[k] ? (uint8_t)axis_of(c->k, node) : 0;
        if (!c->loops->draw_axis[k])
            continue;
        const int64_t n = is_along(c, k) ? most_lanes(c->k) + 4
                                         : 4 * round_size(c->k, node, c->loops->draw_axis[k] - 1u);
        line(c, "float u%u[%lld];", k, (long long)n);
        line(c, "const float *w%u;", k);
    }
}

void dt_print_c_draws_end(DtPrint *c, uint32_t axis)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        c->loops->drawn[k] = c->loops->drawn[k] && c->loops->draw_axis[k] - 1u < axis;
}

static bool is_wanted(const DtPrint *c, uint32_t k)
{
    return c->needed[k] && c->kept[k] != DT_PRINT_KEPT;
}

bool dt_print_c_draws_along(const DtPrint *c)
{
    bool any = false;
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        any = any || (is_along(c, k) && is_wanted(c, k));
    return any;
}

void dt_print_c_draws_lanes(DtPrint *c, const char *first, long long n)
{
    const uint32_t lanes = (uint32_t)dt_print_c_vector_axis(c->k);
    const long long calls = (n + 3) / 4;
    for (uint32_t k = 0; k < c->k->nodes.n; k++) {
        const DtKNode *node = &c->k->nodes.at[k];
        if (!is_along(c, k) || !is_wanted(c, k))
            continue;
        const char *rest = dt_print_counters(c, node);
        const unsigned long long key = node->key;
        line(c, "{");
        c->depth++;
        line(c, "const int64_t i%u = %s;", lanes, first);
        line(c, "const uint64_t d = %s;", dt_print_element(c, node, node->coef));
        line(c, "DT_LANES");
        line(c,
             "for (int b = 0; b < %lld; b++) dt_draw(u%u + 4 * b, 1, 0x%llxull, d + 4 * "
             "(uint64_t)b, %s);",
             calls, k, key, rest);
        line(c, "if ((d & 3) > %lld) dt_draw(u%u + %lld, 1, 0x%llxull, d + %lld, %s);",
             4 * calls - n, k, 4 * calls, key, 4 * calls, rest);
        line(c, "w%u = u%u + (d & 3);", k, k);
        dt_print_close(c, 1);
        c->loops->drawn[k] = true;
    }
}

/* Text of the index of the kernel's element among the draws of one round of the loop. */
static const char *place(DtPrint *c, const DtKNode *node, uint32_t axis)
{
    const uint32_t lanes = (uint32_t)dt_print_c_vector_axis(c->k);
    int64_t stride[DT_MAX_RANK] = {0}, n = extent_inside(c->k, lanes);
    for (uint32_t a = c->k->n_axes; a-- > axis + 1;)
        if (a != lanes && (node->axes >> a & 1)) {
            stride[a] = n;
            n *= extent_inside(c->k, a);
        }
    stride[lanes] = !is_column(c->k);
    const char *text = dt_print_affine(c, 0, stride);
    return is_column(c->k) ? dt_arena_printf(c->arena, "%s + l", text) : text;
}

/* Computes the elements of draw k for four rounds at once, and points w<k> at the quarter for the
 * present round. */
static void rounds(DtPrint *c, uint32_t k, uint32_t axis, const char *width)
{
    const DtKNode *node = &c->k->nodes.at[k];
    const uint32_t lanes = (uint32_t)dt_print_c_vector_axis(c->k);
    const long long size = (long long)round_size(c->k, node, axis);
    int64_t alone[DT_MAX_RANK] = {0};
    uint32_t loops = 2;
    alone[axis] = 1;
    const char *first = dt_print_element(c, node, alone);
    line(c, "if (i%u == 0 || (%s & 3) == 0) {", axis, first);
    c->depth++;
    for (uint32_t a = axis + 1; a < c->k->n_axes; a++)
        if (a != lanes && (node->axes >> a & 1)) {
            dt_print_open(c, a);
            loops++;
        }
    line(c, "DT_LANES");
    if (width) {
        line(c, "for (int l = 0; l < %s; l++) {", width);
        c->depth++;
        line(c, "const int64_t i%u = j + l;", lanes);
    } else {
        dt_print_open(c, lanes);
    }
    line(c, "dt_draw(u%u + %s, %lld, 0x%llxull, %s, %s);", k, place(c, node, axis), size,
         (unsigned long long)node->key, dt_print_element(c, node, node->coef),
         dt_print_counters(c, node));
    dt_print_close(c, loops);
    line(c, "w%u = u%u + %lld * (int64_t)(%s & 3);", k, k, size, first);
    c->loops->drawn[k] = true;
}

void dt_print_c_draws_axis(DtPrint *c, uint32_t axis, const char *width, bool needed)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (dt_print_c_is_across(c, k) && c->loops->draw_axis[k] - 1u == axis &&
            (!needed || is_wanted(c, k)))
            rounds(c, k, axis, width);
}

void dt_print_c_draw(DtPrint *c, uint32_t k)
{
    const DtKNode *node = &c->k->nodes.at[k];
    if (!c->loops->drawn[k])
        dt_print_draw(c, k);
    else if (is_along(c, k))
        line(c, "const float n%u = w%u[l];", k, k);
    else
        line(c, "const float n%u = w%u[%s];", k, k, place(c, node, c->loops->draw_axis[k] - 1u));
}
