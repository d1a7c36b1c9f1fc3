/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of NVIDIA: kernels as text, and as code for each of the machines that are asked for, by
 * NVRTC. */
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/tile.h"
#include "codegen/emit.h"
#include "codegen/interpreted/interpreted.h"
#include "codegen/units.h"

#include "base/gpucode.h"
#include "base/nvrtc.h"
#include "plan/kinds.h"

#include <stdio.h>
#include <string.h>

/* ---- machines ---- */

/* Returns the length of the first name of a list "sm_80,sm_90a". ret_rest: the rest of the list,
 * NULL after the last name. */
static size_t next_of(const char *list, const char **ret_rest)
{
    const size_t len = strcspn(list, ",");
    *ret_rest = list[len] ? list + len + 1 : NULL;
    return len;
}

static bool has(const char *name)
{
    for (const char *at = name, *rest; at; at = rest) {
        const size_t len = next_of(at, &rest);
        bool known = false;
        for (size_t i = 0; i < DT_GPUCODE_TARGETS; i++)
            known = known || (strlen(dt_gpucode_targets[i]) == len &&
                              strncmp(dt_gpucode_targets[i], at, len) == 0);
        if (!known)
            return false;
    }
    return true;
}

static uint32_t names(const char **ret_names)
{
    memcpy(ret_names, dt_gpucode_targets, sizeof dt_gpucode_targets);
    return DT_GPUCODE_TARGETS;
}

static const char *machine(const char *name) { return name; }

/* "sm_90a-interpreted": the runtime takes it for code of such a GPU, and only a stand-in of the
 * driver loads it. */
static bool has_interpreted(const char *name)
{
    for (size_t i = 0; i < DT_GPUCODE_TARGETS; i++) {
        const size_t length = strlen(dt_gpucode_targets[i]);
        if (strncmp(name, dt_gpucode_targets[i], length) == 0 &&
            strcmp(name + length, "-interpreted") == 0)
            return true;
    }
    return false;
}

static uint32_t names_of_interpreted(const char **ret_names)
{
    ret_names[0] = "sm_90a-interpreted";
    return 1;
}

/* ---- code ---- */

/* A unit takes NVRTC some 35 ms more, in which it compiles 1,500 bytes of kernels. */
enum { MOST_UNITS = DT_UNITS_MOST, UNIT_BYTES = 8 << 10 };

static const char *unit_text(DtEmit *e, const DtUnits *units, uint32_t unit)
{
    DtText text = {0};
    bool attends = false;
    dt_text_add(&text, dt_cuda_device);
    dt_text_add(&text, dt_prelude_c);
    dt_text_add(&text, dt_cuda_lanes);
    dt_text_add(&text, dt_cuda_wide);
    dt_text_add(&text, dt_cuda_draws);
    for (uint32_t i = 0; i < e->kernel_texts.n; i++)
        attends = attends || (units->of[i] == unit && strstr(e->kernel_texts.at[i], "DT_SHARED"));
    if (attends)
        dt_text_add(&text, dt_cuda_attend);
    return dt_units_text(e, units, unit, &text);
}

static void say(DtText *said, const DtNvrtcResult *result, const char *machine)
{
    dt_text_printf(said, "/* %s for %s: %zu bytes\n", result->version, machine, result->len);
    for (uint32_t i = 0; i < result->n_kernels; i++)
        dt_text_printf(said, " * %s: %u registers, %u bytes spilled\n", result->kernels[i].symbol,
                       result->kernels[i].registers, result->kernels[i].spilled);
    dt_text_add(said, " */\n");
}

/* Reports a kernel whose values do not fit into registers: they are spilled to memory, which is
 * slow. */
static void lint(const DtEmit *e, const DtNvrtcResult *result, const char *machine)
{
    for (uint32_t i = 0; i < result->n_kernels; i++) {
        const DtNvrtcKernel *kernel = &result->kernels[i];
        uint32_t k;
        if (!kernel->spilled || !e->module->diags || sscanf(kernel->symbol, "dt_k%u", &k) != 1 ||
            k >= e->kernel_spans.n)
            continue;
        DtDiag *diag = dt_diag_report(
            e->module->diags, L0586, e->kernel_spans.at[k],
            "a kernel that puts %u bytes of a thread's values into memory for lack of "
            "registers",
            kernel->spilled);
        dt_diag_note(diag, "kernel `%s` for %s has %u registers", kernel->symbol, machine,
                     kernel->registers);
    }
}

/* Writes the CODE records: for each unit one per machine, one after the other, with the same source
 * (plan.h, LNCH). */
static void record(DtEmit *e, const DtNvrtcJob *jobs, uint32_t n_units, uint32_t n_machines)
{
    for (uint32_t u = 0; u < n_units; u++) {
        const char *text = jobs[u * n_machines].text;
        const uint64_t len = strlen(text), source = dt_write_blob(e->plan, text, len);
        for (uint32_t i = u * n_machines; i < (u + 1) * n_machines; i++) {
            const DtNvrtcResult *result = &jobs[i].result;
            if (e->options->ret_c && result->len)
                say(e->options->ret_c, result, jobs[i].machine);
            lint(e, result, jobs[i].machine);
            const DtPlanCode code = {
                .target = dt_write_str(e->plan, jobs[i].machine),
                .compiler = dt_write_str(e->plan, result->version),
                .source = source,
                .source_len = len,
                .binary_len = result->len,
                .binary = result->len ? dt_write_blob(e->plan, result->cubin, result->len) : 0};
            DT_PUSH(e->plan->arena, e->plan->codes, code);
        }
    }
}

/* Sets *ret to the registers and spilled bytes that the assembler reports for the kernel, the
 * largest of its launches. False: it reports none. */
static bool registers_of(const DtNvrtcResult *result, uint32_t kernel, DtPlanRegisters *ret)
{
    bool found = false;
    for (uint32_t i = 0; i < result->n_kernels; i++) {
        const DtNvrtcKernel *said = &result->kernels[i];
        uint32_t number;
        if (sscanf(said->symbol, "dt_k%u", &number) != 1 || number != kernel)
            continue;
        ret->registers = said->registers > ret->registers ? said->registers : ret->registers;
        ret->spilled = said->spilled > ret->spilled ? said->spilled : ret->spilled;
        found = true;
    }
    return found;
}

static void record_registers(DtEmit *e, const DtNvrtcJob *jobs, uint32_t n_machines)
{
    for (uint32_t k = 0; k < e->plan->kernels.n; k++)
        for (uint32_t m = 0; m < n_machines; m++) {
            DtPlanRegisters registers = {.kernel = k, .code = e->plan->kernels.at[k].code + m};
            if (registers_of(&jobs[registers.code].result, k, &registers))
                DT_PUSH(e->plan->arena, e->plan->registers, registers);
        }
}

static DtStatus build(DtEmit *e)
{
    const DtUnits units = dt_units_spread(e, MOST_UNITS, UNIT_BYTES);
    uint32_t n_machines = 1, n = 0;
    for (const char *at = e->options->target; *at; at++)
        n_machines += *at == ',';
    for (uint32_t i = 0; i < e->plan->kernels.n; i++)
        e->plan->kernels.at[i].code = units.of[i] * n_machines;
    DtNvrtcJob *jobs = DT_NEW_ARRAY(e->arena, DtNvrtcJob, units.n * n_machines);
    for (uint32_t u = 0; u < units.n; u++) {
        const char *text = unit_text(e, &units, u);
        for (const char *at = e->options->target, *rest; at; at = rest) {
            const char *name = dt_arena_strndup(e->arena, at, next_of(at, &rest));
            jobs[n++] = (DtNvrtcJob){.text = text, .machine = name, .result = {.version = ""}};
        }
    }
    const DtStatus status = e->options->no_kernels ? DT_OK : dt_nvrtc_build_all(e->arena, jobs, n);
    if (dt_status_ok(&status)) {
        record(e, jobs, units.n, n_machines);
        record_registers(e, jobs, n_machines);
    }
    return status;
}

/* ---- attention ---- */

enum { MOST_BLOCKS = 64, ROWS = 128, ROWS_OF_MANY_KEYS = 1024 };

static int64_t block_rows(int64_t n, int64_t n_keys)
{
    int64_t rows = n_keys > DT_TARGET_MANY_KEYS ? ROWS_OF_MANY_KEYS : ROWS;
    while ((n + rows - 1) / rows > MOST_BLOCKS)
        rows *= 2;
    return rows < n ? rows : n;
}

const DtTargetRow dt_target_cuda = {
    .kind = DT_TARGET_CUDA,
    .has = has,
    .names = names,
    .machine = machine,
    .print = dt_cuda_print,
    .launch = dt_cuda_launch,
    .order = dt_tile_order,
    .says_lines = true,
    .build = build,
    .attends = dt_cuda_attends,
    .library = dt_cuda_library,
    .blocks_most = MOST_BLOCKS,
    .block_rows = block_rows,
};

/* As for GPUs in all but the code of kernels: layouts, launches, which attention is a library's. */
const DtTargetRow dt_target_cuda_interpreted = {
    .kind = DT_TARGET_CUDA,
    .is_interpreted = true,
    .has = has_interpreted,
    .names = names_of_interpreted,
    .machine = machine,
    .print = dt_interpreted_print,
    .launch = dt_cuda_launch,
    .order = dt_tile_order,
    .build = dt_interpreted_build,
    .attends = dt_cuda_attends,
    .library = dt_cuda_library,
    .blocks_most = MOST_BLOCKS,
    .block_rows = block_rows,
};
