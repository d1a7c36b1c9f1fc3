/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/config.h"

#include "base/pairs.h"

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

int64_t dt_config_lcm(int64_t a, int64_t b)
{
    int64_t multiple;
    return __builtin_mul_overflow(a / gcd(a, b), b, &multiple) ? INT64_MAX : multiple;
}

/* Returns into how many parts this shard line alone cuts an axis. */
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
                unit =
                    dt_config_lcm(unit, dt_config_lcm(line->pad, blocks_of(&config->mesh, line)));
    }
    return unit;
}

const DtObjective *dt_train_objective(const DtTrainConfig *train, const char *path)
{
    for (uint32_t i = 0; i < train->optimizer.rules.n; i++) {
        const DtUpdateRule *rule = &train->optimizer.rules.at[i];
        if (rule->param->path == path && rule->group < train->groups.n)
            return &train->objectives.at[train->groups.at[rule->group].objective];
    }
    return &train->objectives.at[0];
}

int64_t dt_train_batch(const DtTrainConfig *train)
{
    const DtType *first = train->readers.n ? train->readers.at[0].types[0] : NULL;
    return first && first->rank ? first->axes[0].extent : 0;
}

int64_t dt_train_steps(const DtTrainConfig *train)
{
    return train->epochs > 0 ? DT_STEPS_ASSUMED : train->steps;
}

int64_t dt_replicas_ways(const DtReplicas *replicas)
{
    return replicas->mix == DT_MIX_PAIRS ? dt_pairs_rounds(replicas->n) : 1;
}

const DtObjective *dt_train_always(const DtTrainConfig *train)
{
    for (uint32_t i = 0; i < train->objectives.n; i++)
        if (train->objectives.at[i].every == 1)
            return &train->objectives.at[i];
    return &train->objectives.at[0];
}
