/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: names and bytes, what is kept, what is said about one that does not fit or is
 * damaged, and that no failure of the disk loses an older one. Where faults are injected, every
 * access to files happens in a child process, which reads DT_FAULT at its first access. */
#include "checkpoint_fixture.h"
#include "runtime/saver.h"

#include "base/half.h"
#include "base/hash.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(checkpoint, .init = fixture_open, .fini = fixture_close);

static void save(int64_t steps)
{
    fixture_fill((uint8_t)steps);
    cr_assert(fixture_save(f.folder, steps), "%s", f.rank.failure.message);
}

static void expect_loads(const char *folder, int64_t want)
{
    int64_t steps = -1;
    fixture_fill(255);
    cr_assert(fixture_load(folder, false, &steps), "%s", f.rank.failure.message);
    cr_assert_eq(steps, want);
    cr_assert(fixture_holds((uint8_t)want));
}

static void expect_refused(const char *folder, const char *said)
{
    int64_t steps = -1;
    f.rank.failure = DT_OK;
    atomic_store(&f.rank.has_failed, false);
    cr_assert(!fixture_load(folder, false, &steps), "loaded; expected: %s", said);
    cr_assert(strstr(f.rank.failure.message, said), "said: %s\nexpected: %s",
              f.rank.failure.message, said);
    f.rank.failure = DT_OK;
    atomic_store(&f.rank.has_failed, false);
}

/* Checks which checkpoints the load skips, with their messages, and which one it loads instead. */
static void expect_passes_over(const char *folder, const char *said, int64_t want)
{
    char text[2048] = "";
    FILE *spoken = tmpfile();
    const int before = dup(STDERR_FILENO);
    dup2(fileno(spoken), STDERR_FILENO);
    expect_loads(folder, want);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(spoken);
    text[fread(text, 1, sizeof text - 1, spoken)] = '\0';
    fclose(spoken);
    cr_assert(strstr(text, "is passed over: ") && strstr(text, said), "said: %s\nexpected: %s",
              text, said);
}

static const char *inside(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", f.folder, name);
    return path[turn];
}

static int n_entries(const char *folder, const char *prefix)
{
    int n = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;)
        n += strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
             strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return n;
}

/* ---- round trip ---- */

Test(checkpoint, saves_and_loads_every_byte)
{
    save(12);
    expect_loads(f.folder, 12);
    expect_loads(inside("step-00000012"), 12);
}

Test(checkpoint, tensors_have_the_names_of_iterations_and_logical_types)
{
    static const char *const names[] = {"count", "h.0.g.0.b", "h.0.g.1.b", "h.0.g.2.b",
                                        "h.0.w", "h.1.g.0.b", "h.1.g.1.b", "h.1.g.2.b",
                                        "h.1.w", "h.2.w",     "wte"};
    DtArena *arena = dt_arena_new();
    DtTensorFile file;
    save(1);
    DtStatus status = dt_safetensors_open(arena, inside("step-00000001/model.safetensors"), &file);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(file.n, DT_COUNT(names));
    for (uint32_t i = 0; i < file.n; i++)
        cr_assert_str_eq(file.tensors[i].name, names[i]);
    const DtTensor *w = dt_safetensors_find(&file, "h.2.w"),
                   *b = dt_safetensors_find(&file, "h.1.g.2.b");
    cr_assert(w->n_axes == 2 && w->extents[0] == 2 && w->extents[1] == 4 &&
              w->dtype == DT_PLAN_F32);
    cr_assert_arr_eq(w->at, f.memory[0] + f.stores[1].offset + 2 * 32, 32);
    cr_assert(b->n_axes == 1 && b->extents[0] == 7 && b->dtype == DT_PLAN_BF16);
    cr_assert_arr_eq(b->at, f.memory[0] + f.stores[2].offset + 5 * 14, 14);
    cr_assert_eq(dt_safetensors_find(&file, "count")->n_axes, 0);
    dt_safetensors_close(&file);
    status = dt_safetensors_open(arena, inside("step-00000001/optimizer.safetensors"), &file);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(file.n, 6);
    cr_assert_str_eq(file.tensors[0].name, "moment1.h.0.w");
    cr_assert_str_eq(file.tensors[5].name, "moment2.h.2.w");
    dt_safetensors_close(&file);
    dt_arena_free(arena);
}

Test(checkpoint, manifest_says_where_the_run_stands)
{
    DtArena *arena = dt_arena_new();
    DtManifest manifest;
    save(41);
    DtStatus status = dt_manifest_read(arena, inside("step-00000041/manifest.json"), &manifest);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(manifest.steps, 41);
    cr_assert_eq(manifest.samples, 41 * 6);
    cr_assert_eq(manifest.batch, 6);
    cr_assert_eq(manifest.seed, ~0ull);
    cr_assert_eq(manifest.plan, 77);
    cr_assert_str_eq(manifest.model, "tiny");
    cr_assert_eq(manifest.n_files, 2);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_str_eq(manifest.files[i].name, dt_manifest_files[i]);
        cr_assert_eq(manifest.files[i].kind, i);
        cr_assert_eq(manifest.files[i].n_chunks, 1);
    }
    dt_arena_free(arena);
}

/* A run that continues with batches of another size begins after the last sample that was read. */
Test(checkpoint, manifest_counts_samples_and_knows_its_data)
{
    static DtDataFact facts[] = {
        {.input = "x", .samples = 24, .values = 4, .first = 3, .bytes = 99, .digest = ~0ull},
        {.input = "eval.x"}};
    int64_t steps;
    save(4); /* a batch of 6 samples */
    f.rank.meta.batch = 2;
    f.rank.ramp = dt_ramp_open(&f.rank.meta);
    cr_assert(fixture_load(f.folder, false, &steps), "%s", f.rank.failure.message);
    cr_assert_eq(dt_ramp_first(&f.rank.ramp, steps), 24);
    cr_assert_eq(f.rank.n_saved_facts, 0); /* no facts, as in checkpoints of older versions */
    f.rank.facts = facts;
    f.rank.n_facts = 2;
    save(7); /* three more steps with 2 samples each */
    f.rank.meta.batch = 6;
    f.rank.ramp = dt_ramp_open(&f.rank.meta);
    cr_assert(fixture_load(f.folder, false, &steps), "%s", f.rank.failure.message);
    cr_assert_eq(dt_ramp_first(&f.rank.ramp, steps), 30);
    cr_assert_eq(f.rank.n_saved_facts, 2);
    DtText change = {0};
    for (int i = 0; i < 2; i++) {
        cr_assert_str_eq(f.rank.saved_facts[i].input, facts[i].input);
        cr_assert(!dt_data_changed(&f.rank.saved_facts[i], &facts[i], &change));
    }
    cr_assert(dt_data_changed(&f.rank.saved_facts[0], &facts[1], &change));
    cr_assert_str_eq(change.at, "files, now random numbers");
    dt_text_free(&change);
}

Test(checkpoint, weights_only_leaves_moments)
{
    int64_t steps;
    char moments[FIXTURE_ARENA_BYTES];
    save(3);
    fixture_fill(100);
    memcpy(moments, f.memory[1], sizeof moments);
    cr_assert(fixture_load(f.folder, true, &steps), "%s", f.rank.failure.message);
    cr_assert_arr_eq(f.memory[1], moments, sizeof moments);
    cr_assert_eq(f.memory[0][0], 3);
    f.plan.n_stores = 4; /* a plan without moments can only load weights */
    cr_assert(fixture_load(f.folder, true, &steps), "%s", f.rank.failure.message);
    expect_refused(f.folder, "6 not in the plan: `moment1.h.0.w`");
}

/* Runs that do not train read parameters of a checkpoint without moments, or with damaged ones. */
Test(checkpoint, weights_only_needs_no_moments)
{
    int64_t steps;
    save(2);
    save(3);
    const char *path = inside("step-00000003/optimizer.safetensors");
    for (int removed = 0; removed < 2; removed++) {
        cr_assert_eq(removed ? unlink(path) : truncate(path, 100), 0);
        fixture_fill(100);
        cr_assert(fixture_load(f.folder, true, &steps), "%s", f.rank.failure.message);
        cr_assert_eq(steps, 3);
        cr_assert_eq(f.memory[0][0], 3);
        expect_loads(f.folder, 2); /* a run that trains passes it over */
    }
    expect_refused(inside("step-00000003"),
                   "optimizer.safetensors: No such file or directory; --weights begins anew");
    f.stores[5].kind = DT_PLAN_AVERAGE; /* evaluation reads it */
    cr_assert_not(fixture_load(inside("step-00000003"), true, &steps));
    cr_assert(strstr(f.rank.failure.message, "--average none reads the parameters"), "%s",
              f.rank.failure.message);
}

/* ---- several ---- */

Test(checkpoint, keeps_the_newest)
{
    f.rank.meta.save_keep = 2;
    for (int64_t steps = 10; steps <= 50; steps += 10)
        save(steps);
    cr_assert_eq(n_entries(f.folder, "step-"), 2);
    cr_assert_eq(n_entries(f.folder, ".step-"), 0);
    expect_loads(f.folder, 50);
    expect_loads(inside("step-00000040"), 40);
    char name[32] = "";
    FILE *latest = fopen(inside("latest"), "r");
    cr_assert_not_null(fgets(name, sizeof name, latest));
    fclose(latest);
    cr_assert_str_eq(name, "step-00000050\n");
}

/* An evaluation may find a lower loss whose checkpoint cannot be saved. */
Test(checkpoint, the_best_one_stays_until_a_better_one_is_saved)
{
    f.rank.meta.save_keep = 1;
    f.rank.meta.keep_best = 1;
    f.rank.best = (DtBest){.any = true, .loss = 2, .steps = 1};
    save(1);
    save(2);
    f.rank.best.steps = 3;
    save(4);
    cr_assert_eq(n_entries(f.folder, "step-"), 2);
    expect_loads(inside("step-00000001"), 1);
    f.rank.best = (DtBest){.any = true, .loss = 1, .steps = 5};
    save(5);
    save(6);
    cr_assert_eq(n_entries(f.folder, "step-"), 2);
    expect_loads(inside("step-00000005"), 5);
}

Test(checkpoint, keep_zero_keeps_all)
{
    for (int64_t steps = 1; steps <= 6; steps++)
        save(steps);
    cr_assert_eq(n_entries(f.folder, "step-"), 6);
}

Test(checkpoint, a_run_that_went_back_continues_from_its_own)
{
    for (int64_t steps = 10; steps <= 40; steps += 10)
        save(steps);
    expect_loads(inside("step-00000010"), 10);
    f.rank.meta.save_keep = 3;
    fixture_fill(99);
    cr_assert(fixture_save(f.folder, 20)); /* it replaces another checkpoint of that step */
    int64_t steps;
    fixture_fill(0);
    cr_assert(fixture_load(f.folder, false, &steps));
    cr_assert_eq(steps, 20);
    cr_assert(fixture_holds(99));
    cr_assert_eq(n_entries(f.folder, "step-"), 3);
    cr_assert_eq(n_entries(f.folder, ".step-"), 0);
    expect_loads(inside("step-00000030"), 30);
}

Test(checkpoint, leftovers_are_ignored_and_removed)
{
    save(5);
    cr_assert_eq(mkdir(inside(".step-00000009.tmp"), 0777), 0);
    fclose(fopen(inside(".step-00000009.tmp/model.safetensors.abc"), "w"));
    expect_loads(f.folder, 5);
    save(6);
    cr_assert_eq(n_entries(f.folder, ".step-"), 0);
    expect_loads(f.folder, 6);
}

/* A rank of an attempt that has ended may still run on a host that was lost. */
Test(checkpoint, attempts_write_into_folders_of_their_own)
{
    char path[4096], before[4096], now[4096];
    DtStatus status = dt_checkpointlist_paths(f.folder, 7, 0, path, before);
    cr_assert(dt_status_ok(&status));
    cr_assert_eq(mkdir(before, 0777), 0); /* of the first attempt */
    f.shared.attempt = 1;
    save(7);
    status = dt_checkpointlist_paths(f.folder, 7, 1, path, now);
    cr_assert(dt_status_ok(&status) && strcmp(before, now) != 0);
    cr_assert_eq(n_entries(f.folder, ".step-"), 0);
    cr_assert_neq(access(before, F_OK), 0);
    expect_loads(path, 7);
}

Test(checkpoint, an_empty_or_missing_folder_is_an_error)
{
    expect_refused(f.folder, "there is no checkpoint in /tmp/dt_check");
    expect_refused(inside("nowhere"), "cannot open the folder");
}

Test(checkpoint, knows_the_folder_above)
{
    static const char *const names[] = {"step-00000004", "./step-00000004", "step-00000004//"};
    char above[4096];
    save(4);
    cr_assert(dt_checkpoint_above(inside("step-00000004"), above));
    cr_assert_str_eq(above, f.folder);
    cr_assert(!dt_checkpoint_above(f.folder, above));
    cr_assert_eq(chdir(f.folder), 0);
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        cr_assert(dt_checkpoint_above(names[i], above));
        cr_assert_str_eq(above, ".");
    }
    cr_assert_eq(chdir("step-00000004"), 0);
    cr_assert(dt_checkpoint_above(".", above));
    cr_assert_str_eq(above, "./..");
    cr_assert_eq(chdir("/"), 0);
}

/* ---- plans that differ ---- */

Test(checkpoint, missing_and_foreign_tensors_are_named_with_the_nearest)
{
    save(1);
    f.stores[1].pattern = fixture_str("h.#.ww");
    expect_refused(f.folder,
                   "3 missing: `h.0.ww` (nearest: `h.0.w`), `h.1.ww` (nearest: `h.1.w`), ...");
    expect_refused(f.folder, "3 not in the plan: `h.0.w` (nearest: `h.0.ww`)");
    cr_assert(fixture_holds(1));
}

Test(checkpoint, other_shapes_and_dtypes_are_named)
{
    save(1);
    f.axes[0].extent = f.axes[0].local = 3, f.axes[1].extent = f.axes[1].local = 5;
    expect_refused(f.folder, "1 of another type: `wte` is f32[5, 3] and should be f32[3, 5]");
    f.axes[0].extent = f.axes[0].local = 5, f.axes[1].extent = f.axes[1].local = 3;
    f.stores[2].dtype = DT_PLAN_U16;
    expect_refused(f.folder, "6 of another type: `h.0.g.0.b` is bf16[7] and should be u16[7]");
    f.stores[2].dtype = DT_PLAN_BF16;
    expect_loads(f.folder, 1);
}

static float *floats(uint32_t store)
{
    return (float *)(void *)(f.memory[f.stores[store].arena] + f.stores[store].offset);
}

/* A plan reads as bf16 with a master copy what another plan stores in f32, and the other way
 * round. */
Test(checkpoint, floats_are_widened_and_rounded)
{
    const int64_t wte = f.stores[0].offset, n = 5 * 3;
    int64_t steps;
    for (int64_t i = 0; i < n; i++)
        floats(0)[i] = 1 + (float)i / 977;
    cr_assert(fixture_save(f.folder, 1), "%s", f.rank.failure.message);
    fixture_store("wte", "wte", DT_PLAN_MASTER, DT_PLAN_F32, 0, AXES(5, 3));
    const uint32_t master = f.plan.n_stores - 1;
    f.stores[master].of = 0;
    f.stores[0].dtype = DT_PLAN_BF16, f.stores[0].bytes = 2 * n;
    cr_assert(fixture_load(f.folder, false, &steps), "%s", f.rank.failure.message);
    uint16_t *narrow = (uint16_t *)(void *)(f.memory[0] + wte);
    for (int64_t i = 0; i < n; i++) {
        cr_expect_eq(floats(master)[i], 1 + (float)i / 977);
        cr_expect_eq(narrow[i], dt_half_to_bf16(1 + (float)i / 977));
    }
    cr_assert(fixture_save(f.folder, 2), "%s", f.rank.failure.message);
    f.plan.n_stores--;
    memset(narrow, 0, (size_t)(2 * n));
    cr_assert(fixture_load(f.folder, false, &steps), "%s", f.rank.failure.message);
    cr_expect_eq(narrow[n - 1], dt_half_to_bf16(1 + (float)(n - 1) / 977), "without a master copy");
    f.stores[0].dtype = DT_PLAN_F32, f.stores[0].bytes = 4 * n;
    cr_assert(fixture_load(f.folder, false, &steps), "%s", f.rank.failure.message);
    cr_expect_eq(floats(0)[7], 1 + 7.0f / 977, "in f32 again");
}

Test(checkpoint, loss_scale_goes_on)
{
    int64_t steps;
    f.rank.scale = (DtScale){.is_dynamic = true, .factor = 4096, .good = 17, .skipped = 3};
    save(41);
    f.rank.scale = (DtScale){.is_dynamic = true, .factor = 65536};
    cr_assert(fixture_load(f.folder, false, &steps), "%s", f.rank.failure.message);
    cr_expect_eq(f.rank.scale.factor, 4096);
    cr_expect_eq(f.rank.scale.good, 17);
    cr_expect_eq(f.rank.scale.skipped, 3);
    f.rank.scale = (DtScale){.factor = 1}; /* a plan without a loss scale */
    cr_assert(fixture_load(f.folder, false, &steps), "%s", f.rank.failure.message);
    cr_expect_eq(f.rank.scale.factor, 1);
}

/* When `one` is saved, a loss, or each of two, has had this many updates; losses of `other` read
 * these numbers. */
static void count_updates(const char *const *one, const char *const *other)
{
    static DtPlanObjective objectives[2];
    int64_t steps;
    f.plan.objectives = objectives;
    for (int round = 0; round < 2; round++) {
        const char *const *names = round ? other : one;
        for (f.plan.n_objectives = 0; f.plan.n_objectives < 2 && names[f.plan.n_objectives];
             f.plan.n_objectives++)
            objectives[f.plan.n_objectives] =
                (DtPlanObjective){.loss = fixture_str(names[f.plan.n_objectives])};
        f.rank.updates[0] = round ? -1 : 38;
        f.rank.updates[1] = round ? -1 : 7;
        if (round)
            cr_assert(fixture_load(f.folder, false, &steps), "%s", f.rank.failure.message);
        else
            save(41);
    }
}

Test(checkpoint, updates_are_those_of_each_loss)
{
    static const char *const loss[] = {"loss", NULL}, *const other[] = {"err", NULL},
                      *const two[] = {"critic", "maker"}, *const turned[] = {"maker", "critic"},
                      *const more[] = {"loss", "maker"};
    int64_t steps;
    count_updates(loss, loss);
    cr_expect_eq(f.rank.updates[0], 38);
    count_updates(loss, other);
    cr_expect_eq(f.rank.updates[0], 38, "one loss, whatever its name");
    count_updates(two, turned);
    cr_expect(f.rank.updates[0] == 7 && f.rank.updates[1] == 38);
    save(42);
    f.plan.n_objectives = 1;
    cr_expect(fixture_load(f.folder, false, &steps) && f.rank.updates[0] == 7);
    count_updates(loss, loss);
    f.plan.objectives = (DtPlanObjective[]){{.loss = fixture_str(more[0])},
                                            {.loss = fixture_str(more[1])}};
    f.plan.n_objectives = 2;
    cr_expect_not(fixture_load(f.folder, false, &steps));
    cr_expect(strstr(f.rank.failure.message, "not trained on the loss `maker`"), "%s",
              f.rank.failure.message);
}

Test(checkpoint, misnamed_stores_are_refused)
{
    f.stores[1].pattern = fixture_str("h.w");
    cr_assert(!fixture_save(f.folder, 1));
    cr_assert(strstr(f.rank.failure.message, "`h.w` with 1 loops is called `h.w`"), "%s",
              f.rank.failure.message);
    f.rank.failure = DT_OK;
    atomic_store(&f.rank.has_failed, false);
    f.stores[1].pattern = fixture_str("h.#.w");
    f.stores[3].pattern = fixture_str("wte");
    cr_assert(!fixture_save(f.folder, 1));
    cr_assert(strstr(f.rank.failure.message, "two tensors are called `wte`"), "%s",
              f.rank.failure.message);
    cr_assert_eq(n_entries(f.folder, ".step-"), 0);
    cr_assert_eq(n_entries(f.folder, "step-"), 0);
}

/* ---- damage ---- */

static long size_of(const char *path)
{
    struct stat stat_of;
    cr_assert_eq(stat(path, &stat_of), 0);
    return (long)stat_of.st_size;
}

static void flip_bit(const char *path, long at, int bit)
{
    FILE *file = fopen(path, "r+b");
    cr_assert_not_null(file);
    fseek(file, at, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 1 << bit, file);
    fclose(file);
}

static void flip(const char *path, long at) { flip_bit(path, at, 4); }

Test(checkpoint, every_flipped_byte_is_found_and_the_one_before_loads)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                        "manifest.json"};
    save(1);
    save(2);
    for (int i = 0; i < 3; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/step-00000002/%s", f.folder, files[i]);
        long size = size_of(path), stride = size > 1500 ? 3 : 1;
        for (long at = 0; at < size; at += stride) {
            flip(path, at);
            if (at % 2)
                expect_refused(inside("step-00000002"), "is damaged");
            else
                expect_passes_over(f.folder, "is damaged", 1);
            flip(path, at);
        }
    }
    expect_loads(f.folder, 2);
}

/* With CHECKPOINT_BITS in the environment: every bit of every file, and every length that a file
 * could be cut to. */
Test(checkpoint, every_flipped_bit_and_every_cut_is_found)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                        "manifest.json"};
    const long every = getenv("CHECKPOINT_BITS") ? 1 : 97;
    save(1);
    save(2);
    for (int i = 0; i < 3; i++) {
        char path[256], command[600];
        snprintf(path, sizeof path, "%s/step-00000002/%s", f.folder, files[i]);
        const long size = size_of(path);
        for (long bit = 0; bit < 8 * size; bit += every) {
            flip_bit(path, bit / 8, (int)(bit % 8));
            expect_refused(inside("step-00000002"), files[i]); /* the format may be another one */
            flip_bit(path, bit / 8, (int)(bit % 8));
        }
        snprintf(command, sizeof command, "cp %s %s.whole", path, path);
        cr_assert_eq(system(command), 0);
        for (long end = size - 1; end >= 0; end -= every) {
            cr_assert_eq(truncate(path, end), 0);
            expect_refused(inside("step-00000002"), f.folder);
        }
        snprintf(command, sizeof command, "mv %s.whole %s", path, path);
        cr_assert_eq(system(command), 0);
    }
    expect_loads(f.folder, 2);
}

Test(checkpoint, a_file_cut_short_or_gone_is_found)
{
    char path[256];
    save(1);
    save(2);
    snprintf(path, sizeof path, "%s/step-00000002/model.safetensors", f.folder);
    cr_assert_eq(truncate(path, size_of(path) - 1), 0);
    expect_passes_over(f.folder, "bytes instead of", 1);
    expect_refused(inside("step-00000002"), "bytes instead of");
    cr_assert_eq(unlink(path), 0);
    expect_passes_over(f.folder, "step-00000002/model.safetensors: No such file or directory", 1);
    expect_loads(inside("step-00000001"), 1);
}

Test(checkpoint, a_manifest_that_is_gone_or_cannot_be_read_is_named)
{
    save(1);
    save(2);
    cr_assert_eq(unlink(inside("step-00000002/manifest.json")), 0);
    expect_passes_over(f.folder, "cannot open /tmp/dt_check", 1);
    cr_assert_eq(mkdir(inside("step-00000002/manifest.json"), 0777), 0);
    expect_passes_over(f.folder, "step-00000002/manifest.json: not a regular file", 1);
    cr_assert_eq(unlink(inside("step-00000001/manifest.json")), 0);
    expect_refused(f.folder, "step-00000002/manifest.json: not a regular file");
    cr_assert_eq(rmdir(inside("step-00000002/manifest.json")), 0);
    expect_refused(inside("step-00000002"), "there is no checkpoint in");
}

/* A parser would allocate 50 bytes and more for each of its values. */
Test(checkpoint, a_manifest_of_too_many_values_is_not_parsed)
{
    enum { N = 9 << 20 };
    static const struct {
        const char *begin, *more, *end;
    } cases[] = {{"{\"format\":2,\"x\":[0", ",0", "]}"}, {"{\"format\":2,\"x\":", "[", "0"}};
    save(1);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        FILE *file = fopen(inside("step-00000001/manifest.json"), "w");
        fputs(cases[i].begin, file);
        for (int k = 0; k < (i ? 7 : N); k++)
            fputs(cases[i].more, file);
        fputs(cases[i].end, file);
        fclose(file);
        expect_refused(f.folder, "has more values than a manifest");
    }
}

/* If all checkpoints are damaged, the run fails; if there are none at all, it may be allowed to
 * begin without one. */
Test(checkpoint, only_an_empty_folder_may_lack_a_checkpoint)
{
    DtCheckpointFrom from = {.folders = {f.folder}, .n = 1, .may_lack = true};
    int64_t steps = 0;
    cr_assert(dt_checkpoint_load(&f.rank, &from, &steps), "%s", f.rank.failure.message);
    cr_assert_eq(steps, -1);
    from.folders[0] = inside("nowhere");
    cr_assert(dt_checkpoint_load(&f.rank, &from, &steps), "%s", f.rank.failure.message);
    cr_assert_eq(steps, -1);
    save(1);
    flip(inside("step-00000001/model.safetensors"), 400);
    from.folders[0] = f.folder;
    cr_assert(!dt_checkpoint_load(&f.rank, &from, &steps));
    f.rank.failure = DT_OK;
    atomic_store(&f.rank.has_failed, false);
    /* the load after a restart */
    from = (DtCheckpointFrom){.folders = {f.folder}, .n = 1, .may_fail = true};
    cr_assert(dt_checkpoint_load(&f.rank, &from, &steps), "%s", f.rank.failure.message);
    cr_assert_eq(steps, -1);
}

/* An update may make parameters infinite; these must not replace a good checkpoint. */
static void expect_spoilt_is_refused(void)
{
    static const uint8_t spoilt[] = {0x80, 0x7f}; /* the high bytes of infinity */
    f.rank.meta.save_keep = 1;
    save(1);
    for (uint32_t s = 0; s < f.plan.n_stores; s++) {
        const DtPlanStore *store = &f.stores[s];
        char *last = f.memory[store->arena] + store->offset + store->bytes - 2;
        if (!store->saved)
            continue;
        fixture_fill(2);
        memcpy(last, spoilt, sizeof spoilt);
        f.rank.failure = DT_OK;
        atomic_store(&f.rank.has_failed, false);
        bool is_number = store->dtype == DT_PLAN_I64;
        cr_assert_eq(fixture_save(f.folder, 2), is_number, "store %u", s);
        if (is_number) {
            save(1);
            continue;
        }
        cr_assert(strstr(f.rank.failure.message, "not finite"), "%s", f.rank.failure.message);
        cr_assert_eq(f.rank.failure.code, DT_EXIT_FAILED);
        cr_assert_eq(n_entries(f.folder, ".step-"), 0);
        expect_loads(f.folder, 1);
    }
}

Test(checkpoint, numbers_that_are_not_finite_are_not_saved) { expect_spoilt_is_refused(); }

Test(checkpoint, a_thread_does_not_save_them_either)
{
    static const uint8_t spoilt[] = {0x80, 0x7f};
    save(1);
    cr_assert(fixture_shares());
    fixture_fill(2);
    memcpy(f.memory[0] + f.stores[0].offset + f.stores[0].bytes - 2, spoilt, sizeof spoilt);
    cr_assert(!fixture_save(f.folder, 2));
    cr_assert(strstr(f.rank.failure.message, "`wte` has numbers that are not finite"), "%s",
              f.rank.failure.message);
    dt_saver_close(&f.rank); /* as at the end of the run */
    atomic_store(&f.shared.abort, 0);
    cr_assert_eq(n_entries(f.folder, ".step-"), 0);
    expect_loads(f.folder, 1);
}

Test(checkpoint, damage_in_an_older_one_does_not_matter)
{
    save(1);
    save(2);
    flip(inside("step-00000001/manifest.json"), 30);
    expect_loads(f.folder, 2);
    save(3);
    expect_loads(f.folder, 3);
}

/* ---- faults ---- */

/* Saves in a child process with DT_FAULT. 0: saved; 1: refused, and the message was the expected
 * one. in_shares: a thread writes. */
static bool in_shares;
static int save_with_fault(const char *fault, int64_t steps)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (fault)
            setenv("DT_FAULT", fault, 1);
        if (in_shares && !fixture_shares())
            _exit(3);
        fixture_fill((uint8_t)steps);
        if (fixture_save(f.folder, steps))
            _exit(0);
        bool clear = f.rank.failure.code == DT_EXIT_IO &&
                     (f.trims || strstr(f.rank.failure.message, "was not saved (earlier ones")) &&
                     strstr(f.rank.failure.message, f.folder);
        _exit(clear ? 1 : 2);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status), "a save with %s crashed", fault);
    return WEXITSTATUS(status);
}

/* Returns the number of steps of the checkpoint that loads in a child process, whose bytes must be
 * right; -1: none loads. */
static int load_in_child(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int64_t steps = 200;
        bool good = fixture_load(f.folder, false, &steps) && fixture_holds((uint8_t)steps);
        _exit(good ? (int)steps : 255);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

/* The n-th operation of a kind fails, for every n. Then the older checkpoint loads, or the new one
 * if it was already complete; and the next save works and leaves no temporary files. */
static void expect_survives(const char *kind, int at_least)
{
    int faults = 0,
        unharmed = 0; /* the manifest of another checkpoint may be unreadable without any harm */
    f.rank.meta.save_keep = 1;
    for (int n = 1; unharmed < 4; n++) {
        char fault[32];
        int before = 10 * (n % 10) + 100;
        snprintf(fault, sizeof fault, "%s:%d", kind, n);
        cr_assert_eq(save_with_fault(NULL, before), 0);
        int code = save_with_fault(fault, before + 1), loads = load_in_child();
        if (code == 0) {
            cr_assert_eq(loads, before + 1);
            unharmed++;
            continue;
        }
        unharmed = 0;
        cr_assert_eq(code, 1, "%s: wrong failure", fault);
        cr_assert(loads == before || loads == before + 1, "%s: %d loads", fault, loads);
        cr_assert_eq(save_with_fault(NULL, before + 2), 0);
        cr_assert_eq(n_entries(f.folder, ".step-"), 0, "%s leaves litter for ever", fault);
        cr_assert_eq(load_in_child(), before + 2, "%s: the next save is bad", fault);
        cr_assert_eq(n_entries(f.folder, "step-"), 1, "%s", fault);
        faults++;
    }
    cr_assert_geq(faults, at_least, "only %d operations of kind %s", faults, kind);
}

Test(checkpoint, survives_every_failing_write) { expect_survives("write", 20); }
Test(checkpoint, survives_every_failing_fsync) { expect_survives("fsync", 8); }
Test(checkpoint, survives_every_failing_rename) { expect_survives("rename", 4); }
Test(checkpoint, survives_every_failing_open) { expect_survives("open", 4); }

static void expect_survives_in_shares(const char *kind, int at_least)
{
    in_shares = true;
    expect_survives(kind, at_least);
}
Test(checkpoint, a_thread_survives_every_failing_write) { expect_survives_in_shares("write", 4); }
Test(checkpoint, a_thread_survives_every_failing_fsync) { expect_survives_in_shares("fsync", 8); }
Test(checkpoint, a_thread_survives_every_failing_open) { expect_survives_in_shares("open", 4); }

/* A thread writes what was there when the save began. */
Test(checkpoint, what_changes_meanwhile_is_not_saved)
{
    DtStatus status;
    cr_assert(fixture_shares());
    for (int64_t steps = 1; steps < 20; steps++) {
        fixture_fill((uint8_t)steps);
        cr_assert(dt_checkpoint_begin(&f.rank, f.folder, steps), "%s", f.rank.failure.message);
        fixture_fill(77);
        cr_assert(dt_checkpoint_finish(&f.rank, &status));
        cr_assert(dt_status_ok(&status), "%s", status.message);
        expect_loads(f.folder, steps);
    }
}

/* Files do not depend on who writes them. */
Test(checkpoint, a_thread_writes_the_same_files)
{
    save(1);
    cr_assert(fixture_shares());
    fixture_fill(1);
    cr_assert(fixture_save(f.folder, 2), "%s", f.rank.failure.message);
    for (int i = 0; i < DT_SAVED_FILES; i++) {
        char command[300];
        snprintf(command, sizeof command, "cmp %s/step-00000001/%s %s/step-00000002/%s", f.folder,
                 dt_manifest_files[i], f.folder, dt_manifest_files[i]);
        cr_assert_eq(system(command), 0);
    }
}

/* With a limit for files there are several of a kind, and an index of each kind. */
Test(checkpoint, large_ones_have_several_files)
{
    DtArena *arena = dt_arena_new();
    DtManifest manifest;
    f.rank.save_file = 600;
    save(1);
    cr_assert(fixture_shares());
    save(2);
    expect_loads(f.folder, 2);
    expect_loads(inside("step-00000001"), 1);
    DtStatus status = dt_manifest_read(arena, inside("step-00000002/manifest.json"), &manifest);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_gt(manifest.n_files, 4);
    for (uint32_t i = 0; i < manifest.n_files; i++)
        cr_assert_leq(manifest.files[i].bytes, 600);
    cr_assert_eq(access(inside("step-00000002/model.safetensors.index.json"), R_OK), 0);
    char path[256];
    snprintf(path, sizeof path, "%s/step-00000002/%s", f.folder, manifest.files[1].name);
    flip(path, 300);
    expect_refused(inside("step-00000002"), manifest.files[1].name);
    expect_passes_over(f.folder, "is damaged", 1);
    cr_assert_eq(unlink(path), 0);
    expect_passes_over(f.folder, "No such file", 1);
    dt_arena_free(arena);
}

/* A process is ended in the middle of a save, at each of its writes. */
Test(checkpoint, survives_being_killed)
{
    cr_assert_eq(save_with_fault(NULL, 1), 0);
    for (useconds_t delay = 0; delay < 3000; delay += 60) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            for (int64_t steps = 2;; steps = steps % 100 + 1) {
                fixture_fill((uint8_t)steps);
                fixture_save(f.folder, steps);
            }
        usleep(1000 + delay);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        cr_assert_neq(load_in_child(), -1, "killed after %u us", (unsigned)delay);
    }
    cr_assert_eq(save_with_fault(NULL, 150), 0);
    cr_assert_eq(load_in_child(), 150);
    cr_assert_eq(n_entries(f.folder, ".step-"), 0);
}
