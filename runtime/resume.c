/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint a run begins with. Rank 0 chooses it and writes path and serial number into the
 * mapping; every rank loads its part of that one and no other. If one of them finds it damaged, or
 * gone since a run beside removed it or put another in its place, all of them load another that
 * rank 0 chooses: a rank that is late cannot take a newer one than the others.
 *
 * The newest is the good one with the highest serial number. One that is damaged and newer, or of
 * which that cannot be told, is named and passed over. */
#include "runtime/checkpoint.h"

#include "runtime/forms.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* NAMED: this many of the skipped checkpoints are named; of the others only the number is shown */
enum { ROUNDS = 100, NAMED = 3 };

/* State of rank 0's choice of a checkpoint. */
typedef struct Chooser {
    const DtCheckpointFrom *from;
    DtArena *memory;
    DT_VEC(DtCheckpointEntry) damaged; /* damage found while ranks loaded the checkpoint */
    DT_VEC(const char *) named;        /* paths of checkpoints that were rejected */
} Chooser;

/* Prints a note. Names of tensors in it come from files and may contain any bytes. */
static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    DtText line = {0};
    va_list args;
    va_start(args, format);
    dt_text_add(&line, "dtrun: note: ");
    dt_text_vprintf(&line, format, args);
    va_end(args);
    dt_text_say(stderr, line.at);
    dt_text_free(&line);
}

/* ---- passing over ---- */

static void name_damaged(Chooser *chooser, const DtCheckpointEntry *entry)
{
    for (uint32_t i = 0; i < chooser->named.n; i++)
        if (strcmp(chooser->named.at[i], entry->path) == 0)
            return;
    DT_PUSH(chooser->memory, chooser->named, entry->path);
    if (chooser->named.n <= NAMED)
        note("the checkpoint %s is passed over: %s", entry->path, entry->why.message);
    else if (chooser->named.n == NAMED + 1)
        note("more checkpoints of that folder are passed over");
}

/* Marks those checkpoints of the list that a rank found to be damaged when it loaded them. The list
 * itself is made from sizes and manifests only. */
static void mark_damaged(const Chooser *chooser, DtCheckpointList *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        for (uint32_t d = 0; d < chooser->damaged.n; d++)
            if (list->at[i].good && list->at[i].serial == chooser->damaged.at[d].serial &&
                strcmp(list->at[i].path, chooser->damaged.at[d].path) == 0) {
                list->at[i].good = false;
                list->at[i].why = chooser->damaged.at[d].why;
            }
}

/* ---- choosing ---- */

/* The newest good checkpoint of a folder; NULL if it has none. Then ret_why is the defect of the
 * checkpoint with the most steps, or DT_OK if the folder has no checkpoint at all. */
static DtStatus newest_of(Chooser *chooser, const char *folder, const DtCheckpointEntry **ret_entry,
                          DtStatus *ret_why)
{
    DtCheckpointList list;
    *ret_entry = NULL;
    *ret_why = DT_OK;
    if (access(folder, F_OK) != 0 && errno == ENOENT && chooser->from->may_lack &&
        !dt_checkpoint_is_name(folder))
        return DT_OK;
    DtStatus status = dt_checkpointlist_read(chooser->memory, folder, chooser->from->weights_only,
                                             &list);
    if (!dt_status_ok(&status))
        return status;
    mark_damaged(chooser, &list);
    const DtCheckpointEntry *newest = dt_checkpointlist_newest(&list), *last = NULL;
    for (uint32_t i = 0; i < list.n; i++) {
        const DtCheckpointEntry *entry = &list.at[i];
        bool unread = entry->serial == 0;
        if (!entry->good && newest && (unread || entry->serial > newest->serial))
            name_damaged(chooser, entry);
        if (!entry->good && (last == NULL || entry->steps > last->steps))
            last = entry;
    }
    *ret_entry = newest;
    if (newest == NULL && last != NULL)
        *ret_why = last->why;
    return DT_OK;
}

/* Chooses the checkpoint from which the run continues. ret_entry NULL: there is none, and the run
 * begins at step 0. */
static DtStatus choose(Chooser *chooser, const DtCheckpointEntry **ret_entry)
{
    const DtCheckpointFrom *from = chooser->from;
    DtStatus why = DT_OK;
    for (uint32_t i = 0; i < from->n; i++) {
        DtStatus status = newest_of(chooser, from->folders[i], ret_entry, &why);
        if (!dt_status_ok(&status) || *ret_entry != NULL)
            return status;
        if (!dt_status_ok(&why) && (i + 1 < from->n || from->may_fail))
            note("no checkpoint in %s is whole: %s", from->folders[i], why.message);
    }
    if (from->may_fail || (from->may_lack && dt_status_ok(&why)))
        return DT_OK;
    return dt_status_ok(&why)
               ? dt_status_fail(DT_EXIT_IO,
                                "there is no checkpoint in %.300s (with --or-start the run would "
                                "begin at step 0)",
                                from->folders[from->n - 1])
               : why;
}

static DtStatus publish(Chooser *chooser, DtShared *shared)
{
    const DtCheckpointEntry *entry = NULL;
    DtStatus status = choose(chooser, &entry);
    if (!dt_status_ok(&status))
        return status;
    atomic_store(&shared->chosen_serial, entry ? entry->serial : -1);
    if ((size_t)snprintf(shared->chosen, sizeof shared->chosen, "%s", entry ? entry->path : "") >=
        sizeof shared->chosen)
        return dt_status_fail(DT_EXIT_IO, "the path %.200s... is too long", entry->path);
    return DT_OK;
}

/* ---- loading ---- */

static bool meet(DtRank *rank)
{
    return rank->n_ranks == 1 || rank->comm_ops->barrier(rank->comm, &rank->world);
}

/* Called when every rank has stored its result in its slot. Returns whether all ranks have loaded
 * the checkpoint; if not, rank 0 records why. */
static bool all_loaded(DtRank *rank, Chooser *chooser)
{
    for (uint32_t r = 0; r < rank->n_ranks; r++) {
        DtSlot *slot =
            rank->n_ranks == 1 ? rank->slot : dt_shared_slot(rank->plan, rank->shared, r);
        if (atomic_load(&slot->load_code) == DT_EXIT_OK)
            continue;
        if (rank->rank == 0) {
            const char *path = rank->shared->chosen;
            DtCheckpointEntry entry = {
                .path = dt_arena_strndup(chooser->memory, path, strlen(path)),
                .serial = atomic_load(&rank->shared->chosen_serial),
                .why = dt_status_fail(DT_EXIT_IO, "%.*s", (int)sizeof slot->message - 1,
                                      slot->message)};
            DT_PUSH(chooser->memory, chooser->damaged, entry);
        }
        return false;
    }
    return true;
}

static void note_changes(const DtRank *rank, const DtManifest *manifest)
{
    if (rank->rank == 0 && manifest->seed != rank->meta.seed)
        note("%s was trained with another seed: the data goes on in another order",
             rank->shared->chosen);
    if (rank->rank == 0 && manifest->batch != rank->meta.batch)
        note("%s was trained with batches of %lld samples, this plan has %lld: the data goes on at "
             "sample %lld, after "
             "the last one that was read",
             rank->shared->chosen, (long long)manifest->batch, (long long)rank->meta.batch,
             (long long)manifest->samples);
    const bool differ = rank->meta.draws && manifest->draws && manifest->draws != rank->meta.draws;
    if (rank->rank == 0 && differ)
        note("%s was trained with other random draws (dropout and the like) than this plan has: "
             "`draws = %s` in the "
             "train block keeps those",
             rank->shared->chosen, manifest->draws == 1 ? "one" : "four");
}

/* Sets, for each loss of the plan, how many updates the checkpoint has had. False after a
 * failure. */
static bool take_updates(DtRank *rank, const DtManifest *manifest)
{
    const DtPlan *plan = rank->plan;
    for (uint32_t i = 0; i < plan->n_objectives; i++) {
        const char *loss = dt_plan_str(plan, plan->objectives[i].loss);
        const DtManifestUpdates *found = NULL;
        for (uint32_t k = 0; k < manifest->n_updates; k++)
            /* the only loss, whatever its name */
            if ((plan->n_objectives == 1 && manifest->n_updates == 1) ||
                strcmp(manifest->updates[k].loss ? manifest->updates[k].loss : "loss", loss) == 0)
                found = &manifest->updates[k];
        if (!found)
            return dt_rank_fail(rank, DT_EXIT_USAGE,
                                "%.300s was not trained on the loss `%.60s`, which this plan has",
                                rank->shared->chosen, loss);
        rank->updates[i] = found->n;
    }
    return true;
}

/* Sets the position in the data, and compares the data with those of the checkpoint. False after a
 * failure. */
static bool take_position(DtRank *rank, const DtManifest *manifest)
{
    int64_t samples, last;
    if (__builtin_mul_overflow(manifest->steps, rank->meta.batch, &samples) ||
        __builtin_mul_overflow(rank->meta.steps, rank->meta.batch, &last) ||
        __builtin_add_overflow(last, manifest->samples, &last))
        return dt_rank_fail(rank, DT_EXIT_FAILED, "%.300s: %lld steps of %lld samples are too many",
                            rank->shared->chosen, (long long)manifest->steps,
                            (long long)rank->meta.batch);
    rank->ramp.step = manifest->steps;
    rank->ramp.samples = manifest->samples;
    rank->saved_facts = DT_NEW_ARRAY(rank->memory, DtDataFact, manifest->n_data + 1);
    rank->n_saved_facts = manifest->n_data;
    for (uint32_t i = 0; i < manifest->n_data; i++) {
        rank->saved_facts[i] = manifest->data[i];
        rank->saved_facts[i].input = dt_arena_printf(rank->memory, "%s", manifest->data[i].input);
    }
    note_changes(rank, manifest);
    return true;
}

/* Says what becomes of a number that --set gave to the run of the checkpoint. now: NULL: the plan
 * has no such number. */
static void note_setting(const DtRank *rank, const DtFormulaSetting *saved,
                         const DtFormulaSetting *now, bool given)
{
    if (rank->rank != 0)
        return;
    if (!now)
        note("%s was trained with --set %s=%g, which this plan does not have", rank->shared->chosen,
             saved->name, saved->value);
    else if (!given)
        note("%s was trained with --set %s=%g, and the run goes on with it (without it: --set "
             "%s=%g)",
             rank->shared->chosen, saved->name, saved->value, saved->name, now->value);
    else
        note("%s was trained with --set %s=%g, and the run goes on with %g", rank->shared->chosen,
             saved->name, saved->value, now->value);
}

/* Keeps the numbers that --set gave to the run of the checkpoint, unless this run has its own.
 * False after a failure. */
static bool take_settings(DtRank *rank, const DtManifest *manifest)
{
    DtRunSettings *settings = &rank->settings;
    for (uint32_t i = 0; i < manifest->n_settings; i++) {
        const DtFormulaSetting *saved = &manifest->settings[i];
        uint32_t at = 0;
        while (at < settings->n && strcmp(settings->at[at].name, saved->name) != 0)
            at++;
        const bool has = at < settings->n, given = has && settings->given[at];
        if (!has || settings->at[at].value != saved->value)
            note_setting(rank, saved, has ? &settings->at[at] : NULL, given);
        if (has && !given)
            settings->at[at].value = saved->value;
        if (has)
            settings->given[at] = true;
    }
    if (manifest->n_settings == 0)
        return true;
    DtStatus status = dt_settings_take_steps(rank->plan, settings->steps, settings);
    return dt_status_ok(&status) || dt_rank_fail_status(rank, &status);
}

/* Makes one attempt to load the chosen checkpoint. False after a failure that ends the run. */
static bool load_chosen(DtRank *rank, DtArena *memory, Chooser *chooser, DtManifest *ret_manifest,
                        bool *ret_loaded)
{
    const DtShared *shared = rank->shared;
    DtStatus status =
        dt_checkpoint_read(rank, memory, shared->chosen, atomic_load(&shared->chosen_serial),
                           chooser->from->weights_only, ret_manifest);
    if (!dt_status_ok(&status) && status.code != DT_EXIT_IO)
        return dt_rank_fail_status(rank, &status);
    snprintf(rank->slot->message, sizeof rank->slot->message, "%s", status.message);
    atomic_store(&rank->slot->load_code, status.code);
    if (!meet(rank))
        return false;
    *ret_loaded = all_loaded(rank, chooser);
    return true;
}

static bool load(DtRank *rank, DtArena *memory, Chooser *chooser, int64_t *ret_steps)
{
    for (int round = 0; round < ROUNDS; round++) {
        DtManifest manifest;
        bool loaded = false;
        DtStatus status = rank->rank == 0 ? publish(chooser, rank->shared) : DT_OK;
        if (!dt_status_ok(&status))
            return dt_rank_fail_status(rank, &status);
        if (!meet(rank))
            return false;
        *ret_steps = -1;
        if (atomic_load(&rank->shared->chosen_serial) < 0)
            return !rank->options || rank->options->n_prune == 0 ||
                   dt_rank_fail(rank, DT_EXIT_USAGE, "--prune: there is no checkpoint in %.300s",
                                chooser->from->folders[chooser->from->n - 1]);
        if (round == 0)
            dt_file_be_late(rank->rank);
        if (!load_chosen(rank, memory, chooser, &manifest, &loaded))
            return false;
        if (!loaded)
            continue;
        *ret_steps = manifest.steps;
        if (manifest.imported && !(rank->options && rank->options->n_only))
            rank->imported = dt_arena_printf(rank->memory, "%s", manifest.imported);
        if (chooser->from->begins)
            return true;
        dt_scale_resume(&rank->scale, &manifest.scale);
        rank->best = manifest.best;
        rank->recorded = dt_algorithms_copy(rank->memory, &manifest.products);
        rank->resumes = true;
        rank->saved_attention =
            manifest.attention ? dt_arena_printf(rank->memory, "%s", manifest.attention) : NULL;
        if (dt_forms_resume(rank, manifest.epilogues) && !dt_load_instead(rank))
            return false;
        if (!chooser->from->weights_only && !take_settings(rank, &manifest))
            return false;
        if (!chooser->from->weights_only && !take_updates(rank, &manifest))
            return false;
        if (!chooser->from->weights_only && !take_position(rank, &manifest))
            return false;
        return true;
    }
    return dt_rank_fail(rank, DT_EXIT_RETRY,
                        "the checkpoints in %.300s are replaced faster than they can be read",
                        chooser->from->folders[0]);
}

bool dt_checkpoint_load(DtRank *rank, const DtCheckpointFrom *from, int64_t *ret_steps)
{
    Chooser chooser = {.from = from, .memory = dt_arena_new()};
    bool good = load(rank, chooser.memory, &chooser, ret_steps);
    dt_arena_free(chooser.memory);
    return good;
}
