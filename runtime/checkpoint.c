/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading: the stores of a plan as logical tensors, one per iteration of the loops that
 * stack a store, called by its pattern (h.3.attention.wq.w). model.safetensors holds parameters and
 * states, optimizer.safetensors the moments (moment1.h.3. ...). A parameter with a wide master copy
 * is saved as that copy, of which it is the rounding. Any plan of the same model loads them: floats
 * are widened, or rounded, to what it has.
 *
 * A checkpoint is written into a folder of another name, synced file by file, and put in place by
 * one rename. Older ones are removed only after that, and after a step from the new one had a
 * finite loss and norm (train.c), so whatever fails leaves at least what was there before. Rank 0
 * writes, from its own stores and from what it asks other ranks for: those of other stages of a
 * pipeline, and the parts of tensors that ranks share. Every rank loads for itself what it holds,
 * of the checkpoint that rank 0 chose for all (resume.c). */
#include "runtime/checkpoint.h"

#include "runtime/forms.h"
#include "runtime/prune.h"
#include "runtime/rank.h"

#include "base/hash.h"
#include "base/tryread.h"
#include "plan/report/memory.h"
#include "runtime/reduce.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- saving ---- */

/* Refuses to save parameters, moments and states that are not finite. A value whose initial value
 * is infinite (for example a running minimum) may still be infinite. */
static DtStatus check_finite(const DtPlanStore *store, const DtTensor *tensor, const void *bytes,
                             int64_t n)
{
    const bool begins_infinite = store->init == DT_PLAN_CONST && isinf(store->init_a);
    if (begins_infinite || !dt_kinds_is_float(tensor->dtype) ||
        !dt_wanted_is_spoilt(tensor->dtype, bytes, n / dt_kinds_size(tensor->dtype)))
        return DT_OK;
    if (store->kind == DT_PLAN_STATE)
        return dt_status_fail(DT_EXIT_FAILED,
                              "the state `%.100s` has numbers that are not finite; go on from an "
                              "earlier checkpoint, and "
                              "look at what the program assigns to it",
                              tensor->name);
    return dt_status_fail(
        DT_EXIT_FAILED,
        "`%.100s` has numbers that are not finite; go on from an earlier checkpoint with a lower "
        "learning rate, a longer warm-up or `clip`",
        tensor->name);
}

static const void *bytes_of(void *context, uint32_t i, int64_t first, int64_t n,
                            DtStatus *ret_status)
{
    DtWanted *wanted = context;
    DtRank *rank = wanted->rank;
    const DtHome *home = &wanted->homes[i];
    const char *own = dt_pack_whole(rank, home->store, home->iteration);
    const int64_t e = dt_kinds_size(home->store->dtype);
    const DtPiece piece = {first / e, n / e};
    atomic_fetch_add(&rank->slot->progress, 1);
    if (own == NULL &&
        !dt_pack_gather(rank, home->store, home->iteration, piece, wanted->part, wanted->piece)) {
        *ret_status = dt_status_ok(&rank->failure)
                          ? dt_status_fail(DT_EXIT_FAILED, "the run is being ended")
                          : rank->failure;
        return NULL;
    }
    const void *bytes = own ? own + first : wanted->piece;
    *ret_status = check_finite(home->store, &wanted->tensors[i], bytes, n);
    return bytes;
}

/* Allocates memory for a piece of the largest tensor that this rank does not hold whole, and for
 * one rank's part of it: together at most DT_SAVE_BYTES. */
static void prepare(DtWanted *wanted, DtArena *memory)
{
    int64_t bytes = 0;
    wanted->most = wanted->rank->save_piece ? wanted->rank->save_piece : DT_SAVE_BYTES / 2;
    for (uint32_t i = 0; i < wanted->n; i++) {
        const DtHome *home = &wanted->homes[i];
        if (wanted->tensors[i].bytes > bytes &&
            !dt_pack_whole(wanted->rank, home->store, home->iteration))
            bytes = wanted->tensors[i].bytes;
    }
    bytes = bytes < wanted->most ? bytes : wanted->most;
    wanted->piece = bytes > 0 ? dt_arena_alloc(memory, (size_t)bytes) : NULL;
    wanted->part = bytes > 0 ? dt_arena_alloc(memory, (size_t)bytes) : NULL;
}

static DtStatus write_files(DtRank *rank, DtArena *memory, const char *folder, DtManifest *manifest)
{
    DtStatus status = DT_OK;
    for (int f = 0; f < DT_SAVED_FILES && dt_status_ok(&status); f++) {
        DtWanted wanted;
        DtArena *pieces = dt_arena_new();
        DtManifestFile *file = &manifest->files[f];
        status = dt_wanted_list(rank, memory, f, &wanted);
        prepare(&wanted, pieces);
        if (dt_status_ok(&status))
            status = dt_safetensors_write(
                dt_arena_printf(memory, "%s/%s", folder, dt_manifest_files[f]), wanted.tensors,
                wanted.n, wanted.most, bytes_of, &wanted, &file->id);
        dt_arena_free(pieces);
        file->tensors = wanted.tensors;
        file->n = wanted.n;
    }
    if (dt_status_ok(&status))
        status =
            dt_manifest_write(dt_arena_printf(memory, "%s/" DT_MANIFEST_NAME, folder), manifest);
    return status;
}

/* Sets ret_serial to the serial number of the new checkpoint: the time, or more if any checkpoint
 * in the folder has a larger number, even one whose manifest cannot be read now. Otherwise that one
 * could later seem to be the newest. */
static DtStatus next_serial(DtArena *memory, const char *folder, int64_t *ret_serial)
{
    DtCheckpointList list;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    DtStatus status = dt_checkpointlist_read(memory, folder, &list);
    const DtCheckpointEntry *newest =
        dt_status_ok(&status) ? dt_checkpointlist_newest(&list) : NULL;
    *ret_serial = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (newest && newest->serial >= *ret_serial)
        *ret_serial = newest->serial + 1;
    return status;
}

/* Writes the checkpoint's name into `latest`, and into `best` if its loss is the lowest. */
static DtStatus write_latest(const DtRank *rank, DtArena *memory, const char *folder,
                             const char *path, int64_t steps)
{
    const char *name = dt_arena_printf(memory, "%s\n", strrchr(path, '/') + 1);
    const bool is_best = rank->meta.keep_best && rank->best.any && rank->best.steps == steps;
    DtStatus status =
        dt_file_write(dt_arena_printf(memory, "%s/latest", folder), name, strlen(name));
    if (dt_status_ok(&status) && is_best)
        status = dt_file_write(dt_arena_printf(memory, "%s/best", folder), name, strlen(name));
    return status;
}

static DtStatus save(DtRank *rank, DtArena *memory, const char *folder, int64_t steps)
{
    const DtPlan *plan = rank->plan;
    char path[4096], temporary[4096];
    DtManifest manifest = {.steps = steps,
                           .samples = rank->origin + steps * rank->meta.batch,
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
    for (uint32_t i = 0; i < plan->n_objectives; i++)
        manifest.updates[i] = (DtManifestUpdates){dt_plan_str(plan, plan->objectives[i].loss),
                                                  rank->updates[i]};
    DtStatus status = dt_checkpointlist_paths(folder, steps, path, temporary);
    if (dt_status_ok(&status))
        status = dt_file_make_folder(folder);
    if (dt_status_ok(&status))
        status = dt_checkpointlist_clean(memory, folder);
    if (dt_status_ok(&status))
        status = next_serial(memory, folder, &manifest.serial);
    if (dt_status_ok(&status))
        status = dt_file_make_folder(temporary);
    if (dt_status_ok(&status))
        status = write_files(rank, memory, temporary, &manifest);
    if (dt_status_ok(&status))
        status = dt_file_move_folder(temporary, path);
    /* Removes the temporary folder, whether the save succeeded or not. After a success it contains
     * an older checkpoint of the same step, which the rename exchanged with the new one; otherwise
     * an unfinished one. */
    DtStatus removed = dt_file_remove_folder(temporary);
    if (dt_status_ok(&status))
        status = removed;
    return dt_status_ok(&status) ? write_latest(rank, memory, folder, path, steps) : status;
}

bool dt_checkpoint_save(DtRank *rank, const char *folder, int64_t steps, DtStatus *ret_status)
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
    status = save(rank, memory, folder, steps);
    dt_arena_free(memory);
    if (!dt_status_ok(&status))
        *ret_status =
            dt_status_fail(status.code,
                           "the checkpoint after step %lld was not saved (earlier ones are "
                           "untouched): %.380s",
                           (long long)steps, status.message);
    /* A failed save does not end the run: at the next save the disk may have room again, or be
     * there again. */
    if (!dt_status_ok(&status) && status.code != DT_EXIT_IO)
        return dt_rank_fail_status(rank, ret_status);
    atomic_store(&rank->shared->save_code, status.code);
    if (rank->n_ranks > 1)
        rank->comm_ops->release(rank->comm);
    return true;
}

DtStatus dt_checkpoint_trim(const DtRank *rank, const char *folder)
{
    DtArena *memory = dt_arena_new();
    const int64_t best = rank->meta.keep_best && rank->best.any ? rank->best.steps : -1;
    DtStatus status = dt_checkpointlist_trim(memory, folder, rank->meta.save_keep, best);
    dt_arena_free(memory);
    return status;
}

/* ---- loading ---- */

static void add_type(DtText *text, const DtTensor *tensor)
{
    dt_text_printf(text, "%s[", dt_kinds_name(tensor->dtype));
    for (uint32_t a = 0; a < tensor->n_axes; a++)
        dt_text_printf(text, "%s%lld", a ? ", " : "", (long long)tensor->extents[a]);
    dt_text_add(text, "]");
}

/* Whether the values of one tensor can be stored as the other: both have equal extents, and equal
 * dtypes or two float dtypes. */
static bool same_type(const DtTensor *x, const DtTensor *y)
{
    return (x->dtype == y->dtype || (dt_kinds_is_float(x->dtype) && dt_kinds_is_float(y->dtype))) &&
           x->n_axes == y->n_axes &&
           memcmp(x->extents, y->extents, x->n_axes * sizeof x->extents[0]) == 0;
}

enum { SHOWN = 2 }; /* at most this many names of each kind are in a message */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Finds names in `of` that are not in `names`, which are sorted. Appends to the text how many they
 * are, and the first of them. */
static void add_absent(DtText *text, const char *what, const DtTensor *of, uint32_t n_of,
                       const char *const *names, uint32_t n_names, uint32_t *ret_wrong)
{
    DtText shown = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_of; i++) {
        if ((n_names && bsearch(&of[i].name, names, n_names, sizeof *names, by_bytes)) ||
            n++ >= SHOWN)
            continue;
        const char *near = dt_text_nearest(of[i].name, names, n_names);
        dt_text_printf(&shown, "%s`%.60s`", n > 1 ? ", " : "", of[i].name);
        if (near)
            dt_text_printf(&shown, " (nearest: `%.60s`)", near);
    }
    if (n)
        dt_text_printf(text, "; %u %s: %s%s", n, what, shown.at, n > SHOWN ? ", ..." : "");
    *ret_wrong += n;
    dt_text_free(&shown);
}

static const char **names_of(DtArena *memory, const DtTensor *tensors, uint32_t n)
{
    const char **names = DT_NEW_ARRAY(memory, const char *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        names[i] = tensors[i].name;
    qsort(names, n, sizeof *names, by_bytes);
    return names;
}

static void add_other_types(DtText *text, const DtWanted *wanted, const DtTensorFile *file,
                            uint32_t *ret_wrong)
{
    uint32_t n = 0;
    DtText shown = {0};
    for (uint32_t i = 0; i < wanted->n; i++) {
        const DtTensor *here = &wanted->tensors[i], *there = dt_safetensors_find(file, here->name);
        if (there == NULL || same_type(here, there) || n++ >= SHOWN)
            continue;
        dt_text_printf(&shown, "%s`%.60s` is ", n > 1 ? ", " : "", here->name);
        add_type(&shown, there);
        dt_text_add(&shown, " and should be ");
        add_type(&shown, here);
    }
    if (n)
        dt_text_printf(text, "; %u of another type: %s%s", n, shown.at, n > SHOWN ? ", ..." : "");
    *ret_wrong += n;
    dt_text_free(&shown);
}

/* Returns the sorted names that the file may have: those that are wanted and, if `renamed`, also
 * those of the copies, which take the tensors of their originals. */
static const char **known_names(DtArena *memory, const DtWanted *wanted, bool renamed,
                                uint32_t *ret_n)
{
    const char **names = DT_NEW_ARRAY(memory, const char *, 2 * wanted->n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < wanted->n; i++) {
        const uint32_t copy = renamed ? wanted->homes[i].store->copy : 0;
        names[n++] = wanted->tensors[i].name;
        if (copy > 0)
            names[n++] = wanted->tensors[i].name - copy;
    }
    qsort(names, n, sizeof *names, by_bytes);
    *ret_n = n;
    return names;
}

/* What to do if only one of plan and file has averages of parameters; else "". resumes: the run
 * trains on, and does not only evaluate. */
static const char *averages_advice(const DtWanted *wanted, const DtTensorFile *file, bool resumes)
{
    bool here = false, there = false;
    for (uint32_t i = 0; i < wanted->n; i++)
        here = here || wanted->homes[i].store->kind == DT_PLAN_AVERAGE;
    for (uint32_t i = 0; i < file->n; i++)
        there = there || strncmp(file->tensors[i].name, DT_AVERAGE_PREFIX,
                                 strlen(DT_AVERAGE_PREFIX)) == 0;
    return here == there ? ""
           : !resumes    ? ", which keeps averages (--average none reads the parameters)"
           : here        ? ", which keeps averages (--weights begins anew with them)"
                         : ", which keeps no averages (--weights begins anew without them)";
}

/* Whether the file holds exactly the wanted tensors. partial: it may have others, too; renamed: it
 * may have the copies, too; doubled: a tensor may be wanted twice. */
static DtStatus check_fit(DtArena *memory, const char *path, const DtWanted *wanted,
                          const DtTensorFile *file, bool partial, bool renamed, bool doubled)
{
    bool equal = !renamed && !doubled && (partial || wanted->n == file->n);
    for (uint32_t i = 0; i < wanted->n && equal; i++) {
        const DtTensor *there = dt_safetensors_find(file, wanted->tensors[i].name);
        equal = there != NULL && same_type(there, &wanted->tensors[i]);
    }
    if (equal)
        return DT_OK;
    DtText text = {0};
    uint32_t wrong = 0, n_here;
    const char **here = known_names(memory, wanted, renamed, &n_here),
               **there = names_of(memory, file->tensors, file->n);
    add_absent(&text, "missing", wanted->tensors, wanted->n, there, file->n, &wrong);
    if (!partial)
        add_absent(&text, "not in the plan", file->tensors, file->n, here, n_here, &wrong);
    add_other_types(&text, wanted, file, &wrong);
    DtStatus status = dt_status_fail(DT_EXIT_FAILED, "%.160s does not fit the plan%s%s", path,
                                     doubled ? "" : averages_advice(wanted, file, !partial),
                                     wrong ? text.at : ": it names a tensor twice");
    if ((renamed || doubled) && wrong == 0)
        status = DT_OK;
    dt_text_free(&text);
    return status;
}

static const DtTensor *find_tensor(const DtManifestFile *file, const char *name)
{
    uint32_t lo = 0, hi = file->n;
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        int order = strcmp(file->tensors[middle].name, name);
        if (order == 0)
            return &file->tensors[middle];
        if (order < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    return NULL;
}

/* Allocates memory for a piece of the largest tensor that has another dtype in the file than here,
 * or is pruned: at most half of DT_SAVE_BYTES. */
static void prepare_to_convert(DtWanted *wanted, DtArena *memory, const DtTensorFile *file,
                               DtPrune *const *prunes)
{
    const DtPlan *plan = wanted->rank->plan;
    int64_t most = 0;
    for (uint32_t i = 0; i < wanted->n; i++) {
        const DtTensor *there = dt_safetensors_find(file, wanted->tensors[i].name);
        const DtPlanStore *store = wanted->homes[i].store;
        int64_t n = there->bytes / dt_kinds_size(there->dtype);
        bool rounds =
            store->kind == DT_PLAN_MASTER && plan->stores[store->of].dtype != there->dtype;
        const bool converts = store->dtype != there->dtype || rounds || prunes[i];
        if (converts && n * (int64_t)sizeof(float) > most)
            most = n * (int64_t)sizeof(float);
    }
    wanted->most = wanted->rank->save_piece ? wanted->rank->save_piece : DT_SAVE_BYTES / 2;
    most = most < wanted->most ? most : wanted->most;
    wanted->converted = most > 0 ? dt_arena_alloc(memory, (size_t)most) : NULL;
}

/* ---- a file that somebody may cut short ---- */

/* A read of a tensor in a mapped file, with its arguments and result; dt_tryread calls it. */
typedef struct Reading {
    const DtTensor *tensor;
    uint64_t digest; /* run_digest: the result */
    DtPiece piece;   /* run_conversion: which elements, and where they go in another dtype */
    void *to;
    uint32_t to_dtype;
    DtPrune *prune;  /* run_conversion, run_measure: what becomes zero; NULL: nothing */
} Reading;

static void run_digest(void *context)
{
    Reading *r = context;
    r->digest = dt_hash_bytes(r->tensor->at, (size_t)r->tensor->bytes, 0);
}

static void run_conversion(void *context)
{
    const Reading *r = context;
    const int64_t first = r->piece.first * dt_kinds_size(r->tensor->dtype);
    dt_reduce_convert(r->to, r->to_dtype, (const char *)r->tensor->at + first, r->tensor->dtype,
                      r->piece.n);
    if (r->prune)
        dt_prune_piece(r->prune, r->tensor, r->piece, r->to, r->to_dtype);
}

static void run_measure(void *context)
{
    const Reading *r = context;
    dt_prune_measure(r->prune, r->tensor);
}

/* Converts and takes the tensor piece by piece. */
static const uint8_t *take_converted(const DtWanted *wanted, const DtPlanStore *store,
                                     int64_t iteration, const DtTensor *tensor,
                                     const DtFileView *view, DtPrune *prune)
{
    const int64_t n = tensor->bytes / dt_kinds_size(tensor->dtype),
                  most = wanted->most / (int64_t)sizeof(float);
    for (DtPiece piece = {0, 0}; piece.first < n; piece.first += piece.n) {
        piece.n = n - piece.first < most ? n - piece.first : most;
        if (dt_pack_held(wanted->rank, store, piece).n == 0)
            continue;
        Reading conversion = {.tensor = tensor, .piece = piece, .to = wanted->converted,
                              .to_dtype = store->dtype, .prune = prune};
        const uint8_t *missing = dt_tryread(view, run_conversion, &conversion);
        if (missing)
            return missing;
        dt_pack_take_piece(wanted->rank, store, iteration, piece, wanted->converted);
        atomic_fetch_add(&wanted->rank->slot->progress, 1);
    }
    return NULL;
}

/* Copies the tensor to one iteration of the store, in its dtype. Returns NULL, or the address that
 * could not be read. `take` returns the same. */
static const uint8_t *take_as(const DtWanted *wanted, const DtPlanStore *store, int64_t iteration,
                              const DtTensor *tensor, const DtFileView *view, DtPrune *prune)
{
    const DtRank *rank = wanted->rank;
    if (!dt_plan_on_stage(store->stage, rank->stage))
        return NULL;
    if (store->dtype == tensor->dtype && !prune)
        return dt_pack_take(rank, store, iteration, (const char *)tensor->at, view);
    return take_converted(wanted, store, iteration, tensor, view, prune);
}

/* Copies a saved value to its store. If the store is a master copy, also writes the rounded value
 * to the parameter. */
static const uint8_t *take(const DtWanted *wanted, const DtHome *home, const DtTensor *tensor,
                           const DtFileView *view, DtPrune *prune)
{
    const DtPlanStore *store = home->store;
    Reading measure = {.tensor = tensor, .prune = prune};
    const uint8_t *missing = prune ? dt_tryread(view, run_measure, &measure) : NULL;
    missing = missing ? missing : take_as(wanted, store, home->iteration, tensor, view, prune);
    if (missing || store->kind != DT_PLAN_MASTER)
        return missing;
    return take_as(wanted, &wanted->rank->plan->stores[store->of], home->iteration, tensor, view,
                   prune);
}

static DtStatus copy_tensors(const char *path, const DtWanted *wanted, const DtTensorFile *file,
                             const DtManifestFile *said, DtPrune *const *prunes)
{
    const DtRank *rank = wanted->rank;
    for (uint32_t i = 0; i < wanted->n; i++) {
        const DtHome *home = &wanted->homes[i];
        if (!dt_plan_on_stage(home->store->stage, rank->stage))
            continue;
        const DtTensor *tensor = dt_safetensors_find(file, wanted->tensors[i].name);
        const DtTensor *claim = find_tensor(said, tensor->name);
        Reading digest = {.tensor = tensor};
        const uint8_t *missing = dt_tryread(&file->view, run_digest, &digest);
        if (!missing && (claim == NULL || claim->digest != digest.digest))
            return dt_status_fail(
                DT_EXIT_IO,
                "%.300s is damaged: tensor `%.100s` has another digest than the manifest "
                "says",
                path, tensor->name);
        missing = missing ? missing : take(wanted, home, tensor, &file->view, prunes[i]);
        if (missing)
            return dt_safetensors_cut(path, file, missing);
        atomic_fetch_add(&wanted->rank->slot->progress, 1);
    }
    return DT_OK;
}

/* Removes tensors that no pattern of --only matches; each pattern matches some. */
static DtStatus keep_matching(const DtRunOptions *options, DtWanted *wanted)
{
    bool used[DT_COUNT(options->only)] = {false};
    uint32_t n = 0;
    for (uint32_t i = 0; i < wanted->n; i++) {
        bool matches = false;
        for (uint32_t p = 0; p < options->n_only; p++)
            if (fnmatch(options->only[p], wanted->tensors[i].name, FNM_NOESCAPE) == 0)
                matches = used[p] = true;
        if (!matches)
            continue;
        wanted->tensors[n] = wanted->tensors[i];
        wanted->homes[n++] = wanted->homes[i];
    }
    wanted->n = n;
    for (uint32_t p = 0; p < options->n_only; p++)
        if (!used[p])
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--only %.100s: no parameter of the plan has a path that matches "
                                  "(`dtc --params` lists them)",
                                  options->only[p]);
    return DT_OK;
}

/* Gives copies the tensors of their originals, with whose weights a run with --weights begins.
 * Whether there are copies. */
static bool name_originals(DtWanted *wanted)
{
    bool any = false;
    for (uint32_t i = 0; i < wanted->n; i++) {
        wanted->tensors[i].name += wanted->homes[i].store->copy;
        any = any || wanted->homes[i].store->copy > 0;
    }
    return any;
}

/* Removes the tensors of adapters that the file does not have: they keep their initial values. */
static void leave_adapters(DtWanted *wanted, const DtTensorFile *file)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < wanted->n; i++) {
        if (wanted->homes[i].store->adapter &&
            !dt_safetensors_find(file, wanted->tensors[i].name))
            continue;
        wanted->tensors[n] = wanted->tensors[i];
        wanted->homes[n++] = wanted->homes[i];
    }
    wanted->n = n;
}

/* Refuses to prune parameters whose averages the checkpoint has: evaluation would read these as
 * they were. */
static DtStatus check_pruned(const DtRank *rank, const DtWanted *wanted)
{
    const bool prunes =
        rank->options && rank->options->n_prune > 0 && !atomic_load(&rank->shared->has_saved);
    for (uint32_t i = 0; prunes && i < wanted->n; i++)
        if (wanted->homes[i].store->kind == DT_PLAN_AVERAGE)
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--prune and --resume: the checkpoint has averages of parameters "
                                  "(`%.100s`), which are not pruned; --weights begins anew, with "
                                  "averages of what is left",
                                  wanted->tensors[i].name);
    return DT_OK;
}

/* Removes everything but averages from the tensors of the optimizer's file. */
static void keep_averages(DtWanted *wanted)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < wanted->n; i++) {
        if (wanted->homes[i].store->kind != DT_PLAN_AVERAGE)
            continue;
        wanted->tensors[n] = wanted->tensors[i];
        wanted->homes[n++] = wanted->homes[i];
    }
    wanted->n = n;
}

static DtStatus load_file(DtRank *rank, DtArena *memory, const char *folder, DtSavedFile number,
                          const DtManifest *manifest, bool weights_only)
{
    DtWanted wanted;
    DtTensorFile file;
    const char *path = dt_arena_printf(memory, "%s/%s", folder, dt_manifest_files[number]);
    const DtManifestFile *said = &manifest->files[number];
    const bool only = weights_only && rank->options && rank->options->n_only;
    /* evaluation reads averages, which are in the file with the moments */
    const bool averages = weights_only && number == DT_SAVED_OPTIMIZER;
    const bool partial = only || averages;
    const bool begins = weights_only && rank->options && rank->options->weights;
    /* averages begin as their parameters, or are left for these */
    const bool as_averages = begins || (weights_only && rank->options && rank->options->no_average);
    DtStatus status = dt_wanted_list(rank, memory, number, &wanted);
    const bool renamed = dt_status_ok(&status) && begins && name_originals(&wanted);
    if (dt_status_ok(&status) && as_averages)
        status = dt_wanted_averages(rank, memory, &wanted);
    if (dt_status_ok(&status) && averages) {
        keep_averages(&wanted);
        if (as_averages || wanted.n == 0)
            return DT_OK;
    }
    if (dt_status_ok(&status) && number == DT_SAVED_OPTIMIZER)
        status = check_pruned(rank, &wanted);
    if (dt_status_ok(&status) && only)
        status = keep_matching(rank->options, &wanted);
    if (dt_status_ok(&status))
        status = dt_safetensors_open(memory, path, &file);
    if (!dt_status_ok(&status))
        return status;
    if (file.id.bytes != said->id.bytes || file.id.header != said->id.header)
        status = dt_status_fail(
            DT_EXIT_IO, "%.300s is damaged: its header is not the one that was written", path);
    if (dt_status_ok(&status) && !partial && begins)
        leave_adapters(&wanted, &file);
    if (dt_status_ok(&status))
        status = check_fit(memory, path, &wanted, &file, partial, renamed, as_averages);
    /* what the run itself has saved is pruned already */
    const bool prunes = number == DT_SAVED_MODEL && !atomic_load(&rank->shared->has_saved);
    DtPrune **pruned;
    if (dt_status_ok(&status))
        status = dt_prune_list(memory, prunes ? rank->options : NULL, &wanted, &pruned);
    if (dt_status_ok(&status))
        prepare_to_convert(&wanted, memory, &file, pruned);
    if (dt_status_ok(&status))
        status = copy_tensors(path, &wanted, &file, said, pruned);
    dt_safetensors_close(&file);
    return status;
}

DtStatus dt_checkpoint_read(DtRank *rank, DtArena *memory, const char *path, int64_t serial,
                            bool weights_only, DtManifest *ret_manifest)
{
    DtStatus status = dt_manifest_read(
        memory, dt_arena_printf(memory, "%s/" DT_MANIFEST_NAME, path), ret_manifest);
    if (dt_status_ok(&status) && ret_manifest->serial != serial)
        status = dt_status_fail(DT_EXIT_IO, "%.300s was replaced while it was read", path);
    for (int f = 0; f < DT_SAVED_FILES && dt_status_ok(&status); f++)
        status = load_file(rank, memory, path, f, ret_manifest, weights_only);
    return status;
}
