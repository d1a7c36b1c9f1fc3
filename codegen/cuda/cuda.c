/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of NVIDIA: kernels as text that NVRTC compiles. No plan has them yet: what can be had is the text, and what the
 * compiler says of it (`--emit=cuda`). */
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/emit.h"

#include <string.h>

/* ---- machines ---- */

/* Of names that are as near to a wrong one, the first is meant. */
static const char *const machines[] = {"sm_100a", "sm_90a", "sm_80"};

/* "sm_80,sm_90a": the next name of the list, and the rest of it, NULL behind the last one. */
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
        for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
            known = known || (strlen(machines[i]) == len && strncmp(machines[i], at, len) == 0);
        if (!known)
            return false;
    }
    return true;
}

static uint32_t names(const char **ret_names)
{
    memcpy(ret_names, machines, sizeof machines);
    return (uint32_t)(sizeof machines / sizeof machines[0]);
}

static const char *machine(const char *name) { return name; }

/* ---- code ---- */

/* What the compiler makes of the kernels, by machine, behind their text. */
static DtStatus build(DtEmit *e)
{
    DtText text = {0}, *said = e->options->ret_c;
    DtStatus status = DT_OK;
    dt_text_add(&text, dt_cuda_device);
    dt_text_add(&text, dt_prelude_c);
    dt_text_add(&text, dt_cuda_lanes);
    for (uint32_t i = 0; i < e->kernel_texts.n; i++)
        dt_text_add(&text, e->kernel_texts.at[i]);
    const char *rest = e->options->no_kernels ? NULL : e->options->target;
    for (const char *at = rest; at && dt_status_ok(&status); at = rest) {
        DtNvrtcResult result;
        const char *name = dt_arena_strndup(e->arena, at, next_of(at, &rest));
        status = dt_nvrtc_compile(e->arena, text.at, name, &result);
        if (!dt_status_ok(&status) || !said)
            continue;
        dt_text_printf(said, "/* %s for %s: %zu bytes\n", result.version, name, result.len);
        for (uint32_t i = 0; i < result.n_kernels; i++)
            dt_text_printf(said, " * %s: %u registers, %u bytes spilled\n", result.kernels[i].symbol,
                           result.kernels[i].registers, result.kernels[i].spilled);
        dt_text_add(said, " */\n");
    }
    dt_text_free(&text);
    return status;
}

/* ---- products, attention ---- */

/* Sums are in f32. */
static bool multiplies(DtDtype a, DtDtype b, DtDtype c)
{
    return a == b && (a == DT_F32 || a == DT_BF16 || a == DT_F16) && (c == a || c == DT_F32);
}

enum { MOST_BLOCKS = 64, ROWS = 128 };

static int64_t block_rows(int64_t n)
{
    int64_t rows = ROWS;
    while ((n + rows - 1) / rows > MOST_BLOCKS)
        rows *= 2;
    return rows < n ? rows : n;
}

const DtTargetRow dt_target_cuda = {
    .kind = DT_TARGET_CUDA,
    .limits = &dt_target_limits[DT_TARGET_CUDA],
    .has = has,
    .names = names,
    .machine = machine,
    .print = dt_cuda_print,
    .says_lines = true,
    .build = build,
    .multiplies = multiplies,
    .copy_pays = 4,
    .blocks_most = MOST_BLOCKS,
    .block_rows = block_rows,
};
