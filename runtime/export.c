/* SPDX-License-Identifier: Apache-2.0 */
/* Writes parameters into files for other programs: the way back of import.c. The plan says for each
 * parameter at which element of which tensor each of its elements stands (PART in plan/plan.h). A
 * file is written from its beginning to its end, in pieces. Rank 0 fills each piece: it finds the
 * parameters that have elements there, and gathers the range of them in which these elements are,
 * in smaller pieces, from the ranks that hold parts of it.
 *
 * Where the file has the axes in another order, that range is most of the parameter, and it is
 * gathered again for each piece of the file. So the piece of the file gets most of the memory that
 * a save may take. */
#include "runtime/export.h"

#include "runtime/checkpoint.h"
#include "runtime/outputs.h"
#include "runtime/rank.h"
#include "runtime/reduce.h"

#include "base/tryread.h"
#include "plan/report/memory.h"

#include <math.h>
#include <string.h>

enum { BLOCK = DT_EXPORT_BLOCK, COLUMNS = 32, GATHERED = DT_SAVE_BYTES / 8 };

typedef enum Flaw { SOUND, NOT_FINITE, TOO_LARGE } Flaw;

/* The stores' tensors that have a part, as numbers of the list of wanted tensors. */
typedef struct Homes {
    uint32_t *at, n;
} Homes;

/* One file of tensors that is being written. */
typedef struct Writer {
    DtRank *rank;
    const DtExport *export;
    DtWanted wanted;
    Homes *homes;      /* by PART record */
    uint32_t first;    /* number of the file's first tensor */
    char *piece;       /* of the file */
    char *part, *some; /* a gathered piece of a parameter, and one rank's part of it */
    int64_t most;      /* elements of such a piece */
    DtExportMerge merge;
} Writer;

/* A piece of the file that is being filled from one parameter. */
typedef struct Fill {
    const Writer *writer;
    const DtExportMerge *merge; /* of the parameter's adapter; NULL: it has none */
    const DtTensor *tensor;
    int64_t from, to; /* its elements, as numbers of those of the record */
    const DtPlanFilePart *part;
    const DtHome *home;
    const DtTensor *logical; /* the parameter */
    int64_t base; /* where the parameter's first element stands in this iteration of its loops */
    bool may_be_infinite;
    Flaw flaw;
} Fill;

/* ---- elements ---- */

/* n elements that are adjacent, as elements that are `step` apart. */
static void spread(char *to, const char *from, int64_t n, int64_t step, int64_t size)
{
    if (step == 1)
        memcpy(to, from, (size_t)(n * size));
    else if (size == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 2 * step * i, from + 2 * i, 2);
    else if (size == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 4 * step * i, from + 4 * i, 4);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + size * step * i, from + size * i, (size_t)size);
}

/* At most BLOCK elements of dtype `own`, which stand at element `first` of the piece and `step`
 * apart from there. */
static void put_block(Fill *fill, int64_t first, int64_t step, uint32_t own, const char *from,
                      int64_t n)
{
    _Alignas(8) char some[BLOCK * 8];
    const uint32_t dtype = fill->tensor->dtype;
    const int64_t size = dt_kinds_size(dtype);
    const bool looks = !fill->may_be_infinite && dt_kinds_is_float(own) && fill->flaw == SOUND;
    if (looks && dt_wanted_is_spoilt(own, from, n))
        fill->flaw = NOT_FINITE;
    if (own != dtype) {
        dt_reduce_convert(some, dtype, from, own, n);
        if (looks && fill->flaw == SOUND && dt_wanted_is_spoilt(dtype, some, n))
            fill->flaw = TOO_LARGE;
    }
    spread(fill->writer->piece + first * size, own != dtype ? some : from, n, step, size);
}

/* At most BLOCK elements of the parameter, the first of which is its element number `number`. */
static void put_elements(Fill *fill, int64_t first, int64_t step, int64_t number, const char *from,
                         int64_t n)
{
    float merged[BLOCK];
    const uint32_t own = fill->logical->dtype;
    if (fill->merge == NULL) {
        put_block(fill, first, step, own, from, n);
        return;
    }
    dt_exportmerge_add(fill->merge, number, n, own, from, merged);
    put_block(fill, first, step, DT_PLAN_F32, (const char *)merged, n);
}

/* n neighbours along the last axis of the parameter, the first of which has this index. */
static void put_run(Fill *fill, const int64_t *index, int64_t n, const char *at)
{
    const DtPlanFilePart *part = fill->part;
    const uint32_t axes = fill->logical->n_axes, loops = part->n_axes - axes;
    const int64_t size = dt_kinds_size(fill->logical->dtype);
    int64_t element = fill->base, step = axes ? part->stride[part->n_axes - 1] : 1, number = 0;
    for (uint32_t a = 0; a < axes; a++) {
        if (index[a] >= part->count[loops + a])
            return; /* the file does not have it */
        element += part->stride[loops + a] * index[a];
        number = number * fill->logical->extents[a] + index[a];
    }
    if (axes && n > part->count[part->n_axes - 1] - index[axes - 1])
        n = part->count[part->n_axes - 1] - index[axes - 1];
    step = step > 0 ? step : 1;
    if (element >= fill->to)
        return;
    int64_t i = element < fill->from ? (fill->from - element + step - 1) / step : 0;
    n = n < (fill->to - 1 - element) / step + 1 ? n : (fill->to - 1 - element) / step + 1;
    for (int64_t some; i < n; i += some) {
        some = n - i < BLOCK ? n - i : BLOCK;
        put_elements(fill, element + i * step - fill->from, step, number + i, at + i * size, some);
    }
}

/* A range of the parameter's elements, which are at `at`, row by row. Where neighbours are apart in
 * the file, the lines of its memory that a block of columns writes stay in the cache for the next
 * rows. */
static void put_range(Fill *fill, DtPiece range, const char *at)
{
    const DtTensor *logical = fill->logical;
    const uint32_t axes = logical->n_axes;
    const int64_t columns = axes ? logical->extents[axes - 1] : 1, end = range.first + range.n;
    const int64_t step = axes ? fill->part->stride[fill->part->n_axes - 1] : 1;
    const int64_t most = step > 1 ? COLUMNS : columns, size = dt_kinds_size(logical->dtype);
    for (int64_t c = 0; c < columns; c += most)
        for (int64_t row = range.first / columns * columns; row < end; row += columns) {
            const int64_t after = c + most < columns ? row + c + most : row + columns;
            const int64_t lo = row + c > range.first ? row + c : range.first,
                          hi = after < end ? after : end;
            int64_t index[DT_PLAN_MAX_RANK], left = lo;
            for (uint32_t a = axes; a-- > 0; left /= logical->extents[a])
                index[a] = left % logical->extents[a];
            if (lo < hi)
                put_run(fill, index, hi - lo, at + (lo - range.first) * size);
        }
}

/* ---- parameters ---- */

/* The range of the parameter's elements outside of which none is in the piece: axis by axis, as
 * long as one index is the only one that leads there. */
static DtPiece find_range(const Fill *fill)
{
    const DtTensor *logical = fill->logical;
    const uint32_t loops = fill->part->n_axes - logical->n_axes;
    int64_t base = fill->base, reach = 0, inner = 1, first = 0;
    for (uint32_t a = 0; a < logical->n_axes; a++) {
        const int64_t count = fill->part->count[loops + a], extent = logical->extents[a];
        reach += fill->part->stride[loops + a] * ((count < extent ? count : extent) - 1);
        inner *= extent;
    }
    for (uint32_t a = 0; a < logical->n_axes; a++) {
        const int64_t count = fill->part->count[loops + a], extent = logical->extents[a],
                      stride = fill->part->stride[loops + a];
        int64_t lo = 0, hi = count < extent ? count : extent;
        reach -= stride * (hi - 1);
        inner /= extent;
        if (stride > 0 && base + reach < fill->from)
            lo = (fill->from - base - reach + stride - 1) / stride;
        if (stride > 0 && base + stride * (hi - 1) >= fill->to)
            hi = base < fill->to ? (fill->to - 1 - base) / stride + 1 : 0;
        if (lo >= hi)
            return (DtPiece){0, 0};
        first += lo * inner;
        base += stride * lo;
        if (hi - lo > 1)
            return (DtPiece){first, (hi - lo) * inner};
    }
    return (DtPiece){first, base >= fill->from && base < fill->to};
}

/* Whether the file has this iteration of the parameter's loops; sets where its first element
 * stands. */
static bool enter_loops(Fill *fill)
{
    const DtPlan *plan = fill->writer->rank->plan;
    const DtPlanStore *store = fill->home->store;
    int64_t left = fill->home->iteration;
    fill->base = fill->part->first;
    for (uint32_t a = store->n_loops; a-- > 0;) {
        const DtPlanAxis *axis = &plan->axes[store->first_axis + a];
        const int64_t index = axis->first + left % axis->local;
        left /= axis->local;
        if (index >= fill->part->count[a])
            return false;
        fill->base += fill->part->stride[a] * index;
    }
    return true;
}

static DtStatus fill_from_home(Fill *fill)
{
    const Writer *writer = fill->writer;
    const DtPlanStore *store = fill->home->store;
    const int64_t size = dt_kinds_size(store->dtype);
    if (fill->part->n_axes != store->n_axes)
        return dt_status_fail(DT_EXIT_FAILED, "the plan is broken: `%.200s` has %u axes",
                              fill->logical->name, fill->part->n_axes);
    if (!enter_loops(fill))
        return DT_OK;
    fill->may_be_infinite = store->init == DT_PLAN_CONST && isinf(store->init_a);
    const DtPiece range = find_range(fill);
    const char *own = dt_pack_whole(writer->rank, store, fill->home->iteration);
    if (own)
        put_range(fill, range, own + range.first * size);
    DtPiece piece = {range.first, 0};
    for (const int64_t end = range.first + range.n; !own && piece.first < end;
         piece.first += piece.n) {
        piece.n = end - piece.first < writer->most ? end - piece.first : writer->most;
        atomic_fetch_add(&writer->rank->slot->progress, 1);
        if (!dt_pack_gather(writer->rank, store, fill->home->iteration, piece, writer->some,
                            writer->part))
            return dt_rank_has_failed(writer->rank)
                       ? writer->rank->failure
                       : dt_status_fail(DT_EXIT_FAILED, "the run is being ended");
        put_range(fill, piece, writer->part);
    }
    return DT_OK;
}

static DtStatus judge(const Fill *fill)
{
    if (fill->flaw == NOT_FINITE)
        return dt_status_fail(DT_EXIT_FAILED,
                              "`%.100s` has numbers that are not finite; go on from an earlier "
                              "checkpoint with a lower learning rate, a longer warm-up or `clip`",
                              fill->logical->name);
    if (fill->flaw == TOO_LARGE)
        return dt_status_fail(DT_EXIT_FAILED,
                              "`%.100s` has numbers that are too large for %s, the dtype of "
                              "`%.100s` in the export: --dtype f32 has all of them",
                              fill->logical ? fill->logical->name : fill->tensor->name,
                              dt_kinds_name(fill->tensor->dtype), fill->tensor->name);
    return DT_OK;
}

/* ---- elements of the folder ---- */

static void copy_like(void *context)
{
    Fill *fill = context;
    const Writer *writer = fill->writer;
    const DtExportFrom *from = &writer->export->from[fill->tensor - writer->export->tensors];
    const DtTensor *like = from->like->tensor;
    const uint32_t dtype = fill->tensor->dtype;
    if (dtype == like->dtype) { /* it may be one without a known size: from and to are bytes */
        memcpy(writer->piece, like->at + fill->from, (size_t)(fill->to - fill->from));
        return;
    }
    const int64_t size = dt_kinds_size(dtype), n = (fill->to - fill->from) / size;
    const uint8_t *at = like->at + fill->from / size * dt_kinds_size(like->dtype);
    dt_reduce_convert(writer->piece, dtype, at, like->dtype, n);
    if (dt_wanted_is_spoilt(dtype, writer->piece, n) && !dt_wanted_is_spoilt(like->dtype, at, n))
        fill->flaw = TOO_LARGE;
}

/* Copies bytes first .. first + n - 1 of the tensor from the folder, in its dtype. */
static DtStatus fill_from_folder(const Writer *writer, uint32_t number, int64_t first, int64_t n)
{
    const DtForeign *foreign = &writer->export->like.foreign;
    const DtForeignTensor *like = writer->export->from[number].like;
    Fill fill = {.writer = writer,
                 .tensor = &writer->export->tensors[number],
                 .from = first,
                 .to = first + n};
    const DtTensorFile *file = &foreign->files[like->file];
    const uint8_t *missing = dt_tryread(&file->view, copy_like, &fill);
    return missing ? dt_safetensors_cut(foreign->paths[like->file], file, missing) : judge(&fill);
}

/* ---- files ---- */

static DtStatus fill_piece(Writer *writer, uint32_t number, int64_t first, int64_t n)
{
    const DtPlan *plan = writer->rank->plan;
    const DtExportFrom *from = &writer->export->from[number];
    const DtPlanFileTensor *record = from->record;
    const DtTensor *tensor = &writer->export->tensors[number];
    DtStatus status = DT_OK;
    if (record == NULL || from->has_rest)
        status = fill_from_folder(writer, number, first, n);
    if (record == NULL)
        return status;
    const int64_t size = dt_kinds_size(tensor->dtype);
    Fill fill = {.writer = writer, .tensor = tensor};
    fill.from = from->number * (tensor->bytes / size) + first / size;
    fill.to = fill.from + n / size;
    for (uint32_t p = record->first_part; p < record->first_part + record->n_parts; p++)
        for (uint32_t h = 0; h < writer->homes[p].n && dt_status_ok(&status); h++) {
            const uint32_t home = writer->homes[p].at[h];
            fill.part = &plan->parts[p];
            fill.home = &writer->wanted.homes[home];
            fill.logical = &writer->wanted.tensors[home];
            status = dt_exportmerge_enter(&writer->merge, home);
            fill.merge = writer->merge.record ? &writer->merge : NULL;
            if (dt_status_ok(&status))
                status = fill_from_home(&fill);
            if (dt_status_ok(&status))
                status = judge(&fill);
        }
    return status;
}

static const void *bytes_of(void *context, uint32_t i, int64_t first, int64_t n,
                            DtStatus *ret_status)
{
    Writer *writer = context;
    atomic_fetch_add(&writer->rank->slot->progress, 1);
    *ret_status = fill_piece(writer, writer->first + i, first, n);
    return dt_status_ok(ret_status) ? writer->piece : NULL;
}

/* Whether the wanted tensor is the parameter of the part, its master copy, or its average. */
static bool is_home(const Writer *writer, const DtPlanFilePart *part, uint32_t wanted)
{
    const DtPlan *plan = writer->rank->plan;
    const DtPlanStore *store = writer->wanted.homes[wanted].store;
    if (store->kind == DT_PLAN_MASTER || store->kind == DT_PLAN_AVERAGE)
        store = &plan->stores[store->of];
    return strcmp(dt_plan_str(plan, store->path), dt_plan_str(plan, part->path)) == 0;
}

/* Finds, for each part of the names block, the stores' tensors that have it. */
static void find_homes(Writer *writer, DtArena *memory)
{
    const DtPlan *plan = writer->rank->plan;
    const DtPlanNames *names = writer->export->names;
    uint32_t *found = DT_NEW_ARRAY(memory, uint32_t, writer->wanted.n + 1);
    writer->homes = DT_NEW_ARRAY(memory, Homes, plan->n_parts + 1);
    for (uint32_t t = names->first_tensor; t < names->first_tensor + names->n_tensors; t++)
        for (uint32_t k = 0; k < plan->tensors[t].n_parts; k++) {
            const uint32_t p = plan->tensors[t].first_part + k;
            Homes *homes = &writer->homes[p];
            for (uint32_t h = 0; h < writer->wanted.n; h++)
                if (is_home(writer, &plan->parts[p], h))
                    found[homes->n++] = h;
            homes->at = DT_NEW_ARRAY(memory, uint32_t, homes->n + 1);
            memcpy(homes->at, found, homes->n * sizeof *found);
        }
}

/* Allocates memory for a piece of the largest tensor, and for what is gathered: together at most
 * DT_SAVE_BYTES. */
static void prepare(Writer *writer, DtArena *memory)
{
    const DtExport *export = writer->export;
    int64_t bytes = 0, gathered = 0, most = export->piece < GATHERED ? export->piece : GATHERED;
    for (uint32_t i = 0; i < export->n; i++)
        bytes = export->tensors[i].bytes > bytes ? export->tensors[i].bytes : bytes;
    for (uint32_t i = 0; i < writer->wanted.n; i++) {
        const DtHome *home = &writer->wanted.homes[i];
        if (writer->wanted.tensors[i].bytes > gathered &&
            !dt_pack_whole(writer->rank, home->store, home->iteration))
            gathered = writer->wanted.tensors[i].bytes;
    }
    most = gathered < most ? gathered : most;
    writer->most = most > 8 ? most / 8 : 1; /* elements of any dtype */
    writer->piece =
        dt_arena_alloc(memory, (size_t)(bytes < export->piece ? bytes : export->piece) + 8);
    writer->part = dt_arena_alloc(memory, (size_t)writer->most * 8);
    writer->some = dt_arena_alloc(memory, (size_t)writer->most * 8);
    writer->merge = (DtExportMerge){.rank = writer->rank,
                              .names = export->names,
                              .wanted = &writer->wanted,
                              .some = writer->some,
                              .part = writer->part,
                              .most = writer->most};
}

/* Puts averages in the place of the parameters, or master copies, that have them. */
static DtStatus take_averages(DtRank *rank, DtArena *memory, DtWanted *wanted)
{
    const uint32_t n = wanted->n;
    DtStatus status = dt_wanted_averages(rank, memory, wanted);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < wanted->n && dt_status_ok(&status); i++) {
        bool has_average = false;
        for (uint32_t k = n; i < n && k < wanted->n && !has_average; k++)
            has_average = strcmp(wanted->tensors[k].name, wanted->tensors[i].name) == 0;
        if (has_average)
            continue;
        wanted->tensors[kept] = wanted->tensors[i];
        wanted->homes[kept++] = wanted->homes[i];
    }
    wanted->n = dt_status_ok(&status) ? kept : wanted->n;
    return status;
}

static DtStatus write_tensors(DtRank *rank, DtArena *memory, const DtExport *export,
                              const char *folder)
{
    Writer writer = {.rank = rank, .export = export};
    DtStatus status = dt_wanted_list(rank, memory, DT_SAVED_MODEL, &writer.wanted);
    if (dt_status_ok(&status) && !rank->options->no_average)
        status = take_averages(rank, memory, &writer.wanted);
    if (!dt_status_ok(&status))
        return status;
    find_homes(&writer, memory);
    prepare(&writer, memory);
    for (uint32_t f = 0; f < export->n_files && dt_status_ok(&status); f++) {
        DtTensorsId id;
        writer.first = export->files[f];
        status = dt_safetensors_write(
            dt_arena_printf(memory, "%s/%s", folder, dt_exportlist_file(memory, export, f)),
            export->tensors + writer.first, export->files[f + 1] - writer.first, export->piece,
            bytes_of, &writer, &id);
    }
    dt_exportmerge_close(&writer.merge);
    return status;
}

/* Writes the folder under another name, then gives it its own. */
static DtStatus write_folder(DtRank *rank, DtArena *memory, const DtExport *export)
{
    DtOutputsExport to;
    DtStatus status = dt_outputs_export(rank->options->export, &to);
    if (dt_status_ok(&status)) /* an earlier attempt may have left it */
        status = dt_file_remove_folder(to.unfinished);
    if (dt_status_ok(&status))
        status = dt_file_make_folder(to.unfinished);
    if (dt_status_ok(&status))
        status = dt_exportfiles_write(memory, rank->plan, export, to.unfinished);
    if (dt_status_ok(&status))
        status = write_tensors(rank, memory, export, to.unfinished);
    return dt_status_ok(&status) ? dt_file_name_folder(to.unfinished, to.folder) : status;
}

static DtStatus write_all(DtRank *rank, DtArena *memory, DtText *ret_said)
{
    DtExport export;
    DtText list = {0};
    char size[32];
    DtStatus status =
        dt_exportlist_open(memory, rank->options, rank->plan, rank->imported, &export, &list);
    if (dt_status_ok(&status))
        status = write_folder(rank, memory, &export);
    if (dt_status_ok(&status))
        dt_text_printf(ret_said, "exported %u tensors, %s, to %s", export.n,
                       dt_text_bytes(size, (double)export.bytes), rank->options->export);
    if (dt_status_ok(&status) && export.n_merged)
        dt_text_printf(ret_said, "; adapters are added to %u of the program's weights",
                       export.n_merged);
    dt_exportlist_close(&export);
    dt_text_free(&list);
    return status;
}

bool dt_export_write(DtRank *rank, DtText *ret_said)
{
    if (rank->n_ranks > 1 && !rank->comm_ops->barrier(rank->comm, &rank->world))
        return false;
    if (rank->rank != 0)
        return rank->comm_ops->serve(rank->comm, 0);
    DtArena *memory = dt_arena_new();
    DtStatus status = write_all(rank, memory, ret_said);
    dt_arena_free(memory);
    if (!dt_status_ok(&status)) {
        status = dt_status_fail(status.code, "nothing was exported to %.100s: %.390s",
                                rank->options->export, status.message);
        atomic_store(&rank->slot->by_data, 1); /* an error of files and values, not of a rank */
        return dt_rank_fail_status(rank, &status);
    }
    if (rank->n_ranks > 1)
        rank->comm_ops->release(rank->comm);
    return true;
}
