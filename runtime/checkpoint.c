/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: the stores of a plan as logical tensors, one per iteration of the loops that stack a
 * store, called by its pattern (h.3.attention.wq.w). Any plan of the same model loads what another
 * has saved (save.c): floats are widened, or rounded, to what it has. Every rank takes what it
 * holds, of the checkpoint that rank 0 chose for all (resume.c); all ranks of a machine read it
 * together (checkpoint_shares.c). */
#include "runtime/checkpoint.h"

#include "runtime/load_ring.h"
#include "runtime/prune.h"
#include "runtime/rank.h"

#include "base/tryread.h"
#include "plan/report/memory.h"
#include "runtime/reduce.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

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

static bool has_prefix(const DtTensor *tensors, uint32_t n, const char *prefix)
{
    bool has = false;
    for (uint32_t i = 0; i < n; i++)
        has = has || strncmp(tensors[i].name, prefix, strlen(prefix)) == 0;
    return has;
}

/* What to do if only one of plan and file has averages of parameters, or replicas; else "".
 * resumes: the run trains on, and does not only evaluate. */
static const char *averages_advice(const DtWanted *wanted, const DtTensorFile *file, bool resumes)
{
    const bool here = has_prefix(wanted->tensors, wanted->n, DT_AVERAGE_PREFIX),
               there = has_prefix(file->tensors, file->n, DT_AVERAGE_PREFIX),
               splits = has_prefix(wanted->tensors, wanted->n, DT_REPLICA_PREFIX),
               was_split = has_prefix(file->tensors, file->n, DT_REPLICA_PREFIX);
    if (splits != was_split)
        return splits ? ", which trains replicas (--weights begins all of them anew)"
                      : ", which trains no replicas (--weights begins anew with their average)";
    return here == there ? ""
           : !resumes    ? ", which keeps averages (--average none reads the parameters)"
           : here        ? ", which keeps averages (--weights begins anew with them)"
                         : ", which keeps no averages (--weights begins anew without them)";
}

/* What is taken of a file, and how. */
enum {
    LOAD_AVERAGES = 1 << 0,    /* of the optimizer's file the averages of parameters alone */
    LOAD_MATCHING = 1 << 1,    /* what --only matches */
    LOAD_PARTIAL = 1 << 2,     /* the file may have tensors that are not wanted */
    LOAD_ORIGINALS = 1 << 3,   /* copies take the tensors of their originals (--weights) */
    LOAD_ADAPTERS = 1 << 4,    /* adapters that the file lacks keep their initial values */
    LOAD_AS_AVERAGES = 1 << 5, /* averages take the tensors of their parameters, which a run begins
                                * or evaluates with */
    LOAD_PRUNED = 1 << 6       /* --prune: what the run itself has saved is pruned already */
};

/* Whether the file holds exactly the wanted tensors, or as the bits say: PARTIAL others, too;
 * ORIGINALS the copies, too; AS_AVERAGES: a tensor may be wanted twice. */
static DtStatus check_fit(DtArena *memory, const char *path, const DtWanted *wanted,
                          const DtTensorFile *file, unsigned bits)
{
    const bool partial = bits & LOAD_PARTIAL, renamed = bits & LOAD_ORIGINALS,
               doubled = bits & LOAD_AS_AVERAGES;
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

/* ---- taking ---- */

/* A piece of a tensor: n elements from number `first` on, at `at`. view: the mapped file in which
 * they are, which somebody may cut short, or NULL: memory of the ranks. */
typedef struct Source {
    const DtTensor *tensor;
    DtPiece piece;
    const char *at;
    const DtFileView *view;
    DtPrune *prune; /* what becomes zero; NULL: nothing */
} Source;

/* A read of some elements, with its arguments; dt_tryread calls it. */
typedef struct Reading {
    const Source *from;
    DtPiece piece; /* run_conversion: which elements, and where they go in another dtype */
    void *to;
    uint32_t to_dtype;
} Reading;

static void run_conversion(void *context)
{
    const Reading *r = context;
    const Source *from = r->from;
    const int64_t first = (r->piece.first - from->piece.first) * dt_kinds_size(from->tensor->dtype);
    dt_reduce_convert(r->to, r->to_dtype, from->at + first, from->tensor->dtype, r->piece.n);
    if (from->prune)
        dt_prune_piece(from->prune, from->tensor, r->piece, r->to, r->to_dtype);
}

static void run_measure(void *context)
{
    const Reading *r = context;
    dt_prune_measure(r->from->prune, r->from->tensor);
}

/* Returns NULL, or the address in the view that could not be read. */
static const uint8_t *try_read(const Source *from, void (*run)(void *), Reading *reading)
{
    if (from->view)
        return dt_tryread(from->view, run, reading);
    run(reading);
    return NULL;
}

/* Converts and takes the elements piece by piece. */
static const uint8_t *take_converted(const DtWanted *wanted, const DtPlanStore *store,
                                     int64_t iteration, const Source *from)
{
    const DtRank *rank = wanted->rank;
    const int64_t end = from->piece.first + from->piece.n,
                  most = wanted->most / (int64_t)sizeof(float);
    for (DtPiece piece = {from->piece.first, 0}; piece.first < end; piece.first += piece.n) {
        piece.n = end - piece.first < most ? end - piece.first : most;
        if (dt_pack_held(rank->plan, rank->coord, store, piece).n == 0)
            continue;
        Reading conversion = {.from = from, .piece = piece, .to = wanted->converted,
                              .to_dtype = store->dtype};
        const uint8_t *missing = try_read(from, run_conversion, &conversion);
        if (missing)
            return missing;
        dt_pack_take_piece(rank, store, iteration, piece, wanted->converted);
        atomic_fetch_add(&rank->slot->progress, 1);
    }
    return NULL;
}

/* Copies the elements to one iteration of the store, in its dtype. Returns NULL, or the address
 * that could not be read. `take` returns the same. */
static const uint8_t *take_as(const DtWanted *wanted, const DtPlanStore *store, int64_t iteration,
                              const Source *from)
{
    const DtRank *rank = wanted->rank;
    if (!dt_plan_on_stage(store->stage, rank->stage))
        return NULL;
    if (store->dtype != from->tensor->dtype || from->prune)
        return take_converted(wanted, store, iteration, from);
    if (from->view)
        return dt_pack_take(rank, store, iteration, from->at, from->view);
    dt_pack_take_piece(rank, store, iteration, from->piece, from->at);
    return NULL;
}

/* Copies saved values to their store. If the store is a master copy, also writes the rounded values
 * to the parameter. */
static const uint8_t *take(const DtWanted *wanted, const DtHome *home, const Source *from)
{
    const DtPlanStore *store = home->store;
    Reading measure = {.from = from};
    const uint8_t *missing = from->prune ? try_read(from, run_measure, &measure) : NULL;
    missing = missing ? missing : take_as(wanted, store, home->iteration, from);
    if (missing || store->kind != DT_PLAN_MASTER)
        return missing;
    return take_as(wanted, &wanted->rank->plan->stores[store->of], home->iteration, from);
}

/* What a load of one kind of files has besides the tensors. */
typedef struct Pruning {
    DtPrune **of; /* by wanted tensor; NULL: nothing of it becomes zero */
    /* the pieces of a tensor of which something does: as many bytes as the largest has */
    char *together;
} Pruning;

/* Collects the pieces of a tensor that is taken whole. Returns whether it is complete. */
static bool collect(const Pruning *pruning, const DtTensor *tensor, DtPiece piece, const char *at)
{
    const int64_t e = dt_kinds_size(tensor->dtype);
    memcpy(pruning->together + piece.first * e, at, (size_t)(piece.n * e));
    return (piece.first + piece.n) * e == tensor->bytes;
}

/* Copies a piece of a tensor to its store, or all of it from the mapped file (DtLoading.take). */
static DtStatus take_tensor(DtLoading *loading, uint32_t i, DtPiece piece, const char *at)
{
    const DtWanted *wanted = &loading->wanted;
    const Pruning *pruning = loading->context;
    DtTensor tensor = *loading->from[i];
    const DtPiece all = {0, tensor.bytes / dt_kinds_size(tensor.dtype)};
    Source from = {.tensor = &tensor, .piece = piece, .at = at, .prune = pruning->of[i]};
    if (!at) {
        from.piece = all;
        from.at = (const char *)tensor.at;
        from.view = &loading->files.files[tensor.file].view;
    } else if (from.prune) {
        if (!collect(pruning, &tensor, piece, at))
            return DT_OK;
        from.piece = all;
        from.at = pruning->together;
        tensor.at = (const uint8_t *)pruning->together;
    }
    const uint8_t *missing = take(wanted, &wanted->homes[i], &from);
    atomic_fetch_add(&wanted->rank->slot->progress, 1);
    return missing ? dt_checkpointfiles_cut(&loading->files, loading->from[i], missing) : DT_OK;
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

/* Refuses to prune parameters of which the checkpoint has others besides: averages, which
 * evaluation would read as they were, or those of replicas, which would train on as they were. */
static DtStatus check_pruned(const DtRank *rank, const DtWanted *wanted)
{
    const bool prunes =
        rank->options && rank->options->n_prune > 0 && !atomic_load(&rank->shared->has_saved);
    for (uint32_t i = 0; prunes && i < wanted->n; i++) {
        const char *name = wanted->tensors[i].name;
        const bool replica =
            strncmp(name, DT_REPLICA_PREFIX, sizeof DT_REPLICA_PREFIX - 1) == 0;
        if (replica || wanted->homes[i].store->kind == DT_PLAN_AVERAGE)
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--prune and --resume: the checkpoint has %s (`%.100s`), which "
                                  "are not pruned; --weights begins anew, with %s of what is left",
                                  replica ? "replicas" : "averages of parameters", name,
                                  replica ? "replicas" : "averages");
    }
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

static unsigned load_bits(const DtRank *rank, DtSavedFile number, bool weights_only)
{
    static const DtRunOptions none;
    const DtRunOptions *options = rank->options ? rank->options : &none;
    const bool is_model = number == DT_SAVED_MODEL, begins = weights_only && options->weights;
    unsigned bits = 0;
    if (weights_only && !is_model)
        bits |= LOAD_AVERAGES | LOAD_PARTIAL;
    if (weights_only && options->n_only)
        bits |= LOAD_MATCHING | LOAD_PARTIAL;
    if (begins)
        bits |= LOAD_ORIGINALS | (bits & LOAD_PARTIAL ? 0 : LOAD_ADAPTERS);
    if (begins || (weights_only && options->no_average))
        bits |= LOAD_AS_AVERAGES;
    if (is_model && options->n_prune > 0 && !atomic_load(&rank->shared->has_saved))
        bits |= LOAD_PRUNED;
    return bits;
}

/* Lists the tensors that the rank takes of a file; none: it is not opened. */
static DtStatus list_wanted(DtRank *rank, DtArena *memory, DtSavedFile number, unsigned *bits,
                            DtWanted *ret_wanted)
{
    DtStatus status = dt_wanted_list(rank, memory, number, ret_wanted);
    if (dt_status_ok(&status) && (*bits & LOAD_ORIGINALS) && !name_originals(ret_wanted))
        *bits &= ~(unsigned)LOAD_ORIGINALS;
    if (dt_status_ok(&status) && (*bits & LOAD_AS_AVERAGES))
        status = dt_wanted_averages(rank, memory, ret_wanted);
    if (dt_status_ok(&status) && (*bits & LOAD_AVERAGES)) {
        keep_averages(ret_wanted);
        if (*bits & LOAD_AS_AVERAGES)
            ret_wanted->n = 0;
        if (ret_wanted->n == 0)
            return DT_OK;
    }
    if (dt_status_ok(&status) && number == DT_SAVED_OPTIMIZER)
        status = check_pruned(rank, ret_wanted);
    return dt_status_ok(&status) && (*bits & LOAD_MATCHING)
               ? keep_matching(rank->options, ret_wanted)
               : status;
}

/* Opens the files of one kind. */
static DtStatus open_files(DtArena *memory, const char *folder, const DtManifest *manifest,
                           DtSavedFile number, unsigned bits, DtCheckpointFiles *ret_files)
{
    DtStatus status = dt_checkpointfiles_open(memory, folder, manifest, number, ret_files);
    return dt_status_ok(&status) || !(bits & LOAD_AVERAGES)
               ? status
               : dt_status_fail(status.code,
                                "%.400s; it has the averages of parameters (--average none reads "
                                "the parameters)",
                                status.message);
}

/* Opens the files of one kind, compares what they have with what is wanted of them, and finds each
 * tensor. loading->from NULL: nothing is wanted. */
static DtStatus prepare_to_load(DtRank *rank, DtArena *memory, const char *folder,
                                DtSavedFile number, const DtManifest *manifest, bool weights_only,
                                DtLoading *loading)
{
    DtWanted *wanted = &loading->wanted;
    Pruning *pruning = DT_NEW(memory, Pruning);
    const char *path = dt_arena_printf(memory, "%s/%s", folder, dt_manifest_files[number]);
    unsigned bits = load_bits(rank, number, weights_only);
    DtStatus status = list_wanted(rank, memory, number, &bits, wanted);
    if (!dt_status_ok(&status) || ((bits & LOAD_AVERAGES) && wanted->n == 0))
        return status;
    status = open_files(memory, folder, manifest, number, bits, &loading->files);
    if (!dt_status_ok(&status))
        return status;
    if (bits & LOAD_ADAPTERS)
        leave_adapters(wanted, &loading->files.all);
    status = check_fit(memory, path, wanted, &loading->files.all, bits);
    if (dt_status_ok(&status))
        status = dt_prune_list(memory, bits & LOAD_PRUNED ? rank->options : NULL, wanted,
                               bits & LOAD_ORIGINALS, &pruning->of);
    if (!dt_status_ok(&status))
        return status;
    prepare_to_convert(wanted, memory, &loading->files.all, pruning->of);
    int64_t most = 0;
    loading->context = pruning;
    loading->from = DT_NEW_ARRAY(memory, const DtTensor *, wanted->n + 1);
    loading->whole = DT_NEW_ARRAY(memory, bool, wanted->n + 1);
    for (uint32_t i = 0; i < wanted->n; i++) {
        loading->from[i] = dt_safetensors_find(&loading->files.all, wanted->tensors[i].name);
        loading->whole[i] = pruning->of[i] != NULL;
        if (loading->whole[i] && loading->from[i]->bytes > most)
            most = loading->from[i]->bytes;
    }
    pruning->together = most > 0 && manifest->format > 1 ? dt_arena_alloc(memory, (size_t)most)
                                                         : NULL;
    return DT_OK;
}

static DtStatus load_files(DtRank *rank, DtArena *memory, DtLoadRing *ring, const char *folder,
                           DtSavedFile number, const DtManifest *manifest, bool weights_only)
{
    DtLoading loading = {.take = take_tensor};
    DtStatus status =
        prepare_to_load(rank, memory, folder, number, manifest, weights_only, &loading);
    status = dt_checkpointshares_agree(rank, status);
    if (dt_status_ok(&status) && loading.from)
        status = dt_checkpointshares_load(rank, memory, ring, &loading);
    dt_checkpointfiles_close(&loading.files);
    return status;
}

DtStatus dt_checkpoint_read(DtRank *rank, DtArena *memory, const char *path, int64_t serial,
                            bool weights_only, DtManifest *ret_manifest)
{
    DtStatus status = dt_manifest_read(
        memory, dt_arena_printf(memory, "%s/" DT_MANIFEST_NAME, path), ret_manifest);
    if (dt_status_ok(&status) && ret_manifest->serial != serial)
        status = dt_status_fail(DT_EXIT_IO, "%.300s was replaced while it was read", path);
    status = dt_checkpointshares_agree(rank, status);
    if (!dt_status_ok(&status))
        return status;
    DtLoadRing *ring = NULL;
    if (ret_manifest->format > 1)
        status = dt_loadring_open(rank, memory, &ring);
    for (int f = 0; f < DT_SAVED_FILES && dt_status_ok(&status); f++)
        status = load_files(rank, memory, ring, path, f, ret_manifest, weights_only);
    if (ring)
        dt_loadring_close(ring);
    return status;
}
