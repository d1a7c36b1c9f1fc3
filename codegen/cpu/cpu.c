/* SPDX-License-Identifier: Apache-2.0 */
/* The processor of a rank: kernels as canonical C, built by the compiler of this machine
 * (base/hostcc.c); products by the library that the runtime opens, or its own loops
 * (runtime/gemm_wide.c). */
#include "codegen/cpu/cpu.h"
#include "codegen/interpreted/interpreted.h"

#include "base/hostcc.h"

#include <string.h>

static const char *machine(const char *name)
{
    return strcmp(name, "cpu") == 0 ? dt_hostcc_native() : name;
}

/* Rows of a block, so that its scores for all keys fit the cache; at most MAX_BLOCKS, since each
 * block adds instructions to the plan. */
enum {
    MAX_BLOCKS = 64, FEW_QUERIES = 512, ROWS_OF_FEW = 64, ROWS_OF_MANY = 128,
    ROWS_OF_MANY_KEYS = 256
};

static int64_t block_rows(int64_t n, int64_t n_keys)
{
    int64_t rows = n_keys > DT_TARGET_MANY_KEYS ? ROWS_OF_MANY_KEYS
                   : n <= FEW_QUERIES ? ROWS_OF_FEW
                                      : ROWS_OF_MANY;
    while ((n + rows - 1) / rows > MAX_BLOCKS)
        rows *= 2;
    return rows < n ? rows : n;
}

static bool is_interpreted(const char *name) { return strcmp(name, "interpreted") == 0; }

static uint32_t interpreted_names(const char **ret_names)
{
    ret_names[0] = "interpreted";
    return 1;
}

static const char *same(const char *name) { return name; }

const DtTargetRow dt_target_cpu = {
    .kind = DT_TARGET_CPU,
    .has = dt_hostcc_known,
    .names = dt_hostcc_targets,
    .machine = machine,
    .print = dt_print_c_kernel,
    .build = dt_cpu_build,
    .blocks_most = MAX_BLOCKS,
    .block_rows = block_rows,
};

/* The runtime interprets its kernels: no C compiler, and any processor. */
const DtTargetRow dt_target_cpu_interpreted = {
    .kind = DT_TARGET_CPU,
    .is_interpreted = true,
    .has = is_interpreted,
    .names = interpreted_names,
    .machine = same,
    .print = dt_interpreted_print,
    .build = dt_interpreted_build,
    .blocks_most = MAX_BLOCKS,
    .block_rows = block_rows,
};
