/* SPDX-License-Identifier: Apache-2.0 */
#include "tiny.h"

#include "tests/plan/records.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARAMS, GRADS, ACTS, INPUTS, SCALARS };

static const char source[] =
    "#include <stdint.h>\n"
    "/* p: y, target, dy, loss; i: rows, columns, whole batch */\n"
    "void mse(char *const *p, const int64_t *i)\n"
    "{\n"
    "    const float *y = (const float *)p[0], *t = (const float *)p[1];\n"
    "    float *dy = (float *)p[2], *loss = (float *)p[3], scale = 1.0f / (float)(i[1] * i[2]);\n"
    "    for (int64_t k = 0; k < i[0] * i[1]; k++) {\n"
    "        float d = y[k] - t[k];\n"
    "        dy[k] = 2 * d * scale;\n"
    "        *loss += d * d * scale;\n"
    "    }\n"
    "}\n"
    "/* p: w, dw, lr, norm; i: elements. As texts for GPUs have it: DT_KERNEL(sgd, 1, 32, 4, 1) "
    "*/\n"
    "void sgd(char *const *p, const int64_t *i)\n"
    "{\n"
    "    float *w = (float *)p[0], *norm = (float *)p[3], sum = 0;\n"
    "    const float *dw = (const float *)p[1], lr = *(const float *)p[2];\n"
    "    for (int64_t k = 0; k < i[0]; k++) {\n"
    "        w[k] -= lr * dw[k];\n"
    "        sum += dw[k] * dw[k];\n"
    "    }\n"
    "    *norm = __builtin_sqrtf(sum);\n"
    "}\n"
    "/* p: journal; i: step (GPUs: where it lies), micro, layer. Counts in journal[0] and notes "
    "what it was given. */\n"
    "void note(char *const *p, const int64_t *i)\n"
    "{\n"
    "    int64_t *journal = (int64_t *)p[0], at = journal[0]++;\n"
    "    if (at < 20)\n"
    "        for (int k = 0; k < 3; k++) journal[1 + 3 * at + k] = k ? i[k] : STEP(i[0]);\n"
    "    *(int64_t *)p[1] = i[1] * 10 + i[2];\n"
    "}\n"
    "/* p: tokens, logits; i: window, vocabulary */\n"
    "void next(char *const *p, const int64_t *i)\n"
    "{\n"
    "    const int32_t *tokens = (const int32_t *)p[0];\n"
    "    float *logits = (float *)p[1];\n"
    "    for (int64_t t = 0; t < i[0]; t++)\n"
    "        for (int64_t v = 0; v < i[1]; v++)\n"
    "            logits[t * i[1] + v] = v == (tokens[t] + 1) % i[1] ? 9.0f : 0.0f;\n"
    "}\n"
    "/* what a GPU's image says of its kernels: pointers and integers */\n"
    "const int mse_counts[2] = {4, 3}, sgd_counts[2] = {4, 1}, note_counts[2] = {2, 3}, "
    "next_counts[2] = {2, 2};\n";

void tiny_compile(DtArena *arena, const char *text, uint8_t **ret_bytes, size_t *ret_len)
{
    char folder[] = "/tmp/dt_tinyXXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    const char *library = dt_arena_printf(arena, "%s/k.so", folder);
    FILE *compiler =
        popen(dt_arena_printf(arena, "cc -O1 -shared -fPIC -x c -o %s -", library), "w");
    cr_assert_not_null(compiler);
    fputs(text, compiler);
    cr_assert_eq(pclose(compiler), 0, "the host compiler failed");
    char *bytes;
    DtStatus status = dt_file_read(arena, library, 1 << 24, &bytes, ret_len);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    *ret_bytes = (uint8_t *)bytes;
    unlink(library);
    rmdir(folder);
}

static void add_memory(DtArena *arena, DtPlanBuilder *b)
{
    ADD(arenas, {.name = STR("params"), .kind = DT_ARENA_PARAMS, .bytes = 4 * TINY_IN * TINY_OUT});
    ADD(arenas, {.name = STR("grads"),
                 .kind = DT_ARENA_GRADS,
                 .shared = 1,
                 .bytes = 4 * TINY_IN * TINY_OUT});
    ADD(arenas, {.name = STR("acts"), .kind = DT_ARENA_ACTIVATIONS, .bytes = 1 << 16});
    ADD(arenas, {.name = STR("inputs"), .kind = DT_ARENA_INPUTS, .bytes = 4096});
    ADD(arenas, {.name = STR("scalars"), .kind = DT_ARENA_SCALARS, .bytes = 64});
    ADD(axes, {.name = STR("in"), .extent = TINY_IN, .local = TINY_IN});
    ADD(axes, {.name = STR("out"), .extent = TINY_OUT, .local = TINY_OUT});
    ADD(axes, {.name = STR("batch"), .extent = TINY_BATCH, .local = TINY_BATCH});
    ADD(axes, {.name = STR("in"), .extent = TINY_IN, .local = TINY_IN});
    ADD(axes, {.name = STR("batch"), .extent = TINY_BATCH, .local = TINY_BATCH});
    ADD(axes, {.name = STR("out"), .extent = TINY_OUT, .local = TINY_OUT});
    ADD(axes, {.name = STR("batch"), .extent = 1, .local = 1});
    ADD(axes, {.name = STR("seq"), .extent = TINY_WINDOW, .local = TINY_WINDOW});
    ADD(axes, {.name = STR("vocab"), .extent = TINY_VOCAB, .local = TINY_VOCAB});
    ADD(stores, {.path = STR("w"),
                 .pattern = STR("w"),
                 .kind = DT_PLAN_PARAM,
                 .dtype = DT_PLAN_F32,
                 .n_axes = 2,
                 .of = DT_PLAN_NONE,
                 .init = DT_PLAN_NORMAL,
                 .init_a = 0.5,
                 .key = 99,
                 .bytes = 4 * TINY_IN * TINY_OUT,
                 .saved = 1});
    ADD(inputs, {.name = STR("tokens"),
                 .dtype = DT_PLAN_I32,
                 .first_axis = 6,
                 .n_axes = 2,
                 .row_elements = TINY_WINDOW,
                 .arena = INPUTS,
                 .offset = 2048});
    ADD(inputs, {.name = STR("x"),
                 .dtype = DT_PLAN_F32,
                 .first_axis = 2,
                 .n_axes = 2,
                 .row_elements = TINY_IN,
                 .arena = INPUTS});
    ADD(inputs, {.name = STR("target"),
                 .dtype = DT_PLAN_F32,
                 .first_axis = 4,
                 .n_axes = 2,
                 .row_elements = TINY_OUT,
                 .arena = INPUTS,
                 .offset = 1024});
    ADD(readers, {.sample = DT_PLAN_RAW,
                  .source = DT_PLAN_SYNTHETIC,
                  .dtype = DT_PLAN_F32,
                  .first_input = 0,
                  .n_inputs = 3,
                  .to = 1});
    ADD(readers, {.sample = DT_PLAN_RAW,
                  .source = DT_PLAN_SYNTHETIC,
                  .dtype = DT_PLAN_F32,
                  .is_eval = 1,
                  .first_input = 0,
                  .n_inputs = 3,
                  .to = 1});
    ADD(scalars, {.name = STR("@lr"), .formula = STR("lr.base"), .arena = SCALARS, .offset = 4});
    ADD(objectives,
        {.loss = STR("loss"), .step = STR("step"), .update = STR("update"), .rate = STR("@lr"),
         .every = 1});
    ADD(metrics, {.name = STR("loss"),
                  .entry = STR("step"),
                  .arena = SCALARS,
                  .dtype = DT_PLAN_F32,
                  .bytes = 4});
    ADD(metrics, {.name = STR("grad_norm"),
                  .entry = STR("update"),
                  .arena = SCALARS,
                  .dtype = DT_PLAN_F32,
                  .offset = 8,
                  .bytes = 4});
    ADD(metrics, {.name = STR("loss"),
                  .entry = STR("eval"),
                  .arena = SCALARS,
                  .dtype = DT_PLAN_F32,
                  .offset = 12,
                  .bytes = 4});
    ADD(shows, {.name = STR("loss"), .entry = STR("step")});
    ADD(shows, {.name = STR("loss"), .entry = STR("eval")});
    ADD(metrics, {.name = STR("tiny.0"),
                  .entry = STR("predict"),
                  .arena = ACTS,
                  .dtype = DT_PLAN_F32,
                  .first_axis = 6,
                  .n_axes = 3,
                  .offset = 16384,
                  .bytes = 4 * TINY_WINDOW * TINY_VOCAB});
}

static void add_code(DtArena *arena, DtPlanBuilder *b, const char *target)
{
    const bool is_gpu = strncmp(target, "sm_", 3) == 0;
    uint8_t *binary;
    size_t len;
    const char *text = dt_arena_printf(arena, "#define STEP(x) %s\n%s",
                                       is_gpu ? "*(const int64_t *)(x)" : "(x)", source);
    tiny_compile(arena, text, &binary, &len);
    ADD(codes, {.target = STR(target),
                .compiler = STR("cc"),
                .binary = dt_write_blob(b, binary, len),
                .binary_len = len,
                .source = dt_write_blob(b, source, sizeof source - 1),
                .source_len = sizeof source - 1});
    ADD(spans, {.file = STR("tiny.dsl"),
                .path = STR("tiny"),
                .text = STR("x @in w"),
                .line = 3,
                .column = 5});
    ADD(kernels, {.symbol = STR("mse"), .name = STR("mse"), .n_pointers = 4, .n_integers = 3});
    ADD(kernels, {.symbol = STR("sgd"), .name = STR("sgd"), .n_pointers = 4, .n_integers = 1});
    ADD(kernels, {.symbol = STR("note"), .name = STR("note"), .n_pointers = 2, .n_integers = 3});
    ADD(kernels, {.symbol = STR("next"), .name = STR("next"), .n_pointers = 2, .n_integers = 2});
    for (uint32_t i = 0; i < 4 && is_gpu; i++)
        ADD(launches, {.blocks = 1, .threads = 32});
    /* y[4, out] = x[4, in] w[in, out]; dw[in, out] += x^T dy */
    ADD(gemms, {.dtype_a = DT_PLAN_F32,
                .dtype_b = DT_PLAN_F32,
                .dtype_c = DT_PLAN_F32,
                .m = TINY_BATCH / 2,
                .n = TINY_OUT,
                .k = TINY_IN,
                .a_row = TINY_IN,
                .a_col = 1,
                .b_row = TINY_OUT,
                .b_col = 1,
                .c_row = TINY_OUT,
                .c_col = 1});
    ADD(gemms, {.accumulate = 1,
                .dtype_a = DT_PLAN_F32,
                .dtype_b = DT_PLAN_F32,
                .dtype_c = DT_PLAN_F32,
                .m = TINY_IN,
                .n = TINY_OUT,
                .k = TINY_BATCH / 2,
                .a_row = 1,
                .a_col = TINY_IN,
                .b_row = TINY_OUT,
                .b_col = 1,
                .c_row = TINY_OUT,
                .c_col = 1});
}

static void add_entry(DtArena *arena, DtPlanBuilder *b, const char *name, uint32_t first)
{
    ADD(entries, {.name = STR(name), .first = first, .count = b->schedule.n - first});
}

static void add_body(DtArena *arena, DtPlanBuilder *b, const char *name, uint32_t first)
{
    ADD(bodies, {.name = STR(name), .first_inst = first, .n_insts = b->insts.n - first});
}

/* Reads half of a batch (registers: micro-batch) and computes y, and the loss at this offset of the
 * scalars. */
static void add_forward(DtArena *arena, DtPlanBuilder *b, uint32_t reader, int64_t loss_at)
{
    const int64_t half = TINY_BATCH / 2;
    INST(SET(.kind = DT_INST_READ, .ref = reader),
         AT(INPUTS, 2048, half * TINY_WINDOW * 4, .written = 1),
         AT(INPUTS, 0, half * TINY_IN * 4, .written = 1),
         AT(INPUTS, 1024, half * TINY_OUT * 4, .written = 1), NUMBER(0, .reg = {half}),
         NUMBER(half));
    INST(SET(.kind = DT_INST_GEMM, .ref = 0), AT(INPUTS, 0, half * TINY_IN * 4),
         AT(PARAMS, 0, 4 * TINY_IN * TINY_OUT), AT(ACTS, 0, half * TINY_OUT * 4, .written = 1));
    INST(SET(.kind = DT_INST_KERNEL, .ref = 0), AT(ACTS, 0, half * TINY_OUT * 4),
         AT(INPUTS, 1024, half * TINY_OUT * 4), AT(ACTS, 1024, half * TINY_OUT * 4, .written = 1),
         AT(SCALARS, loss_at, 4, .written = 1), NUMBER(half), NUMBER(TINY_OUT), NUMBER(TINY_BATCH));
}

static void add_step(DtArena *arena, DtPlanBuilder *b)
{
    uint32_t schedule = b->schedule.n, inst = b->insts.n;
    INST(SET(.kind = DT_INST_ZERO, .count = 4 * TINY_IN * TINY_OUT),
         AT(GRADS, 0, 4 * TINY_IN * TINY_OUT, .written = 1));
    INST(SET(.kind = DT_INST_ZERO, .count = 4), AT(SCALARS, 0, 4, .written = 1));
    add_body(arena, b, "begin", inst);
    inst = b->insts.n;
    add_forward(arena, b, 0, 0);
    INST(SET(.kind = DT_INST_GEMM, .ref = 1), AT(INPUTS, 0, TINY_BATCH / 2 * TINY_IN * 4),
         AT(ACTS, 1024, TINY_BATCH / 2 * TINY_OUT * 4),
         AT(GRADS, 0, 4 * TINY_IN * TINY_OUT, .written = 1));
    add_body(arena, b, "micro", inst);
    inst = b->insts.n;
    INST(SET(.kind = DT_INST_KERNEL, .ref = 2), AT(ACTS, 32768, 8 * 61, .written = 1),
         AT(ACTS, 40000, 8, .reg = {80, 8}, .written = 1), {.kind = DT_ARG_STEP},
         NUMBER(0, .reg = {1}), NUMBER(0, .reg = {0, 1}));
    add_body(arena, b, "layer", inst);
    inst = b->insts.n;
    INST(SET(.kind = DT_INST_ALL_REDUCE, .dtype = DT_PLAN_F32, .count = TINY_IN * TINY_OUT),
         AT(GRADS, 0, 4 * TINY_IN * TINY_OUT, .written = 1));
    add_body(arena, b, "reduce", inst);
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 0});
    ADD(schedule, {.kind = DT_SCHED_LOOP, .reg = 0, .step = 1, .count = 2});
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 1});
    ADD(schedule, {.kind = DT_SCHED_LOOP, .reg = 1, .first = 2, .step = -1, .count = 3});
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 2});
    ADD(schedule, {.kind = DT_SCHED_END});
    ADD(schedule, {.kind = DT_SCHED_END});
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 3});
    add_entry(arena, b, "step", schedule);
}

static void add_others(DtArena *arena, DtPlanBuilder *b)
{
    uint32_t schedule = b->schedule.n, inst = b->insts.n;
    INST(SET(.kind = DT_INST_KERNEL, .ref = 1), AT(PARAMS, 0, 4 * TINY_IN * TINY_OUT, .written = 1),
         AT(GRADS, 0, 4 * TINY_IN * TINY_OUT), AT(SCALARS, 4, 4), AT(SCALARS, 8, 4, .written = 1),
         NUMBER(TINY_IN * TINY_OUT));
    add_body(arena, b, "update", inst);
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 4});
    add_entry(arena, b, "update", schedule);

    schedule = b->schedule.n, inst = b->insts.n;
    INST(SET(.kind = DT_INST_ZERO, .count = 4), AT(SCALARS, 12, 4, .written = 1));
    add_body(arena, b, "eval begin", inst);
    inst = b->insts.n;
    add_forward(arena, b, 1, 12);
    add_body(arena, b, "eval micro", inst);
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 5});
    ADD(schedule, {.kind = DT_SCHED_LOOP, .reg = 0, .step = 1, .count = 2});
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 6});
    ADD(schedule, {.kind = DT_SCHED_END});
    add_entry(arena, b, "eval", schedule);

    schedule = b->schedule.n, inst = b->insts.n;
    INST(SET(.kind = DT_INST_KERNEL, .ref = 3), AT(INPUTS, 2048, 4 * TINY_WINDOW),
         AT(ACTS, 16384, 4 * TINY_WINDOW * TINY_VOCAB, .written = 1), NUMBER(TINY_WINDOW),
         NUMBER(TINY_VOCAB));
    add_body(arena, b, "predict", inst);
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 7});
    add_entry(arena, b, "predict", schedule);
}

DtPlanBuilder *tiny_build(DtArena *arena, const char *target, double lr)
{
    DtPlanBuilder *b = dt_write_new(arena);
    ADD(meta, {.model = STR("tiny"),
               .source = STR("tiny.dsl"),
               .compiler = STR("by hand"),
               .target = STR(target),
               .n_ranks = 1,
               .n_micro = 2,
               .steps = 40,
               .batch = TINY_BATCH,
               .eval_rest = 1,
               .tokens = TINY_BATCH,
               .parameters = TINY_IN * TINY_OUT,
               .eval_every = 20,
               .save_every = 16});
    ADD(settings, {.name = STR("lr.base"), .value = lr});
    ADD(groups, {.size = 1});
    add_memory(arena, b);
    add_code(arena, b, target);
    add_step(arena, b);
    add_others(arena, b);
    return b;
}

void tiny_open(Tiny *tiny, DtPlanBuilder *builder)
{
    uint8_t *bytes;
    size_t len;
    dt_write_bytes(builder, &bytes, &len);
    DtStatus status = dt_read_bytes(bytes, len, &tiny->plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    tiny->options.plan_path = "tiny.plan";
    tiny->options.steps = -1;
    tiny->options.quiet = true;
    tiny->options.gemm = DT_GEMM_PLAIN;
    tiny->options.sampling = (DtSampling)DT_SAMPLING_DEFAULTS;
    tiny->options.sampling.temperature = 1;
    tiny->fd = -1;
    tiny_saves = 0;
    tiny_saved_step = -1;
}

DtStatus tiny_load(Tiny *tiny)
{
    DtStatus status = dt_shared_create(&tiny->plan, 0, &tiny->fd);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    return dt_load_rank(&tiny->options, &tiny->plan, 0, tiny->fd, &tiny->run.rank);
}

void tiny_close(Tiny *tiny)
{
    if (tiny->run.rank.memory)
        dt_load_close(&tiny->run.rank);
    if (tiny->fd >= 0)
        close(tiny->fd);
}
