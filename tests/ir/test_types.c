/* SPDX-License-Identifier: Apache-2.0 */
/* Types: interning, what is refused, local extents, text. */
#include "sample.h"

#include "base/intern.h"
#include "tests/type_text.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static DtAxis axis(const char *name, int64_t extent) { return sample_axis(name, extent); }

Test(types, dtypes)
{
    static const struct {
        const char *name;
        size_t size;
        bool is_float;
    } wanted[DT_DTYPE_COUNT] = {{"bool", 1, false}, {"u8", 1, false},  {"u16", 2, false},
                                {"u32", 4, false},  {"i32", 4, false}, {"i64", 8, false},
                                {"f16", 2, true},   {"bf16", 2, true}, {"f32", 4, true},
                                {"f64", 8, true}};
    for (int i = 0; i < DT_DTYPE_COUNT; i++) {
        DtDtype parsed;
        cr_expect_str_eq(dt_dtype_name((DtDtype)i), wanted[i].name);
        cr_expect_eq(dt_dtype_size((DtDtype)i), wanted[i].size);
        cr_expect_eq(dt_dtype_is_float((DtDtype)i), wanted[i].is_float);
        cr_assert(dt_dtype_parse(wanted[i].name, &parsed));
        cr_expect_eq((int)parsed, i);
    }
    DtDtype none;
    cr_expect_not(dt_dtype_parse("f8", &none));
    cr_expect_not(dt_dtype_parse("", &none));
}

Test(types, equal_types_are_one)
{
    DtAxis axes[] = {axis("a", 3), axis("b", 4)}, swapped[] = {axis("b", 4), axis("a", 3)};
    const DtType *type = dt_type_plain(DT_F32, 2, axes);
    cr_expect_eq(dt_type_plain(DT_F32, 2, axes), type);
    cr_expect_neq(dt_type_plain(DT_BF16, 2, axes), type);
    cr_expect_neq(dt_type_plain(DT_F32, 1, axes), type);
    cr_expect_neq(dt_type_plain(DT_F32, 2, swapped), type, "order is part of a type");
    cr_expect_neq(dt_type_make(DT_F32, 2, axes, 1, DT_REDUCE_SUM), type);
    cr_expect_neq(dt_type_make(DT_F32, 2, axes, 1, DT_REDUCE_MAX),
                  dt_type_make(DT_F32, 2, axes, 1, DT_REDUCE_SUM));
    cr_expect_eq(dt_type_make(DT_F32, 2, axes, 0, DT_REDUCE_MAX), type, "nothing is pending");
    axes[0].split[2] = 9; /* is ignored, since it is beyond n_split */
    axes[0].zigzag = 1;
    cr_expect_eq(dt_type_plain(DT_F32, 2, axes), type);
    axes[0].n_split = 1;
    cr_expect_neq(dt_type_plain(DT_F32, 2, axes), type);
    cr_expect_eq(dt_type_with_dtype(dt_type_with_dtype(type, DT_F16), DT_F32), type);
    cr_expect_eq(dt_type_scalar(DT_I32)->rank, 0);
}

/* Pointers to types stay valid when the table of types grows many times. */
Test(types, many)
{
    enum { N = 5000 };
    static const DtType *types[N];
    for (int i = 0; i < N; i++)
        types[i] = dt_type_plain(DT_F32, 1, (DtAxis[]){axis("n", i + 1)});
    for (int i = 0; i < N; i++)
        cr_assert_eq(dt_type_plain(DT_F32, 1, (DtAxis[]){axis("n", i + 1)}), types[i]);
}

Test(types, questions)
{
    DtAxis axes[] = {axis("a", 3), axis("b", 4)}, swapped[] = {axis("b", 4), axis("a", 3)};
    const DtType *type = dt_type_plain(DT_F32, 2, axes);
    cr_expect_eq(dt_type_find(type, dt_intern("b")), 1);
    cr_expect_eq(dt_type_find(type, dt_intern("c")), -1);
    cr_expect_eq(dt_type_extent(type, dt_intern("b")), 4);
    cr_expect_eq(dt_type_extent(type, dt_intern("c")), -1);
    cr_expect_eq(dt_type_elements(type), 12);
    cr_expect_eq(dt_type_elements(dt_type_scalar(DT_F32)), 1);
    cr_expect(dt_type_same_axes(type, dt_type_plain(DT_I32, 2, swapped)));
    cr_expect_not(dt_type_same_axes(type, dt_type_plain(DT_F32, 1, axes)));
    swapped[0].extent = 5;
    cr_expect_not(dt_type_same_axes(type, dt_type_plain(DT_F32, 2, swapped)));
    swapped[0] = sample_split("b", 4, 0);
    cr_expect_not(dt_type_same_axes(type, dt_type_plain(DT_F32, 2, swapped)));
}

Test(types, refused)
{
    DtAxis a = axis("a", 3), many[DT_MAX_RANK + 1];
    for (int i = 0; i <= DT_MAX_RANK; i++)
        many[i] = axis("", 2), many[i].name = dt_intern_printf("x%d", i);
    cr_expect_null(dt_type_check(DT_F32, DT_MAX_RANK, many, 0, DT_REDUCE_SUM));
    cr_expect(dt_type_check(DT_F32, DT_MAX_RANK + 1, many, 0, DT_REDUCE_SUM));
    cr_expect(dt_type_check(DT_DTYPE_COUNT, 1, &a, 0, DT_REDUCE_SUM));
    cr_expect(dt_type_check(DT_F32, 1, &a, 1, (DtReduce)3));
    cr_expect(dt_type_check(DT_F32, 2, (DtAxis[]){a, a}, 0, DT_REDUCE_SUM), "one name twice");
    cr_expect(dt_type_check(DT_F32, 1, (DtAxis[]){axis("a", 0)}, 0, DT_REDUCE_SUM));
    cr_expect(dt_type_check(DT_F32, 1, (DtAxis[]){{.extent = 1}}, 0, DT_REDUCE_SUM), "no name");
    DtAxis split = sample_split("a", 4, 1), other = sample_split("b", 4, 1);
    cr_expect_null(dt_type_check(DT_F32, 1, &split, 1, DT_REDUCE_SUM));
    cr_expect(dt_type_check(DT_F32, 1, &split, 2, DT_REDUCE_SUM),
              "split and pending over one mesh axis");
    cr_expect(dt_type_check(DT_F32, 2, (DtAxis[]){split, other}, 0, DT_REDUCE_SUM),
              "one mesh axis splits two axes");
    split.split[0] = DT_MAX_MESH;
    cr_expect(dt_type_check(DT_F32, 1, &split, 0, DT_REDUCE_SUM));
    split.n_split = DT_MAX_SPLIT + 1;
    cr_expect(dt_type_check(DT_F32, 1, &split, 0, DT_REDUCE_SUM));
    int64_t limit = INT64_MAX / 8;
    cr_expect_null(dt_type_check(DT_F32, 1, (DtAxis[]){axis("a", limit)}, 0, DT_REDUCE_SUM));
    cr_expect(dt_type_check(DT_F32, 1, (DtAxis[]){axis("a", limit + 1)}, 0, DT_REDUCE_SUM));
    cr_expect(
        dt_type_check(DT_F32, 2, (DtAxis[]){axis("a", limit / 2), axis("b", 3)}, 0, DT_REDUCE_SUM));
}

Test(types, broken_types_abort, .signal = SIGABRT)
{
    DtAxis none = axis("a", 0);
    dt_type_plain(DT_F32, 1, &none);
}

Test(types, local_parts)
{
    DtMesh mesh = {
        3,
        {{dt_intern("micro"), 2, true}, {dt_intern("data"), 4, false}, {dt_intern("t"), 3, false}}};
    DtAxis axes[] = {axis("a", 16), axis("b", 7), axis("c", 5)};
    axes[0].n_split = 2;
    axes[0].split[1] = 1;
    axes[1] = sample_split("b", 7, 2);
    const DtType *type = dt_type_plain(DT_F32, 3, axes);
    cr_expect_eq(dt_type_local_extent(type, 0, &mesh), 2);
    cr_expect_eq(dt_type_local_extent(type, 1, &mesh), 3, "rounded up");
    cr_expect_eq(dt_type_local_extent(type, 2, &mesh), 5);
    cr_expect_eq(dt_type_local_elements(type, &mesh), 30);
    cr_expect_eq(dt_type_elements(type), 16 * 7 * 5);
}

static void expect_text(const DtType *type, const DtMesh *mesh, const char *wanted,
                        const char *with_extents)
{
    DtText text = {0}, extents = {0};
    print_placement(type, mesh, &text);
    dt_type_print_extents(type, mesh, &extents);
    cr_expect_str_eq(text.at, wanted);
    cr_expect_str_eq(extents.at, with_extents);
    dt_text_free(&text);
    dt_text_free(&extents);
}

Test(types, text)
{
    DtMesh mesh = {3,
                   {{dt_intern("data"), 4, false},
                    {dt_intern("context"), 2, false},
                    {dt_intern("tensor"), 2, false}}};
    DtAxis axes[] = {sample_split("batch", 8, 0), sample_split("seq", 16, 1), axis("embed", 4)};
    axes[1].zigzag = 1;
    const DtType *type = dt_type_make(DT_BF16, 3, axes, 4, DT_REDUCE_SUM);
    expect_text(type, &mesh, "bf16[batch/data, seq/context~, embed]{sum tensor}",
                "bf16[batch=8/data, seq=16/context~, embed=4]{sum tensor}");
    expect_text(type, NULL, "bf16[batch/0, seq/1~, embed]{sum 2}",
                "bf16[batch=8/0, seq=16/1~, embed=4]{sum 2}");
    axes[1].split[axes[1].n_split++] = 2;
    axes[2].name = dt_intern("two words");
    expect_text(dt_type_plain(DT_F32, 3, axes), &mesh,
                "f32[batch/data, seq/context.tensor~, \"two words\"]",
                "f32[batch=8/data, seq=16/context.tensor~, \"two words\"=4]");
    expect_text(dt_type_scalar(DT_I32), &mesh, "i32[]", "i32[]");
}
