/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_fixture.h"

#include "runtime/device.h"
#include "runtime/saver.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

CheckpointFixture f;

DtPlanStr fixture_str(const char *text)
{
    size_t len = strlen(text) + 1;
    cr_assert_lt(f.n_text + len, sizeof f.text);
    memcpy(f.text + f.n_text, text, len);
    f.n_text += (uint32_t)len;
    return f.n_text - (uint32_t)len;
}

void fixture_store(const char *path, const char *pattern, uint32_t kind, uint32_t dtype,
                   uint32_t n_loops, const int64_t *extents)
{
    DtPlanStore *store = &f.stores[f.plan.n_stores++];
    *store = (DtPlanStore){.path = fixture_str(path),
                           .pattern = fixture_str(pattern),
                           .kind = kind,
                           .dtype = dtype,
                           .first_axis = f.plan.n_axes,
                           .n_loops = n_loops,
                           .of = DT_PLAN_NONE,
                           .saved = kind != DT_PLAN_GRAD,
                           .arena = kind == DT_PLAN_PARAM || kind == DT_PLAN_STATE ? 0 : 1};
    store->bytes = dt_kinds_size(dtype);
    for (; *extents; extents++, store->n_axes++) {
        f.axes[f.plan.n_axes++] = (DtPlanAxis){.name = fixture_str("axis"), .extent = *extents,
                                               .local = *extents};
        store->bytes *= *extents;
    }
    for (uint32_t s = 0; s + 1 < f.plan.n_stores; s++)
        if (f.stores[s].arena == store->arena)
            store->offset = (f.stores[s].offset + f.stores[s].bytes + 63) / 64 * 64;
    cr_assert_leq(store->offset + store->bytes, FIXTURE_ARENA_BYTES);
}

void fixture_open(void)
{
    memset(&f, 0, sizeof f);
    strcpy(f.folder, "/tmp/dt_checkXXXXXX");
    cr_assert_not_null(mkdtemp(f.folder));
    f.n_text = 1;
    f.plan = (DtPlan){.meta = &f.meta,
                      .n_meta = 1,
                      .stores = f.stores,
                      .axes = f.axes,
                      .strings = f.text,
                      .digest = 77};
    f.meta = (DtPlanMeta){.model = fixture_str("tiny"),
                          .compiler = fixture_str("by hand"),
                          .n_ranks = 1,
                          .batch = 6,
                          .seed = ~0ull};
    fixture_store("wte", "wte", DT_PLAN_PARAM, DT_PLAN_F32, 0, AXES(5, 3));
    fixture_store("h.w", "h.#.w", DT_PLAN_PARAM, DT_PLAN_F32, 1, AXES(3, 2, 4));
    fixture_store("h.g.b", "h.#.g.#.b", DT_PLAN_PARAM, DT_PLAN_BF16, 2, AXES(2, 3, 7));
    fixture_store("count", "count", DT_PLAN_STATE, DT_PLAN_I64, 0, AXES(0));
    fixture_store("h.w", "h.#.w", DT_PLAN_GRAD, DT_PLAN_F32, 1, AXES(3, 2, 4));
    fixture_store("h.w", "h.#.w", DT_PLAN_MOMENT1, DT_PLAN_F32, 1, AXES(3, 2, 4));
    fixture_store("h.w", "h.#.w", DT_PLAN_MOMENT2, DT_PLAN_F32, 1, AXES(3, 2, 4));
    f.arenas[0] = dt_device_at(f.memory[0]), f.arenas[1] = dt_device_at(f.memory[1]);
    f.rank = (DtRank){.plan = &f.plan,
                      .meta = f.meta,
                      .ramp = dt_ramp_open(&f.meta),
                      .n_ranks = 1,
                      .arenas = f.arenas,
                      .device_ops = &dt_device_cpu,
                      .slot = &f.slot,
                      .shared = &f.shared,
                      .memory = dt_arena_new()};
}

void fixture_close(void)
{
    dt_saver_close(&f.rank);
    dt_arena_free(f.rank.memory);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f.folder);
    cr_assert_eq(system(command), 0);
}

/* Returns byte i of a store. Floats are finite, since no high byte is 0x7f. */
static char byte_of(uint8_t mark, uint32_t store, int64_t i)
{
    uint32_t byte = mark + 3 * store + 7 * (uint32_t)i;
    return (char)(i % 2 ? byte & 0x3f : byte);
}

void fixture_fill(uint8_t mark)
{
    for (uint32_t s = 0; s < f.plan.n_stores; s++)
        for (int64_t i = 0; f.stores[s].saved && i < f.stores[s].bytes; i++)
            f.memory[f.stores[s].arena][f.stores[s].offset + i] = byte_of(mark, s, i);
}

bool fixture_holds(uint8_t mark)
{
    for (uint32_t s = 0; s < f.plan.n_stores; s++)
        for (int64_t i = 0; f.stores[s].saved && i < f.stores[s].bytes; i++)
            if (f.memory[f.stores[s].arena][f.stores[s].offset + i] != byte_of(mark, s, i))
                return false;
    return true;
}

bool fixture_shares(void) { return dt_saver_open(&f.rank) && f.rank.saver != NULL; }

bool fixture_load(const char *folder, bool weights_only, int64_t *ret_steps)
{
    const DtCheckpointFrom from = {.folders = {folder}, .n = 1, .weights_only = weights_only};
    return dt_checkpoint_load(&f.rank, &from, ret_steps);
}

bool fixture_save(const char *folder, int64_t steps)
{
    DtStatus status;
    if (!dt_checkpoint_save(&f.rank, folder, steps, &status))
        return false;
    f.trims = dt_status_ok(&status);
    if (f.trims)
        status = dt_checkpoint_trim(&f.rank, folder);
    return dt_status_ok(&status) || dt_rank_fail_status(&f.rank, &status);
}
