/* SPDX-License-Identifier: Apache-2.0 */
/* How attention falls to blocks of threads (attend_tile.c). */
#ifndef DT_CODEGEN_CUDA_ATTEND_H
#define DT_CODEGEN_CUDA_ATTEND_H

#include "codegen/kernel.h"

enum { DT_ROLE_MOST = 8, DT_ROLE_TILES = 8 };

/* A tile in shared memory: of an operand, or of a value with queries and keys that is an operand of
 * a product. */
typedef struct DtATile {
    const DtKRows *rows;    /* NULL: it is node's */
    uint32_t node;
    DtDtype dtype;
    uint32_t ld, padded;    /* elements from row to row; of a row, up to a multiple of 16 */
    uint32_t at;            /* bytes */
} DtATile;

/* The work of some of the blocks. Each has a tile of rows (of queries or of keys), loops over tiles
 * of columns, and computes the sums and stores of its rows. single: the block has one tile of
 * columns, and computes values with both axes. */
typedef struct DtRole {
    uint32_t rows, cols;    /* axes of the space */
    bool single;
    uint32_t away;          /* bits: shared axes over which each block loops */
    uint32_t sums[DT_ROLE_MOST], n_sums, stores[DT_ROLE_MOST], n_stores; /* of the kernel's */
    bool scores[DT_ROLE_MOST]; /* which of the kernel's it needs */
    /* of rows, of columns, of both */
    DtATile own[DT_ROLE_TILES], passing[DT_ROLE_TILES], made[DT_ROLE_TILES];
    uint32_t n_own, n_passing, n_made;
    /* nodes by column alone: once for a tile; bytes of the first */
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
