/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of a checkpoint each rank supplies and writes, for layouts made by hand and by
 * chance: axes that mesh axes split, padding, buckets that ranks share, stages, replicas. The
 * reference is the file that one rank writes which has all tensors. Then a layout of 10^12
 * parameters on 3,072 ranks, of which no byte exists. */
#include "runtime/shares.h"
#include "runtime/spread.h"

#include "base/philox.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { STORES = 1200, AXES = 4096, PACKS = 1200 };

static struct {
    char text[1 << 16];
    uint32_t n_text, n_axes, n_packs;
    DtPlanMeta meta;
    DtPlanMeshAxis mesh[3];
    DtPlanStore stores[STORES];
    DtPlanAxis axes[AXES];
    DtPlanPack packs[PACKS];
    DtPlan plan;
    uint64_t draws;
} s;

static DtPlanStr str(const char *text)
{
    const size_t len = strlen(text) + 1;
    cr_assert_lt(s.n_text + len, sizeof s.text);
    memcpy(s.text + s.n_text, text, len);
    s.n_text += (uint32_t)len;
    return s.n_text - (uint32_t)len;
}

static void begin(uint32_t n_mesh, uint32_t a, uint32_t b, uint32_t c, uint32_t pipeline)
{
    const uint32_t sizes[] = {a, b, c};
    const uint64_t draws = s.draws;
    memset(&s, 0, sizeof s);
    s.draws = draws;
    s.n_text = 1;
    s.meta = (DtPlanMeta){.n_ranks = 1, .pipeline = pipeline};
    for (uint32_t m = 0; m < n_mesh; m++) {
        s.mesh[m] = (DtPlanMeshAxis){.size = sizes[m]};
        s.meta.n_ranks *= sizes[m];
    }
    s.plan = (DtPlan){.meta = &s.meta,
                      .stores = s.stores,
                      .axes = s.axes,
                      .mesh = s.mesh,
                      .n_mesh = n_mesh,
                      .packs = s.packs,
                      .strings = s.text};
}

static DtPlanAxis *axis(int64_t extent, int64_t local, uint8_t major, uint8_t minor)
{
    cr_assert_lt(s.n_axes, AXES);
    s.axes[s.n_axes] = (DtPlanAxis){.extent = extent, .local = local, .split = {major, minor}};
    return &s.axes[s.n_axes++];
}

/* Adds a store with the axes that were added since `first`. */
static DtPlanStore *store(DtPlanStr name, uint32_t kind, uint32_t dtype, uint32_t n_loops,
                          uint32_t first, int32_t stage)
{
    cr_assert_lt(s.plan.n_stores, STORES);
    DtPlanStore *of = &s.stores[s.plan.n_stores++];
    *of = (DtPlanStore){.path = name,
                        .pattern = name,
                        .kind = kind,
                        .dtype = dtype,
                        .of = DT_PLAN_NONE,
                        .saved = 1,
                        .n_loops = n_loops,
                        .first_axis = first,
                        .n_axes = s.n_axes - first,
                        .stage = stage};
    return of;
}

/* Puts the store into a bucket that the ranks of mesh axis m share. */
static void pack(DtPlanStore *of, uint32_t m, int64_t before, int64_t after)
{
    int64_t n = 1;
    for (uint32_t a = of->n_loops; a < of->n_axes; a++)
        n *= s.axes[of->first_axis + a].local;
    const int64_t size = s.mesh[m].size, run = (before + n + after + size - 1) / size;
    s.packs[s.n_packs] = (DtPlanPack){
        .extent = run * size, .run = run, .offset = before, .split = {(uint8_t)m}, .n_split = 1};
    of->pack = ++s.n_packs;
}

/* ---- bytes ---- */

/* The bytes that ranks have supplied, and how often each. */
typedef struct Image {
    const DtShares *shares;
    int64_t coord[16];
    char *bytes;
    uint8_t *times;
} Image;

/* A byte of an element of a tensor: it tells both. */
static char byte_of(uint32_t tensor, int64_t element, int64_t byte)
{
    return (char)(tensor * 31 + (uint64_t)element * 7 + (uint64_t)(element >> 8) * 5 +
                  (uint64_t)byte);
}

typedef struct Run {
    Image *image;
    uint32_t i;
    int64_t first; /* element of the tensor with which the piece begins */
} Run;

static void note_run(void *context, int64_t first, int64_t n, const char *at)
{
    const Run *run = context;
    const DtShares *shares = run->image->shares;
    const int64_t e = dt_kinds_size(shares->tensors[run->i].dtype);
    const int64_t to = shares->at[run->i] + (run->first + first) * e;
    cr_assert(run->first + first >= 0 &&
              (run->first + first + n) * e <= shares->tensors[run->i].bytes);
    memcpy(run->image->bytes + to, at, (size_t)(n * e));
    for (int64_t k = 0; k < n * e; k++)
        run->image->times[to + k]++;
}

/* Makes the rank's part of the tensor by walking over each of its elements. */
static char *part_of(const DtShares *shares, const int64_t coord[16], uint32_t i)
{
    const DtPlanStore *of = shares->homes[i].store;
    const DtPlanAxis *axes = s.axes + of->first_axis + of->n_loops;
    const uint32_t n_axes = of->n_axes - of->n_loops;
    const int64_t e = dt_kinds_size(of->dtype);
    int64_t n = 1, at[DT_PLAN_MAX_RANK] = {0};
    for (uint32_t a = 0; a < n_axes; a++)
        n *= axes[a].local;
    char *part = malloc((size_t)(n * e));
    for (int64_t k = 0; k < n; k++) {
        int64_t index = 0;
        bool real = true;
        for (uint32_t a = 0; a < n_axes; a++) {
            const int64_t place = dt_rank_axis_start(&s.plan, coord, &axes[a]) + at[a];
            real = real && place < axes[a].extent;
            index = index * axes[a].extent + place;
        }
        for (int64_t b = 0; b < e; b++)
            part[k * e + b] = real ? byte_of(i, index, b) : (char)0x5a;
        for (uint32_t a = n_axes; a-- > 0 && ++at[a] == axes[a].local; at[a] = 0) {}
    }
    return part;
}

static bool note_held(void *context, uint32_t i, DtPiece held, DtPiece piece)
{
    Image *image = context;
    const DtPlanStore *of = image->shares->homes[i].store;
    const int64_t e = dt_kinds_size(of->dtype);
    const DtStoreRange range = dt_pack_range(&s.plan, image->coord, of);
    Run run = {image, i, piece.first};
    cr_assert(held.first >= range.first && held.first + held.n <= range.first + range.n,
              "a rank supplies what it does not have");
    char *part = part_of(image->shares, image->coord, i);
    dt_pack_runs(&s.plan, image->coord, of, held, part + held.first * e, piece, note_run, &run);
    free(part);
    return true;
}

static void expect_reference(const Image *image, int64_t from, int64_t to)
{
    const DtShares *shares = image->shares;
    for (uint32_t i = 0; i < shares->n; i++) {
        const int64_t e = dt_kinds_size(shares->tensors[i].dtype);
        cr_assert(shares->tensors[i].bytes == 0 || shares->at[i] % e == 0);
        for (int64_t k = 0; k < shares->tensors[i].bytes; k++) {
            const int64_t at = shares->at[i] + k;
            if (at < from || at >= to) {
                cr_assert_eq(image->times[at], 0);
                continue;
            }
            cr_assert_eq(image->times[at], 1, "byte %lld of `%s` is supplied %d times",
                         (long long)k, shares->tensors[i].name, image->times[at]);
            cr_assert_eq(image->bytes[at], byte_of(i, k / e, k % e));
        }
    }
}

/* Lets all ranks supply all shares of n writers, each in windows of so many bytes, over so
 * many hosts; and compares with the reference. What a rank supplies to a share must be the same
 * in windows. */
static void expect_supplied(const DtShares *shares, uint32_t n, uint32_t hosts, int64_t most)
{
    Image image = {.shares = shares, .bytes = calloc((size_t)shares->end, 1),
                   .times = calloc((size_t)shares->end, 1)};
    DtSupply supply = {.hosts = hosts};
    for (supply.rank = 0; supply.rank < s.meta.n_ranks; supply.rank++) {
        dt_rank_coordinates(&s.plan, supply.rank, image.coord);
        for (supply.writer = 0; supply.writer < n; supply.writer++) {
            const DtSharesRange share = {shares->end * supply.writer / n / 8 * 8,
                                         supply.writer + 1 == n
                                             ? shares->end
                                             : shares->end * (supply.writer + 1) / n / 8 * 8};
            int64_t bytes = 0;
            for (int64_t round = 0; round < dt_shares_rounds(share, most); round++) {
                const DtSharesRange window = dt_shares_window(share, round, most);
                cr_assert(dt_shares_supply(shares, &supply, window, note_held, &image));
                bytes += dt_shares_supplied(shares, &supply, window);
            }
            cr_assert_eq(bytes, dt_shares_supplied(shares, &supply, share));
        }
    }
    expect_reference(&image, 0, shares->end);
    free(image.bytes);
    free(image.times);
}

static void expect_whole(int64_t file_bytes, uint32_t hosts)
{
    const uint32_t ranks = s.meta.n_ranks;
    DtArena *memory = dt_arena_new();
    DtShares shares;
    DtStatus status = dt_shares_list(&s.plan, memory, file_bytes, &shares);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    expect_supplied(&shares, ranks, hosts, shares.end);
    expect_supplied(&shares, ranks, hosts, 64);
    /* the first host writes */
    expect_supplied(&shares, dt_spread_first(ranks, hosts, 1), hosts, 1 << 10);
    for (uint32_t f = 0; f < shares.n_files; f++) {
        const DtSharesFile *file = &shares.files[f];
        cr_assert(file->bytes <= file_bytes || file->n <= 1);
        cr_assert(f == 0 || file->at >= shares.files[f - 1].at + shares.files[f - 1].bytes);
        cr_assert(file->at % DT_CHUNK_BYTES == 0 && file->header_bytes % 8 == 0);
    }
    dt_arena_free(memory);
}

/* ---- layouts ---- */

Test(shares, by_hand)
{
    begin(3, 2, 3, 2, 3); /* the last mesh axis has the stages */
    uint32_t first = s.n_axes;
    axis(7, 4, 1, 0), axis(5, 5, 0, 0), axis(10, 4, 2, 0);
    store(str("rows"), DT_PLAN_PARAM, DT_PLAN_F32, 0, first, -1);
    first = s.n_axes;
    axis(3, 3, 0, 0), axis(23, 4, 2, 1), axis(3, 3, 0, 0);
    store(str("h.#.both"), DT_PLAN_PARAM, DT_PLAN_BF16, 1, first, 1);
    first = s.n_axes;
    axis(55, 55, 0, 0);
    pack(store(str("one"), DT_PLAN_MOMENT1, DT_PLAN_F32, 0, first, 0), 1, 3, 7);
    first = s.n_axes;
    axis(5, 5, 0, 0), axis(4, 4, 0, 0);
    pack(store(str("two"), DT_PLAN_MOMENT2, DT_PLAN_F32, 0, first, 0), 1, 58, 0);
    store(str("count"), DT_PLAN_STATE, DT_PLAN_I64, 0, s.n_axes, -1);
    first = s.n_axes;
    axis(41, 21, 1, 0);
    store(str("flags"), DT_PLAN_STATE, DT_PLAN_U8, 0, first, -1);
    /* two stages have the same tensor: the first one's counts */
    first = s.n_axes;
    const DtPlanStr tied = str("tied");
    axis(9, 9, 0, 0);
    store(tied, DT_PLAN_PARAM, DT_PLAN_F32, 0, first, 0);
    first = s.n_axes;
    axis(9, 9, 0, 0);
    store(tied, DT_PLAN_PARAM, DT_PLAN_F32, 0, first, 1);
    for (uint32_t hosts = 1; hosts <= s.meta.n_ranks; hosts++) {
        expect_whole(DT_SHARES_FILE_BYTES, hosts);
        expect_whole(600, hosts);
        expect_whole(1, hosts);
    }
}

static uint64_t below(uint64_t n)
{
    return (uint64_t)(dt_philox_uniform(dt_philox(11, s.draws++, 0, 0)) * (double)n) % n;
}

/* Adds an axis that mesh axes which are not used yet may split. */
static void random_axis(uint32_t *used)
{
    const int64_t extent = 1 + (int64_t)below(9);
    int64_t parts = 1;
    uint8_t split[2] = {0, 0};
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t m = (uint32_t)below(s.plan.n_mesh);
        if (below(2) || (*used >> m & 1) || s.meta.pipeline == m + 1)
            break;
        *used |= 1u << m;
        split[k] = (uint8_t)(m + 1);
        parts *= s.mesh[m].size;
    }
    axis(extent, (extent + parts - 1) / parts, split[0], split[1]);
}

static void random_store(uint32_t number)
{
    static const uint32_t dtypes[] = {DT_PLAN_F32, DT_PLAN_BF16, DT_PLAN_I64, DT_PLAN_U8},
                          kinds[] = {DT_PLAN_PARAM, DT_PLAN_STATE, DT_PLAN_MOMENT1};
    char name[32];
    uint32_t used = 0;
    const uint32_t first = s.n_axes, loops = (uint32_t)below(2), n = (uint32_t)below(4);
    const int32_t stage =
        s.meta.pipeline && below(3) ? (int32_t)below(s.mesh[s.meta.pipeline - 1].size) : -1;
    snprintf(name, sizeof name, loops ? "s%u.#.w" : "s%u.w", number);
    for (uint32_t a = 0; a < loops; a++) {
        const int64_t extent = 1 + (int64_t)below(3);
        axis(extent, extent, 0, 0);
    }
    for (uint32_t a = 0; a < n; a++)
        random_axis(&used);
    DtPlanStore *of =
        store(str(name), kinds[below(3)], dtypes[below(4)], loops, first, stage);
    const uint32_t m = (uint32_t)below(s.plan.n_mesh);
    if (below(2) && !(used >> m & 1) && s.meta.pipeline != m + 1)
        pack(of, m, (int64_t)below(20), (int64_t)below(20));
}

Test(shares, by_chance)
{
    for (int round = 0; round < 250; round++) {
        const uint32_t n_mesh = 1 + (uint32_t)below(3);
        begin(n_mesh, 1 + (uint32_t)below(4), 1 + (uint32_t)below(3), 1 + (uint32_t)below(3),
              (uint32_t)below(n_mesh + 1));
        const uint32_t n = 1 + (uint32_t)below(6);
        for (uint32_t k = 0; k < n; k++)
            random_store(k);
        expect_whole(below(2) ? DT_SHARES_FILE_BYTES : (int64_t)(200 + below(2000)),
                     1 + (uint32_t)below(s.meta.n_ranks));
    }
}

/* ---- shares ---- */

/* Shares cover all positions in order, begin at chunks, and differ by two chunks at most. */
static void expect_equal(const DtShares *shares, uint32_t n)
{
    int64_t at = 0, least = INT64_MAX, most = 0;
    for (uint32_t w = 0; w < n; w++) {
        const DtSharesRange share = dt_shares_of(shares, w, n);
        const int64_t bytes = dt_shares_bytes(shares, share);
        cr_assert(share.from == at && share.to >= at);
        cr_assert(share.to % DT_CHUNK_BYTES == 0 || share.to == shares->end);
        at = share.to;
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    cr_assert_eq(at, shares->end);
    cr_assert_leq(most - least, 2 * DT_CHUNK_BYTES);
}

Test(shares, are_equal)
{
    static const uint32_t writers[] = {1, 2, 3, 4, 7, 8, 16, 64};
    DtArena *memory = dt_arena_new();
    DtShares shares;
    begin(1, 4, 1, 1, 0);
    for (int i = 0; i < 9; i++) {
        char name[16];
        const uint32_t first = s.n_axes;
        snprintf(name, sizeof name, "w%d", i);
        axis(1000 + i, 1000 + i, 0, 0), axis(7777 * (i + 1), 7777 * (i + 1), 0, 0);
        store(str(name), i % 2 ? DT_PLAN_MOMENT1 : DT_PLAN_PARAM, DT_PLAN_F32, 0, first, -1);
    }
    for (int k = 0; k < 3; k++) {
        const int64_t sizes[] = {DT_SHARES_FILE_BYTES, 300000000, 1};
        DtStatus status = dt_shares_list(&s.plan, memory, sizes[k], &shares);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        for (uint32_t i = 0; i < DT_COUNT(writers); i++)
            expect_equal(&shares, writers[i]);
    }
    dt_arena_free(memory);
}

/* ---- 10^12 parameters ---- */

enum { TENSOR = 8, STAGES = 64, DATA = 6, LAYERS = 128, WIDTH = 25600,
       HOSTS = 384 };

/* A matrix of each of a stage's two layers, in four stores: bf16 with a master copy and moments in
 * buckets that the ranks of axis `data` share. */
static void matrix(const char *name, uint32_t stage, int64_t rows, int64_t columns, bool by_rows)
{
    static const uint32_t kinds[] = {DT_PLAN_PARAM, DT_PLAN_MASTER, DT_PLAN_MOMENT1,
                                     DT_PLAN_MOMENT2};
    const DtPlanStr of = str(name);
    const uint32_t param = s.plan.n_stores;
    for (int k = 0; k < 4; k++) {
        const uint32_t first = s.n_axes;
        axis(LAYERS, 2, 0, 0)->first = (int64_t)stage * 2;
        axis(rows, by_rows ? rows / TENSOR : rows, by_rows ? 3 : 0, 0);
        axis(columns, by_rows ? columns : columns / TENSOR, by_rows ? 0 : 3, 0);
        DtPlanStore *added =
            store(of, kinds[k], k ? DT_PLAN_F32 : DT_PLAN_BF16, 1, first, (int32_t)stage);
        if (k == 1)
            added->of = (int32_t)param;
        if (k)
            pack(added, 1, 0, 0);
    }
}

/* Ranks supply every byte of the share once, besides headers, and each writer is connected with few
 * of them. A message is what one rank supplies to one chunk of another: a chunk holds it. */
static void expect_few_suppliers(const DtShares *shares, uint32_t writer)
{
    const uint32_t ranks = s.meta.n_ranks;
    const DtSharesRange share = dt_shares_of(shares, writer, ranks);
    DtSupply supply = {.writer = writer, .hosts = HOSTS};
    int64_t sum = 0;
    uint32_t n = 0;
    for (supply.rank = 0; supply.rank < ranks; supply.rank++) {
        const int64_t bytes = dt_shares_supplied(shares, &supply, share);
        sum += bytes;
        n += bytes > 0;
        for (int64_t round = 0; bytes > 0 && writer % 610 == 0 &&
                                round < dt_shares_rounds(share, DT_CHUNK_BYTES);
             round++)
            cr_assert_leq(dt_shares_supplied(shares, &supply,
                                             dt_shares_window(share, round, DT_CHUNK_BYTES)),
                          DT_CHUNK_BYTES);
    }
    for (uint32_t f = 0; f < shares->n_files; f++) {
        const DtSharesRange header = {shares->files[f].at,
                                      shares->files[f].at + shares->files[f].header_bytes};
        if (header.from >= share.from && header.from < share.to)
            sum += header.to - header.from;
    }
    cr_assert_eq(sum, dt_shares_bytes(shares, share));
    cr_assert_leq(n, 4 * DATA * TENSOR);
}

Test(shares, of_ten_to_the_twelfth_parameters)
{
    DtArena *memory = dt_arena_new();
    DtShares shares;
    begin(3, STAGES, DATA, TENSOR, 1);
    for (uint32_t stage = 0; stage < STAGES; stage++) {
        matrix("h.#.qkv.w", stage, WIDTH, 3 * WIDTH, false);
        matrix("h.#.out.w", stage, WIDTH, WIDTH, true);
        matrix("h.#.up.w", stage, WIDTH, 4 * WIDTH, false);
        matrix("h.#.down.w", stage, 4 * WIDTH, WIDTH, true);
    }
    DtStatus status = dt_shares_list(&s.plan, memory, DT_SHARES_FILE_BYTES, &shares);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_gt(shares.bytes, 12 * (int64_t)1000000000000, "12 bytes for each parameter");
    expect_equal(&shares, s.meta.n_ranks);

    int64_t headers = 0;
    for (uint32_t f = 0; f < shares.n_files; f++) {
        headers += shares.files[f].header_bytes;
        cr_assert(shares.files[f].bytes <= DT_SHARES_FILE_BYTES || shares.files[f].n == 1);
    }
    for (uint32_t w = 0; w < s.meta.n_ranks; w += 61)
        expect_few_suppliers(&shares, w);
    /* ranks supply equal numbers of bytes */
    DtSupply supply = {.hosts = HOSTS};
    for (supply.rank = 0; supply.rank < s.meta.n_ranks; supply.rank += 211) {
        int64_t bytes = 0;
        for (supply.writer = 0; supply.writer < s.meta.n_ranks; supply.writer++)
            bytes += dt_shares_supplied(&shares, &supply,
                                        dt_shares_of(&shares, supply.writer, s.meta.n_ranks));
        const int64_t each = (shares.bytes - headers) / s.meta.n_ranks;
        cr_assert(bytes > each - each / 20 && bytes < each + each / 20);
    }
    dt_arena_free(memory);
}
