/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of which file of a checkpoint each rank holds, and which it writes. All of it follows
 * from the plan's layouts, so every rank computes the same without asking another.
 *
 * Bytes of a checkpoint have a *position*: its files follow each other, each begins at a multiple
 * of DT_CHUNK_BYTES, and between two of them positions may belong to no file. A *chunk* is what a
 * file has between two multiples; digests are of chunks. A *share* is a contiguous range of
 * positions that one rank writes. Shares begin at chunks and are as equal as these allow.
 *
 * An element of a tensor that several ranks hold is supplied by one of them, the one nearest to
 * the writer (dt_pack_supplied). */
#ifndef DT_RUNTIME_SHARES_H
#define DT_RUNTIME_SHARES_H

#include "runtime/checkpoint.h"
#include "runtime/rank.h"

/* The most bytes of a file, unless one tensor has more. */
#define DT_SHARES_FILE_BYTES ((int64_t)5000000000)

typedef struct DtSharesFile {
    const char *name; /* "model.safetensors"; of several: "model-00001-of-00003.safetensors" */
    DtSavedFile kind;
    uint32_t first, n; /* its tensors */
    int64_t at;        /* position of its first byte */
    int64_t bytes, before; /* before: bytes of all files before it */
    const char *header;
    int64_t header_bytes; /* a multiple of 8 */
} DtSharesFile;

typedef struct DtShares {
    const DtPlan *plan;
    DtTensor *tensors; /* in the order of positions; elements do not cross multiples of 8 bytes */
    DtHome *homes;
    int64_t *at; /* by tensor: position of its first byte */
    uint32_t n;
    DtSharesFile *files;
    uint32_t n_files;
    int64_t bytes; /* of all files */
    int64_t end;   /* the position after the last byte */
} DtShares;

/* Lays out the files of a checkpoint. most: bytes of a file. Errors: stores whose names or shapes
 * are wrong, two of one name. */
DtStatus dt_shares_list(const DtPlan *plan, DtArena *memory, int64_t most, DtShares *ret_shares);

/* Positions from .. to - 1. */
typedef struct DtSharesRange {
    int64_t from, to;
} DtSharesRange;

/* The share of one of n writers. */
DtSharesRange dt_shares_of(const DtShares *shares, uint32_t writer, uint32_t n_writers);
/* The part of a share that is written in a round, if its writer collects no more than `most`
 * positions, a multiple of DT_CHUNK_BYTES, at a time; empty after the last round. */
DtSharesRange dt_shares_window(DtSharesRange share, int64_t round, int64_t most);
/* The number of rounds of a share. */
int64_t dt_shares_rounds(DtSharesRange share, int64_t most);
/* Bytes of files in the range. */
int64_t dt_shares_bytes(const DtShares *shares, DtSharesRange range);

/* The part of a file in the range: bytes first .. first + n - 1 of the file. n 0: nothing. */
DtPiece dt_shares_in_file(const DtSharesFile *file, DtSharesRange range);

/* Calls give for everything in the range, a part of the writer's share, that the rank supplies: n
 * elements of its part of a store, from the part's number `held.first` on, of which those in
 * `piece` of tensor number i are wanted. What it supplies to a share is the same whether the share
 * is one range or several, one after the other. False: give returned false. */
typedef bool (*DtSharesGive)(void *context, uint32_t i, DtPiece held, DtPiece piece);
bool dt_shares_supply(const DtShares *shares, const DtSupply *supply, DtSharesRange range,
                      DtSharesGive give, void *context);
/* The number of these bytes, padding included. */
int64_t dt_shares_supplied(const DtShares *shares, const DtSupply *supply, DtSharesRange range);
/* The number of the chunk that begins at the position, among those of all files. */
int64_t dt_shares_chunk(const DtShares *shares, int64_t position);

#endif
