/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/config.h"

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

int64_t dt_config_lcm(int64_t a, int64_t b)
{
    int64_t multiple;
    return __builtin_mul_overflow(a / gcd(a, b), b, &multiple) ? INT64_MAX : multiple;
}

/* Parts that the line alone cuts an axis into. */
static int64_t blocks_of(const DtMesh *mesh, const DtShard *line)
{
    int64_t blocks = line->zigzag ? 2 : 1;
    for (uint32_t i = 0; i < line->n_mesh; i++)
        for (uint32_t m = 0; m < mesh->n; m++)
            if (mesh->axes[m].name == line->mesh[i])
                blocks *= mesh->axes[m].size;
    return blocks;
}

int64_t dt_config_pad_unit(const DtParallelConfig *config, const char *axis)
{
    int64_t unit = 1;
    for (uint32_t i = 0; i < config->shards.n; i++) {
        const DtShard *line = &config->shards.at[i];
        for (uint32_t k = 0; line->pad && k < line->n_axes; k++)
            if (line->axes[k] == axis)
                unit = dt_config_lcm(unit, dt_config_lcm(line->pad, blocks_of(&config->mesh, line)));
    }
    return unit;
}
