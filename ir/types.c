/* SPDX-License-Identifier: Apache-2.0 */
/* Types and dtypes. A type is made once: dt_type_make looks it up in a process-wide table by
 * content, so equal types have equal pointers and passes compare them with ==. The table lives
 * as long as the process and is not thread-safe, like the table of interned names that it points
 * into. */
#include "base/arena.h"
#include "base/bug.h"
#include "base/hash.h"
#include "base/intern.h"
#include "ir/ir.h"
#include "ir/quote.h"

#include <stdlib.h>
#include <string.h>

/* ---- dtypes ---- */

static const struct {
    const char *name;
    size_t size;
    bool is_float;
} dtypes[DT_DTYPE_COUNT] = {
    [DT_BOOL] = {"bool", 1, false}, [DT_U8] = {"u8", 1, false},    [DT_U16] = {"u16", 2, false},
    [DT_U32] = {"u32", 4, false},   [DT_I32] = {"i32", 4, false},  [DT_I64] = {"i64", 8, false},
    [DT_F16] = {"f16", 2, true},    [DT_BF16] = {"bf16", 2, true}, [DT_F32] = {"f32", 4, true},
    [DT_F64] = {"f64", 8, true},
};

/* Returns the bytes of one element. */
size_t dt_dtype_size(DtDtype dtype) { return dtypes[dtype].size; }

/* Returns the dtype's name as programs have it: "bf16". */
const char *dt_dtype_name(DtDtype dtype) { return dtypes[dtype].name; }

bool dt_dtype_is_float(DtDtype dtype) { return dtypes[dtype].is_float; }

bool dt_dtype_parse(const char *name, DtDtype *ret_dtype)
{
    for (int i = 0; i < DT_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *ret_dtype = (DtDtype)i;
            return true;
        }
    }
    return false;
}

/* ---- validity ---- */

static const char *check_axis(const DtAxis *axis, uint32_t *used)
{
    if (!axis->name)
        return "an axis has no name";
    if (axis->extent < 1)
        return "an axis has no extent of at least 1";
    if (axis->n_split > DT_MAX_SPLIT)
        return "an axis is split by more than 4 mesh axes";
    for (uint32_t i = 0; i < axis->n_split; i++) {
        if (axis->split[i] >= DT_MAX_MESH)
            return "a split names a mesh axis beyond the 16th";
        if (*used & 1u << axis->split[i])
            return "a mesh axis would be used twice by one type";
        *used |= 1u << axis->split[i];
    }
    return NULL;
}

const char *dt_type_check(DtDtype dtype, uint32_t rank, const DtAxis *axes, uint16_t partial,
                          DtReduce pending)
{
    if ((unsigned)dtype >= DT_DTYPE_COUNT)
        return "the dtype does not exist";
    if (rank > DT_MAX_RANK)
        return "a tensor can have 16 axes at most";
    if ((unsigned)pending > DT_REDUCE_MIN)
        return "the pending reduction does not exist";
    uint32_t used = partial;
    int64_t left = INT64_MAX / 8;
    for (uint32_t i = 0; i < rank; i++) {
        const char *problem = check_axis(&axes[i], &used);
        if (problem)
            return problem;
        for (uint32_t k = 0; k < i; k++) {
            if (axes[k].name == axes[i].name)
                return "two axes have the same name";
        }
        left /= axes[i].extent;
        if (left == 0)
            return "the tensor would have more elements than 64-bit addresses can hold";
    }
    return NULL;
}

/* ---- the table ---- */

static struct {
    DtArena *arena;
    const DtType **slots; /* open addressing; n_slots is a power of two */
    size_t n_slots, n;
} table;

static size_t bytes_of(uint32_t rank) { return sizeof(DtType) + rank * sizeof(DtAxis); }

static uint64_t hash_of(const DtType *type) { return dt_hash_bytes(type, bytes_of(type->rank), 0); }

static void grow_table(void)
{
    size_t n_slots = table.n_slots ? table.n_slots * 2 : 256;
    const DtType **slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        dt_arena_exhausted(n_slots * sizeof *slots);
    for (size_t i = 0; i < table.n_slots; i++) {
        if (!table.slots[i])
            continue;
        size_t at = hash_of(table.slots[i]) & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = table.slots[i];
    }
    free(table.slots);
    table.slots = slots;
    table.n_slots = n_slots;
}

static _Noreturn void broken(const char *problem, DtDtype dtype, uint32_t rank, const DtAxis *axes)
{
    DtText text = {0};
    for (uint32_t i = 0; i < rank && i < DT_MAX_RANK; i++)
        dt_text_printf(&text, " %s=%lld", axes[i].name ? axes[i].name : "?",
                       (long long)axes[i].extent);
    DT_BUG("broken type: %s\n  dtype %d, axes%s", problem, (int)dtype, text.at ? text.at : "");
}

/* Returns the one type with this content, a new one if there is none yet. Unused fields and padding
 * of `type` must be zero. */
static const DtType *intern(const DtType *type)
{
    if (table.n * 2 >= table.n_slots)
        grow_table();
    size_t bytes = bytes_of(type->rank), at = hash_of(type) & (table.n_slots - 1);
    for (; table.slots[at]; at = (at + 1) & (table.n_slots - 1)) {
        const DtType *other = table.slots[at];
        if (other->rank == type->rank && memcmp(other, type, bytes) == 0)
            return other;
    }
    for (uint32_t i = 0; i < type->rank; i++) /* a name that is not interned is found in no type */
        if (dt_intern(type->axes[i].name) != type->axes[i].name)
            broken("the name of an axis is not interned", type->dtype, type->rank, type->axes);
    if (!table.arena)
        table.arena = dt_arena_new();
    DtType *copy = dt_arena_alloc(table.arena, bytes);
    memcpy(copy, type, bytes);
    table.slots[at] = copy;
    table.n++;
    return copy;
}

/* Returns the one type with this content. Axis names must be interned; it aborts if dt_type_check
 * finds a problem. Splits beyond n_split, zigzag of an axis without split and pending without
 * partial are ignored. */
const DtType *dt_type_make(DtDtype dtype, uint32_t rank, const DtAxis *axes, uint16_t partial,
                           DtReduce pending)
{
    const char *problem = dt_type_check(dtype, rank, axes, partial, pending);
    if (problem)
        broken(problem, dtype, rank, axes);
    union {
        DtType type;
        unsigned char bytes[sizeof(DtType) + DT_MAX_RANK * sizeof(DtAxis)];
    } key;
    memset(&key, 0, bytes_of(rank));
    DtType *type = &key.type;
    type->dtype = dtype;
    type->rank = (uint8_t)rank;
    type->partial = partial;
    type->pending = partial ? (uint8_t)pending : 0;
    for (uint32_t i = 0; i < rank; i++) {
        DtAxis *axis = (DtAxis *)(key.bytes + sizeof(DtType)) + i;
        axis->name = axes[i].name;
        axis->extent = axes[i].extent;
        axis->n_split = axes[i].n_split;
        memcpy(axis->split, axes[i].split, axes[i].n_split);
        axis->zigzag = axes[i].n_split ? axes[i].zigzag : 0;
    }
    return intern(type);
}

const DtType *dt_type_plain(DtDtype dtype, uint32_t rank, const DtAxis *axes)
{
    return dt_type_make(dtype, rank, axes, 0, DT_REDUCE_SUM);
}

const DtType *dt_type_scalar(DtDtype dtype)
{
    return dt_type_make(dtype, 0, NULL, 0, DT_REDUCE_SUM);
}

const DtType *dt_type_with_dtype(const DtType *type, DtDtype dtype)
{
    if (type->dtype == dtype)
        return type;
    return dt_type_make(dtype, type->rank, type->axes, type->partial, (DtReduce)type->pending);
}

/* ---- questions ---- */

/* axis must be interned. */
bool dt_type_is_ringbuf(const DtType *type)
{
    const uint32_t last = type->rank - 1u;
    if (type->dtype != DT_U8 || type->rank < 2 || type->partial ||
        strcmp(type->axes[0].name, "@ringbuf") != 0 || strcmp(type->axes[last].name, "@slot") != 0)
        return false;
    bool is = !type->axes[0].n_split && !type->axes[last].n_split &&
              type->axes[last].extent % DT_RING_ALIGN == 0;
    for (uint32_t i = 1; i < last; i++)
        is = is && type->axes[i].n_split == 1;
    return is;
}

int dt_type_find(const DtType *type, const char *axis)
{
    for (int i = 0; i < type->rank; i++) {
        if (type->axes[i].name == axis)
            return i;
    }
    return -1;
}

int dt_mesh_find(const DtMesh *mesh, const char *axis)
{
    for (uint32_t i = 0; i < mesh->n; i++)
        if (mesh->axes[i].name == axis)
            return (int)i;
    return -1;
}

int64_t dt_type_extent(const DtType *type, const char *axis)
{
    int i = dt_type_find(type, axis);
    return i < 0 ? -1 : type->axes[i].extent;
}

int64_t dt_type_elements(const DtType *type)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (__builtin_mul_overflow(n, type->axes[i].extent, &n))
            return -1;
    }
    return n;
}

bool dt_type_same_axis(const DtAxis *a, const DtAxis *b)
{
    return a->name == b->name && a->extent == b->extent && a->n_split == b->n_split &&
           memcmp(a->split, b->split, a->n_split) == 0 &&
           (a->n_split == 0 || a->zigzag == b->zigzag);
}

bool dt_type_same_axes(const DtType *a, const DtType *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        int k = dt_type_find(b, a->axes[i].name);
        if (k < 0 || !dt_type_same_axis(&a->axes[i], &b->axes[k]))
            return false;
    }
    return true;
}

/* Returns the extent of a rank's part: the logical extent divided by the ranks that split it,
 * rounded up. */
int64_t dt_type_local_extent(const DtType *type, uint32_t axis, const DtMesh *mesh)
{
    int64_t extent = type->axes[axis].extent;
    for (uint32_t i = 0; i < type->axes[axis].n_split; i++) {
        uint32_t m = type->axes[axis].split[i];
        int64_t size = mesh && m < mesh->n ? mesh->axes[m].size : 1;
        extent = extent / size + (extent % size != 0);
    }
    return extent;
}

int64_t dt_type_local_elements(const DtType *type, const DtMesh *mesh)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (__builtin_mul_overflow(n, dt_type_local_extent(type, i, mesh), &n))
            return -1;
    }
    return n;
}

/* ---- text ---- */

static void print_mesh_axis(uint32_t number, const DtMesh *mesh, DtText *text)
{
    const char *name = mesh && number < mesh->n ? mesh->axes[number].name : NULL;
    if (name)
        dt_quote_add_part(text, name);
    else
        dt_text_printf(text, "%u", number);
}

static void print_axis(const DtAxis *axis, const DtMesh *mesh, DtText *text)
{
    dt_quote_add(text, axis->name);
    dt_text_add(text, "=");
    dt_text_integer(text, axis->extent);
    for (uint32_t i = 0; i < axis->n_split; i++) {
        dt_text_add(text, i ? "." : "/");
        print_mesh_axis(axis->split[i], mesh, text);
    }
    if (axis->zigzag)
        dt_text_add(text, "~");
}

void dt_type_print_extents(const DtType *type, const DtMesh *mesh, DtText *text)
{
    static const char *const reduces[] = {"sum", "max", "min"};
    dt_text_add(text, dt_dtype_name(type->dtype));
    dt_text_add(text, "[");
    for (uint32_t i = 0; i < type->rank; i++) {
        if (i)
            dt_text_add(text, ", ");
        print_axis(&type->axes[i], mesh, text);
    }
    dt_text_add(text, "]");
    if (!type->partial)
        return;
    dt_text_printf(text, "{%s", reduces[type->pending]);
    for (uint32_t i = 0; i < DT_MAX_MESH; i++) {
        if (type->partial & 1u << i) {
            dt_text_add(text, " ");
            print_mesh_axis(i, mesh, text);
        }
    }
    dt_text_add(text, "}");
}
