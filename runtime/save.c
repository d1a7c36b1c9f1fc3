/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: the stores of a plan as logical tensors, one per iteration of the loops that stack a
 * store, called by its pattern (h.3.attention.wq.w). model.safetensors holds parameters and states,
 * optimizer.safetensors the moments (moment1.h.3. ...). A parameter with a wide master copy is
 * saved as that copy, of which it is the rounding.
 *
 * A checkpoint is written into a folder of another name, synced file by file, and put in place by
 * one rename. Older ones are removed only after that, and after a step from the new one had a
 * finite loss and norm (train.c), so whatever fails leaves at least what was there before.
 *
 * In the plain way, rank 0 writes, from its own stores and from what it asks other ranks for: those
 * of other stages of a pipeline, and the parts of tensors that ranks share. All ranks wait for it.
 * Runs with too little memory for a copy save in this way. */
#include "runtime/save.h"

#include "runtime/forms.h"
#include "runtime/saver.h"

#include "base/reserve.h"
#include "base/text.h"
#include "plan/report/memory.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- values ---- */

bool dt_save_is_sound(const DtPlanStore *store, const void *values, int64_t n)
{
    const bool begins_infinite = store->init == DT_PLAN_CONST && isinf(store->init_a);
    return begins_infinite || !dt_kinds_is_float(store->dtype) ||
           !dt_wanted_is_spoilt(store->dtype, values, n);
}

DtStatus dt_save_unsound(const DtPlanStore *store, const char *name)
{
    if (store->kind == DT_PLAN_STATE)
        return dt_status_fail(DT_EXIT_FAILED,
                              "the state `%.100s` has numbers that are not finite; go on from an "
                              "earlier checkpoint, and "
                              "look at what the program assigns to it",
                              name);
    return dt_status_fail(
        DT_EXIT_FAILED,
        "`%.100s` has numbers that are not finite; go on from an earlier checkpoint with a lower "
        "learning rate, a longer warm-up or `clip`",
        name);
}

/* ---- the folder ---- */

void dt_save_describe(const DtRank *rank, DtArena *memory, const char *folder, int64_t steps,
                      DtSave *ret_save)
{
    const DtPlan *plan = rank->plan;
    *ret_save = (DtSave){
        .memory = memory,
        .folder = folder,
        .shared = rank->shared,
        .is_best = rank->meta.keep_best && rank->best.any && rank->best.steps == steps};
    ret_save->manifest = (DtManifest){.steps = steps,
                                      .samples = dt_ramp_first(&rank->ramp, steps),
                                      .batch = rank->meta.batch,
                                      .seed = rank->meta.seed,
                                      .draws = rank->meta.draws,
                                      .scale = rank->scale,
                                      .best = rank->best,
                                      .products = rank->chosen,
                                      .epilogues = dt_forms_kept(rank),
                                      .attention = rank->attention,
                                      .imported = rank->imported,
                                      .n_updates = plan->n_objectives,
                                      .data = rank->facts,
                                      .n_data = rank->n_facts,
                                      .plan = plan->digest,
                                      .model = dt_plan_str(plan, plan->meta->model),
                                      .compiler = dt_plan_str(plan, plan->meta->compiler)};
    for (uint32_t i = 0; i < rank->settings.n; i++)
        if (rank->settings.given[i])
            ret_save->manifest.settings[ret_save->manifest.n_settings++] = rank->settings.at[i];
    for (uint32_t i = 0; i < plan->n_objectives; i++)
        ret_save->manifest.updates[i] = (DtManifestUpdates){
            dt_plan_str(plan, plan->objectives[i].loss), rank->updates[i]};
}

/* Sets ret_serial to the serial number of the new checkpoint: the time, or more if any checkpoint
 * in the folder has a larger number, even one whose manifest cannot be read now. Otherwise that one
 * could later seem to be the newest. */
static DtStatus next_serial(DtArena *memory, const char *folder, int64_t *ret_serial)
{
    DtCheckpointList list;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    DtStatus status = dt_checkpointlist_read(memory, folder, false, &list);
    const DtCheckpointEntry *newest =
        dt_status_ok(&status) ? dt_checkpointlist_newest(&list) : NULL;
    *ret_serial = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (newest && newest->serial >= *ret_serial)
        *ret_serial = newest->serial + 1;
    return status;
}

/* Fails if the disk has less space than the checkpoint needs. */
static DtStatus check_space(const char *folder, const DtShares *shares)
{
    enum { MANIFEST = 1 << 16 };
    int64_t chunks = 0, has;
    char need[32], left[32];
    for (uint32_t f = 0; f < shares->n_files; f++)
        chunks += dt_manifest_chunks(shares->files[f].bytes);
    const int64_t bytes = shares->bytes + chunks * 2 * DT_DIGEST_BYTES + MANIFEST;
    if (!dt_file_free(folder, &has) || has >= bytes)
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO,
                          "it needs %s, and the disk of %.200s has %s free; free some space there",
                          dt_text_bytes(need, (double)bytes), folder,
                          dt_text_bytes(left, (double)has));
}

DtStatus dt_save_prepare(DtSave *save, const DtShares *shares)
{
    DtStatus status = dt_checkpointlist_paths(save->folder, save->manifest.steps,
                                              save->shared->attempt, save->path, save->temporary);
    if (dt_status_ok(&status))
        status = dt_file_make_folder(save->folder);
    if (dt_status_ok(&status))
        status = dt_checkpointlist_clean(save->memory, save->folder);
    if (dt_status_ok(&status))
        status = next_serial(save->memory, save->folder, &save->manifest.serial);
    if (dt_status_ok(&status))
        status = check_space(save->folder, shares);
    return dt_status_ok(&status) ? dt_file_make_folder(save->temporary) : status;
}

/* ---- the manifest ---- */

int64_t dt_save_first_chunk(const DtShares *shares, uint32_t file)
{
    int64_t chunk = 0;
    for (uint32_t f = 0; f < file; f++)
        chunk += dt_manifest_chunks(shares->files[f].bytes);
    return chunk;
}

static void list_files(DtSave *save, const DtShares *shares,
                       const uint8_t (*digests)[DT_DIGEST_BYTES])
{
    DtManifest *m = &save->manifest;
    m->n_files = shares->n_files;
    m->files = DT_NEW_ARRAY(save->memory, DtManifestFile, m->n_files + 1);
    for (uint32_t f = 0; f < m->n_files; f++) {
        DtManifestFile *file = &m->files[f];
        *file = (DtManifestFile){.name = shares->files[f].name,
                                 .kind = shares->files[f].kind,
                                 .bytes = shares->files[f].bytes,
                                 .n_chunks = dt_manifest_chunks(shares->files[f].bytes)};
        file->chunks = dt_arena_alloc(save->memory, (size_t)file->n_chunks * DT_DIGEST_BYTES + 1);
        memcpy(file->chunks, digests[dt_save_first_chunk(shares, f)],
               (size_t)file->n_chunks * DT_DIGEST_BYTES);
    }
}

/* Writes which file has which tensor, for readers of several files; a single one needs none. */
static DtStatus write_index(const DtSave *save, const DtShares *shares, DtSavedFile kind)
{
    json_t *map = json_object();
    int64_t bytes = 0;
    uint32_t n = 0;
    for (uint32_t f = 0; f < shares->n_files; f++) {
        const DtSharesFile *file = &shares->files[f];
        if (file->kind != kind)
            continue;
        n++;
        bytes += file->bytes - file->header_bytes;
        for (uint32_t i = file->first; i < file->first + file->n; i++)
            json_object_set_new(map, shares->tensors[i].name, json_string(file->name));
    }
    json_t *root =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
    char *text = n > 1 && root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    DtStatus status = DT_OK;
    if (text)
        status = dt_file_write(dt_arena_printf(save->memory, "%s/%s.index.json", save->temporary,
                                               dt_manifest_files[kind]),
                               text, strlen(text));
    free(text);
    json_decref(root);
    return status;
}

/* Notes that the checkpoint is there, for attempts after this one. */
static void note_saved(const DtSave *save)
{
    DtShared *shared = save->shared;
    atomic_store(&shared->saved_step, save->manifest.steps);
    atomic_store(&shared->saved_useful_ns, shared->saving_useful_ns);
    atomic_store(&shared->has_saved, 1);
}

/* Writes the checkpoint's name into `latest`, and into `best` if its loss is the lowest. */
static DtStatus write_latest(const DtSave *save)
{
    const char *name = dt_arena_printf(save->memory, "%s\n", strrchr(save->path, '/') + 1);
    DtStatus status = dt_file_write(dt_arena_printf(save->memory, "%s/latest", save->folder), name,
                                    strlen(name));
    if (dt_status_ok(&status) && save->is_best)
        status = dt_file_write(dt_arena_printf(save->memory, "%s/best", save->folder), name,
                               strlen(name));
    return status;
}

DtStatus dt_save_commit(DtSave *save, const DtShares *shares,
                        const uint8_t (*digests)[DT_DIGEST_BYTES], DtStatus status)
{
    for (int kind = 0; kind < DT_SAVED_FILES && dt_status_ok(&status); kind++)
        status = write_index(save, shares, kind);
    if (dt_status_ok(&status)) {
        list_files(save, shares, digests);
        status = dt_manifest_write(
            dt_arena_printf(save->memory, "%s/" DT_MANIFEST_NAME, save->temporary),
            &save->manifest);
    }
    if (dt_status_ok(&status))
        status = dt_file_move_folder(save->temporary, save->path);
    if (dt_status_ok(&status))
        note_saved(save);
    /* Removes the temporary folder, whether the save succeeded or not. After a success it contains
     * an older checkpoint of the same step, which the rename exchanged with the new one; otherwise
     * an unfinished one. */
    DtStatus removed = dt_file_remove_folder(save->temporary);
    if (dt_status_ok(&status))
        status = removed;
    return dt_status_ok(&status) ? write_latest(save) : status;
}

DtStatus dt_save_failed(int64_t steps, const DtStatus *why)
{
    return dt_status_fail(why->code,
                          "the checkpoint after step %lld was not saved (earlier ones are "
                          "untouched): %.380s",
                          (long long)steps, why->message);
}

/* ---- the plain way ---- */

/* A file that rank 0 writes from its beginning to its end. */
typedef struct Plain {
    DtRank *rank;
    const DtShares *shares;
    DtSharedFile part;
    int64_t at, most;   /* bytes written so far; the most of a piece */
    char *piece, *held; /* a gathered piece, and one rank's part of it */
    DtDigest digest;    /* of the chunk so far */
    uint8_t (*chunks)[DT_DIGEST_BYTES]; /* the digest of the present chunk is the first */
} Plain;

static void add_to_digest(Plain *plain, const char *bytes, int64_t n)
{
    for (int64_t done = 0, some; done < n; done += some) {
        const int64_t in_chunk = (plain->at + done) % DT_CHUNK_BYTES;
        some = n - done < DT_CHUNK_BYTES - in_chunk ? n - done : DT_CHUNK_BYTES - in_chunk;
        if (in_chunk == 0)
            dt_digest_begin(&plain->digest);
        dt_digest_more(&plain->digest, bytes + done, (size_t)some);
        if (in_chunk + some == DT_CHUNK_BYTES)
            dt_digest_end(&plain->digest, *plain->chunks++);
    }
}

static DtStatus append(Plain *plain, const char *bytes, int64_t n)
{
    add_to_digest(plain, bytes, n);
    DtStatus status = dt_file_shared_write(&plain->part, plain->at, bytes, (size_t)n);
    plain->at += n;
    return status;
}

static DtStatus append_piece(Plain *plain, uint32_t i, int64_t first, int64_t n)
{
    DtRank *rank = plain->rank;
    const DtHome *home = &plain->shares->homes[i];
    const char *own = dt_pack_whole(rank, home->store, home->iteration);
    const int64_t e = dt_kinds_size(home->store->dtype);
    const DtPiece piece = {first / e, n / e};
    atomic_fetch_add(&rank->slot->progress, 1);
    if (own == NULL &&
        !dt_pack_gather(rank, home->store, home->iteration, piece, plain->held, plain->piece))
        return dt_rank_has_failed(rank)
                   ? rank->failure
                   : dt_status_fail(DT_EXIT_FAILED, "the run is being ended");
    const char *bytes = own ? own + first : plain->piece;
    if (!dt_save_is_sound(home->store, bytes, piece.n))
        return dt_save_unsound(home->store, plain->shares->tensors[i].name);
    return append(plain, bytes, n);
}

static DtStatus write_file(Plain *plain, const DtSharesFile *file, const char *path)
{
    DtStatus status = dt_file_shared_open(&plain->part, path);
    plain->at = 0;
    if (dt_status_ok(&status))
        status = dt_reserve_space(plain->part.fd, path, 0, file->bytes);
    if (dt_status_ok(&status))
        status = append(plain, file->header, file->header_bytes);
    for (uint32_t i = file->first; i < file->first + file->n; i++) {
        const int64_t bytes = plain->shares->tensors[i].bytes;
        for (int64_t first = 0; first < bytes && dt_status_ok(&status); first += plain->most)
            status = append_piece(plain, i, first,
                                  bytes - first < plain->most ? bytes - first : plain->most);
    }
    if (plain->at % DT_CHUNK_BYTES)
        dt_digest_end(&plain->digest, *plain->chunks++);
    return dt_file_shared_close(&plain->part, status);
}

/* Allocates memory for a piece of the largest tensor that this rank does not hold whole, and for
 * one rank's part of it: together at most DT_SAVE_BYTES. */
static void prepare(Plain *plain, DtArena *memory)
{
    int64_t bytes = 0;
    plain->most = plain->rank->save_piece ? plain->rank->save_piece : DT_SAVE_BYTES / 2;
    for (uint32_t i = 0; i < plain->shares->n; i++) {
        const DtHome *home = &plain->shares->homes[i];
        if (plain->shares->tensors[i].bytes > bytes &&
            !dt_pack_whole(plain->rank, home->store, home->iteration))
            bytes = plain->shares->tensors[i].bytes;
    }
    bytes = bytes < plain->most ? bytes : plain->most;
    plain->piece = bytes > 0 ? dt_arena_alloc(memory, (size_t)bytes) : NULL;
    plain->held = bytes > 0 ? dt_arena_alloc(memory, (size_t)bytes) : NULL;
}

static DtStatus write_files(DtRank *rank, DtArena *memory, const DtSave *save,
                            const DtShares *shares, uint8_t (*digests)[DT_DIGEST_BYTES])
{
    DtStatus status = DT_OK;
    Plain plain = {.rank = rank, .shares = shares, .chunks = digests};
    prepare(&plain, memory);
    for (uint32_t f = 0; f < shares->n_files && dt_status_ok(&status); f++)
        status = write_file(
            &plain, &shares->files[f],
            dt_arena_printf(memory, "%s/%s", save->temporary, shares->files[f].name));
    return status;
}

static DtStatus save_plainly(DtRank *rank, DtArena *memory, const char *folder, int64_t steps)
{
    DtSave save;
    DtShares shares;
    DtStatus status = dt_shares_list(
        rank->plan, memory, rank->save_file ? rank->save_file : DT_SHARES_FILE_BYTES, &shares);
    if (!dt_status_ok(&status))
        return status;
    uint8_t(*digests)[DT_DIGEST_BYTES] = dt_arena_alloc(
        memory, (size_t)dt_save_first_chunk(&shares, shares.n_files) * DT_DIGEST_BYTES + 1);
    dt_save_describe(rank, memory, folder, steps, &save);
    status = dt_save_prepare(&save, &shares);
    if (dt_status_ok(&status))
        status = write_files(rank, memory, &save, &shares, digests);
    return dt_save_commit(&save, &shares, (const uint8_t(*)[DT_DIGEST_BYTES])digests, status);
}

static bool save_and_serve(DtRank *rank, const char *folder, int64_t steps, DtStatus *ret_status)
{
    DtStatus status = DT_OK;
    *ret_status = DT_OK;
    /* Waits until the files that other nodes read here are complete. */
    if (rank->n_ranks > 1 && !rank->comm_ops->barrier(rank->comm, &rank->world))
        return false;
    if (rank->rank != 0) {
        if (!rank->comm_ops->serve(rank->comm, 0))
            return false;
        ret_status->code = atomic_load(&rank->shared->save_code);
        return true;
    }
    DtArena *memory = dt_arena_new();
    status = save_plainly(rank, memory, folder, steps);
    dt_arena_free(memory);
    if (!dt_status_ok(&status))
        *ret_status = dt_save_failed(steps, &status);
    /* A failed save does not end the run: at the next save the disk may have room again, or be
     * there again. */
    if (!dt_status_ok(&status) && status.code != DT_EXIT_IO)
        return dt_rank_fail_status(rank, ret_status);
    atomic_store(&rank->shared->save_code, status.code);
    if (rank->n_ranks > 1)
        rank->comm_ops->release(rank->comm);
    return true;
}

/* ---- any way ---- */

bool dt_checkpoint_begin(DtRank *rank, const char *folder, int64_t steps)
{
    return rank->saver ? dt_saver_begin(rank, folder, steps)
                       : save_and_serve(rank, folder, steps, &rank->save_status);
}

bool dt_checkpoint_is_over(DtRank *rank, DtStatus *ret_status)
{
    if (rank->saver)
        return dt_saver_is_over(rank, ret_status);
    *ret_status = rank->save_status;
    return true;
}

bool dt_checkpoint_finish(DtRank *rank, DtStatus *ret_status)
{
    if (rank->saver)
        return dt_saver_finish(rank, ret_status);
    *ret_status = rank->save_status;
    return true;
}

bool dt_checkpoint_save(DtRank *rank, const char *folder, int64_t steps, DtStatus *ret_status)
{
    return dt_checkpoint_begin(rank, folder, steps) && dt_checkpoint_finish(rank, ret_status);
}

DtStatus dt_checkpoint_trim(const DtRank *rank, const char *folder)
{
    DtArena *memory = dt_arena_new();
    const int64_t best = rank->meta.keep_best && rank->best.any ? rank->best.steps : -1;
    DtStatus status = dt_checkpointlist_trim(memory, folder, rank->meta.save_keep, best);
    dt_arena_free(memory);
    return status;
}
