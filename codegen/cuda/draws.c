/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers in kernels for GPUs. A call of the generator, some sixty instructions, gives four
 * neighbouring elements of a draw, in the order of its axes' names:
 *
 *   along    neighbours are along the last axis, and a thread has all four: one call
 *   across   neighbours are along another axis: a thread processes four rows in turn, and has
 *   made the
 *            calls for all of its elements in advance: f<k>[l] are the four of element l
 *
 * Elsewhere each element has a call of its own. The values are the same. */
#include "codegen/cuda/draws.h"

#define line dt_print_line

enum { NOT, ALONG, ACROSS, FOUR = 4 };

static bool is_draw(const DtKernel *k, const bool *live, uint32_t i)
{
    const DtKNode *node = &k->nodes.at[i];
    return live[i] && node->kind == DT_KNODE_RNG && node->draws == FOUR &&
           node->axes >> (k->n_axes - 1) & 1;
}

uint32_t dt_draws_axis(const DtKernel *k, const bool *live)
{
    for (uint32_t i = 0; i < k->nodes.n && k->n_axes; i++)
        for (uint32_t a = 0; a + 1 < k->n_axes && is_draw(k, live, i); a++)
            if (k->nodes.at[i].coef[a] == 1 && k->extent[a] % FOUR == 0)
                return a;
    return k->n_axes;
}

static void draw(DtPrint *c, uint32_t k)
{
    if (c->draws[k] == NOT)
        dt_print_draw(c, k);
    else
        line(c, "const float n%u = %s;", k,
             dt_arena_printf(c->arena, c->draws[k] == ALONG ? "f%u[l]" : "dt_of_four(f%u[l], d)",
                             k));
}

void dt_draws_begin(DtPrint *c, const DtTile *tile)
{
    const DtKernel *k = c->k;
    c->draws = dt_arena_alloc(c->arena, k->nodes.n + 1);
    c->draw = draw;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (!is_draw(k, c->live, i) || (tile->lanes && tile->hold != DT_HOLD_REGISTERS))
            c->draws[i] = NOT;
        else if (k->nodes.at[i].coef[k->n_axes - 1] == 1 && tile->vector == FOUR)
            c->draws[i] = ALONG;
        else if (tile->rows > 1 && k->nodes.at[i].coef[tile->rows_axis] == 1)
            c->draws[i] = ACROSS;
}

bool dt_draws_has(const DtPrint *c, uint32_t k) { return c->draws[k] != NOT; }

void dt_draws_declare(DtPrint *c, const DtTile *tile)
{
    for (uint32_t i = 0; i < c->k->nodes.n; i++)
        if (c->draws[i] == ACROSS)
            line(c, "float f%u[%u][%u];", i, tile->vector, FOUR);
}

/* Whether the four neighbours are always those of one call: theirs begin at multiples of four along
 * their axis, and a step along any other one is a multiple of four elements. */
static bool is_whole(const DtKernel *k, const DtKNode *node)
{
    bool good = node->begins;
    for (uint32_t a = 0; a < k->n_axes; a++)
        good = good && (node->coef[a] == 1 || node->coef[a] % FOUR == 0);
    return good;
}

static void call(DtPrint *c, uint32_t i, const char *to)
{
    const DtKNode *node = &c->k->nodes.at[i];
    line(c, "%s(%s, %s0x%llxull, %s, %s);", is_whole(c->k, node) ? "dt_draw" : "dt_draw_four", to,
         is_whole(c->k, node) ? "1, " : "", (unsigned long long)node->key,
         dt_print_element(c, node, node->coef), dt_print_counters(c, node));
}

static bool any(const DtPrint *c, uint8_t how)
{
    bool found = false;
    for (uint32_t i = 0; i < c->k->nodes.n; i++)
        found = found || c->draws[i] == how;
    return found;
}

void dt_draws_across(DtPrint *c, const DtTile *tile)
{
    if (!any(c, ACROSS))
        return;
    line(c, "DT_UNROLL for (int l = 0; l < %u; l++) {", tile->vector);
    c->depth++;
    line(c, "const int64_t i%u = j + l;", c->k->n_axes - 1);
    for (uint32_t i = 0; i < c->k->nodes.n; i++)
        if (c->draws[i] == ACROSS)
            call(c, i, dt_arena_printf(c->arena, "f%u[l]", i));
    dt_print_close(c, 1);
}

void dt_draws_along(DtPrint *c, const DtTile *tile)
{
    for (uint32_t i = 0; i < c->k->nodes.n; i++)
        if (c->draws[i] == ALONG) {
            line(c, "float f%u[%u];", i, tile->vector);
            line(c, "{");
            c->depth++;
            line(c, "const int64_t i%u = j;", c->k->n_axes - 1);
            call(c, i, dt_arena_printf(c->arena, "f%u", i));
            dt_print_close(c, 1);
        }
}
