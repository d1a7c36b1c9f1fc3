/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by oneDNN: one matmul primitive per record of the plan, made at load, with the
 * scratchpad in our memory. The only file that sees oneDNN's header; its functions are found at
 * run time in the library of the header's major version. Versions 2 and 3 differ in how
 * descriptors are made (see the two halves of make_descriptor and make_primitive).
 *
 * One batch axis, the longest after merging, goes into the primitive if oneDNN has optimised code
 * for that; the others are a loop around it. (Version 3.7 computes wrong results for several batch
 * axes of which operands lack some, in "brg_matmul:avx512_core".) Where oneDNN has only its
 * reference code, prepare says no.
 *
 * Its code "gemm:jit" (operands with gaps between rows, as the heads of attention; without AVX-512
 * all products, there slower than OpenBLAS, which dtrun then chooses) takes buffers in every call,
 * whatever the scratchpad mode is: new_pool.c keeps them. */
#include "runtime/gemm.h"
#include "runtime/new_pool.h"

#include <dlfcn.h>
#include <errno.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SYMBOLS_COMMON(X)                                                            \
    X(dnnl_get_effective_cpu_isa)                                                    \
    X(dnnl_engine_create)                                                            \
    X(dnnl_engine_destroy)                                                           \
    X(dnnl_stream_create)                                                            \
    X(dnnl_stream_destroy) X(dnnl_memory_create) X(dnnl_memory_destroy)              \
        X(dnnl_memory_set_data_handle) X(dnnl_primitive_attr_create)                 \
            X(dnnl_primitive_attr_destroy) X(dnnl_primitive_attr_set_post_ops)       \
                X(dnnl_primitive_attr_set_scratchpad_mode) X(dnnl_post_ops_create)   \
                    X(dnnl_post_ops_destroy) X(dnnl_post_ops_append_sum)             \
                        X(dnnl_primitive_desc_query) X(dnnl_primitive_desc_query_md) \
                            X(dnnl_primitive_desc_destroy) X(dnnl_primitive_create)  \
                                X(dnnl_primitive_destroy) X(dnnl_primitive_execute)  \
                                    X(dnnl_stream_wait) X(dnnl_memory_desc_get_size)
#if DNNL_VERSION_MAJOR >= 3
#define SYMBOLS(X)                          \
    SYMBOLS_COMMON(X)                       \
    X(dnnl_memory_desc_create_with_strides) \
    X(dnnl_memory_desc_destroy) X(dnnl_matmul_primitive_desc_create)
#else
#define SYMBOLS(X)    \
    SYMBOLS_COMMON(X) \
    X(dnnl_memory_desc_init_by_strides) X(dnnl_matmul_desc_init) X(dnnl_primitive_desc_create)
#endif

typedef struct Symbols {
#define FIELD(name) __typeof__(name) *name;
    SYMBOLS(FIELD)
#undef FIELD
} Symbols;

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t Desc; /* a pointer */
typedef const_dnnl_memory_desc_t DescAt;
#else
typedef dnnl_memory_desc_t Desc; /* a struct */
typedef const dnnl_memory_desc_t *DescAt;
#endif

/* One prepared product. gemm: with the batch axes merged, of which the last n_inside (0 or 1) are
 * in the primitive and the others a loop around it. swapped: gemm computes the transpose of C as
 * B^T A^T, since oneDNN wants unit stride along the rows of its result. */
typedef struct Product {
    DtPlanGemm gemm;
    uint32_t n_inside;
    bool swapped;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c, scratch;
    size_t scratch_bytes;
} Product;

struct DtGemmLibrary {
    void *handle;
    Symbols dnnl;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    Product *products;
    uint32_t n_products;
    void *scratch; /* the largest scratchpad that any product needs */
    size_t scratch_bytes;
};

static DtStatus find_symbols(DtGemmLibrary *library)
{
#define FIND(name)                                                 \
    *(void **)&library->dnnl.name = dlsym(library->handle, #name); \
    if (library->dnnl.name == NULL)                                \
        return dt_status_fail(DT_EXIT_FAILED, "oneDNN lacks " #name);
    SYMBOLS(FIND)
#undef FIND
    return DT_OK;
}

/* One library thread per rank, since the ranks themselves use the cores. OpenMP keeps this setting
 * per thread. */
static void use_one_thread(void *handle)
{
    void (*set_threads)(int) = NULL;
    *(void **)&set_threads = dlsym(handle, "omp_set_num_threads");
    if (set_threads)
        set_threads(1);
}

static void close_library(DtGemmLibrary *library)
{
    for (uint32_t i = 0; i < library->n_products; i++) {
        Product *product = &library->products[i];
        if (product->primitive == NULL)
            continue;
        library->dnnl.dnnl_primitive_destroy(product->primitive);
        library->dnnl.dnnl_memory_destroy(product->a);
        library->dnnl.dnnl_memory_destroy(product->b);
        library->dnnl.dnnl_memory_destroy(product->c);
        library->dnnl.dnnl_memory_destroy(product->scratch);
    }
    if (library->stream)
        library->dnnl.dnnl_stream_destroy(library->stream);
    if (library->engine)
        library->dnnl.dnnl_engine_destroy(library->engine);
    if (library->scratch)
        munmap(library->scratch, library->scratch_bytes);
    /* The OpenMP runtime that the library loads cannot be unloaded safely, so the library is never
     * unloaded. */
}

/* Its name is libdnnl.so.MAJOR, or, where a distribution counts minor versions as incompatible
 * (Debian 13), libdnnl.so.MAJOR.MINOR of the headers' version or a little before. */
static void *find_library(const char **ret_why)
{
    char name[40];
    snprintf(name, sizeof name, "libdnnl.so.%d", DNNL_VERSION_MAJOR);
    static char why[200];
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        snprintf(why, sizeof why, "%s", dlerror());
    *ret_why = why;
    for (int minor = DNNL_VERSION_MINOR; !handle && minor >= 0; minor--) {
        snprintf(name, sizeof name, "libdnnl.so.%d.%d", DNNL_VERSION_MAJOR, minor);
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    return handle;
}

static DtStatus open_library(DtArena *memory, uint32_t n_gemms, DtGemmLibrary **ret_library)
{
    DtGemmLibrary *library = DT_NEW(memory, DtGemmLibrary);
    const char *why = NULL;
    dt_new_pool_link();
    library->handle = find_library(&why);
    if (library->handle == NULL)
        return dt_status_fail(
            DT_EXIT_FAILED,
            "oneDNN cannot be used: %.120s (package libdnnl-dev; or --gemm=openblas)", why);
    DtStatus status = find_symbols(library);
    if (!dt_status_ok(&status))
        return status;
    use_one_thread(library->handle);
    if (library->dnnl.dnnl_engine_create(&library->engine, dnnl_cpu, 0) != dnnl_success ||
        library->dnnl.dnnl_stream_create(&library->stream, library->engine,
                                         dnnl_stream_default_flags) != dnnl_success)
        return dt_status_fail(DT_EXIT_FAILED, "oneDNN does not start on this processor");
    library->products = DT_NEW_ARRAY(memory, Product, n_gemms + 1);
    library->n_products = n_gemms;
    *ret_library = library;
    return DT_OK;
}

/* ---- descriptors ---- */

/* A matrix, preceded by the batch axis of the primitive, if there is one. An operand without that
 * axis (stride 0) has extent 1 there. */
typedef struct Shape {
    int n;
    dnnl_dims_t dims, strides;
} Shape;

static Shape shape_of(const DtPlanGemm *g, uint32_t n_inside, const int64_t *batch, int64_t rows,
                      int64_t cols, int64_t row, int64_t col)
{
    Shape shape = {0};
    for (uint32_t d = g->n_batch - n_inside; d < g->n_batch; d++) {
        shape.dims[shape.n] = batch[d] == 0 ? 1 : g->batch[d];
        shape.strides[shape.n++] = batch[d];
    }
    shape.dims[shape.n] = rows;
    shape.strides[shape.n++] = row;
    shape.dims[shape.n] = cols;
    shape.strides[shape.n++] = col;
    /* Strides of axes with extent 1 may have any value; with these values oneDNN recognises the
     * usual layouts. */
    int64_t natural = 1;
    for (int d = shape.n; d-- > 0;) {
        if (shape.dims[d] == 1)
            shape.strides[d] = natural;
        int64_t span = shape.dims[d] * shape.strides[d];
        natural = span > natural ? span : natural;
    }
    return shape;
}

static bool make_descriptor(DtGemmLibrary *library, const Shape *shape, uint32_t dtype,
                            Desc *ret_desc)
{
    dnnl_data_type_t type = dtype == DT_PLAN_BF16 ? dnnl_bf16 : dnnl_f32;
#if DNNL_VERSION_MAJOR >= 3
    return library->dnnl.dnnl_memory_desc_create_with_strides(ret_desc, shape->n, shape->dims, type,
                                                              shape->strides) == dnnl_success;
#else
    return library->dnnl.dnnl_memory_desc_init_by_strides(ret_desc, shape->n, shape->dims, type,
                                                          shape->strides) == dnnl_success;
#endif
}

static void drop_descriptors(DtGemmLibrary *library, Desc *descs, int n)
{
#if DNNL_VERSION_MAJOR >= 3
    for (int i = 0; i < n; i++)
        library->dnnl.dnnl_memory_desc_destroy(descs[i]);
#else
    (void)library, (void)descs, (void)n;
#endif
}

#if DNNL_VERSION_MAJOR >= 3
#define AT(desc) (desc)
#else
#define AT(desc) (&(desc))
#endif

static bool make_attributes(DtGemmLibrary *library, bool accumulate,
                            dnnl_primitive_attr_t *ret_attr)
{
    Symbols *dnnl = &library->dnnl;
    dnnl_post_ops_t post = NULL;
    if (dnnl->dnnl_primitive_attr_create(ret_attr) != dnnl_success)
        return false;
    bool good = dnnl->dnnl_primitive_attr_set_scratchpad_mode(
                    *ret_attr, dnnl_scratchpad_mode_user) == dnnl_success;
    if (good && accumulate) {
        good = dnnl->dnnl_post_ops_create(&post) == dnnl_success;
#if DNNL_VERSION_MAJOR >= 3
        good = good &&
               dnnl->dnnl_post_ops_append_sum(post, 1.0f, 0, dnnl_data_type_undef) == dnnl_success;
#else
        good = good && dnnl->dnnl_post_ops_append_sum(post, 1.0f) == dnnl_success;
#endif
        good = good && dnnl->dnnl_primitive_attr_set_post_ops(*ret_attr, post) == dnnl_success;
        if (post)
            dnnl->dnnl_post_ops_destroy(post);
    }
    if (!good)
        dnnl->dnnl_primitive_attr_destroy(*ret_attr);
    return good;
}

/* Makes the description of the primitive. False: oneDNN has no optimised code for it. */
static bool make_primitive_desc(DtGemmLibrary *library, Desc descs[3], bool accumulate,
                                dnnl_primitive_desc_t *ret_desc)
{
    Symbols *dnnl = &library->dnnl;
    dnnl_primitive_attr_t attr;
    dnnl_status_t status;
    const char *kind = NULL;
    if (!make_attributes(library, accumulate, &attr))
        return false;
#if DNNL_VERSION_MAJOR >= 3
    status = dnnl->dnnl_matmul_primitive_desc_create(ret_desc, library->engine, descs[0], descs[1],
                                                     NULL, descs[2], attr);
#else
    dnnl_matmul_desc_t matmul;
    status = dnnl->dnnl_matmul_desc_init(&matmul, &descs[0], &descs[1], NULL, &descs[2]);
    if (status == dnnl_success)
        status = dnnl->dnnl_primitive_desc_create(ret_desc, &matmul, attr, library->engine, NULL);
#endif
    dnnl->dnnl_primitive_attr_destroy(attr);
    if (status != dnnl_success)
        return false;
    if (dnnl->dnnl_primitive_desc_query(*ret_desc, dnnl_query_impl_info_str, 0, &kind) !=
            dnnl_success ||
        strncmp(kind, "ref", 3) == 0) {
        dnnl->dnnl_primitive_desc_destroy(*ret_desc);
        return false;
    }
    return true;
}

static bool grow_scratch(DtGemmLibrary *library, size_t bytes)
{
    if (bytes <= library->scratch_bytes)
        return true;
    size_t rounded = (bytes + 4095) & ~(size_t)4095;
    void *at = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return false;
    if (library->scratch)
        munmap(library->scratch, library->scratch_bytes);
    library->scratch = at;
    library->scratch_bytes = rounded;
    return true;
}

static bool make_product(DtGemmLibrary *library, Product *product, Desc descs[3],
                         dnnl_primitive_desc_t desc)
{
    Symbols *dnnl = &library->dnnl;
    DescAt scratch = dnnl->dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    product->scratch_bytes = dnnl->dnnl_memory_desc_get_size(scratch);
    return dnnl->dnnl_memory_create(&product->a, AT(descs[0]), library->engine, DNNL_MEMORY_NONE) ==
               dnnl_success &&
           dnnl->dnnl_memory_create(&product->b, AT(descs[1]), library->engine, DNNL_MEMORY_NONE) ==
               dnnl_success &&
           dnnl->dnnl_memory_create(&product->c, AT(descs[2]), library->engine, DNNL_MEMORY_NONE) ==
               dnnl_success &&
           dnnl->dnnl_memory_create(&product->scratch, scratch, library->engine,
                                    DNNL_MEMORY_NONE) == dnnl_success &&
           grow_scratch(library, product->scratch_bytes) &&
           dnnl->dnnl_primitive_create(&product->primitive, desc) == dnnl_success;
}

/* Tries to make the primitive with the last n_inside batch axes (0 or 1). */
static bool try_product(DtGemmLibrary *library, Product *product, uint32_t n_inside)
{
    const DtPlanGemm *g = &product->gemm;
    Shape shapes[3] = {shape_of(g, n_inside, g->a_batch, g->m, g->k, g->a_row, g->a_col),
                       shape_of(g, n_inside, g->b_batch, g->k, g->n, g->b_row, g->b_col),
                       shape_of(g, n_inside, g->c_batch, g->m, g->n, g->c_row, g->c_col)};
    const uint32_t dtypes[3] = {g->dtype_a, g->dtype_b, g->dtype_c};
    Desc descs[3];
    int n = 0;
    while (n < 3 && make_descriptor(library, &shapes[n], dtypes[n], &descs[n]))
        n++;
    dnnl_primitive_desc_t desc;
    bool good = n == 3 && make_primitive_desc(library, descs, g->accumulate != 0, &desc);
    if (good) {
        good = make_product(library, product, descs, desc);
        library->dnnl.dnnl_primitive_desc_destroy(desc);
    }
    drop_descriptors(library, descs, n);
    product->n_inside = n_inside;
    return good;
}

/* False for a matrix that is broadcast along rows or columns (stride 0): it cannot be described to
 * oneDNN. */
static bool is_matrix(int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    return (rows == 1 || row > 0) && (cols == 1 || col > 0) &&
           (rows == 1 || cols == 1 || row == 1 || col == 1);
}

/* The columns of C have gaps. Version 3.7 ("brg_matmul:avx512_core") would write them as if there
 * were none. */
static bool is_sparse_column(const DtPlanGemm *g) { return g->n == 1 && g->m > 1 && g->c_row != 1; }

static bool is_float(uint32_t dtype) { return dtype == DT_PLAN_F32 || dtype == DT_PLAN_BF16; }

static DtPlanGemm transposed(const DtPlanGemm *g)
{
    DtPlanGemm t = *g;
    t.m = g->n, t.n = g->m;
    t.a_row = g->b_col, t.a_col = g->b_row;
    t.b_row = g->a_col, t.b_col = g->a_row;
    t.c_row = g->c_col, t.c_col = g->c_row;
    t.dtype_a = g->dtype_b, t.dtype_b = g->dtype_a;
    memcpy(t.a_batch, g->b_batch, sizeof t.a_batch);
    memcpy(t.b_batch, g->a_batch, sizeof t.b_batch);
    return t;
}

/* Whether batch axes `inner` and `outer` can be merged in an operand with these strides: a step
 * along `outer` equals `inner`'s extent times its step. */
static bool continues(const DtPlanGemm *g, const int64_t *batch, uint32_t outer, uint32_t inner)
{
    return batch[outer] == batch[inner] * g->batch[inner];
}

static void swap_batches(DtPlanGemm *g, uint32_t i, uint32_t k)
{
    int64_t *const rows[] = {g->batch, g->a_batch, g->b_batch, g->c_batch};
    for (size_t r = 0; r < DT_COUNT(rows); r++) {
        int64_t at = rows[r][i];
        rows[r][i] = rows[r][k];
        rows[r][k] = at;
    }
}

/* Merges batch axis k into axis i, with the strides of k; the last axis takes the place of k. */
static void merge_into(DtPlanGemm *g, uint32_t i, uint32_t k)
{
    g->batch[i] *= g->batch[k];
    g->a_batch[i] = g->a_batch[k];
    g->b_batch[i] = g->b_batch[k];
    g->c_batch[i] = g->c_batch[k];
    swap_batches(g, k, --g->n_batch);
}

/* Merges batch axes as far as possible, and moves the longest to the end. */
static void merge_batches(DtPlanGemm *g)
{
    for (uint32_t i = g->n_batch; i-- > 0;)
        if (g->batch[i] == 1)
            swap_batches(g, i, --g->n_batch);
    for (uint32_t i = 0; i < g->n_batch;) {
        uint32_t k = 0;
        while (k < g->n_batch &&
               (k == i || !continues(g, g->a_batch, i, k) || !continues(g, g->b_batch, i, k) ||
                !continues(g, g->c_batch, i, k)))
            k++;
        if (k < g->n_batch) {
            merge_into(g, i, k);
            i = 0;
        } else {
            i++;
        }
    }
    for (uint32_t i = 0, last = g->n_batch - 1; i + 1 < g->n_batch; i++)
        if (g->batch[i] > g->batch[last])
            swap_batches(g, i, last);
}

static bool prepare(DtGemmLibrary *library, uint32_t index, const DtPlanGemm *record)
{
    Product *product = &library->products[index];
    bool swapped = record->c_col != 1 && record->n > 1;
    *product = (Product){.gemm = swapped ? transposed(record) : *record, .swapped = swapped};
    const DtPlanGemm *g = &product->gemm;
    merge_batches(&product->gemm);
    if (!is_float(g->dtype_a) || !is_float(g->dtype_b) || !is_float(g->dtype_c))
        return false;
    if (!is_matrix(g->m, g->k, g->a_row, g->a_col) || !is_matrix(g->k, g->n, g->b_row, g->b_col) ||
        !is_matrix(g->m, g->n, g->c_row, g->c_col) || is_sparse_column(g))
        return false;
    if (g->n_batch > 0 && try_product(library, product, 1))
        return true;
    return try_product(library, product, 0);
}

/* ---- the step ---- */

static bool execute(DtGemmLibrary *library, Product *product, const char *a, const char *b, char *c)
{
    Symbols *dnnl = &library->dnnl;
    dnnl->dnnl_memory_set_data_handle(product->a, (void *)(uintptr_t)a);
    dnnl->dnnl_memory_set_data_handle(product->b, (void *)(uintptr_t)b);
    dnnl->dnnl_memory_set_data_handle(product->c, c);
    const dnnl_exec_arg_t args[4] = {{DNNL_ARG_SRC, product->a},
                                     {DNNL_ARG_WEIGHTS, product->b},
                                     {DNNL_ARG_DST, product->c},
                                     {DNNL_ARG_SCRATCHPAD, product->scratch}};
    return dnnl->dnnl_primitive_execute(product->primitive, library->stream, 4, args) ==
           dnnl_success;
}

static bool run(DtGemmLibrary *library, uint32_t index, const void *a, const void *b, void *c)
{
    Product *product = &library->products[index];
    const DtPlanGemm *g = &product->gemm;
    if (product->swapped) {
        const void *first = a;
        a = b;
        b = first;
    }
    if (product->scratch_bytes > 0)
        library->dnnl.dnnl_memory_set_data_handle(product->scratch, library->scratch);
    DtGemmBatch at = dt_gemm_batch(g, g->n_batch - product->n_inside);
    do {
        if (!execute(library, product, (const char *)a + at.a * dt_kinds_size(g->dtype_a),
                     (const char *)b + at.b * dt_kinds_size(g->dtype_b),
                     (char *)c + at.c * dt_kinds_size(g->dtype_c)))
            return false;
    } while (dt_gemm_batch_next(&at));
    return library->dnnl.dnnl_stream_wait(library->stream) == dnnl_success;
}

static uint64_t workspace(const DtGemmLibrary *library) { return library->scratch_bytes; }

/* Without AVX-512 every product uses "gemm:jit" (versions 2.6 to 3.7). */
static bool suits(const DtGemmLibrary *library)
{
    return (library->dnnl.dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) ==
           dnnl_cpu_isa_avx512_core;
}

const DtGemmOps dt_gemm_onednn = {"onednn", open_library, suits, prepare, run, close_library,
                                  workspace};
