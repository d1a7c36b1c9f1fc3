/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 gathers from six ranks while it saves. The ranks are memory of this process: a plan
 * with padded axes, buckets and tensors that rank 0 has whole. Files must not depend on the size of
 * the pieces in which tensors are gathered, and a save must not allocate more than its pieces. A
 * file that is cut short while a rank loads it is an error that names it. */
#include "runtime/checkpoint.h"
#include "runtime/device.h"
#include "runtime/rank.h"

#include "plan/report/memory.h"
#include "runtime/reduce.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 6, BIG = 1 << 21, STORES = 6, ARENA = BIG * 4 + 4096 };

static struct {
    char folder[64], text[512];
    uint32_t n_text, n_axes;
    DtPlanMeta meta;
    DtPlanMeshAxis mesh[2];
    DtPlanStore stores[STORES];
    DtPlanAxis axes[16];
    DtPlanPack packs[4];
    DtPlan plan;
    DtSlot slot;
    DtShared *shared; /* and a slot for each rank */
    DtDeviceAt at;
    DtRank rank;
    char *memory[RANKS], *logical[STORES]; /* logical: the store's tensor with all iterations */
    int64_t most;                          /* bytes that were requested at once */
} s;

/* ---- six ranks ---- */

static bool get(DtComm *comm, uint32_t rank, uint32_t arena, int64_t offset, int64_t bytes,
                void *ret_bytes)
{
    (void)comm;
    cr_assert(arena == 0 && rank < RANKS && offset >= 0 && bytes > 0 && offset + bytes <= ARENA);
    s.most = bytes > s.most ? bytes : s.most;
    memcpy(ret_bytes, s.memory[rank] + offset, (size_t)bytes);
    return true;
}

static bool barrier(DtComm *comm, const DtRankGroup *group)
{
    (void)comm, (void)group;
    return true;
}

static void release(DtComm *comm) { (void)comm; }

static const DtCommOps comm_ops = {.get = get, .barrier = barrier, .release = release};

static DtPlanStr str(const char *text)
{
    const size_t len = strlen(text) + 1;
    memcpy(s.text + s.n_text, text, len);
    s.n_text += (uint32_t)len;
    return s.n_text - (uint32_t)len;
}

/* Adds an axis to the store that is being added, its loops first. */
static void axis(int64_t extent, int64_t local, uint8_t major, uint8_t minor)
{
    s.axes[s.n_axes++] = (DtPlanAxis){.extent = extent, .local = local, .split = {major, minor}};
}

/* Adds a store. elements: the number of elements in the store's memory on a rank. */
static void store(const char *name, uint32_t kind, uint32_t dtype, uint32_t n_loops,
                  uint32_t first_axis, uint32_t pack, int64_t elements)
{
    const uint32_t n = s.plan.n_stores++;
    s.stores[n] = (DtPlanStore){.path = str(name),
                                .kind = kind,
                                .dtype = dtype,
                                .of = DT_PLAN_NONE,
                                .saved = 1,
                                .n_loops = n_loops,
                                .first_axis = first_axis,
                                .n_axes = s.n_axes - first_axis,
                                .pack = pack,
                                .stage = -1,
                                .bytes = elements * dt_kinds_size(dtype)};
    s.stores[n].pattern = s.stores[n].path;
    if (n)
        s.stores[n].offset = (s.stores[n - 1].offset + s.stores[n - 1].bytes + 63) / 64 * 64;
    cr_assert_leq(s.stores[n].offset + s.stores[n].bytes, ARENA);
}

static int64_t elements_of(const DtPlanStore *of)
{
    int64_t n = 1;
    for (uint32_t a = of->n_loops; a < of->n_axes; a++)
        n *= s.axes[of->first_axis + a].extent;
    return n;
}

/* Gives every rank its part of numbers that tell to which tensor and element they belong. */
static void fill(void)
{
    for (uint32_t n = 0; n < s.plan.n_stores; n++) {
        const DtPlanStore *of = &s.stores[n];
        const int64_t e = dt_kinds_size(of->dtype),
                      loops = of->n_loops ? s.axes[of->first_axis].local : 1,
                      count = elements_of(of);
        s.logical[n] = malloc((size_t)(loops * count * e));
        for (int64_t i = 0; i < loops * count; i++) {
            const uint64_t value = (uint64_t)i * 5 + n; /* no float with these bits is infinite */
            memcpy(s.logical[n] + i * e, &value, (size_t)e);
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            s.at = dt_device_at(s.memory[r]);
            dt_rank_coordinates(&s.plan, r, s.rank.coord);
            for (int64_t i = 0; i < loops; i++)
                dt_pack_take(&s.rank, of, i, s.logical[n] + i * count * e, NULL);
        }
    }
    s.at = dt_device_at(s.memory[0]);
    dt_rank_coordinates(&s.plan, 0, s.rank.coord);
}

static void setup(void)
{
    memset(&s, 0, sizeof s);
    strcpy(s.folder, "/tmp/dt_piecesXXXXXX");
    cr_assert_not_null(mkdtemp(s.folder));
    s.n_text = 1;
    s.meta = (DtPlanMeta){
        .model = str("tiny"), .compiler = str("by hand"), .n_ranks = RANKS, .batch = 6};
    s.mesh[0] = (DtPlanMeshAxis){.name = str("x"), .size = 2};
    s.mesh[1] = (DtPlanMeshAxis){.name = str("y"), .size = 3};
    s.plan = (DtPlan){.meta = &s.meta,
                      .n_meta = 1,
                      .stores = s.stores,
                      .axes = s.axes,
                      .mesh = s.mesh,
                      .n_mesh = 2,
                      .packs = s.packs,
                      .strings = s.text};
    for (int r = 0; r < RANKS; r++)
        s.memory[r] = calloc(ARENA, 1);
    const size_t mapping = dt_shared_slots() + RANKS * sizeof(DtSlot);
    s.shared = aligned_alloc(_Alignof(DtSlot), mapping);
    memset(s.shared, 0, mapping);
    s.rank = (DtRank){.plan = &s.plan,
                      .meta = s.meta,
                      .n_ranks = RANKS,
                      .arenas = &s.at,
                      .device_ops = &dt_device_cpu,
                      .comm_ops = &comm_ops,
                      .slot = &s.slot,
                      .shared = s.shared,
                      .memory = dt_arena_new()};
}

/* Adds the stores: rows and columns with padding, an axis that both mesh axes split, a bucket of
 * two, a scalar, bytes. */
static void fill_small(void)
{
    uint32_t first = s.n_axes;
    axis(7, 4, 1, 0), axis(5, 5, 0, 0), axis(10, 4, 2, 0);
    store("rows", DT_PLAN_PARAM, DT_PLAN_F32, 0, first, 0, 4 * 5 * 4);
    first = s.n_axes;
    axis(3, 3, 0, 0), axis(23, 4, 2, 1), axis(3, 3, 0, 0);
    store("h.#.both", DT_PLAN_PARAM, DT_PLAN_BF16, 1, first, 0, 3 * 4 * 3);
    first = s.n_axes;
    s.packs[0] =
        (DtPlanPack){.extent = 96, .run = 32, .split = {1}, .n_split = 1}; /* over mesh axis y */
    s.packs[1] = (DtPlanPack){.extent = 96, .run = 32, .offset = 55, .split = {1}, .n_split = 1};
    axis(55, 55, 0, 0);
    store("one", DT_PLAN_MOMENT1, DT_PLAN_F32, 0, first, 1, 32);
    first = s.n_axes;
    axis(5, 5, 0, 0), axis(4, 4, 0, 0);
    store("two", DT_PLAN_MOMENT1, DT_PLAN_F32, 0, first, 2, 0);
    s.stores[3].offset = s.stores[2].offset;
    s.stores[3].bytes = s.stores[2].bytes;
    store("count", DT_PLAN_STATE, DT_PLAN_I64, 0, s.n_axes, 0, 1);
    first = s.n_axes;
    axis(41, 21, 1, 0);
    store("flags", DT_PLAN_STATE, DT_PLAN_U8, 0, first, 0, 21);
    fill();
}

static void fill_big(void)
{
    axis(BIG, BIG, 0, 0);
    s.packs[0] =
        (DtPlanPack){.extent = BIG + 4, .run = (BIG + 4) / 6, .split = {0, 1}, .n_split = 2};
    store("big", DT_PLAN_PARAM, DT_PLAN_F32, 0, 0, 1, (BIG + 4) / 6);
    fill();
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", s.folder);
    cr_assert_eq(system(command), 0);
    free(s.shared);
    for (int r = 0; r < RANKS; r++)
        free(s.memory[r]);
    for (int n = 0; n < STORES; n++)
        free(s.logical[n]);
    dt_arena_free(s.rank.memory);
}

TestSuite(pieces, .init = setup, .fini = teardown);

/* ---- bytes ---- */

static void save(int64_t piece, int64_t steps)
{
    DtStatus status;
    s.rank.save_piece = piece;
    s.most = 0;
    cr_assert(dt_checkpoint_save(&s.rank, s.folder, steps, &status), "%s", s.rank.failure.message);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

static const char *file_of(int64_t steps, int number)
{
    static char path[2][256];
    snprintf(path[number], sizeof path[0], "%s/step-%08lld/%s", s.folder, (long long)steps,
             dt_manifest_files[number]);
    return path[number];
}

/* Checks that tensor `name` of the file equals the store's, iteration by iteration. */
static void expect_tensor(const DtTensorFile *file, const char *name, uint32_t n, int64_t iteration)
{
    const DtTensor *tensor = dt_safetensors_find(file, name);
    cr_assert_not_null(tensor, "%s", name);
    cr_assert_eq(tensor->bytes, elements_of(&s.stores[n]) * dt_kinds_size(s.stores[n].dtype));
    cr_assert_arr_eq(tensor->at, s.logical[n] + iteration * tensor->bytes, (size_t)tensor->bytes,
                     "%s", name);
}

static void expect_tensors(int64_t steps)
{
    DtArena *arena = dt_arena_new();
    DtTensorFile model, moments;
    DtStatus status = dt_safetensors_open(arena, file_of(steps, 0), &model);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_safetensors_open(arena, file_of(steps, 1), &moments);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    expect_tensor(&model, "rows", 0, 0);
    expect_tensor(&model, "h.0.both", 1, 0);
    expect_tensor(&model, "h.2.both", 1, 2);
    expect_tensor(&moments, "moment1.one", 2, 0);
    expect_tensor(&moments, "moment1.two", 3, 0);
    expect_tensor(&model, "count", 4, 0);
    expect_tensor(&model, "flags", 5, 0);
    dt_safetensors_close(&model);
    dt_safetensors_close(&moments);
    dt_arena_free(arena);
}

static void expect_equal_files(DtArena *arena, int64_t steps, int64_t other)
{
    for (int n = 0; n < DT_SAVED_FILES; n++) {
        char *a, *b;
        size_t len, other_len;
        DtStatus status = dt_file_read(arena, file_of(steps, n), 1 << 24, &a, &len);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        status = dt_file_read(arena, file_of(other, n), 1 << 24, &b, &other_len);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        cr_assert(len == other_len && memcmp(a, b, len) == 0, "steps %lld and %lld",
                  (long long)steps, (long long)other);
    }
}

/* Loading gives what was saved: digests of tensors do not depend on the size of pieces. */
static void expect_loads(int64_t steps)
{
    char path[256];
    int64_t got = -1;
    snprintf(path, sizeof path, "%s/step-%08lld", s.folder, (long long)steps);
    const DtCheckpointFrom from = {.folders = {path}, .n = 1};
    char *before = malloc(ARENA);
    memcpy(before, s.memory[0], ARENA);
    s.rank.n_ranks = 1;
    cr_assert(dt_checkpoint_load(&s.rank, &from, &got), "%s", s.rank.failure.message);
    s.rank.n_ranks = RANKS;
    cr_assert(got == steps && memcmp(before, s.memory[0], ARENA) == 0);
    free(before);
}

Test(pieces, files_do_not_depend_on_them)
{
    static const int64_t sizes[] = {8, 16, 24, 40, 72, 200, 1 << 20};
    DtArena *arena = dt_arena_new();
    fill_small();
    save(0, 1);
    expect_tensors(1);
    for (uint32_t i = 0; i < DT_COUNT(sizes); i++) {
        save(sizes[i], i + 2);
        cr_assert_leq(s.most, sizes[i]);
        expect_equal_files(arena, 1, i + 2);
        expect_loads(i + 2);
    }
    dt_arena_free(arena);
}

/* ---- a file that is cut short while a rank loads it ---- */

/* The file is cut short before the n-th time that the loader makes a digest; n < 0: after that; 0:
 * after it has mapped the file. Digests are of the manifest, of the digests of its two files, and
 * then of chunks. */
static struct {
    bool on;
    int at, seen;
    off_t to;
    char path[256];
} cut;

void __real_dt_digest_of(const void *bytes, size_t len, uint8_t ret_bytes[DT_DIGEST_BYTES]);
void __wrap_dt_digest_of(const void *bytes, size_t len, uint8_t ret_bytes[DT_DIGEST_BYTES]);

static void cut_now(int at)
{
    if (cut.on && cut.at == at)
        cr_assert_eq(truncate(cut.path, cut.to), 0);
}

void __wrap_dt_digest_of(const void *bytes, size_t len, uint8_t ret_bytes[DT_DIGEST_BYTES])
{
    cut.seen++;
    cut_now(cut.seen);
    __real_dt_digest_of(bytes, len, ret_bytes);
    cut_now(-cut.seen);
}

DtStatus __real_dt_file_map(const char *path, DtFileView *ret_view);
DtStatus __wrap_dt_file_map(const char *path, DtFileView *ret_view);

DtStatus __wrap_dt_file_map(const char *path, DtFileView *ret_view)
{
    const DtStatus status = __real_dt_file_map(path, ret_view);
    cut_now(0);
    return status;
}

/* Loads step 1 into a store of that dtype, while the file of parameters loses everything after byte
 * `to`, and checks the message. The file has three chunks, the last one of a few bytes. */
static void expect_cut(uint32_t dtype, int at, off_t to, const char *said)
{
    char path[256];
    DtArena *arena = dt_arena_new();
    DtManifest manifest;
    save(0, 1);
    s.stores[0].dtype = (uint8_t)dtype;
    snprintf(path, sizeof path, "%s/step-00000001", s.folder);
    DtStatus status =
        dt_manifest_read(arena, dt_arena_printf(arena, "%s/" DT_MANIFEST_NAME, path), &manifest);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    snprintf(cut.path, sizeof cut.path, "%s", file_of(1, 0));
    cut.on = true, cut.at = at, cut.seen = 0, cut.to = to;
    status = dt_checkpoint_read(&s.rank, arena, path, manifest.serial, false, &manifest);
    cut.on = false;
    s.stores[0].dtype = DT_PLAN_F32;
    cr_assert_eq(status.code, DT_EXIT_IO, "cut at %d: %s", at, status.message);
    cr_assert(strstr(status.message, "model.safetensors was cut short while it was read: "), "%s",
              status.message);
    cr_assert(strstr(status.message, said), "%s", status.message);
    dt_arena_free(arena);
}

Test(pieces, a_file_that_is_cut_short_is_named)
{
    fill_big();
    expect_cut(DT_PLAN_F32, 0, 0, "byte 0 and what follows is gone; the file had 8388");
    expect_cut(DT_PLAN_F32, 4, 1 << 20, "byte 1048576 and what");
    expect_cut(DT_PLAN_F32, -5, 1 << 20, "byte 1048576 and what");
    expect_cut(DT_PLAN_F32, -6, 1 << 20, "byte 1048576 and what");
    /* the tensor is rounded while it is read */
    expect_cut(DT_PLAN_BF16, -6, 1 << 20, "byte 1048576 and what");
}

/* ---- memory ---- */

/* Counts the bytes that the runtime allocates: those in arenas at present, and the maximum; and of
 * malloc, all together. */
static struct {
    bool on;
    const DtArena *arena[16];
    size_t bytes[16], now, most, others;
} counted;

void *__real_dt_arena_alloc(DtArena *arena, size_t bytes);
void *__wrap_dt_arena_alloc(DtArena *arena, size_t bytes);
void __real_dt_arena_free(DtArena *arena);
void __wrap_dt_arena_free(DtArena *arena);
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);

static size_t *bytes_in(const DtArena *arena)
{
    uint32_t i = 0;
    while (counted.arena[i] && counted.arena[i] != arena)
        cr_assert_lt(++i, DT_COUNT(counted.arena));
    counted.arena[i] = arena;
    return &counted.bytes[i];
}

void *__wrap_dt_arena_alloc(DtArena *arena, size_t bytes)
{
    if (counted.on) {
        *bytes_in(arena) += bytes;
        counted.now += bytes;
        counted.most = counted.now > counted.most ? counted.now : counted.most;
    }
    return __real_dt_arena_alloc(arena, bytes);
}

void __wrap_dt_arena_free(DtArena *arena)
{
    if (counted.on) {
        size_t *bytes = bytes_in(arena);
        counted.now -= *bytes;
        *bytes = 0;
    }
    __real_dt_arena_free(arena);
}

void *__wrap_malloc(size_t bytes)
{
    counted.others += bytes;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    counted.others += n * bytes;
    return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
    counted.others += bytes;
    return __real_realloc(at, bytes);
}

/* The most bytes that a save with pieces of this size had allocated, except for lists and names. */
static size_t taken(int64_t piece, int64_t steps)
{
    memset(&counted, 0, sizeof counted);
    counted.on = true;
    save(piece, steps);
    counted.on = false;
    cr_assert_lt(counted.others, 1 << 20);
    return counted.most;
}

Test(pieces, a_save_allocates_no_more_than_two)
{
    enum { SMALL = 1 << 16 };
    DtArena *arena = dt_arena_new();
    fill_big();
    const int64_t said = dt_memory_save(&s.plan, false);
    const size_t whole = taken(0, 1), pieces = taken(BIG / 16, 2);
    cr_assert_eq(said, 2 * BIG * 4);
    cr_assert(whole >= (size_t)said && whole < (size_t)said + SMALL, "%zu", whole);
    cr_assert(pieces >= BIG / 8 && pieces < BIG / 8 + SMALL, "%zu", pieces);
    expect_equal_files(arena, 1, 2);
    dt_arena_free(arena);
}

/* ---- another dtype ---- */

/* Lets ranks read step `steps` into memory whose bytes were 0xa5. */
static void read_as(int64_t steps, int64_t piece)
{
    char path[256];
    DtArena *arena = dt_arena_new();
    DtManifest manifest;
    snprintf(path, sizeof path, "%s/step-%08lld", s.folder, (long long)steps);
    DtStatus status =
        dt_manifest_read(arena, dt_arena_printf(arena, "%s/" DT_MANIFEST_NAME, path), &manifest);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    s.rank.save_piece = piece;
    for (uint32_t r = 0; r < RANKS; r++) {
        s.at = dt_device_at(s.memory[r]);
        dt_rank_coordinates(&s.plan, r, s.rank.coord);
        memset(s.memory[r], 0xa5, ARENA);
        status = dt_checkpoint_read(&s.rank, arena, path, manifest.serial, false, &manifest);
        cr_assert(dt_status_ok(&status), "%s", status.message);
    }
    dt_arena_free(arena);
}

/* Fills the store as f16, each tensor converted as a whole. */
static void fill_narrow(uint32_t n)
{
    DtPlanStore *of = &s.stores[n];
    const int64_t loops = of->n_loops ? s.axes[of->first_axis].local : 1,
                  count = loops * elements_of(of);
    float *wide = malloc((size_t)count * sizeof *wide);
    uint16_t *narrow = malloc((size_t)count * sizeof *narrow);
    if (of->dtype == DT_PLAN_F32)
        memcpy(wide, s.logical[n], (size_t)count * sizeof *wide);
    else
        dt_reduce_widen(of->dtype, wide, (const uint16_t *)(const void *)s.logical[n], count);
    dt_reduce_narrow(DT_PLAN_F16, narrow, wide, count);
    of->dtype = DT_PLAN_F16;
    memcpy(s.logical[n], narrow, (size_t)count * sizeof *narrow);
    free(wide);
    free(narrow);
}

static void take_all(void)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        s.at = dt_device_at(s.memory[r]);
        dt_rank_coordinates(&s.plan, r, s.rank.coord);
        memset(s.memory[r], 0xa5, ARENA);
        for (uint32_t n = 0; n < s.plan.n_stores; n++) {
            const DtPlanStore *of = &s.stores[n];
            const int64_t bytes = elements_of(of) * dt_kinds_size(of->dtype);
            for (int64_t i = 0; i < (of->n_loops ? s.axes[of->first_axis].local : 1); i++)
                dt_pack_take(&s.rank, of, i, s.logical[n] + i * bytes, NULL);
        }
    }
}

/* What ranks load does not depend on the pieces either, in the padding nor elsewhere. */
Test(pieces, a_conversion_does_not_depend_on_them)
{
    static const int64_t sizes[] = {8, 16, 24, 40, 72, 200, 1 << 20};
    char *wanted[RANKS];
    fill_small();
    save(0, 1);
    for (uint32_t n = 0; n < 4; n++)
        fill_narrow(n);
    take_all();
    for (uint32_t r = 0; r < RANKS; r++)
        memcpy(wanted[r] = malloc(ARENA), s.memory[r], ARENA);
    for (uint32_t i = 0; i < DT_COUNT(sizes); i++) {
        read_as(1, sizes[i]);
        for (uint32_t r = 0; r < RANKS; r++)
            cr_assert_arr_eq(s.memory[r], wanted[r], ARENA, "rank %u, pieces of %lld", r,
                             (long long)sizes[i]);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        free(wanted[r]);
}

Test(pieces, a_conversion_allocates_one)
{
    enum { PIECE = BIG / 16, SMALL = 1 << 16 };
    fill_big();
    save(0, 1);
    s.stores[0].dtype = DT_PLAN_BF16;
    memset(&counted, 0, sizeof counted);
    counted.on = true;
    read_as(1, PIECE);
    counted.on = false;
    cr_assert(counted.most >= PIECE && counted.most < RANKS * PIECE + SMALL, "%zu", counted.most);
}

/* For larger tensors, a message says how much memory their pieces take. */
Test(pieces, what_a_report_says)
{
    axis(BIG, BIG, 0, 0);
    store("whole", DT_PLAN_PARAM, DT_PLAN_F32, 0, 0, 0, BIG);
    cr_assert_eq(dt_memory_save(&s.plan, false), 0);
    cr_assert_eq(dt_memory_save(&s.plan, true), 2 * BIG * 4);
    s.axes[0].local = BIG / 2;
    s.axes[0].split[0] = 1;
    cr_assert_eq(dt_memory_save(&s.plan, false), 2 * BIG * 4);
    s.axes[0].extent = (int64_t)BIG * 100;
    cr_assert_eq(dt_memory_save(&s.plan, false), DT_SAVE_BYTES);
    cr_assert_eq(DT_SAVE_BYTES, 64 << 20);
}
