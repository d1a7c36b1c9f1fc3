/* SPDX-License-Identifier: Apache-2.0 */
/* How attention falls to blocks of threads (attend_tile.c). */
#ifndef DT_CODEGEN_CUDA_ATTEND_H
#define DT_CODEGEN_CUDA_ATTEND_H

#include "codegen/kernel.h"

enum { DT_ROLE_MOST = 8, DT_ROLE_TILES = 8 };

/* A tile in shared memory: of an operand, or of a value with queries and keys that is an operand of
 * a product. */
typedef struct DtATile {
    /* the operand whose rows the tile holds; NULL: it holds values of `node` */
    const DtKRows *rows;
    uint32_t node;
    DtDtype dtype;
    /* elements from one row to the next; elements of a row, rounded up to a multiple of 16 */
    uint32_t ld, padded;
    uint32_t at;            /* offset in shared memory, in bytes */
} DtATile;

/* The work of some of the blocks. Each has a tile of rows (of queries or of keys), loops over tiles
 * of columns, and computes the sums and stores of its rows. single: the block has one tile of
 * columns, and computes values with both axes. */
typedef struct DtRole {
    uint32_t rows, cols;    /* axes of the space */
    bool single;
    uint32_t away;          /* bits: shared axes over which each block loops */
    /* numbers of the kernel's sums and stores that the role computes */
    uint32_t sums[DT_ROLE_MOST], n_sums, stores[DT_ROLE_MOST], n_stores;
    bool scores[DT_ROLE_MOST]; /* by score of the kernel: whether the role needs it */
    /* tiles of rows; tiles of columns; tiles of values with both */
    DtATile own[DT_ROLE_TILES], passing[DT_ROLE_TILES], made[DT_ROLE_TILES];
    uint32_t n_own, n_passing, n_made;
    /* nodes that depend on columns alone, computed once for a tile of columns; the offset of the
     * first one in shared memory, in bytes */
    uint32_t held[DT_ROLE_TILES], held_at, n_held;
    int64_t blocks;
} DtRole;

typedef struct DtAttendTile {
    DtRole roles[DT_ROLE_MOST];
    uint32_t n_roles, rows, cols, threads, shared; /* of a tile; bytes that a device needs */
    int64_t blocks;
} DtAttendTile;

/* NULL, or why no block can do the kernel. */
const char *dt_attend_tile(const DtKernel *kernel, DtAttendTile *ret_tile);

#endif
