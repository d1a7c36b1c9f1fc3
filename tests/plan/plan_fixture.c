/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_fixture.h"

#include "base/hash.h"
#include "plan/fields.h"
#include "plan/kinds.h"
#include "plan/logical.h"
#include "plan/origin.h"
#include "tests/plan/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS, GRADS, MOMENTS, ACTS, INPUTS, SCALARS };

static void add_tables(DtArena *arena, DtPlanBuilder *b)
{
    const char source[] =
        "void k0(char *const *p, const int64_t *i)\n{\n\t/* \"quoted\" */\n}\nlast line";
    const uint8_t binary[100] = {0x7f, 'E', 'L', 'F', 0, 1, 2, 255};
    ADD(meta, {.model = STR("tiny"),
               .source = STR("tiny.dsl"),
               .compiler = STR("dtc 0.1.0"),
               .target = STR("cpu-v3"),
               .pipeline = 3,
               .events = 1,
               .n_ranks = 8,
               .n_micro = 2,
               .source_digest = 0xabcdef,
               .seed = 7,
               .steps = 100,
               .batch = 16,
               .tokens = 16 * 8,
               .parameters = 2 * 8 * 4,
               .eval_every = 10,
               .eval_steps = 2,
               .save_every = 50,
               .save_keep = 3,
               .flops = 1e6});
    ADD(settings, {.name = STR("lr.base"), .value = 1e-3});
    ADD(settings, {.name = STR("lr.warmup"), .is_whole = 1, .value = 10});
    ADD(mesh, {.name = STR("data"), .size = 2});
    ADD(mesh, {.name = STR("tensor"), .size = 2});
    ADD(mesh, {.name = STR("pipe"), .size = 2});
    ADD(groups, {.mask = 1, .size = 2, .queue = 2});
    ADD(groups, {.mask = 3, .size = 4, .queue = 1});
    ADD(groups, {.mask = 4, .size = 1, .stages = STR("0")});
    ADD(channels, {.name = STR("h.x"), .from = 0, .to = 1, .slots = 2, .bytes = 64, .span = 1});
    ADD(arenas, {.name = STR("params"), .kind = DT_ARENA_PARAMS, .bytes = 4096});
    ADD(arenas, {.name = STR("grads"), .kind = DT_ARENA_GRADS, .shared = 1, .bytes = 4096});
    ADD(arenas, {.name = STR("moments"), .kind = DT_ARENA_OPTIMIZER, .bytes = 8192});
    ADD(arenas, {.name = STR("acts"), .kind = DT_ARENA_ACTIVATIONS, .shared = 1, .bytes = 16384});
    ADD(arenas, {.name = STR("inputs"), .kind = DT_ARENA_INPUTS, .bytes = 1024});
    ADD(arenas, {.name = STR("scalars"), .kind = DT_ARENA_SCALARS, .bytes = 64});
    /* stage 1 has smaller arenas of params and acts */
    static const int64_t sizes[2][6] = {{4096, 4096, 8192, 16384, 1024, 64},
                                        {2048, 4096, 8192, 12288, 1024, 64}};
    for (int i = 0; i < 12; i++)
        ADD(sizes, {.bytes = sizes[i / 6][i % 6]});
    ADD(axes, {.name = STR("h"), .extent = 4, .local = 2, .first = 2});
    ADD(axes, {.name = STR("embed"), .extent = 8, .local = 8});
    /* the extent is padded to 8 */
    ADD(axes, {.name = STR("ffn"), .split = {2}, .extent = 7, .local = 4});
    ADD(axes, {.name = STR("batch"), .split = {1}, .extent = 16, .local = 8});
    ADD(axes, {.name = STR("seq"), .extent = 8, .local = 8});
    ADD(spans, {.file = STR("tiny.dsl"), .text = STR("tiny"), .line = 1, .column = 1});
    ADD(spans, {.file = STR("tiny.dsl"),
                .path = STR("h.w"),
                .text = STR("x @embed w"),
                .line = 9,
                .column = 7});
    ADD(blocks, {.group = 1, /* a tensor [4, 6], split 2 x 2 into blocks [2, 3] */
                 .n_dims = 2,
                 .extent = {2, 3},
                 .to = {6, 1},
                 .from = {3, 1},
                 .coord_axis = {0, 1},
                 .to_coord = {12, 3}});
    ADD(stores, {.path = STR("h.w"),
                 .pattern = STR("h.#.w"),
                 .kind = DT_PLAN_PARAM,
                 .dtype = DT_PLAN_F32,
                 .n_axes = 3,
                 .n_loops = 1,
                 .of = DT_PLAN_NONE,
                 .init = DT_PLAN_NORMAL,
                 .arena = PARAMS,
                 .init_a = 0.02,
                 .key = 0x1234567890abcdef,
                 .bytes = 2 * 8 * 4 * 4,
                 .span = 1,
                 .saved = 1,
                 .stage = -1});
    ADD(stores, {.path = STR("h.w.moment1"),
                 .pattern = STR("h.#.w.moment1"),
                 .kind = DT_PLAN_MOMENT1,
                 .dtype = DT_PLAN_F32,
                 .n_axes = 3,
                 .n_loops = 1,
                 .arena = MOMENTS,
                 .offset = 256,
                 .bytes = 256,
                 .span = 1,
                 .saved = 1,
                 .pack = 1});
    ADD(packs, {.extent = 64, .run = 32, .offset = 30, .n_split = 1});
    ADD(codes, {.target = STR("cpu-v3"),
                .compiler = STR("gcc 12"),
                .binary = dt_write_blob(b, binary, sizeof binary),
                .binary_len = sizeof binary,
                .source = dt_write_blob(b, source, sizeof source - 1),
                .source_len = sizeof source - 1});
    ADD(kernels, {.symbol = STR("k0"),
                  .name = STR("gelu"),
                  .n_pointers = 2,
                  .n_integers = 2,
                  .span = 1,
                  .flops = 100,
                  .bytes = 512});
    ADD(launches, {.blocks = 2, .threads = 256, .shared = 4096});
    ADD(registers, {.registers = 40, .spilled = 8});
    ADD(sdpas, {.kernel = 0, .dtype = DT_PLAN_BF16, .causal = 1, .batch = 1, .heads = 2,
                .kv_heads = 1, .queries = 4, .keys = 4, .head = 8, .scale = 0.5, .workspace = 64,
                .pointer = {0, 0, 0, 1, -1, -1, -1, -1, -1, -1}, .offset = {0, 64, 96},
                .of_head = {8, 32, 32, 8}, .of_row = {16, 8, 8, 16}});
    ADD(gemms, {.n_batch = 1,
                .dtype_a = DT_PLAN_F32,
                .dtype_b = DT_PLAN_F32,
                .dtype_c = DT_PLAN_F32,
                .m = 8,
                .n = 4,
                .k = 8,
                .batch = {2},
                .a_batch = {64},
                .c_batch = {32},
                .a_row = 8,
                .a_col = 1,
                .b_row = 4,
                .b_col = 1,
                .c_row = 4,
                .c_col = 1});
    ADD(readers, {.sample = DT_PLAN_NEXT_TOKEN,
                  .source = DT_PLAN_TEXT,
                  .glob = STR("*.txt"),
                  .folder = STR("."),
                  .dtype = DT_PLAN_U8,
                  .n_inputs = 2,
                  .to = 0.9,
                  .span = 1});
    ADD(inputs, {.name = STR("tokens"),
                 .dtype = DT_PLAN_I32,
                 .first_axis = 3,
                 .n_axes = 2,
                 .row_elements = 8,
                 .arena = INPUTS,
                 .draw_hi = 10,
                 .lo = {0, 99},
                 .hi = {10, 100},
                 .n_ranges = 2,
                 .indexed = STR("vocab"),
                 .extent = 10,
                 .span = 1});
    ADD(inputs, {.name = STR("labels"),
                 .dtype = DT_PLAN_I32,
                 .first_axis = 3,
                 .n_axes = 2,
                 .row_elements = 8,
                 .arena = INPUTS,
                 .offset = 512});
    ADD(saved, {.loop = STR("h"), .iterations = 3, .saved = 128, .recomputed = 64});
    ADD(peaks, {.entry = 0, .span = 1, .live = 192, .bytes = {128, 64}});
    ADD(names, {.name = STR("file"), .n_tensors = 1, .n_rules = 1});
    ADD(tensors, {.pattern = STR("h.#.w"), .n_index = 1, .n_axes = 3, .n_holes = 1, .n_parts = 1,
                  .extent = {3, 4, 8}});
    ADD(holes, {.first = 1, .factor = {2}});
    ADD(parts, {.path = STR("h.w"), .n_axes = 3, .stride = {32, 1, 8}, .count = {3, 8, 4}});
    ADD(rules, {.kind = DT_RULE_CONFIG, .key = STR("eps"), .value = STR("[1]")});
    ADD(adapted, {.weight = STR("w"), .a = STR("w.lora.a"), .b = STR("w.lora.b"), .scale = 2});
    ADD(attentions, {.kernel = 0, .dtype = DT_PLAN_F32, .heads = 4, .kv_heads = 2, .head = 8,
                     .queries = 16, .keys = 16, .visible = 0.5});
    ADD(devices, {.name = STR("device"), .text = STR("a100-80g"), .value = 1});
    ADD(devices, {.name = STR("capacity"), .value = 8e10});
    ADD(predictions, {.device = STR("a100-80g"), .step = 0.5, .low = 0.4, .high = 0.6,
                      .peak = 3e14});
    ADD(objectives,
        {.loss = STR("loss"), .step = STR("step"), .update = STR("update"), .rate = STR("@lr"),
         .every = 1});
    ADD(scalars, {.name = STR("@lr"), .formula = STR("div(lr.base, add(step, lr.warmup))"),
                  .arena = SCALARS, .offset = 4});
    ADD(scalars, {.name = STR("@bias1"), .formula = STR("div(1, sub(1, pow(0.9, updates)))"),
                  .arena = SCALARS, .offset = 8});
    ADD(metrics, {.name = STR("loss"),
                  .entry = STR("step"),
                  .arena = SCALARS,
                  .dtype = DT_PLAN_F32,
                  .bytes = 4,
                  .stage = 1});
    ADD(shows, {.name = STR("perplexity"),
                .entry = STR("step"),
                .formula = STR("exp(div(loss, batches))")});
    char notes[] = "\1\2\3";
    const DtLogicalTexts texts = {"module\n", "META\n", "placed\n", "placed\n"};
    dt_logical_write(b, &texts, &(DtText){.at = notes, .len = 3});
    DtOrigin origin = {.block = "parallel p on c { }"};
    DT_PUSH(b->arena, origin.words, "--dim");
    DT_PUSH(b->arena, origin.words, "batch=8");
    DT_PUSH(b->arena, origin.files, ((DtOriginFile){"net.dsl", "x\n", 2, false}));
    DT_PUSH(b->arena, origin.files, ((DtOriginFile){"std.dsl", "", 0, true}));
    dt_origin_write(b, &origin);
}

/* Adds a pipeline: stage 0 sends five messages through a channel with two slots, and stage 1
 * receives them. The part "piece" is called with register 5 = micro-batch modulo 2. */
static void add_pipeline(DtArena *arena, DtPlanBuilder *b)
{
    ADD(bodies, {.name = STR("send"), .first_inst = 13, .n_insts = 2});
    INST(SET(.kind = DT_INST_SEND, .dtype = DT_PLAN_F32, .count = 16),
         AT(ACTS, 12288, 64, .reg = {0, 0, 0, 0, 0, 512}), NUMBER(0, .reg = {1}));
    INST(SET(.kind = DT_INST_ALL_REDUCE, .dtype = DT_PLAN_F32, .count = 8, .ref = 2),
         AT(ACTS, 0, 32, .written = 1));
    ADD(bodies, {.name = STR("recv"), .first_inst = 15, .n_insts = 2});
    INST(SET(.kind = DT_INST_RECV, .dtype = DT_PLAN_F32, .count = 16),
         AT(ACTS, 11000, 64, .reg = {0, 0, 0, 0, 0, 512}, .coord_axis = {2}, .coord = {200},
            .written = 1),
         NUMBER(0, .reg = {1}));
    add_inst(arena, b, (DtPlanInst){.kind = DT_INST_WAIT, .event = 1, .event_step = 1}, NULL, 0);
    for (uint32_t stage = 0; stage < 2; stage++) {
        uint32_t first = b->schedule.n;
        ADD(schedule, {.kind = DT_SCHED_RUN, .body = 2 + stage});
        ADD(entries, {.name = STR("piece"), .first = first, .count = 1, .stage = (int32_t)stage});
        uint32_t piece = b->entries.n - 1;
        first = b->schedule.n;
        ADD(schedule, {.kind = DT_SCHED_LOOP, .reg = 8, .step = 1, .count = 5});
        ADD(schedule, {.kind = DT_SCHED_SET, .reg = 6, .body = 8, .step = 2, .plus = 8});
        ADD(schedule, {.kind = DT_SCHED_SET, .reg = 0, .body = 8, .step = 1, .first = 1});
        ADD(schedule, {.kind = DT_SCHED_SET, .reg = 5, .body = 8, .step = 1, .count = 2});
        ADD(schedule, {.kind = DT_SCHED_CALL, .body = piece});
        ADD(schedule, {.kind = DT_SCHED_END});
        ADD(entries, {.name = STR("eval"), .first = first, .count = 6, .stage = (int32_t)stage});
    }
}

static void add_program(DtArena *arena, DtPlanBuilder *b)
{
    ADD(bodies, {.name = STR("layer"), .first_inst = 0, .n_insts = 5});
    INST(SET(.kind = DT_INST_READ, .count = 0), AT(INPUTS, 0, 128, .written = 1),
         AT(INPUTS, 512, 128, .written = 1), NUMBER(0, .reg = {4}, .coord_axis = {0}, .coord = {8}),
         NUMBER(4));
    INST(SET(.kind = DT_INST_GEMM), AT(ACTS, 0, 512),
         AT(PARAMS, 0, 128, .reg = {0, 128}),
         AT(ACTS, 1024, 256, .reg = {2048, 256}, .written = 1));
    INST(SET(.kind = DT_INST_KERNEL), AT(ACTS, 1024, 256, .reg = {2048, 256}),
         AT(ACTS, 8192, 512, .written = 1, .coord_axis = {1}, .coord = {1024}),
         {.kind = DT_ARG_STEP}, NUMBER(-3, .reg = {1, -1}));
    INST(SET(.kind = DT_INST_COPY, .count = 200, .guards = 1), AT(ACTS, 9000, 200, .written = 1),
         AT(ACTS, 12, 200), NUMBER(-1, .reg = {0, 1}, .coord_axis = {1}, .coord = {1}));
    INST(SET(.kind = DT_INST_ZERO, .count = 100), AT(GRADS, 8, 100, .written = 1));
    ADD(bodies, {.name = STR("reduce"), .first_inst = 5, .n_insts = 8});
    INST(SET(.kind = DT_INST_ALL_REDUCE, .dtype = DT_PLAN_F32, .count = 64),
         AT(GRADS, 0, 256, .written = 1));
    INST(SET(.kind = DT_INST_ALL_GATHER, .dtype = DT_PLAN_F32, .count = 16, .ref = 1),
         AT(ACTS, 0, 256, .written = 1), AT(ACTS, 512, 64));
    INST(SET(.kind = DT_INST_REDUCE_SCATTER, .dtype = DT_PLAN_F32, .count = 8),
         AT(ACTS, 0, 32, .written = 1), AT(ACTS, 512, 64));
    INST(SET(.kind = DT_INST_ALL_TO_ALL, .dtype = DT_PLAN_F32, .count = 8),
         AT(ACTS, 0, 64, .written = 1), AT(ACTS, 512, 64));
    INST(SET(.kind = DT_INST_ALL_GATHER, .dtype = DT_PLAN_F32, .count = 6, .ref = 1, .blocks = 1),
         AT(ACTS, 0, 96, .written = 1), AT(ACTS, 512, 24));
    INST(SET(.kind = DT_INST_ALL_REDUCE, .dtype = DT_PLAN_F32, .count = 8),
         AT(ACTS, 0, 32, .written = 1), AT(ACTS, 512, 32));
    INST(SET(.kind = DT_INST_SHIFT, .dtype = DT_PLAN_F32, .count = 8),
         AT(ACTS, 0, 32, .written = 1), AT(ACTS, 512, 32));
    INST(SET(.kind = DT_INST_SHIFT_BACK, .dtype = DT_PLAN_F32, .count = 8, .event = 1),
         AT(ACTS, 0, 32, .written = 1), AT(ACTS, 512, 32));
    ADD(schedule, {.kind = DT_SCHED_LOOP, .reg = 0, .step = 1, .count = 2});
    ADD(schedule, {.kind = DT_SCHED_LOOP, .reg = 1, .first = 1, .step = -1, .count = 2});
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 0});
    ADD(schedule, {.kind = DT_SCHED_END});
    ADD(schedule, {.kind = DT_SCHED_END});
    ADD(schedule, {.kind = DT_SCHED_RUN, .body = 1});
    ADD(entries, {.name = STR("step"), .first = 0, .count = 6});
    ADD(entries, {.name = STR("update"), .first = 5, .count = 1, .stage = -1});
    add_pipeline(arena, b);
}

DtPlanBuilder *fixture_plan(DtArena *arena)
{
    DtPlanBuilder *b = dt_write_new(arena);
    dt_write_str(b, "dropped by the writer");
    add_tables(arena, b);
    add_program(arena, b);
    for (uint32_t inst = 0; inst < b->insts.n; inst++)
        b->insts.at[inst].span = 1;
    for (uint32_t entry = 0; entry < b->entries.n; entry++)
        ADD(notes, {.count = 3});
    return b;
}

void fixture_repair(uint8_t *bytes, size_t len)
{
    DtPlanHeader header;
    if (len < sizeof header)
        return;
    memcpy(&header, bytes, sizeof header);
    for (uint32_t s = 0; s < header.n_sections && s < 64; s++) {
        size_t at = sizeof header + s * sizeof(DtPlanSection);
        DtPlanSection section;
        if (at + sizeof section > len)
            break;
        memcpy(&section, bytes + at, sizeof section);
        if (section.offset > len || section.length > len - section.offset)
            continue;
        section.checksum = dt_hash_bytes(bytes + section.offset, section.length, 0);
        memcpy(bytes + at, &section, sizeof section);
    }
    header.digest = dt_hash_bytes(bytes + sizeof header, len - sizeof header, 0);
    memcpy(bytes, &header, sizeof header);
}

/* ---- the walk ---- */

typedef struct Walk {
    const DtPlan *plan;
    char *base[256];
    uint32_t stage;
    int64_t reg[DT_PLAN_REGS];
    int64_t coord[16];
    uint64_t touched;
    int64_t budget;
} Walk;

static int64_t value_of(const Walk *walk, const DtPlanArg *arg)
{
    int64_t value = arg->kind == DT_ARG_STEP ? 3 : arg->base;
    for (int r = 0; arg->kind != DT_ARG_STEP && r < DT_PLAN_ARG_REGS; r++)
        value += arg->reg[r] * walk->reg[r];
    for (int c = 0; arg->kind != DT_ARG_STEP && c < DT_PLAN_COORDS; c++)
        if (arg->coord[c] != 0)
            value += arg->coord[c] * walk->coord[arg->coord_axis[c]];
    return value;
}

/* Reads or writes the first and the last byte of len bytes at an argument's address, and of the
 * range that the argument declares. */
static void touch(Walk *walk, const DtPlanArg *arg, int64_t len)
{
    int64_t offset = value_of(walk, arg);
    if (len < 0 || arg->bytes < len || offset < 0 ||
        dt_plan_predicts(walk->plan->arenas[arg->arena].kind) ||
        offset + arg->bytes > dt_plan_arena_bytes(walk->plan, arg->arena, walk->stage)) {
        fprintf(stderr, "a checked plan leaves its arena\n");
        abort();
    }
    volatile char *at = walk->base[arg->arena] + offset;
    if (arg->bytes > 0) {
        at[0] = (char)(at[0] + 1);
        at[arg->bytes - 1] = (char)(at[arg->bytes - 1] + 1);
    }
    walk->touched += (uint64_t)arg->bytes;
}

static int64_t hull(const DtPlanGemm *g, int64_t rows, int64_t row, int64_t cols, int64_t col,
                    const int64_t *batch, uint32_t dtype)
{
    int64_t last = (rows - 1) * row + (cols - 1) * col;
    for (uint32_t b = 0; b < g->n_batch; b++)
        last += (g->batch[b] - 1) * batch[b];
    return (last + 1) * dt_kinds_size(dtype);
}

/* Returns how many bytes of a buffer its blocks reach, with the largest coordinates. */
static int64_t reach(const DtPlan *plan, const DtPlanBlocks *blocks, const int64_t *strides,
                     const int64_t *coords)
{
    int64_t last = 0;
    for (uint32_t d = 0; d < blocks->n_dims; d++)
        last += (blocks->extent[d] - 1) * strides[d];
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        if (coords[c] != 0)
            last += coords[c] * (plan->mesh[blocks->coord_axis[c]].size - 1);
    return last + 1;
}

static void walk_exchange(Walk *walk, const DtPlanInst *inst, const DtPlanArg *args)
{
    const DtPlan *plan = walk->plan;
    int64_t unit = dt_kinds_size(inst->dtype), size = plan->groups[inst->ref].size;
    int64_t to = inst->kind == DT_INST_REDUCE_SCATTER ? inst->count : inst->count * size;
    int64_t from = inst->kind == DT_INST_ALL_GATHER ? inst->count : inst->count * size;
    if (inst->blocks > 0) {
        const DtPlanBlocks *blocks = &plan->blocks[inst->blocks - 1];
        to = reach(plan, blocks, blocks->to, blocks->to_coord);
        from = reach(plan, blocks, blocks->from, blocks->from_coord);
    }
    touch(walk, &args[0], to * unit);
    touch(walk, &args[1], from * unit);
}

static void walk_inst(Walk *walk, const DtPlanInst *inst)
{
    const DtPlan *plan = walk->plan;
    const DtPlanArg *args = plan->args + inst->first_arg;
    int64_t unit = dt_kinds_size(inst->dtype), part = inst->count * unit;
    switch (inst->kind) {
    case DT_INST_KERNEL: {
        const DtPlanKernel *kernel = &plan->kernels[inst->ref];
        for (uint32_t i = 0; i < kernel->n_pointers; i++)
            touch(walk, &args[i], 0);
        for (uint32_t i = 0; i < kernel->n_integers; i++)
            walk->touched += (uint64_t)value_of(walk, &args[kernel->n_pointers + i]) & 1;
        break;
    }
    case DT_INST_GEMM: {
        const DtPlanGemm *g = &plan->gemms[inst->ref];
        touch(walk, &args[0], hull(g, g->m, g->a_row, g->k, g->a_col, g->a_batch, g->dtype_a));
        touch(walk, &args[1], hull(g, g->k, g->b_row, g->n, g->b_col, g->b_batch, g->dtype_b));
        touch(walk, &args[2], hull(g, g->m, g->c_row, g->n, g->c_col, g->c_batch, g->dtype_c));
        const uint32_t vector = dt_kinds_epilogues[g->epilogue].vector ? 1 : 0;
        if (vector)
            touch(walk, &args[3],
                  (g->epilogue == DT_PLAN_EPILOGUE_SUM_A ? g->m : g->n) *
                      dt_kinds_size(g->dtype_c));
        if (dt_kinds_epilogues[g->epilogue].matrix)
            touch(walk, &args[3 + vector],
                  hull(g, g->m, g->matrix_row, g->n, g->matrix_col, g->c_batch, g->dtype_c));
        break;
    }
    case DT_INST_COPY:
        touch(walk, &args[0], inst->count);
        touch(walk, &args[1], inst->count);
        break;
    case DT_INST_ZERO: touch(walk, &args[0], inst->count); break;
    case DT_INST_READ: {
        const DtPlanReader *reader = &plan->readers[inst->ref];
        int64_t rows = value_of(walk, &args[reader->n_inputs + 1]);
        for (uint32_t i = 0; i < reader->n_inputs; i++) {
            const DtPlanInput *input = &plan->inputs[reader->first_input + i];
            touch(walk, &args[i], rows * input->row_elements * dt_kinds_size(input->dtype));
        }
        break;
    }
    case DT_INST_ALL_GATHER:
    case DT_INST_REDUCE_SCATTER:
    case DT_INST_ALL_TO_ALL: walk_exchange(walk, inst, args); break;
    case DT_INST_SEND:
    case DT_INST_RECV:
        if (part > plan->channels[inst->ref].bytes)
            abort();
        touch(walk, &args[0], part);
        break;
    case DT_INST_ALL_REDUCE:
    case DT_INST_SHIFT:
    case DT_INST_SHIFT_BACK:
        for (uint32_t i = 0; i < inst->n_args; i++)
            touch(walk, &args[i], part);
        break;
    default: break;
    }
}

/* Runs schedule[first .. end of the loop); returns the index after it. */
static uint32_t walk_items(Walk *walk, uint32_t at, uint32_t end)
{
    const DtPlan *plan = walk->plan;
    while (at < end && plan->schedule[at].kind != DT_SCHED_END) {
        const DtPlanSchedule *item = &plan->schedule[at];
        if (item->kind == DT_SCHED_LOOP) {
            uint32_t after = at;
            for (int64_t i = 0; i < item->count; i++) {
                walk->reg[item->reg] = item->first + i * item->step;
                after = walk_items(walk, at + 1, end);
                if (walk->budget < 0)
                    return end;
            }
            walk->reg[item->reg] = 0;
            at = after + 1;
            continue;
        }
        if (item->kind == DT_SCHED_SET) {
            walk->reg[item->reg] = item->step * walk->reg[item->body] + item->first +
                                   (item->plus ? walk->reg[item->plus] : 0);
            if (item->count)
                walk->reg[item->reg] =
                    (walk->reg[item->reg] % item->count + item->count) % item->count;
            at++;
            continue;
        }
        if (item->kind == DT_SCHED_WHEN) {
            int64_t from = walk->reg[item->reg] - item->first;
            at += 1 + (from >= 0 && from < item->count ? 0 : item->body);
            continue;
        }
        if (item->kind == DT_SCHED_CALL) {
            const DtPlanEntry *entry = &plan->entries[item->body];
            walk_items(walk, entry->first, entry->first + entry->count);
            at++;
            continue;
        }
        const DtPlanBody *body = &plan->bodies[item->body];
        walk->budget -= (int64_t)body->n_insts + 1;
        if (walk->budget < 0)
            return end;
        for (uint32_t i = 0; i < body->n_insts; i++)
            walk_inst(walk, &plan->insts[body->first_inst + i]);
        at++;
    }
    return at;
}

uint64_t fixture_walk(const DtPlan *plan, int64_t limit)
{
    Walk walk = {.plan = plan, .budget = limit};
    int64_t total = 0;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        total += plan->arenas[a].bytes;
    if (total > limit || plan->meta->n_ranks > 64)
        return 0;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        walk.base[a] = malloc((size_t)plan->arenas[a].bytes);
    for (uint32_t rank = 0; rank < plan->meta->n_ranks; rank++) {
        uint32_t rest = rank;
        for (uint32_t m = plan->n_mesh; m-- > 0; rest /= plan->mesh[m].size)
            walk.coord[m] = rest % plan->mesh[m].size;
        walk.stage = plan->meta->pipeline ? (uint32_t)walk.coord[plan->meta->pipeline - 1] : 0;
        for (uint32_t e = 0; e < plan->n_entries; e++) {
            if (!dt_plan_on_stage(plan->entries[e].stage, walk.stage))
                continue;
            memset(walk.reg, 0, sizeof walk.reg);
            walk_items(&walk, plan->entries[e].first,
                       plan->entries[e].first + plan->entries[e].count);
        }
    }
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        free(walk.base[a]);
    return walk.touched;
}
