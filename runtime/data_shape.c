/* SPDX-License-Identifier: Apache-2.0 */
/* The axes of an array in a file against those of the input that it fills. The first axis counts
 * samples, the others must be those of the input. Axes of one element count for nothing, and an
 * input of one axis takes all elements of a sample in their order. */
#include "runtime/data.h"

/* Appends the extents of a sample in the file, such as "28 x 28". */
static void add_shape(DtText *text, const DtDataShape *shape)
{
    for (uint32_t a = 1; a < shape->n_axes; a++)
        dt_text_printf(text, "%s%llu", a > 1 ? " x " : "", (unsigned long long)shape->extents[a]);
    if (shape->n_axes < 2)
        dt_text_add(text, "1");
}

static void add_extents(DtText *text, const DtTokenFormat *format)
{
    for (uint32_t a = 0; a < format->n_axes; a++)
        dt_text_printf(text, "%s%lld", a ? " x " : "", (long long)format->extents[a]);
    if (format->n_axes == 0)
        dt_text_add(text, "1");
}

/* The elements of a sample; UINT64_MAX: more than any file has. */
static uint64_t sample_elements(const DtDataShape *shape)
{
    uint64_t product = 1;
    for (uint32_t a = 1; a < shape->n_axes; a++)
        if (__builtin_mul_overflow(product, shape->extents[a], &product))
            return UINT64_MAX;
    return product;
}

static bool same_shape(const DtDataShape *shape, const DtTokenFormat *format)
{
    uint64_t there[DT_DATA_SHAPE_AXES];
    int64_t here[DT_PLAN_MAX_RANK];
    uint32_t n_there = 0, n_here = 0;
    for (uint32_t a = 1; a < shape->n_axes; a++)
        if (shape->extents[a] != 1)
            there[n_there++] = shape->extents[a];
    for (uint32_t a = 0; a < format->n_axes; a++)
        if (format->extents[a] != 1)
            here[n_here++] = format->extents[a];
    if (n_here == 1)
        return sample_elements(shape) == (uint64_t)here[0];
    bool same = n_here == n_there;
    for (uint32_t a = 0; same && a < n_here; a++)
        same = there[a] == (uint64_t)here[a];
    return same;
}

DtStatus dt_datashape_check(const DtTokenFormat *format, const char *path, const DtDataShape *shape)
{
    if (format->stream ? shape->may_stream && sample_elements(shape) == 1
                       : same_shape(shape, format))
        return DT_OK;
    DtText there = {0}, here = {0};
    add_shape(&there, shape);
    add_extents(&here, format);
    const unsigned long long samples = shape->extents[0];
    DtStatus status =
        format->stream
            ? dt_status_fail(DT_EXIT_IO,
                             "%.200s is %s of %llu samples of %s %s each, no stream of tokens: "
                             "read it as a source by itself",
                             path, shape->is, samples, there.at, shape->elements)
            : dt_status_fail(DT_EXIT_IO,
                             "%.200s is %s of %llu samples of %s %s each; a sample of `%.60s` has "
                             "%s values",
                             path, shape->is, samples, there.at, shape->elements, format->input,
                             here.at);
    dt_text_free(&there);
    dt_text_free(&here);
    return status;
}
