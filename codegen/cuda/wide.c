/* SPDX-License-Identifier: Apache-2.0 */
/* Wide accesses: a thread has n neighbouring elements of the last axis, 8 or 4, and loads and
 * stores them 16 bytes at a time (or all at once, if they have fewer bytes), if alignment is
 * proved:
 *
 *   - neighbours along the last axis are neighbours in memory, and no index map is along it
 *   - all addresses that the argument may have are multiples of that (DtKPointer.align)
 *   - so are the offset, and a step along each other axis of the space, and of each index
 *
 * Other accesses are element by element. In the text v<k> are the words of load k, w<s> those
 * that store s will write, o<s> those to which it adds; kernels/wide.h has the functions. For a
 * held load, v<k> is the thread's in all phases, or h<k> is the row in shared memory, in which
 * each thread accesses its own. */
#include "codegen/cuda/wide.h"

enum { ACCESS = 16, WORD = 4 }; /* bytes */

/* The number of elements of the dtype to whose multiples addresses must be aligned. */
static int64_t unit_of(DtDtype dtype, uint32_t n)
{
    const int64_t size = (int64_t)dt_dtype_size(dtype), bytes = size * n;
    return (bytes < ACCESS ? bytes : ACCESS) / size;
}

/* Whether neighbours along the last axis are contiguous, and groups of n of them are aligned at all
 * other indices. */
static bool lies_well(const DtKernel *k, uint32_t pointer, int64_t offset, const int64_t *stride,
                      uint32_t n)
{
    const DtKPointer *p = &k->pointers.at[pointer];
    const DtDtype dtype = p->view->dtype;
    const int64_t unit = unit_of(dtype, n), bytes = unit * (int64_t)dt_dtype_size(dtype);
    bool good =
        bytes % WORD == 0 && p->align >= bytes && offset % unit == 0 && stride[k->n_axes - 1] == 1;
    for (uint32_t a = 0; a + 1 < k->n_axes; a++)
        good = good && stride[a] % unit == 0;
    return good;
}

bool dt_wide_is_load(const DtKernel *k, uint32_t node, uint32_t n)
{
    const DtKNode *load = &k->nodes.at[node];
    bool good = load->kind == DT_KNODE_LOAD && k->n_axes && !load->after_rows &&
                lies_well(k, load->pointer, load->offset, load->coef, n);
    for (uint32_t d = 0; d < load->n_index && good; d++) {
        const DtKIndex *index = &load->index[d];
        good = index->node == DT_KNONE && !index->guard && !index->exact &&
               index->coef[k->n_axes - 1] == 0 && index->stride % unit_of(load->dtype, n) == 0;
    }
    return good;
}

static bool is_wide_store(const DtKernel *k, uint32_t s, uint32_t n)
{
    const DtKStore *store = &k->stores.at[s];
    return k->n_axes && !k->nodes.at[store->node].after_rows &&
           lies_well(k, store->pointer, store->offset, store->stride, n);
}

bool dt_wide_all(const DtKernel *k, const bool *live, uint32_t n)
{
    const uint32_t last = k->n_axes - 1;
    bool good = k->n_axes > 0;
    for (uint32_t i = 0; i < k->nodes.n && good; i++)
        good = !live[i] || k->nodes.at[i].kind != DT_KNODE_LOAD ||
               !(k->nodes.at[i].axes >> last & 1) || dt_wide_is_load(k, i, n);
    for (uint32_t s = 0; s < k->stores.n && good; s++)
        good = is_wide_store(k, s, n);
    return good;
}

void dt_wide_choose(DtPrint *c, uint32_t n)
{
    const DtKernel *k = c->k;
    c->wide = DT_NEW_ARRAY(c->arena, bool, k->nodes.n + 1);
    c->wide_stores = DT_NEW_ARRAY(c->arena, bool, k->stores.n + 1);
    for (uint32_t i = 0; i < k->nodes.n; i++)
        c->wide[i] = dt_wide_is_load(k, i, n);
    for (uint32_t s = 0; s < k->stores.n; s++)
        c->wide_stores[s] = is_wide_store(k, s, n);
}

/* ---- the text ---- */

static void declare(DtPrint *c, const char *words, uint32_t pointer, uint32_t n)
{
    const size_t size = dt_dtype_size(c->k->pointers.at[pointer].view->dtype);
    dt_print_line(c, "uint32_t %s[%zu];", words, n * size / 4);
}

static void take(DtPrint *c, const char *words, uint32_t pointer, const char *at, uint32_t n,
                 bool whole)
{
    const size_t size = dt_dtype_size(c->k->pointers.at[pointer].view->dtype);
    if (whole)
        dt_print_line(c, "dt_take(%s, p%u + %s, %zu);", words, pointer, at, n * size);
    else
        dt_print_line(c, "dt_take_some%zu(%s, p%u + %s, %u, left);", size, words, pointer, at, n);
}

static void take_load(DtPrint *c, uint32_t k, uint32_t n, bool whole)
{
    const DtKNode *node = &c->k->nodes.at[k];
    const char *words = dt_arena_printf(c->arena, "v%u", k);
    const DtHeld held = c->held ? c->held[k] : DT_HELD_NOT;
    const size_t bytes = n * dt_dtype_size(node->dtype);
    if (held == DT_HELD_THERE && !c->held_in_block)
        return;
    if (!held || c->held_in_block)
        declare(c, words, node->pointer, n);
    if (held == DT_HELD_THERE)
        dt_print_line(c, "dt_take(%s, h%u + j, %zu);", words, k, bytes);
    else
        take(c, words, node->pointer, dt_print_address(c, k), n, whole);
    if (held == DT_HELD_NEXT && c->held_in_block)
        dt_print_line(c, "dt_give(h%u + j, %s, %zu);", k, words, bytes);
}

void dt_wide_hold(DtPrint *c, uint32_t n)
{
    for (uint32_t k = 0; k < c->k->nodes.n; k++)
        if (c->held[k])
            declare(c, dt_arena_printf(c->arena, "v%u", k), c->k->nodes.at[k].pointer, n);
}

static bool is_given(const DtPrint *c, uint32_t s, uint32_t phase)
{
    return c->wide_stores[s] && (phase == UINT32_MAX || c->store_phase[s] == phase);
}

void dt_wide_take(DtPrint *c, uint32_t n, uint32_t phase, bool whole)
{
    const DtKernel *k = c->k;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (c->wide[i] && c->needed[i] && !c->defined[i])
            take_load(c, i, n, whole);
    for (uint32_t s = 0; s < k->stores.n; s++) {
        const DtKStore *store = &k->stores.at[s];
        if (!is_given(c, s, phase))
            continue;
        const char *old = dt_arena_printf(c->arena, "o%u", s);
        if (store->accumulate)
            declare(c, old, store->pointer, n);
        if (store->accumulate)
            take(c, old, store->pointer, dt_print_affine(c, store->offset, store->stride), n,
                 whole);
        declare(c, dt_arena_printf(c->arena, "w%u", s), store->pointer, n);
    }
}

void dt_wide_give(DtPrint *c, uint32_t n, uint32_t phase, bool whole)
{
    for (uint32_t s = 0; s < c->k->stores.n; s++) {
        const DtKStore *store = &c->k->stores.at[s];
        const size_t size = dt_dtype_size(c->k->pointers.at[store->pointer].view->dtype);
        const char *at = dt_print_affine(c, store->offset, store->stride);
        if (is_given(c, s, phase) && whole)
            dt_print_line(c, "dt_give(p%u + %s, w%u, %zu);", store->pointer, at, s, n * size);
        else if (is_given(c, s, phase))
            dt_print_line(c, "dt_give_some%zu(p%u + %s, w%u, %u, left);", size, store->pointer, at,
                          s, n);
    }
}
