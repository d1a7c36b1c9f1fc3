/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of checkpoints: save.c and checkpoint.c (load), checkpoint_list.c (the folder
 * that holds several), checkpoint_files.c (the files of one), manifest.c (what one says about
 * itself), safetensors.c (its tensors), shares.c (which rank holds and writes what), wanted.c (the
 * tensors of the plan, which an import reads, too). */
#ifndef DT_RUNTIME_CHECKPOINT_H
#define DT_RUNTIME_CHECKPOINT_H

#include "base/digest.h"
#include "runtime/runtime.h"
#include "runtime/safetensors.h"
#include "runtime/rank.h"

/* Bytes of a chunk of a file: each has a digest in the manifest. */
enum { DT_CHUNK_BYTES = 4 << 20 };

/* The tensors of a checkpoint, by the kind of their files. */
typedef enum DtSavedFile { DT_SAVED_MODEL, DT_SAVED_OPTIMIZER, DT_SAVED_FILES } DtSavedFile;
extern const char *const dt_manifest_files[DT_SAVED_FILES];

/* The store and the iteration of its loops in which a saved tensor is. */
typedef struct DtHome {
    const DtPlanStore *store;
    int64_t iteration;
} DtHome;

/* The tensors of one file that the plan has, and the stores they belong to. */
typedef struct DtWanted {
    DtRank *rank;
    DtTensor *tensors;
    DtHome *homes;
    uint32_t n;
    int64_t most;       /* bytes of a piece */
    char *piece, *part; /* saving: a gathered piece, and one rank's part of it */
    char *converted;    /* loading: a piece of a tensor that has another dtype in the file */
} DtWanted;

/* wanted.c: the tensors that this rank's plan has in that file. */
DtStatus dt_wanted_list(DtRank *rank, DtArena *memory, DtSavedFile file, DtWanted *ret_wanted);
/* The same for ranks of a stage. ret_wanted->rank is NULL. */
DtStatus dt_wanted_of_stage(const DtPlan *plan, uint32_t stage, DtArena *memory, DtSavedFile file,
                            DtWanted *ret_wanted);
/* The record of the same tensors that ranks of a stage have; NULL: they have none of them. */
const DtPlanStore *dt_wanted_on_stage(const DtPlan *plan, const DtPlanStore *store, uint32_t stage);
/* What names of averages of parameters begin with in checkpoints. */
#define DT_AVERAGE_PREFIX "average."
/* Of replicas, whose average has the name of the parameter. */
#define DT_REPLICA_PREFIX "replica."
/* Whether the store is the average of replicas, which is what others know as the parameter. */
bool dt_wanted_is_mean(const DtPlan *plan, const DtPlanStore *store);
/* Adds the averages of parameters over updates, with the names of the parameters: what these begin
 * with, they begin with, too. */
DtStatus dt_wanted_averages(DtRank *rank, DtArena *memory, DtWanted *wanted);
/* Whether one of n floats is infinite or no number. */
bool dt_wanted_is_spoilt(uint32_t dtype, const void *at, int64_t n);

/* ---- the manifest ---- */

typedef struct DtManifestFile {
    const char *name;
    DtSavedFile kind;
    int64_t bytes;
    /* digests of the file's chunks; format 1: NULL */
    uint8_t (*chunks)[DT_DIGEST_BYTES];
    int64_t n_chunks;
    /* format 1: the digest of the header; name, dtype, extents and digest of each tensor, in byte
     * order of the names */
    uint64_t header;
    DtTensor *tensors;
    uint32_t n;
} DtManifestFile;

/* Number of updates that were applied to the parameters of the loss called `loss`. NULL: there is
 * only one loss. */
typedef struct DtManifestUpdates {
    const char *loss;
    int64_t n;
} DtManifestUpdates;

typedef struct DtManifest {
    int64_t steps;          /* steps that are finished */
    /* the time in nanoseconds since 1970, or more, so that it is larger than that of any older
     * checkpoint in the folder: the newest one has the largest number */
    int64_t serial;
    int64_t samples, batch; /* samples read so far: where the next step begins */
    uint64_t seed, plan;    /* digest of the plan */
    int64_t draws;          /* from the plan's DtPlanMeta */
    DtScale scale;          /* the loss scale, good steps and skipped steps, if the scale is
                             * dynamic */
    DtBest best;            /* the evaluation with the lowest loss, if the run looks for it */
    DtManifestUpdates updates[DT_PLAN_MAX_OBJECTIVES];
    uint32_t n_updates;
    DtAlgorithms products; /* algorithms of the run */
    /* the form (forms.h) of all products that have two, on a device that does not choose a form for
     * each product; TIMED: the manifest does not contain it */
    DtEpilogueWish epilogues;
    /* what computed attention (DtRank.attention); NULL: the manifest does not contain it */
    const char *attention;
    const char *imported; /* DtRank.imported; NULL: the manifest does not contain it */
    /* values of --set in formulas; of an older version: none */
    DtFormulaSetting settings[DT_PLAN_MAX_SETTINGS];
    uint32_t n_settings;
    const DtDataFact *data; /* a record of each data source; n_data 0: the manifest is of an older
                             * version without these */
    uint32_t n_data;
    const char *model, *compiler;
    DtManifestFile *files; /* those of the model, then those of the optimizer */
    uint32_t n_files;
    int64_t format; /* when it was read */
} DtManifest;

#define DT_MANIFEST_NAME "manifest.json"

/* Digests have 256 bits (BLAKE2b): of the manifest itself, which has one of each file, which is of
 * the digests of the file's chunks. */
DtStatus dt_manifest_write(const char *path, const DtManifest *manifest);
/* Checks the digest of the manifest itself, and every field. */
DtStatus dt_manifest_read(DtArena *arena, const char *path, DtManifest *ret_manifest);
/* The digest of a file as it is in the manifest. */
void dt_manifest_root(const DtManifestFile *file, uint8_t ret_root[DT_DIGEST_BYTES]);
/* The number of chunks of a file. */
static inline int64_t dt_manifest_chunks(int64_t bytes)
{
    return bytes / DT_CHUNK_BYTES + (bytes % DT_CHUNK_BYTES > 0);
}

/* ---- the files of a checkpoint ---- */

/* The open files of one kind. */
typedef struct DtCheckpointFiles {
    DtTensorFile all; /* the tensors of all files; `all.view` is empty */
    DtTensorFile *files; /* DtTensor.file is the number of one */
    const char **paths;
    const DtManifestFile **said;
    uint32_t n;
} DtCheckpointFiles;

/* Opens them, and compares their headers with the manifest. path: of the checkpoint. */
DtStatus dt_checkpointfiles_open(DtArena *memory, const char *path, const DtManifest *manifest,
                                 DtSavedFile kind, DtCheckpointFiles *ret_files);
void dt_checkpointfiles_close(DtCheckpointFiles *files);
/* Checks the digests of all bytes of a tensor. Fails with DT_EXIT_IO and names file and chunk. */
DtStatus dt_checkpointfiles_check(const DtCheckpointFiles *files, const DtTensor *tensor);
/* The same of one chunk. */
DtStatus dt_checkpointfiles_check_chunk(const DtCheckpointFiles *files, uint32_t file,
                                        int64_t chunk);
/* Copies a chunk, and checks the digest of the copy. */
DtStatus dt_checkpointfiles_read(const DtCheckpointFiles *files, uint32_t file, int64_t chunk,
                                 char *to);
/* The bytes of a chunk. */
int64_t dt_checkpointfiles_bytes(const DtCheckpointFiles *files, uint32_t file, int64_t chunk);
/* Asks the system to read a chunk, which somebody will check soon. */
void dt_checkpointfiles_ahead(const DtCheckpointFiles *files, uint32_t file, int64_t chunk);
/* The chunks in which a tensor is: n from number `first` on. */
void dt_checkpointfiles_chunks(const DtCheckpointFiles *files, const DtTensor *tensor,
                               int64_t *ret_first, int64_t *ret_n);
/* The failure of a file that was cut short, as dt_safetensors_cut. */
DtStatus dt_checkpointfiles_cut(const DtCheckpointFiles *files, const DtTensor *tensor,
                                const uint8_t *missing);

/* checkpoint.c: copies one checkpoint into this rank's stores; fails with DT_EXIT_IO if it is
 * damaged or if its serial number shows that another checkpoint is there now. */
DtStatus dt_checkpoint_read(DtRank *rank, DtArena *memory, const char *path, int64_t serial,
                            bool weights_only, DtManifest *ret_manifest);

/* ---- loading by all ranks (checkpoint_shares.c) ---- */

/* The tensors of one kind that a rank loads. */
typedef struct DtLoading {
    DtWanted wanted;
    DtCheckpointFiles files;
    const DtTensor **from; /* by wanted tensor: the one of the files */
    bool *whole; /* by wanted tensor: it is taken whole, also by ranks that hold a part of it */
    /* Copies a piece of wanted tensor number i, whose first element is at `at`, to its store. at
     * NULL: the whole tensor, from the mapped file. */
    DtStatus (*take)(struct DtLoading *loading, uint32_t i, DtPiece piece, const char *at);
    void *context;
} DtLoading;

/* Collective: ranks tell each other whether all have done a part of a load. Returns the status of
 * the first one that has not. */
DtStatus dt_checkpointshares_agree(DtRank *rank, DtStatus status);
/* Collective over all ranks, which load the same of the same checkpoint: takes all wanted tensors.
 * One rank of the run reads a chunk and compares its digest, before any rank takes something of
 * it. ring: NULL for checkpoints of format 1. */
struct DtLoadRing;
DtStatus dt_checkpointshares_load(DtRank *rank, DtArena *memory, struct DtLoadRing *ring,
                                  DtLoading *loading);

/* ---- the folder ---- */

typedef struct DtCheckpointEntry {
    const char *path;
    int64_t steps, serial;
    bool good;    /* the manifest is whole and the files have their sizes */
    DtStatus why; /* the reason, if it is not good */
} DtCheckpointEntry;

/* A folder with a manifest is one checkpoint. Other folders contain checkpoints step-N, including
 * those without a manifest. The list has no order, and lacks checkpoints that a concurrent run
 * removes meanwhile. weights_only: a checkpoint is good without optimizer.safetensors, too, of
 * which a run that does not train reads at most averages. */
typedef struct DtCheckpointList {
    DtCheckpointEntry *at;
    uint32_t n;
} DtCheckpointList;
DtStatus dt_checkpointlist_read(DtArena *arena, const char *folder, bool weights_only,
                                DtCheckpointList *ret_list);

/* The newest good checkpoint of the list; NULL if there is none. */
DtCheckpointEntry *dt_checkpointlist_newest(const DtCheckpointList *list);

/* folder/step-N; folder/.step-N.A.tmp while attempt A of the run writes it: a rank of an earlier
 * attempt that still runs on a lost host cannot write into the checkpoint of a later one. */
DtStatus dt_checkpointlist_paths(const char *folder, int64_t steps, uint32_t attempt,
                                 char ret_path[4096], char ret_temporary[4096]);

/* Removes the remains of interrupted saves. */
DtStatus dt_checkpointlist_clean(DtArena *arena, const char *folder);
/* Removes all checkpoints of the list, whether they are good or not, and the file `best`. */
DtStatus dt_checkpointlist_remove_all(DtArena *arena, const char *folder);
/* Removes all checkpoints except the newest `keep` good ones (0: removes none), and those with the
 * lowest loss: the one after `best` steps, and the one that the file `best` names, which is an
 * earlier one until a save after `best` steps has succeeded. best -1: neither. */
DtStatus dt_checkpointlist_trim(DtArena *arena, const char *folder, int64_t keep, int64_t best);

#endif
