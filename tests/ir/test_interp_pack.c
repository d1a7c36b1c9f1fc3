/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: pack and unpack, with kept axes, padding, pending sums, and splits (one row per
 * rank). */
#include "interp_fixture.h"

#include "base/intern.h"
#include "ir/shape.h"

#include <criterion/criterion.h>
#include <string.h>

Test(interp_pack, one_behind_the_other_with_zeros_at_the_end)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_values(f, type_of(DT_F32, "a=2 b=2"), (double[]){1, 2, 3, 4});
    DtValue *y = arg_values(f, type_of(DT_F32, "c=3"), (double[]){5, 6, 7});
    DtValue *bucket = dt_graph_pack(&f->b, 0, NULL, 2, (DtValue *[]){x, y}, 8);
    expect_values(run(f, bucket), (double[]){1, 2, 3, 4, 5, 6, 7, 0}, 8);
    expect_values(run(f, dt_graph_unpack(&f->b, 0, bucket, 0, x->type)), (double[]){1, 2, 3, 4}, 4);
    expect_values(run(f, dt_graph_unpack(&f->b, 0, bucket, 4, y->type)), (double[]){5, 6, 7}, 3);
    fixture_free(f);
}

Test(interp_pack, kept_axes_stay)
{
    Fixture *f = fixture_new();
    DtValue *x = arg_values(f, type_of(DT_F32, "h=2 a=2"), (double[]){1, 2, 11, 12});
    DtValue *y = arg_values(f, type_of(DT_F32, "h=2"), (double[]){5, 15});
    const char *h = dt_intern("h");
    DtValue *bucket = dt_graph_pack(&f->b, 1, &h, 2, (DtValue *[]){x, y}, 4);
    expect_values(run(f, bucket), (double[]){1, 2, 5, 0, 11, 12, 15, 0}, 8);
    expect_values(run(f, dt_graph_unpack(&f->b, 1, bucket, 2, y->type)), (double[]){5, 15}, 2);
    fixture_free(f);
}

static const DtType *split_type(const char *name, int64_t extent, uint8_t mesh, const char *other,
                                int64_t n)
{
    DtAxis axes[2] = {{.name = dt_intern(other), .extent = n},
                      {.name = dt_intern(name), .extent = extent, .n_split = 1, .split = {mesh}}};
    return dt_type_make(DT_F32, 2, axes, 1, DT_REDUCE_SUM);
}

/* Mesh dp = 2, tp = 2; both tensors are split over tp and pending over dp. */
Test(interp_pack, a_row_per_rank_that_splits)
{
    Fixture *f = fixture_new();
    f->module->mesh = (DtMesh){.n = 2,
                               .axes = {{dt_intern("dp"), 2, false}, {dt_intern("tp"), 2, false}}};
    DtValue *x = arg_values(f, split_type("a", 4, 1, "b", 2), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    DtValue *y = arg_values(f, split_type("c", 2, 1, "b", 1), (double[]){9, 10});
    DtValue *bucket = dt_graph_pack(&f->b, 0, NULL, 2, (DtValue *[]){x, y}, 6);
    cr_expect_eq(bucket->type->partial, 1);
    cr_expect_eq(dt_type_local_elements(bucket->type, &f->module->mesh), 6);
    expect_values(run(f, bucket), (double[]){1, 2, 5, 6, 9, 0, 3, 4, 7, 8, 10, 0}, 12);
    DtValue *back = dt_graph_unpack(&f->b, 0, bucket, 0, x->type);
    cr_expect_eq(back->type, x->type);
    expect_values(run(f, back), (double[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
    fixture_free(f);
}

/* If ranks split the kept axis, the bucket of all their parts equals that of the whole tensor. */
Test(interp_pack, kept_axes_that_ranks_share)
{
    Fixture *f = fixture_new();
    const char *h = dt_intern("h");
    f->module->mesh = (DtMesh){.n = 2,
                               .axes = {{dt_intern("dp"), 2, false}, {dt_intern("tp"), 2, false}}};
    DtAxis axes[] = {{.name = h, .extent = 2, .n_split = 1, .split = {0}},
                     {.name = dt_intern("a"), .extent = 4, .n_split = 1, .split = {1}}};
    DtValue *x = arg_values(f, dt_type_plain(DT_F32, 2, axes), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    DtValue *bucket = dt_graph_pack(&f->b, 1, &h, 1, &x, 3);
    cr_expect_eq(bucket->type->axes[0].n_split, 1);
    cr_expect_eq(dt_type_local_elements(bucket->type, &f->module->mesh), 3);
    expect_values(run(f, bucket), (double[]){1, 2, 0, 3, 4, 0, 5, 6, 0, 7, 8, 0}, 12);
    DtValue *back = dt_graph_unpack(&f->b, 1, bucket, 0, x->type);
    cr_expect_eq(back->type, x->type);
    expect_values(run(f, back), (double[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
    fixture_free(f);
}

/* Part i of zigzag order is blocks i and 3 - i of four. */
Test(interp_pack, zigzag_parts_in_their_order)
{
    Fixture *f = fixture_new();
    f->module->mesh = (DtMesh){.n = 1, .axes = {{dt_intern("cp"), 2, false}}};
    DtAxis axis = {.name = dt_intern("a"), .extent = 8, .n_split = 1, .split = {0}, .zigzag = 1};
    DtValue *x = arg_values(f, dt_type_plain(DT_F32, 1, &axis), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    DtValue *bucket = dt_graph_pack(&f->b, 0, NULL, 1, &x, 4);
    expect_values(run(f, bucket), (double[]){1, 2, 7, 8, 3, 4, 5, 6}, 8);
    DtValue *back = dt_graph_unpack(&f->b, 0, bucket, 0, x->type);
    expect_values(run(f, back), (double[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
    fixture_free(f);
}

static void expect_reason(const DtModule *module, const DtOp *op, const DtType *wish,
                          const char *part)
{
    const DtType *type;
    const char *reason = dt_shape_check(op, &module->mesh, &wish, &type);
    cr_expect(reason && strstr(reason, part), "`%s` should be in `%s`", part,
              reason ? reason : "(accepted)");
}

Test(interp_pack, what_the_rules_refuse)
{
    Fixture *f = fixture_new();
    f->module->mesh = (DtMesh){.n = 2,
                               .axes = {{dt_intern("dp"), 2, false}, {dt_intern("tp"), 2, false}}};
    double zeros[16] = {0};
    DtValue *x = arg_values(f, split_type("a", 4, 1, "b", 2), zeros);
    DtValue *y = arg_values(f, type_of(DT_F32, "c=3"), zeros);
    const char *h = dt_intern("h");
    DtOp pack = {.kind = DT_OP_PACK, .in = (DtValue *[]){x, y}, .n_in = 2};
    expect_reason(f->module, &pack, NULL, "beside");
    pack.n_axes = 1;
    pack.axes = &h;
    expect_reason(f->module, &pack, NULL, "keeps axis `h`");
    DtValue *bucket = dt_graph_pack(&f->b, 0, NULL, 1, (DtValue *[]){y}, 4);
    DtOp unpack = {.kind = DT_OP_UNPACK, .in = &bucket, .n_in = 1, .number = 2};
    expect_reason(f->module, &unpack, y->type, "3 elements from element 2 of 4");
    unpack.number = 0.5;
    expect_reason(f->module, &unpack, y->type, "from element 0.5");
    unpack.number = 0;
    expect_reason(f->module, &unpack, split_type("a", 4, 1, "b", 2), "no bucket of tensors like");
    unpack.in = &y;
    expect_reason(f->module, &unpack, y->type, "no whole bucket");
    fixture_free(f);
}
