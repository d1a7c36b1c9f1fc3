/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a piece that is emitted again (codegen/replay.c) equals what code generation would
 * emit for it anew: the plan has the same bytes. Tested with layouts of the example programs whose
 * pieces contain attention in blocks. */
#include "after_pass.h"

#include "codegen/codegen.h"
#include "frontend/lower.h"

typedef struct Layout {
    const char *path, *parallel;
    DtOption sets[3];
    uint32_t n_sets;
    DtOption dims[1];
    uint32_t n_dims;
} Layout;

static void compile(DtArena *arena, const Layout *layout, bool anew, uint8_t **ret_bytes,
                    size_t *ret_len, uint32_t *ret_replayed)
{
    DtDiags *diags = dt_diag_new(arena);
    const DtLowerOptions lower = {.path = layout->path, .library = "lib",
                                  .parallel = layout->parallel, .sets = layout->sets,
                                  .n_sets = layout->n_sets, .dims = layout->dims,
                                  .n_dims = layout->n_dims, .synthetic = true};
    DtProgram *program = dt_lower(arena, diags, &lower);
    if (!program)
        dt_diag_print(diags, stderr, false);
    cr_assert_not_null(program, "%s", layout->path);
    const DtPassContext context = {.train = program->train, .parallel = program->parallel,
                                   .cluster = program->cluster};
    const DtLogicalTexts texts = {"", "", "", ""};
    const DtCodegenOptions options = {.target = "cpu", .source = layout->path, .source_folder = ".",
                                      .compiler = "test", .no_kernels = true, .logical = &texts,
                                      .anew = anew, .ret_replayed = ret_replayed};
    DtText before = {0};
    dt_passes_run(program->module, &context, after_pass, &before);
    dt_text_free(&before);
    cr_assert_eq(dt_diag_errors(diags), 0, "%s", layout->path);
    DtPlanBuilder *builder = dt_write_new(arena);
    DtStatus status = dt_codegen_plan(program, &options, builder);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    dt_write_bytes(builder, ret_bytes, ret_len);
}

static void compare(const Layout *layout)
{
    DtArena *arena = dt_arena_new();
    uint8_t *again, *anew;
    size_t n_again, n_anew;
    uint32_t replayed = 0, none = 0;
    compile(arena, layout, false, &again, &n_again, &replayed);
    compile(arena, layout, true, &anew, &n_anew, &none);
    cr_expect_gt(replayed, 0, "%s: nothing is emitted again", layout->path);
    cr_expect_eq(none, 0);
    cr_assert_eq(n_again, n_anew);
    cr_expect_arr_eq(again, anew, n_anew, "%s", layout->path);
    dt_arena_free(arena);
}

/* With causal masks, a ring, grouped queries, and values that backward pieces recompute. */
Test(replay, rings)
{
    compare(&(Layout){.path = "examples/llama3_8b.dsl", .parallel = "d3"});
}

Test(replay, stages_of_unequal_slots)
{
    compare(&(Layout){.path = "examples/gpt_1t.dsl",
                      .sets = {{"parallel.mesh.pipe", "16"}, {"cluster.nodes", "96"},
                               {"parallel.pipeline.chunks", "2"}}, .n_sets = 3});
}

/* With two loops, and attention from one to the other, which is in blocks for a longer target. */
Test(replay, encoder_and_decoder)
{
    compare(&(Layout){.path = "examples/t5.dsl", .dims = {{"tgt", "512"}}, .n_dims = 1});
}
