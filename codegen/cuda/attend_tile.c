/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns the work of attention to blocks of threads.
 *
 *   rows of queries   a block has a tile of queries and loops over the keys: o, dq, maxima and sums
 *   rows of keys      a block has a tile of keys and loops over the queries, and over the query
 *   heads
 *                     that share these keys: dk, dv, sums over queries
 *   single            a block has a tile of both, and sums over shared axes: the gradient of a bias
 *
 * Each element of a result belongs to one block, which adds it up in a fixed order. So no
 * operation is atomic, and a launch gives the same bits each time. A warp has 16 rows. Sums stay
 * in registers; if a block would need too many, other blocks compute some of the sums from the
 * same scores. */
#include "codegen/cuda/attend.h"
#include "codegen/cuda/cuda.h"

#include <string.h>

enum { WARP_ROWS = 16, LEAST = 16, LARGEST = 64, ALL_REGISTERS = 128, FEW_BYTES = 80 << 10,
       MOST_BYTES = 160 << 10 };

static uint32_t up(uint32_t n, uint32_t of) { return (n + of - 1) / of * of; }

/* ---- roles ---- */

static uint32_t registers_of(const DtKernel *k, const DtRole *role)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < role->n_sums; i++)
        n += up(k->attend->sums.at[role->sums[i]].of.depth, 16) / 2;
    return n;
}

/* The role with these properties that has registers left, or a new one; NULL: there are too many
 * roles. */
static DtRole *role_of(const DtKernel *k, DtAttendTile *tile, bool over_keys, bool single,
                       uint32_t away, uint32_t registers)
{
    const DtKAttend *a = k->attend;
    const uint32_t rows = over_keys ? a->queries : a->keys;
    for (uint32_t i = 0; i < tile->n_roles; i++) {
        DtRole *role = &tile->roles[i];
        if (role->rows == rows && role->single == single && role->away == away &&
            role->n_stores < DT_ROLE_MOST && role->n_sums < DT_ROLE_MOST &&
            (!registers || registers_of(k, role) + registers <= ALL_REGISTERS))
            return role;
    }
    if (tile->n_roles == DT_ROLE_MOST)
        return NULL;
    DtRole *role = &tile->roles[tile->n_roles++];
    *role = (DtRole){.rows = rows, .cols = over_keys ? a->keys : a->queries, .single = single,
                     .away = away};
    return role;
}

/* Whether the node depends on a reduction along keys, which needs all keys of a row. */
static bool reduces(const DtKernel *k, uint32_t node)
{
    const DtKNode *n = &k->nodes.at[node];
    if (n->phase && !n->after_rows)
        return true;
    for (uint32_t i = 0; n->after_rows && i < n->n_args; i++)
        if (reduces(k, n->args[i]))
            return true;
    return false;
}

static const char *add_store(const DtKernel *k, DtAttendTile *tile, uint32_t s)
{
    const DtKAttend *a = k->attend;
    const uint32_t node = k->stores.at[s].node, shared = (1u << a->queries) - 1;
    const DtKNode *n = &k->nodes.at[node];
    const bool has_queries = n->axes >> a->queries & 1, has_keys = n->axes >> a->keys & 1;
    if (!has_queries && !has_keys)
        return "a result has neither queries nor keys";
    if (n->after_rows && (n->kind != DT_KNODE_REDUCE || n->reduce != DT_REDUCE_SUM))
        return "a result is made of a sum over queries";
    if (has_keys && reduces(k, node))
        return "a result with keys needs what is reduced over them";
    const uint32_t away = n->after_rows ? shared & ~n->axes : 0;
    DtRole *role = role_of(k, tile, has_queries, has_queries && has_keys, away, 0);
    if (!role)
        return "it has too many results";
    role->stores[role->n_stores++] = s;
    return NULL;
}

static const char *add_sum(const DtKernel *k, DtAttendTile *tile, uint32_t s)
{
    const DtKSum *sum = &k->attend->sums.at[s];
    const uint32_t registers = up(sum->of.depth, 16) / 2;
    if (registers > ALL_REGISTERS)
        return "rows are longer than 256 elements";
    if (!sum->over_keys && reduces(k, sum->node))
        return "a sum over queries needs what is reduced over keys";
    DtRole *role = role_of(k, tile, sum->over_keys, false, sum->away, registers);
    if (!role)
        return "it has too many results";
    role->sums[role->n_sums++] = s;
    return NULL;
}

/* ---- tiles ---- */

static bool same_rows(const DtKRows *a, const DtKRows *b)
{
    return a->pointer == b->pointer && a->depth == b->depth && a->offset == b->offset &&
           a->along == b->along && memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

static bool add_tile(DtATile *tiles, uint32_t *n, const DtKRows *rows, uint32_t node, DtDtype dtype)
{
    for (uint32_t i = 0; i < *n; i++)
        if (rows ? same_rows(tiles[i].rows, rows)
                 : tiles[i].node == node && tiles[i].dtype == dtype)
            return true;
    if (*n == DT_ROLE_TILES)
        return false;
    tiles[(*n)++] = (DtATile){.rows = rows, .node = node, .dtype = dtype};
    return true;
}

static void need(const DtKernel *k, uint32_t node, bool *needed)
{
    if (needed[node])
        return;
    needed[node] = true;
    for (uint32_t i = 0; i < k->nodes.at[node].n_args; i++)
        need(k, k->nodes.at[node].args[i], needed);
    for (uint32_t d = 0; d < k->nodes.at[node].n_index; d++)
        if (k->nodes.at[node].index[d].node != DT_KNONE)
            need(k, k->nodes.at[node].index[d].node, needed);
}

/* Whether the node is computed from memory for each column, and depends on no row. */
static bool is_of_column(const DtKernel *k, const DtRole *role, uint32_t node)
{
    const DtKNode *n = &k->nodes.at[node];
    bool is = n->kind == DT_KNODE_LOAD;
    for (uint32_t i = 0; i < n->n_args && n->kind == DT_KNODE_MAP; i++)
        is = is || is_of_column(k, role, n->args[i]);
    return is && n->axes >> role->cols & 1 && !(n->axes >> role->rows & 1);
}

static bool is_held(const DtRole *role, uint32_t node)
{
    for (uint32_t i = 0; i < role->n_held; i++)
        if (role->held[i] == node)
            return true;
    return false;
}

/* Adds to role->held the nodes that depend on columns alone and that needed values of rows read.
 * They are computed, or loaded from memory, once per tile. */
static void hold_columns(const DtKernel *k, DtRole *role, const bool *needed)
{
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        const DtKNode *node = &k->nodes.at[i];
        for (uint32_t a = 0; a < node->n_args && needed[i] && node->axes >> role->rows & 1; a++)
            if (role->n_held < DT_ROLE_TILES && is_of_column(k, role, node->args[a]) &&
                !is_held(role, node->args[a]))
                role->held[role->n_held++] = node->args[a];
    }
}

static bool find_tiles(const DtKernel *k, DtRole *role)
{
    DtArena *arena = dt_arena_new();
    bool *needed = DT_NEW_ARRAY(arena, bool, k->nodes.n + 1), good = true;
    for (uint32_t i = 0; i < role->n_sums; i++) {
        const DtKSum *sum = &k->attend->sums.at[role->sums[i]];
        need(k, sum->node, needed);
        good = good && add_tile(role->passing, &role->n_passing, &sum->of, 0, sum->dtype) &&
               add_tile(role->made, &role->n_made, NULL, sum->node, sum->dtype);
    }
    for (uint32_t i = 0; i < role->n_stores; i++)
        need(k, k->stores.at[role->stores[i]].node, needed);
    for (uint32_t i = 0; i < k->attend->scores.n && good; i++) {
        const DtKScore *score = &k->attend->scores.at[i];
        const bool queries = role->rows == k->attend->queries;
        role->scores[i] = needed[score->node];
        if (role->scores[i])
            good = add_tile(role->own, &role->n_own, queries ? &score->query : &score->key, 0,
                            score->dtype) &&
                   add_tile(role->passing, &role->n_passing, queries ? &score->key : &score->query,
                            0, score->dtype);
    }
    hold_columns(k, role, needed);
    dt_arena_free(arena);
    return good;
}

/* ---- sizes ---- */

/* Assigns addresses to tiles. Rows are 16 bytes further apart than their length, so that
 * neighbouring rows are in different banks of shared memory. Returns the end, in bytes. */
static uint32_t place(DtATile *tiles, uint32_t n, uint32_t rows, uint32_t cols, uint32_t at)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t size = (uint32_t)dt_dtype_size(tiles[i].dtype);
        tiles[i].padded = tiles[i].rows ? up(tiles[i].rows->depth, 16) : cols;
        tiles[i].ld = tiles[i].padded + 16 / size;
        tiles[i].at = at;
        at += up(rows * tiles[i].ld * size, 16);
    }
    return at;
}

/* Assigns offsets in shared memory to the tiles of all roles. Tiles of computed 16-bit values come
 * last, since a device has them in registers. */
static uint32_t place_all(DtAttendTile *tile, uint32_t rows, uint32_t cols)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < tile->n_roles; i++) {
        DtRole *role = &tile->roles[i];
        uint32_t at = place(role->own, role->n_own, rows, cols, 0);
        at = place(role->passing, role->n_passing, cols, cols, at);
        role->held_at = at;
        at += up(role->n_held * cols * sizeof(float), 16);
        for (uint32_t m = 0; m < role->n_made; m++)
            if (role->made[m].dtype == DT_F32)
                at = place(&role->made[m], 1, rows, cols, at);
        most = at > most ? at : most;
        for (uint32_t m = 0; m < role->n_made; m++)
            if (role->made[m].dtype != DT_F32)
                at = place(&role->made[m], 1, rows, cols, at);
    }
    tile->rows = rows, tile->cols = cols, tile->shared = most;
    tile->threads = rows * 2; /* 32 for 16 */
    return most;
}

/* Returns how many registers a thread needs for scores and sums, in the role that needs most. */
static uint32_t all_registers(const DtKernel *k, const DtAttendTile *tile, uint32_t cols)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < tile->n_roles; i++) {
        const DtRole *role = &tile->roles[i];
        uint32_t n = registers_of(k, role) + (role->single ? role->n_stores * cols / 2 : 0);
        for (uint32_t s = 0; s < k->attend->scores.n; s++)
            n += role->scores[s] ? cols / 2 : 0;
        most = n > most ? n : most;
    }
    return most;
}

/* The most columns of a tile. If the sums alone fill the registers, it is the least number; with
 * more, registers would spill. */
static uint32_t most_cols(const DtKernel *k, const DtAttendTile *tile)
{
    for (uint32_t i = 0; i < tile->n_roles; i++)
        if (registers_of(k, &tile->roles[i]) == ALL_REGISTERS)
            return LEAST;
    return LARGEST;
}

/* Chooses the largest tiles within FEW_BYTES, so that a multiprocessor runs several blocks; if
 * there are none, the largest within MOST_BYTES. */
static bool choose_sizes(const DtKernel *k, DtAttendTile *tile)
{
    static const uint32_t limits[] = {FEW_BYTES, MOST_BYTES};
    for (uint32_t l = 0; l < DT_COUNT(limits); l++)
        for (uint32_t rows = LARGEST; rows >= (l ? WARP_ROWS : LARGEST); rows /= 2)
            for (uint32_t cols = most_cols(k, tile); cols >= LEAST; cols /= 2)
                if (all_registers(k, tile, cols) <= ALL_REGISTERS + LARGEST / 4 &&
                    place_all(tile, rows, cols) <= limits[l])
                    return true;
    return false;
}

static void count_blocks(const DtKernel *k, DtAttendTile *tile)
{
    for (uint32_t i = 0; i < tile->n_roles; i++) {
        DtRole *role = &tile->roles[i];
        role->blocks = (k->extent[role->rows] + tile->rows - 1) / tile->rows;
        if (role->single)
            role->blocks *= (k->extent[role->cols] + tile->cols - 1) / tile->cols;
        for (uint32_t a = 0; a < k->attend->queries; a++)
            role->blocks *= role->away >> a & 1 ? 1 : k->extent[a];
        tile->blocks += role->blocks;
    }
}

const char *dt_attend_tile(const DtKernel *k, DtAttendTile *ret_tile)
{
    *ret_tile = (DtAttendTile){.n_roles = 0};
    const char *why = k->attend->scores.n > DT_ROLE_MOST ? "it has too many products" : NULL;
    for (uint32_t i = 0; i < k->attend->sums.n && !why; i++)
        why = add_sum(k, ret_tile, i);
    for (uint32_t i = 0; i < k->stores.n && !why; i++)
        why = add_store(k, ret_tile, i);
    for (uint32_t i = 0; i < ret_tile->n_roles && !why; i++)
        why = find_tiles(k, &ret_tile->roles[i]) ? NULL : "it has too many operands";
    if (!why && !choose_sizes(k, ret_tile))
        why = "its tiles do not fit what a block of threads has";
    if (!why)
        count_blocks(k, ret_tile);
    return !why && ret_tile->blocks > INT32_MAX ? "it has too many blocks" : why;
}

const char *dt_cuda_attends(const DtKernel *kernel)
{
    DtAttendTile tile;
    return dt_attend_tile(kernel, &tile);
}
