/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters as files for other programs (`dtrun --export DIR`): export_list.c says which tensors
 * are in which file, export.c fills them in, export_merge.c adds adapters to weights,
 * export_files.c writes what stands beside them. */
#ifndef DT_RUNTIME_EXPORT_H
#define DT_RUNTIME_EXPORT_H

#include "runtime/checkpoint.h"
#include "runtime/foreign.h"
#include "runtime/runtime.h"

/* Where the elements of an exported tensor come from. */
typedef struct DtExportFrom {
    /* the record of the names block, and which of its tensors this is; NULL: the folder's tensor,
     * which the block ignores, is copied */
    const DtPlanFileTensor *record;
    int64_t number;
    const DtForeignTensor *like; /* the folder's tensor of this name; NULL: there is no folder */
    bool has_rest;               /* no parameter has some elements: they are the folder's */
} DtExportFrom;

typedef struct DtExport {
    DtImport like; /* the folder that the export resembles; no files: there is none */
    const DtPlanNames *names; /* of what is written */
    const DtPlanNames *base;  /* the program's block; another one if only adapters are written */
    DtTensor *tensors; /* in the order of the files */
    DtExportFrom *from;
    uint32_t n;
    uint32_t *files; /* [f]: number of the file's first tensor; [n_files]: n */
    uint32_t n_files;
    int64_t bytes, piece; /* of all tensors; the most of one that are in memory at once */
    uint32_t n_merged;    /* weights to which adapters are added */
} DtExport;

/* Finds the names block, the folder that the export resembles, and the tensors. imported: as in
 * DtRank. ret_list: one line for each tensor or value of the folder that does not fit. *ret_export
 * must be closed in any case. */
DtStatus dt_exportlist_open(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                            const char *imported, DtExport *ret_export, DtText *ret_list);
void dt_exportlist_close(DtExport *export);
/* Appends a note about parameters and states that the export does not have. */
void dt_exportlist_note(const DtPlan *plan, const DtExport *export, DtText *ret_notes);
/* "model-00001-of-00003.safetensors" */
const char *dt_exportlist_file(DtArena *memory, const DtExport *export, uint32_t file);

/* Whether the block has a tensor with elements of the parameter. */
bool dt_exportlist_has(const DtPlan *plan, const DtPlanNames *names, DtPlanStr path);

/* ---- adapters that are added to weights (export_merge.c) ---- */

enum { DT_EXPORT_BLOCK = 512 };

typedef struct DtExportMerge {
    DtRank *rank;
    const DtPlanNames *names;
    const DtWanted *wanted;
    char *some, *part; /* scratch of `most` elements each */
    int64_t most;
    const DtHome *home;          /* the tensor that was entered; NULL: none */
    const DtPlanAdapted *record; /* its adapter; NULL: it has none */
    DtArena *memory;             /* of the adapter's matrices a[from, r], b[r, to] */
    float *a, *b;
    int64_t from, to, r;
} DtExportMerge;

/* The adapter that an export adds to the parameter: one that has no tensors of its own in the names
 * block. NULL: none. */
const DtPlanAdapted *dt_exportmerge_record(const DtPlan *plan, const DtPlanNames *names,
                                           const char *path);
/* Gathers the adapter of wanted tensor `number`, if it has one. */
DtStatus dt_exportmerge_enter(DtExportMerge *merge, uint32_t number);
/* Elements first .. first + n - 1 of the tensor that was entered, which are at `from` in dtype,
 * with the adapter added. n: at most DT_EXPORT_BLOCK. */
void dt_exportmerge_add(const DtExportMerge *merge, int64_t first, int64_t n, uint32_t dtype,
                        const char *from, float *ret_values);
void dt_exportmerge_close(DtExportMerge *merge);

/* Writes config.json, the index of the files of tensors, and copies of files for tokenizers. */
DtStatus dt_exportfiles_write(DtArena *memory, const DtPlan *plan, const DtExport *export,
                              const char *folder);

/* Collective over all ranks: writes the folder of --export. ret_said: on rank 0, what was
 * written. */
bool dt_export_write(DtRank *rank, DtText *ret_said);

#endif
