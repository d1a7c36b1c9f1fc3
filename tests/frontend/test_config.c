/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration blocks of the examples, read as data; and how --set changes it. */
#include "base/formula.h"
#include "base/intern.h"
#include "cost/calibrate.h"
#include "frontend/config.h"
#include "frontend/lower.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static DtArena *arena;
static DtDiags *diags;

static void open_arena(void) { arena = dt_arena_new(); }
static void close_arena(void) { dt_arena_free(arena); }
TestSuite(config, .init = open_arena, .fini = close_arena);

static DtProgram *read_program(DtLowerOptions options)
{
    diags = dt_diag_new(arena);
    options.library = "lib";
    DtProgram *program = dt_lower(arena, diags, &options);
    if (dt_diag_errors(diags))
        dt_diag_print(diags, stderr, false);
    cr_assert_not_null(program);
    cr_assert_eq(dt_diag_errors(diags), 0);
    return program;
}

static DtProgram *example(const char *path) { return read_program((DtLowerOptions){.path = path}); }

static void assert_near(double a, double b)
{
    cr_assert_leq(fabs(a - b), 1e-12 * fabs(b), "%g, not %g", a, b);
}

/* Returns the setting of that name; NULL: the run has no such setting. */
static const DtStepSetting *setting(const DtProgram *p, const char *name)
{
    for (uint32_t i = 0; i < p->train->settings.n; i++)
        if (strcmp(p->train->settings.at[i].name, name) == 0)
            return &p->train->settings.at[i];
    return NULL;
}

static double scalar(const DtProgram *p, const char *name, double step)
{
    DtFormulaSetting settings[16];
    DtFormulaStep at = {.step = step, .updates = step + 1, .loss_scale = 1, .settings = settings};
    DtFormulaProblem problem;
    double value = NAN;
    for (uint32_t i = 0; i < p->train->settings.n; i++)
        settings[at.n_settings++] = (DtFormulaSetting){p->train->settings.at[i].name,
                                                       p->train->settings.at[i].value};
    for (uint32_t i = 0; i < p->train->scalars.n; i++)
        if (strcmp(p->train->scalars.at[i].name, name) == 0)
            cr_assert(dt_formula_value(p->train->scalars.at[i].formula, dt_formula_step, &at,
                                       &value, &problem),
                      "%s", problem.text);
    return value;
}

Test(config, gpt2)
{
    const DtProgram *p = example("examples/gpt2.dsl");
    const DtTrainConfig *t = p->train;
    cr_assert_eq(t->steps, 600000);
    cr_assert_eq(t->optimizer.rules.n, 20);
    cr_assert_eq(t->optimizer.rules.at[0].n_scalars, 3);
    assert_near(scalar(p, "@bias2", 1), 1 / (1 - 0.95 * 0.95));
    assert_near(setting(p, "lr.base")->value, 6e-4);
    assert_near(setting(p, "lr.floor")->value, 6e-5);
    assert_near(setting(p, "lr.warmup")->value, 2000);
    assert_near(setting(p, "lr.total")->value, 600000);
    cr_assert(setting(p, "lr.warmup")->is_whole && !setting(p, "lr.base")->is_whole);
    assert_near(scalar(p, "@lr", 0), 6e-4 / 2000);
    assert_near(scalar(p, "@lr", 301000), 0.5 * (6e-4 + 6e-5));
    cr_assert_eq(t->precision.compute, DT_BF16);
    cr_assert_eq(t->precision.params, DT_F32);
    cr_assert_not(t->precision.has_master);
    cr_assert_eq(t->readers.n, 1);
    const DtReader *r = &t->readers.at[0];
    cr_assert_eq(r->kind, DT_SAMPLE_NEXT_TOKEN);
    cr_assert_eq(r->source.kind, DT_SOURCE_BIN);
    cr_assert_eq(r->source.dtype, DT_U16);
    cr_assert_str_eq(r->source.glob, "fineweb/*.bin");
    cr_assert_str_eq(r->source.folder, "examples");
    cr_assert_eq(r->n_inputs, 2);
    cr_assert_str_eq(r->inputs[1], "labels");
    cr_assert_eq(dt_type_extent(r->types[0], dt_intern("seq")), 1024);
    cr_assert_eq(p->cluster->nodes * p->cluster->gpus, 16);
    assert_near(p->cluster->inter.bytes_per_second, 50e9);
    assert_near(p->cluster->intra.seconds, 2e-6);
    const DtParallelConfig *l = p->parallel;
    cr_assert_eq(l->mesh.n, 1);
    cr_assert_eq(l->mesh.axes[0].size, 16);
    cr_assert_eq(l->micro, 4);
    cr_assert_eq(l->zeros.at[0].level, 1);
    cr_assert_eq(l->remats.at[0].n_keep, 3);
    cr_assert_str_eq(l->remats.at[0].keep[2], "wv");
}

Test(config, llama)
{
    const DtProgram *p = read_program((DtLowerOptions){.path = "examples/llama3_8b.dsl",
                                                       .parallel = "d3"});
    const DtParallelConfig *l = p->parallel;
    cr_assert_eq(p->parallels.n, 2);
    cr_assert(p->parallels.at[1]->is_auto);
    cr_assert_eq(l->mesh.n, 4);
    cr_assert_eq(l->shards.n, 4);
    cr_assert_eq(l->shards.at[1].n_mesh, 2);
    cr_assert(l->shards.at[2].ring);
    cr_assert_eq(l->pipelines.at[0].chunks, 2);
    cr_assert_str_eq(l->pipelines.at[0].schedule, "interleaved_1f1b");
    cr_assert(p->train->precision.has_master);
    cr_assert_eq(p->train->precision.params, DT_BF16);
}

Test(config, several_layouts_and_none_chosen)
{
    cr_assert_null(example("examples/llama3_8b.dsl")->parallel);
    cr_assert_null(
        read_program((DtLowerOptions){.path = "examples/gpt2.dsl", .parallel = "none"})->parallel);
}

Test(config, others)
{
    const DtProgram *p = example("examples/bert.dsl");
    cr_assert_eq(p->train->readers.at[0].kind, DT_SAMPLE_MLM);
    cr_assert_eq(p->train->readers.at[0].mask_id, 103);
    cr_assert_eq(p->train->readers.at[0].n_inputs, 5);
    cr_assert(p->train->precision.dynamic_loss_scale);
    p = example("examples/vgg16.dsl");
    cr_assert_eq(p->train->optimizer.rules.at[0].func->params.n, 1);
    assert_near(setting(p, "lr.every")->value, 150120);
    const DtImageSource *image = &p->train->readers.at[0].source.image;
    cr_assert(image->resize == 256 && image->crop == DT_CROP_RANDOM && image->flip);
    cr_assert_eq(image->mean[1], 0.456);
    p = example("examples/t5.dsl");
    assert_near(scalar(p, "@lr", 39999), setting(p, "lr.base")->value / 200);
    cr_assert_eq(p->parallel->pipelines.at[0].n_loops, 2);
}

Test(config, set)
{
    const DtOption sets[] = {{"train.steps", "7"},
                             {"train.optimizer.lr", "constant(0.25)"},
                             {"train.optimizer.clip", "2 * 1.5"},
                             {"train.seed", "9"},
                             {"dp.mesh.data", "4"},
                             {"parallel.micro", "8"},
                             {"parallel.zero", "2"},
                             {"parallel.zero.prefetch", "64"},
                             {"cluster.nodes", "1"},
                             {"dgx.gpus", "4"},
                             {"cluster.gpu", "h200"}};
    const DtProgram *p =
        read_program((DtLowerOptions){.path = "examples/gpt2.dsl", .sets = sets,
                                      .n_sets = DT_COUNT(sets)});
    cr_assert_eq(p->train->steps, 7);
    cr_assert_eq(p->train->seed, 9);
    assert_near(scalar(p, "@lr", 7), 0.25);
    cr_assert_eq(p->parallel->mesh.axes[0].size, 4);
    cr_assert_eq(p->parallel->micro, 8);
    cr_assert_eq(p->parallel->zeros.at[0].level, 2);
    cr_assert_eq(p->parallel->zeros.at[0].prefetch, 64);
    cr_assert_eq(p->cluster->nodes * p->cluster->gpus, 4);
    cr_assert_str_eq(p->cluster->kinds[0].gpu, "h200");
}

/* Nodes of two kinds are counted together, and keep the order in which they are written. */
Test(config, nodes_of_two_kinds)
{
    DtOption sets[] = {
        {"cluster.nodes", "(1, 3)"}, {"cluster.gpus", "4"},
        {"cluster.gpu", "(\"h200\", \"a100-40g\")"}};
    const DtProgram *p =
        read_program((DtLowerOptions){.path = "examples/gpt2.dsl", .sets = sets,
                                      .n_sets = DT_COUNT(sets)});
    cr_assert_eq(p->cluster->nodes, 4);
    cr_assert_eq(p->cluster->n_kinds, 2);
    cr_expect_eq(p->cluster->kinds[0].nodes, 1);
    cr_expect_eq(p->cluster->kinds[1].nodes, 3);
    cr_expect_str_eq(p->cluster->kinds[1].gpu, "a100-40g");
    cr_expect_eq(p->cluster->kinds[1].device->memory_bytes, 40.0 * (1 << 30));
}

/* A block that names another device gets its numbers from itself first, then from that device;
 * blocks of the program come before those of the library. */
Test(config, devices_and_stacks)
{
    const DtProgram *p = example("tests/frontend/hardware.dsl");
    const DtDevice *d = p->cluster->kinds[0].device;
    cr_assert_str_eq(d->name, "a100-40g");
    cr_expect_eq(d->units, 98);
    cr_expect_eq(d->memory_bytes, 96.0 * (1 << 30));
    cr_expect_eq(d->flops[DT_COST_F16], 312e12);
    cr_expect_eq(d->nic.bytes_per_second, 12.5e9);
    cr_expect_eq(d->at[DT_COST_product].value, 0.7);
    cr_expect_eq(d->at[DT_COST_product].within, 0.02);
    cr_expect_str_eq(d->at[DT_COST_product].source, "eight products");
    cr_expect_eq(d->at[DT_COST_launch].value, 2e-6);
    cr_expect_eq(d->at[DT_COST_memory].value, dt_cost_constants[DT_COST_memory].value);
    const DtStack *stack = p->cluster->stack;
    cr_expect(stack->has[DT_STACK_fa2] && stack->has[DT_STACK_eager] &&
              !stack->has[DT_STACK_scores]);
    cr_expect_str_eq(stack->source[DT_STACK_fa2], "an older library");
    const DtDevices all = {p->devices.at, p->devices.n};
    cr_expect_not_null(dt_device_find(all, "mine"));
    cr_expect_null(dt_device_find(all, "a100-80g"), "the library's are read where they are named");
    cr_expect_eq(example("examples/gpt2.dsl")->cluster->stack, &dt_stack_ours);
}

Test(config, devices_of_the_library_are_whole)
{
    static const char *const names[] = {
        "cpu",       "v100",      "v100-16g", "v100-32g", "a100-40g", "a100-80g", "h100-sxm",
        "h100-pcie", "h100-500w", "h200",     "h800",     "b200",     "l40s",     "mi300x"};
    DtOption set = {"cluster.gpu", NULL};
    for (size_t k = 0; k < DT_COUNT(names); k++) {
        set.value = dt_arena_printf(arena, "\"%s\"", names[k]);
        const DtProgram *p =
            read_program((DtLowerOptions){.path = "examples/gpt2.dsl", .sets = &set, .n_sets = 1});
        const DtDevice *d = p->cluster->kinds[0].device;
        cr_assert_str_eq(d->name, names[k]);
        cr_expect(d->units > 0 && d->flops[DT_COST_F32] > 0 && d->memory_rate > 0 &&
                      d->link.bytes_per_second > 0 && d->nic.bytes_per_second > 0 && d->source,
                  "%s", d->name);
        cr_expect(!d->is_gpu ||
                      (d->memory_bytes > 15e9 && d->flops[DT_COST_F16] > d->flops[DT_COST_F32]),
                  "%s", d->name);
    }
}

/* The output of dt_device_print reads back as the same device. */
Test(config, printed_devices_read_back)
{
    const DtProgram *first = example("tests/frontend/hardware.dsl");
    DtDevice device = *first->cluster->kinds[0].device;
    device.name = "again";
    device.description = "with \"quotes\"";
    device.memory_rate = 1234567890123.0 / 7;
    device.at[DT_COST_special] = (DtCostEstimate){23.25, 0.125, "measured"};
    DtText text = {0};
    dt_device_print(&device, &text);
    char path[] = "/tmp/dt_device_XXXXXX.dsl";
    const int fd = mkstemps(path, 4);
    cr_assert_geq(fd, 0);
    FILE *file = fdopen(fd, "w");
    fprintf(file, "%scluster c { gpus = 2; gpu = \"again\" }\n", text.at);
    fclose(file);
    const DtDevice *d = example(path)->cluster->kinds[0].device;
    unlink(path);
    cr_expect_str_eq(d->description, device.description);
    for (int i = 0; i < DT_COST_DTYPES; i++)
        cr_expect_float_eq(d->flops[i], device.flops[i], 1e-12 * device.flops[i]);
    cr_expect_float_eq(d->memory_rate, device.memory_rate, 1e-3);
    cr_expect_eq(d->memory_bytes, device.memory_bytes);
    cr_expect_eq(d->units, device.units);
    cr_expect_eq(d->node, device.node);
    cr_expect_float_eq(d->nic.seconds, device.nic.seconds, 1e-18);
    for (int i = 0; i < DT_COST_CONSTANTS; i++)
        cr_expect_float_eq(d->at[i].value, device.at[i].value, 1e-12 * device.at[i].value, "%s",
                           dt_cost_constants[i].name);
    dt_text_free(&text);
}

Test(config, set_deep)
{
    const DtOption sets[] = {{"train.optimizer.lr.base", "0.5"},
                             {"train.optimizer.lr.warmup", "3"}};
    const DtProgram *p = read_program((DtLowerOptions){.path = "examples/gpt2.dsl", .sets = sets,
                                                       .n_sets = 2});
    assert_near(setting(p, "lr.base")->value, 0.5);
    assert_near(setting(p, "lr.warmup")->value, 3);
    assert_near(setting(p, "lr.total")->value, 600000);
}

Test(config, synthetic)
{
    const DtProgram *p = read_program((DtLowerOptions){.path = "examples/gpt2.dsl",
                                                       .synthetic = true});
    const DtReader *r = &p->train->readers.at[0];
    cr_assert_eq(r->kind, DT_SAMPLE_NEXT_TOKEN);
    cr_assert_eq(r->source.kind, DT_SOURCE_SYNTHETIC);
    assert_near(r->source.hi, 50257);
    p = read_program((DtLowerOptions){.path = "examples/bert.dsl", .synthetic = true});
    cr_assert_eq(p->train->readers.n, 5);
    for (uint32_t i = 0; i < 5; i++) {
        r = &p->train->readers.at[i];
        cr_assert_eq(r->kind, DT_SAMPLE_RAW);
        cr_assert_eq(r->n_inputs, 1);
        assert_near(r->source.hi, i == 0 || i == 3 ? 30522 : 2);
    }
    p = read_program((DtLowerOptions){.path = "examples/t5.dsl", .parallel = "none",
                                      .synthetic = true});
    cr_assert(dt_configready_check(diags, p, true, false));
    p = read_program((DtLowerOptions){.path = "examples/vit.dsl", .parallel = "none"});
    cr_assert(dt_configready_check(diags, p, true, false), "images can be read");
}

/* Schedules give the results of torch.optim.lr_scheduler 2.15: OneCycleLR, PolynomialLR,
 * CosineAnnealingLR, LinearLR, StepLR, ExponentialLR. The expected values of the others were
 * computed by hand. */
Test(config, schedules)
{
    static const struct {
        const char *rate;
        struct {
            double step, want;
        } at[6];
    } cases[] = {
        {"one_cycle(0.1, total = 50)",
         {{0, 0.004}, {5, 0.03117358052235722}, {14, 0.1}, {15, 0.09979871550490317},
          {30, 0.05671183644422961}, {49, 4e-7}}},
        {"polynomial(0.1, total = 40, power = 2)",
         {{0, 0.1}, {13, 0.0455625}, {39, 6.25e-5}, {40, 0}, {45, 0}}},
        {"warmup_cosine(0.1, total = 40, floor = 0.01)",
         {{0, 0.1}, {13, 0.0785124354122177}, {39, 0.010138719982009242}, {90, 0.01}}},
        {"warmup_linear(0.1, total = 20, floor = 0.01)",
         {{0, 0.1}, {7, 0.0685}, {20, 0.01}, {25, 0.01}}},
        {"step_decay(0.1, every = 7, factor = 0.3)",
         {{6, 0.1}, {7, 0.03}, {20, 0.009}, {29, 0.00081}}},
        {"range_test(low = 0.001, high = 0.1, total = 20)",
         {{0, 0.001}, {7, 0.005011872336272725}, {20, 0.1}}},
        {"warmup_cosine(0.1, warmup = 10, total = 40)",
         {{0, 0.01}, {9, 0.1}, {10, 0.1}, {25, 0.05}, {40, 0}}},
        {"polynomial(1, warmup = 4, total = 8, floor = 0.5)",
         {{0, 0.25}, {3, 1}, {4, 1}, {6, 0.75}, {9, 0.5}}},
        {"wsd(1, warmup = 4, total = 20, decay = 10, floor = 0)",
         {{0, 0.25}, {3, 1}, {9, 1}, {10, 1}, {15, 0.5}, {21, 0}}},
        {"inverse_sqrt(1, warmup = 16)", {{0, 0.25}, {15, 0.25}, {63, 0.125}}},
        {"2 * constant(0.25)", {{0, 0.5}, {9, 0.5}}},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const DtOption set = {"train.optimizer.lr", cases[i].rate};
        const DtProgram *p =
            read_program((DtLowerOptions){.path = "examples/gpt2.dsl", .sets = &set, .n_sets = 1,
                                          .parallel = "none"});
        for (size_t k = 0; k < DT_COUNT(cases[i].at) && (k == 0 || cases[i].at[k].step > 0); k++) {
            const double got = scalar(p, "@lr", cases[i].at[k].step), want = cases[i].at[k].want;
            cr_expect(fabs(got - want) <= 1e-14, "%s, step %g: %.17g, not %.17g", cases[i].rate,
                      cases[i].at[k].step, got, want);
        }
    }
}
