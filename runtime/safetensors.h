/* SPDX-License-Identifier: Apache-2.0 */
/* Files of named tensors: 8 bytes with the length of the header, a JSON header {"name": {"dtype":
 * "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {...}}, then the
 * bytes of all tensors without holes (https://github.com/huggingface/safetensors). Row-major,
 * little-endian. */
#ifndef DT_RUNTIME_SAFETENSORS_H
#define DT_RUNTIME_SAFETENSORS_H

#include "base/file.h"
#include "base/text.h"
#include "plan/kinds.h"
#include "plan/plan.h"

typedef struct DtTensor {
    const char *name;
    uint32_t dtype; /* DtPlanDtype; DT_PLAN_DTYPES: one that a plan cannot have (foreign files) */
    const char *type; /* the dtype's name in the file; when the file is written, only for one that
                       * is no DtPlanDtype */
    uint32_t n_axes;
    int64_t extents[DT_PLAN_MAX_RANK];
    int64_t bytes;
    uint64_t digest;   /* XXH3-64 of the bytes; set when the file is written, computed on demand
                        * when it is read */
    const uint8_t *at; /* when the file is read: the bytes in the mapping */
    uint32_t file;     /* number of its file, for readers of several */
} DtTensor;

const char *dt_safetensors_dtype(uint32_t dtype); /* "F32" */
/* The number of elements times the size of one, or -1 if that is not a valid number of bytes. */
int64_t dt_safetensors_bytes(uint32_t dtype, const int64_t *extents, uint32_t n_axes);

/* Appends what a file of these tensors has before their data: a multiple of eight bytes. path: for
 * messages. */
DtStatus dt_safetensors_header(const char *path, const DtTensor *tensors, uint32_t n,
                               DtText *ret_bytes);

/* Returns n bytes of tensor number i, from byte `first` on, which are about to be written. They
 * must stay valid until the next call. n and `first` are multiples of an element's size. A tensor
 * that is split over ranks may be gathered here. NULL: fails, with the reason in ret_status. */
typedef const void *(*DtTensorSource)(void *context, uint32_t i, int64_t first, int64_t n,
                                      DtStatus *ret_status);

/* Identifies a written or opened file. */
typedef struct DtTensorsId {
    int64_t bytes;
    uint64_t header; /* digest of the length and the header */
} DtTensorsId;

/* Writes the file `path` atomically, and fills in digests. piece: the most bytes that the source is
 * asked for at once, a multiple of 8; the file does not depend on it. */
DtStatus dt_safetensors_write(const char *path, DtTensor *tensors, uint32_t n, int64_t piece,
                              DtTensorSource source, void *context, DtTensorsId *ret_id);

typedef struct DtTensorFile {
    DtFileView view;
    DtTensor *tensors; /* tensors in byte order of their names */
    uint32_t n;
    DtTensorsId id;
} DtTensorFile;

/* Maps and checks a file: afterwards every tensor is inside the mapping and none overlap. No number
 * in the file is trusted. The system reads no more than what is asked for: other ranks may read the
 * rest. */
DtStatus dt_safetensors_open(DtArena *arena, const char *path, DtTensorFile *ret_file);
/* The same for a file of another program, whose tensors may have any dtype. */
DtStatus dt_safetensors_open_foreign(DtArena *arena, const char *path, DtTensorFile *ret_file);
void dt_safetensors_close(DtTensorFile *file);
/* The failure of a file that was cut short after it was opened, so that the byte at `missing` could
 * not be read (base/tryread.h). */
DtStatus dt_safetensors_cut(const char *path, const DtTensorFile *file, const uint8_t *missing);
/* The tensor of that name; NULL: there is none. */
const DtTensor *dt_safetensors_find(const DtTensorFile *file, const char *name);

#endif
