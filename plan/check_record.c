/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: single records, in the order in which they refer to each other. */
#include "plan/check_internal.h"

#include "base/formula.h"
#include "base/text.h"
#include "plan/kinds.h"
#include "plan/name.h"
#include "plan/show.h"

#include <math.h>
#include <string.h>

/* The product of the sizes of the mesh axes in mask; the mesh is valid. */
static int64_t ranks_of(const DtPlan *plan, uint32_t mask)
{
    int64_t ranks = 1;
    for (uint32_t i = 0; i < plan->n_mesh; i++)
        if (mask >> i & 1)
            ranks *= plan->mesh[i].size;
    return ranks;
}

static bool mask_in_mesh(const DtPlan *plan, uint32_t mask)
{
    return plan->n_mesh >= 32 || mask >> plan->n_mesh == 0;
}

/* A step of a ramp runs some of the micro-batches, each whole. */
static bool check_ramp(Check *check, const DtPlanMeta *meta)
{
    const int64_t each = meta->batch / meta->n_micro;
    if (meta->ramp_by == 0)
        return meta->ramp_from == 0 && meta->ramp_over == 0
                   ? true
                   : dt_check_fail(check, "META", 0, "half a ramp");
    if (meta->pipeline || meta->ramp_from < 1 || meta->ramp_by < 1 || meta->ramp_over < 1 ||
        meta->ramp_from > meta->batch || meta->batch % meta->n_micro != 0 || each < 1 ||
        meta->ramp_from % each != 0 || meta->ramp_by % each != 0 ||
        (meta->batch - meta->ramp_from) % meta->ramp_by != 0)
        return dt_check_fail(
            check, "META", 0, "a ramp from %lld by %lld to %lld samples, in %u micro-batches%s",
            (long long)meta->ramp_from, (long long)meta->ramp_by, (long long)meta->batch,
            meta->n_micro, meta->pipeline ? " of a pipeline" : "");
    return true;
}

static bool check_meta(Check *check)
{
    const DtPlan *plan = check->plan;
    if (plan->n_meta != 1 || plan->n_logical > 1 || plan->n_origins > 1)
        return dt_check_fail(check, "META", 0,
                             "a plan has one META, and at most one LOGI and one ORIG record");
    const DtPlanMeta *meta = plan->meta;
    if (plan->n_mesh > DT_CHECK_MAX_MESH)
        return dt_check_fail(check, "MESH", plan->n_mesh, "too many mesh axes");
    int64_t ranks = 1;
    for (uint32_t i = 0; i < plan->n_mesh; i++) {
        if (plan->mesh[i].size == 0 || plan->mesh[i].size > 1u << 20)
            return dt_check_fail(check, "MESH", i, "size %u", plan->mesh[i].size);
        ranks *= plan->mesh[i].size;
        if (ranks > 1 << 20)
            return dt_check_fail(check, "MESH", i, "more than 2^20 ranks");
    }
    if (meta->pipeline > plan->n_mesh || dt_plan_stages(plan) > DT_PLAN_MAX_STAGES)
        return dt_check_fail(check, "META", 0, "mesh axis %u of %u is no pipeline of at most %d",
                             meta->pipeline, plan->n_mesh, DT_PLAN_MAX_STAGES);
    if (meta->n_ranks != ranks)
        return dt_check_fail(check, "META", 0, "%u ranks, but the mesh has %lld", meta->n_ranks,
                             (long long)ranks);
    if (meta->events > DT_PLAN_MAX_EVENTS)
        return dt_check_fail(check, "META", 0, "%u events", meta->events);
    if (meta->eval_rest > 1)
        return dt_check_fail(check, "META", 0, "eval_rest is %u", meta->eval_rest);
    if (meta->draws != 0 && meta->draws != 1 && meta->draws != 4)
        return dt_check_fail(check, "META", 0, "a draw takes %u elements from a call", meta->draws);
    if (meta->keep_best < 0 || meta->keep_best > 1)
        return dt_check_fail(check, "META", 0, "keep_best is %lld", (long long)meta->keep_best);
    if (meta->tf32 > 1)
        return dt_check_fail(check, "META", 0, "tf32 is %u", meta->tf32);
    if (meta->n_micro == 0)
        return dt_check_fail(check, "META", 0, "no micro-batch");
    if (!check_ramp(check, meta))
        return false;
    if (meta->mix_ways < (meta->mix_every > 0) || meta->mix_ways > DT_PLAN_MIX_MOST ||
        (meta->mix_every == 0 && meta->mix_ways > 0))
        return dt_check_fail(check, "META", 0, "%lld ways to mix replicas, every %lld steps",
                             (long long)meta->mix_ways, (long long)meta->mix_every);
    const int64_t sizes[] = {meta->steps,      meta->batch,      meta->tokens,
                             meta->parameters, meta->eval_every, meta->eval_steps,
                             meta->save_every, meta->save_keep,  meta->eval_patience,
                             meta->ramp_from,  meta->ramp_by,    meta->ramp_over,
                             meta->mix_every};
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        if (sizes[i] < 0 || sizes[i] > DT_PLAN_MAX_BYTES)
            return dt_check_fail(check, "META", 0, "%lld is not a count", (long long)sizes[i]);
    if (!(meta->epochs >= 0 && meta->epochs <= 1e9) || (meta->epochs > 0 && meta->steps > 0))
        return dt_check_fail(check, "META", 0, "%g epochs and %lld steps", meta->epochs,
                             (long long)meta->steps);
    return true;
}

static bool check_groups(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_groups; i++) {
        const DtPlanGroup *group = &plan->groups[i];
        uint32_t stages = dt_plan_stages(plan);
        const char *members = dt_plan_str(plan, group->stages);
        bool some = *members != 0;
        if (!mask_in_mesh(plan, group->mask) ||
            (some &&
             (plan->meta->pipeline == 0 || !(group->mask >> (plan->meta->pipeline - 1) & 1) ||
              !dt_stages_is_valid(members, stages))))
            return dt_check_fail(check, "GRUP", i, "axes %x, stages %.40s", group->mask, members);
        int64_t ranks = ranks_of(plan, group->mask);
        if (some)
            ranks = ranks / stages * dt_stages_count(members);
        if (group->size != ranks)
            return dt_check_fail(check, "GRUP", i, "axes %x do not make %u ranks", group->mask,
                                 group->size);
        if (group->queue > plan->n_groups)
            return dt_check_fail(check, "GRUP", i, "queue %u of %u", group->queue, plan->n_groups);
        for (uint32_t k = 0; k < i; k++)
            if (plan->groups[k].mask == group->mask && plan->groups[k].queue != group->queue)
                return dt_check_fail(check, "GRUP", i, "axes %x are in two queues", group->mask);
    }
    return true;
}

static bool check_arenas(Check *check)
{
    const DtPlan *plan = check->plan;
    int64_t total = 0;
    if (plan->n_arenas > 255)
        return dt_check_fail(check, "AREN", 255, "more than 255 arenas");
    for (uint32_t i = 0; i < plan->n_arenas; i++) {
        const DtPlanArena *arena = &plan->arenas[i];
        if (arena->bytes < 0 || arena->bytes > DT_PLAN_MAX_BYTES || arena->shared > 1)
            return dt_check_fail(check, "AREN", i, "%lld bytes, shared %u", (long long)arena->bytes,
                                 arena->shared);
        total += arena->bytes;
    }
    if (total > DT_PLAN_MAX_BYTES)
        return dt_check_fail(check, "AREN", 0, "the arenas have %lld bytes together",
                             (long long)total);
    if (plan->n_sizes != 0 && plan->n_sizes != (uint64_t)plan->n_arenas * dt_plan_stages(plan))
        return dt_check_fail(check, "ASIZ", plan->n_sizes, "%u sizes of %u arenas on %u stages",
                             plan->n_sizes, plan->n_arenas, dt_plan_stages(plan));
    for (uint32_t i = 0; i < plan->n_sizes; i++)
        if (plan->sizes[i].bytes < 0 ||
            plan->sizes[i].bytes > plan->arenas[i % plan->n_arenas].bytes)
            return dt_check_fail(check, "ASIZ", i, "%lld bytes", (long long)plan->sizes[i].bytes);
    return true;
}

/* Checks that a split lists different mesh axes, and only zeros after them. */
static bool split_mask(const DtPlan *plan, const DtPlanAxis *axis, uint32_t *ret_mask)
{
    bool ended = false;
    *ret_mask = 0;
    for (int s = 0; s < DT_PLAN_SPLITS; s++) {
        uint32_t m = axis->split[s];
        ended = ended || m == 0;
        if (m == 0)
            continue;
        if (ended || m > plan->n_mesh || *ret_mask >> (m - 1) & 1)
            return false;
        *ret_mask |= 1u << (m - 1);
    }
    return true;
}

static bool check_axes(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_axes; i++) {
        const DtPlanAxis *axis = &plan->axes[i];
        uint32_t mask;
        if (!split_mask(plan, axis, &mask) || axis->extent < 1 ||
            axis->extent > DT_PLAN_MAX_BYTES || axis->local < 1 ||
            axis->local > DT_PLAN_MAX_BYTES)
            return dt_check_fail(check, "AXIS", i, "extent %lld, local %lld, split by %u, ...",
                                 (long long)axis->extent, (long long)axis->local, axis->split[0]);
        /* Inputs contain one micro-batch, so time splits the batch too. */
        int64_t ranks = ranks_of(plan, mask);
        if (axis->step < -DT_PLAN_MAX_BYTES || axis->step > DT_PLAN_MAX_BYTES)
            return dt_check_fail(check, "AXIS", i, "a step of %lld", (long long)axis->step);
        if (axis->first < 0 || (axis->first > 0 && axis->first > axis->extent - axis->local))
            return dt_check_fail(check, "AXIS", i, "%lld elements from %lld of %lld",
                                 (long long)axis->local, (long long)axis->first,
                                 (long long)axis->extent);
        if (plan->meta->pipeline != 0) /* a stage may have any part of a stacked store */
            continue;
        if ((DtWide)axis->local * ranks * plan->meta->n_micro < axis->extent)
            return dt_check_fail(check, "AXIS", i, "%lld ranks hold %lld each of %lld",
                                 (long long)ranks, (long long)axis->local, (long long)axis->extent);
    }
    return true;
}

/* Returns the bytes of the arena on that stage; for stage -1 on the stage with the fewest. */
static int64_t arena_bytes(const DtPlan *plan, uint32_t arena, int32_t stage)
{
    int64_t least = INT64_MAX;
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++) {
        int64_t bytes = dt_plan_arena_bytes(plan, arena, s);
        if (dt_plan_on_stage(stage, s) && bytes < least)
            least = bytes;
    }
    return least;
}

/* Checks the dimensions of blocks, and that only coordinates within the group move them. */
static bool check_blocks(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_blocks; i++) {
        const DtPlanBlocks *blocks = &plan->blocks[i];
        if (blocks->group >= plan->n_groups || blocks->n_dims > DT_PLAN_BLOCK_DIMS)
            return dt_check_fail(check, "BLOK", i, "group %u, %u dimensions", blocks->group,
                                 blocks->n_dims);
        for (uint32_t d = 0; d < DT_PLAN_BLOCK_DIMS; d++) {
            bool used = d < blocks->n_dims;
            if (blocks->extent[d] < (used ? 1 : 0) || blocks->to[d] < 0 || blocks->from[d] < 0 ||
                (!used && (blocks->extent[d] || blocks->to[d] || blocks->from[d])) ||
                blocks->extent[d] > DT_PLAN_MAX_BYTES || blocks->to[d] > DT_PLAN_MAX_BYTES ||
                blocks->from[d] > DT_PLAN_MAX_BYTES)
                return dt_check_fail(check, "BLOK", i, "dimension %u is %lld long", d,
                                     (long long)blocks->extent[d]);
        }
        uint32_t mask = plan->groups[blocks->group].mask;
        for (size_t c = 0; c < DT_COUNT(blocks->coord_axis); c++) {
            int64_t to = c < DT_PLAN_COORDS ? blocks->to_coord[c] : 0;
            int64_t from = c < DT_PLAN_COORDS ? blocks->from_coord[c] : 0;
            uint32_t axis = blocks->coord_axis[c];
            if (axis >= 32 || to < 0 || from < 0 || to > DT_PLAN_MAX_BYTES ||
                from > DT_PLAN_MAX_BYTES || ((to || from) && !(mask >> axis & 1)) ||
                (!to && !from && axis))
                return dt_check_fail(check, "BLOK", i, "mesh axis %u moves it by %lld and %lld",
                                     axis, (long long)to, (long long)from);
        }
    }
    return true;
}

/* Checks that bytes at this offset are inside of the arena on the stage, aligned to dtype. */
static bool check_place(Check *check, const char *tag, uint32_t index, uint32_t arena,
                        int32_t stage, int64_t offset, int64_t bytes, uint32_t dtype)
{
    const DtPlan *plan = check->plan;
    if (!dt_check_stage(check, tag, index, stage))
        return false;
    if (arena >= plan->n_arenas)
        return dt_check_fail(check, tag, index, "arena %u of %u", arena, plan->n_arenas);
    int64_t size = arena_bytes(plan, arena, stage);
    if (offset < 0 || offset % dt_kinds_size(dtype) != 0 || bytes > size || offset > size - bytes)
        return dt_check_fail(check, tag, index, "offset %lld + %lld of %lld bytes",
                             (long long)offset, (long long)bytes, (long long)size);
    return true;
}

bool dt_check_predicts(const DtPlan *plan, DtPlanStr name)
{
    const DtPlanName is = dt_plan_name(dt_plan_str(plan, name));
    return dt_plan_run_predicts(is.run) || is.run == DT_PLAN_QUANTIZE ||
           (is.run == DT_PLAN_EVAL && is.n_objective); /* "eval@codes" */
}

/* Checks that every run allocates the memory, not only one that predicts or that takes second
 * forms; the arena is valid. */
static bool is_always(Check *check, const char *tag, uint32_t index, uint32_t arena)
{
    const uint32_t kind = check->plan->arenas[arena].kind;
    return dt_plan_is_usual(kind) ||
           dt_check_fail(check, tag, index, "arena %u is there only %s", arena,
                         dt_plan_predicts(kind) ? "to predict" : "for products' second forms");
}

/* Checks a tensor in an arena: its axes exist, its bytes are those of its local elements, and it is
 * aligned and inside of the arena. */
static bool check_tensor(Check *check, const char *tag, uint32_t index, uint32_t first_axis,
                         uint32_t n_axes, uint32_t dtype, uint32_t arena, int32_t stage,
                         int64_t offset, int64_t bytes)
{
    const DtPlan *plan = check->plan;
    if (!dt_check_range(check, tag, index, "axes", first_axis, n_axes, plan->n_axes))
        return false;
    if (n_axes > DT_PLAN_MAX_RANK)
        return dt_check_fail(check, tag, index, "%u axes", n_axes);
    DtWide expected = dt_kinds_size(dtype);
    for (uint32_t a = 0; a < n_axes && expected <= DT_PLAN_MAX_BYTES; a++)
        expected *= plan->axes[first_axis + a].local;
    if (expected != bytes)
        return dt_check_fail(check, tag, index, "%lld bytes do not fit its axes", (long long)bytes);
    return check_place(check, tag, index, arena, stage, offset, bytes, dtype);
}

static bool check_channels(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_channels; i++) {
        const DtPlanChannel *channel = &plan->channels[i];
        uint32_t stages = dt_plan_stages(plan);
        if (channel->from >= stages || channel->to >= stages)
            return dt_check_fail(check, "CHAN", i, "from stage %u to %u of %u", channel->from,
                                 channel->to, stages);
        if (channel->slots < 1 || channel->slots > DT_PLAN_MAX_SLOTS || channel->bytes < 0 ||
            channel->bytes > DT_PLAN_MAX_BYTES)
            return dt_check_fail(check, "CHAN", i, "%u slots of %lld bytes", channel->slots,
                                 (long long)channel->bytes);
        if (channel->direct > 1)
            return dt_check_fail(check, "CHAN", i, "direct is %u", channel->direct);
        if (!dt_check_span(check, "CHAN", i, channel->span))
            return false;
    }
    return true;
}

/* Checks the PACK record of a store, and sets ret_bytes to the bytes of one whole bucket. */
static bool check_pack(Check *check, uint32_t index, const DtPlanStore *store, DtWide *ret_bytes)
{
    const DtPlan *plan = check->plan;
    if (store->pack > plan->n_packs)
        return dt_check_fail(check, "STOR", index, "pack %u of %u", store->pack, plan->n_packs);
    const DtPlanPack *pack = &plan->packs[store->pack - 1];
    uint32_t seen = 0;
    DtWide extent = pack->run, local = 1;
    if (pack->run < 1 || pack->run > DT_PLAN_MAX_BYTES || pack->n_split > sizeof pack->split)
        return dt_check_fail(check, "PACK", store->pack - 1, "a run of %lld, %u mesh axes",
                             (long long)pack->run, pack->n_split);
    for (uint32_t i = 0; i < pack->n_split; i++) {
        if (pack->split[i] >= plan->n_mesh || seen >> pack->split[i] & 1)
            return dt_check_fail(check, "PACK", store->pack - 1, "mesh axis %u", pack->split[i]);
        seen |= 1u << pack->split[i];
        extent *= plan->mesh[pack->split[i]].size;
    }
    for (uint32_t a = store->n_loops; a < store->n_axes && local <= DT_PLAN_MAX_BYTES; a++)
        local *= plan->axes[store->first_axis + a].local;
    if (extent != pack->extent || pack->offset < 0 || local > extent ||
        pack->offset > extent - local)
        return dt_check_fail(check, "PACK", store->pack - 1, "elements from %lld on of %lld",
                             (long long)pack->offset, (long long)pack->extent);
    *ret_bytes = (DtWide)pack->run * dt_kinds_size(store->dtype);
    return true;
}

/* Checks a store in a bucket like check_tensor: its axes exist, and its bytes are those of the
 * bucket (a gradient may hold all blocks), inside of the arena. */
static bool check_packed(Check *check, uint32_t index, const DtPlanStore *store)
{
    const DtPlan *plan = check->plan;
    DtWide expected = 0;
    if (!dt_check_range(check, "STOR", index, "axes", store->first_axis, store->n_axes,
                        plan->n_axes))
        return false;
    if (store->n_axes > DT_PLAN_MAX_RANK || store->n_loops > store->n_axes)
        return dt_check_fail(check, "STOR", index, "%u axes, %u loops", store->n_axes,
                             store->n_loops);
    if (!check_pack(check, index, store, &expected))
        return false;
    /* bytes of an element */
    DtWide terms = store->kind == DT_PLAN_GRAD ? expected / plan->packs[store->pack - 1].run : 0;
    terms *= plan->packs[store->pack - 1].extent;
    for (uint32_t a = 0; a < store->n_loops && expected <= DT_PLAN_MAX_BYTES; a++) {
        expected *= plan->axes[store->first_axis + a].local;
        terms *= plan->axes[store->first_axis + a].local;
    }
    if (expected != store->bytes && terms != store->bytes)
        return dt_check_fail(check, "STOR", index, "%lld bytes do not fit its bucket",
                             (long long)store->bytes);
    return check_place(check, "STOR", index, store->arena, store->stage, store->offset,
                       store->bytes, store->dtype);
}

/* Checks a store of several stages: it fits in memory on each, and its loops have the iterations
 * that it holds there. */
static bool check_more(Check *check, uint32_t index, const DtPlanStore *store)
{
    const DtPlan *plan = check->plan;
    const uint32_t stages = dt_plan_stages(plan);
    if (store->stage < 0 || store->more >= stages || (uint32_t)store->stage + store->more >= stages)
        return dt_check_fail(check, "STOR", index, "stage %d and %u more of %u", store->stage,
                             store->more, stages);
    if (store->of >= 0 && (plan->stores[store->of].stage != store->stage ||
                           plan->stores[store->of].more != store->more))
        return dt_check_fail(check, "STOR", index, "it belongs to store %d of other stages",
                             store->of);
    for (uint32_t k = 1; k <= store->more; k++)
        if (!check_place(check, "STOR", index, store->arena, store->stage + (int32_t)k,
                         store->offset, store->bytes, store->dtype))
            return false;
    for (uint32_t a = 0; a < store->n_axes; a++) {
        const DtPlanAxis *axis = &plan->axes[store->first_axis + a];
        if (a >= store->n_loops && axis->step != 0)
            return dt_check_fail(check, "STOR", index, "axis %u, of no loop, has a step", a);
        if (a >= store->n_loops)
            continue;
        const DtWide last = (DtWide)axis->first + (DtWide)axis->step * store->more;
        if (last < 0 || last > (DtWide)axis->extent - axis->local)
            return dt_check_fail(check, "STOR", index,
                                 "%lld iterations from %lld of %lld on its last stage",
                                 (long long)axis->local, (long long)last, (long long)axis->extent);
    }
    return true;
}

/* Whether the store is no copy, or one whose path and pattern begin with the same label. */
static bool is_labelled(const DtPlan *plan, const DtPlanStore *store)
{
    const char *path = dt_plan_str(plan, store->path), *pattern = dt_plan_str(plan, store->pattern);
    return store->copy == 0 ||
           ((store->kind == DT_PLAN_PARAM || store->kind == DT_PLAN_STATE) &&
            store->copy < strlen(path) && path[store->copy - 1] == '.' &&
            strncmp(path, pattern, store->copy) == 0 && pattern[store->copy] != '\0');
}

/* Checks that a run has the store's memory whenever it uses the store: caches and codes, which no
 * checkpoint has, exist in runs that predict. */
static bool has_its_arena(Check *check, uint32_t index, const DtPlanStore *store)
{
    const bool is_cache = store->kind == DT_PLAN_CACHE;
    if (!is_cache && store->kind != DT_PLAN_CODES && store->kind != DT_PLAN_SCALES)
        return is_always(check, "STOR", index, store->arena);
    return (check->plan->arenas[store->arena].kind ==
                (is_cache ? DT_ARENA_CACHE : DT_ARENA_PREDICTED) &&
            !store->saved && !store->adapter && !store->pack) ||
           dt_check_fail(check, "STOR", index, "a cache or codes in arena %u, saved %u",
                         store->arena, store->saved);
}

static bool check_stores(Check *check)
{
    const DtPlan *plan = check->plan;
    uint64_t copies = 0;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        if (!(store->pack
                  ? check_packed(check, i, store)
                  : check_tensor(check, "STOR", i, store->first_axis, store->n_axes, store->dtype,
                                 store->arena, store->stage, store->offset, store->bytes)) ||
            !has_its_arena(check, i, store) ||
            !dt_check_span(check, "STOR", i, store->span))
            return false;
        if (store->n_loops > store->n_axes || store->saved > 1 || store->adapter > 1)
            return dt_check_fail(check, "STOR", i, "%u loops, saved %u, adapter %u",
                                 store->n_loops, store->saved, store->adapter);
        if (isinf(store->init_a) && store->init != DT_PLAN_CONST)
            return dt_check_fail(check, "STOR", i, "draws from an infinite range");
        bool owned = store->kind != DT_PLAN_PARAM && store->kind != DT_PLAN_STATE &&
                     store->kind != DT_PLAN_CACHE;
        if (owned ? store->of < 0 || (uint32_t)store->of >= plan->n_stores
                  : store->of != DT_PLAN_NONE)
            return dt_check_fail(check, "STOR", i, "belongs to store %d", store->of);
        if (store->more > 0 && !check_more(check, i, store))
            return false;
        copies += store->more > 0 ? (store->more + 1) * (store->n_axes + 1u) : 0;
        if (copies > DT_CHECK_MAX_COPIES)
            return dt_check_fail(check, "STOR", i,
                                 "stores of several stages become more than %d records",
                                 DT_CHECK_MAX_COPIES);
        if (dt_plan_str(plan, store->path)[0] == '\0')
            return dt_check_fail(check, "STOR", i, "has no path");
        if (!is_labelled(plan, store))
            return dt_check_fail(check, "STOR", i, "is a copy without a label");
    }
    return true;
}

/* Checks the intervals of an input: they are in ascending order. They, and the bounds of random
 * numbers, are integers, and only i32 inputs have them. */
static bool check_values(Check *check, uint32_t index, const DtPlanInput *input)
{
    bool good = input->n_ranges <= DT_PLAN_RANGES && input->draw_lo <= input->draw_hi &&
                input->extent >= 0 && input->extent <= DT_PLAN_MAX_BYTES;
    if (input->dtype != DT_PLAN_I32)
        good &= input->n_ranges == 0 && input->draw_lo == 0 && input->draw_hi == 0;
    for (uint32_t r = 0; good && r < DT_PLAN_RANGES; r++)
        good = r >= input->n_ranges
                   ? input->lo[r] == 0 && input->hi[r] == 0
                   : input->lo[r] <= input->hi[r] && (r == 0 || input->lo[r] > input->hi[r - 1]);
    if (!good)
        return dt_check_fail(check, "INPT", index, "the %u ranges of its values", input->n_ranges);
    return dt_check_span(check, "INPT", index, input->span);
}

static bool check_inputs(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        const DtPlanInput *input = &plan->inputs[i];
        if (!dt_check_range(check, "INPT", i, "axes", input->first_axis, input->n_axes,
                            plan->n_axes))
            return false;
        if (input->n_axes < 1 || input->n_axes > DT_PLAN_MAX_RANK)
            return dt_check_fail(check, "INPT", i, "%u axes; the first is the sample",
                                 input->n_axes);
        DtWide elements = 1;
        for (uint32_t a = 1; a < input->n_axes && elements <= DT_PLAN_MAX_BYTES; a++)
            elements *= plan->axes[input->first_axis + a].local;
        if (elements != input->row_elements)
            return dt_check_fail(check, "INPT", i, "%lld elements a row do not fit its axes",
                                 (long long)input->row_elements);
        if (!check_values(check, i, input))
            return false;
        if (!check_place(check, "INPT", i, input->arena, -1, input->offset,
                         input->row_elements * dt_kinds_size(input->dtype), input->dtype) ||
            !is_always(check, "INPT", i, input->arena))
            return false;
    }
    return true;
}

/* Whether the reader is alone, the first of a mixture, or follows the part before it and fills the
 * same inputs. */
static bool check_part(const DtPlan *plan, uint32_t i)
{
    const DtPlanReader *reader = &plan->readers[i], *before = i > 0 ? reader - 1 : NULL;
    if (reader->part == 0)
        return true;
    if (!(reader->weight > 0 && reader->weight < 1e30) || reader->source == DT_PLAN_IMAGES)
        return false;
    if (reader->part == 1)
        return true;
    if (!before || before->part != reader->part - 1 || before->is_eval != reader->is_eval ||
        before->sample != reader->sample || before->n_inputs != reader->n_inputs)
        return false;
    for (uint32_t k = 0; k < reader->n_inputs; k++) {
        const DtPlanInput *a = &plan->inputs[before->first_input + k],
                          *b = &plan->inputs[reader->first_input + k];
        if (a->dtype != b->dtype || a->row_elements != b->row_elements)
            return false;
    }
    return true;
}

static bool check_image(Check *check, uint32_t i, const DtPlanReader *reader)
{
    enum { MOST_SIDE = 1 << 20 };
    bool good = reader->resize >= 0 && reader->resize <= MOST_SIDE && reader->pad >= 0 &&
                reader->pad <= MOST_SIDE && reader->image <= DT_PLAN_IMAGE_BITS;
    good = good && (reader->pixels > 0 || reader->source != DT_PLAN_IMAGES);
    for (int c = 0; c < 3; c++)
        good = good && isfinite(reader->mean[c]) && isfinite(reader->std[c]) &&
               (reader->std[c] > 0 || reader->source != DT_PLAN_IMAGES);
    return good || dt_check_fail(check, "READ", i,
                                 "images: resize %lld, pad %lld, pixels %lld, std %g, image %u",
                                 (long long)reader->resize, (long long)reader->pad,
                                 (long long)reader->pixels, reader->std[0], reader->image);
}

static bool check_readers(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_readers; i++) {
        const DtPlanReader *reader = &plan->readers[i];
        if (!dt_check_range(check, "READ", i, "inputs", reader->first_input, reader->n_inputs,
                            plan->n_inputs) ||
            !dt_check_span(check, "READ", i, reader->span))
            return false;
        if (reader->n_inputs < 1 || reader->n_inputs > DT_CHECK_MAX_ARGS || reader->is_eval > 1 ||
            reader->raw > 1 || reader->unpaired > 1 || reader->chat > DT_PLAN_CHAT_BITS ||
            reader->header > 1)
            return dt_check_fail(
                check, "READ", i, "%u inputs, is_eval %u, raw %u, unpaired %u, chat %u, header %u",
                reader->n_inputs, reader->is_eval, reader->raw, reader->unpaired, reader->chat,
                reader->header);
        if (reader->n_special > DT_PLAN_SPECIALS || !check_part(plan, i))
            return dt_check_fail(check, "READ", i, "%u special tokens, part %u of a mixture",
                                 reader->n_special, reader->part);
        if ((reader->source == DT_PLAN_CSV) != (reader->separator != 0) || reader->separator > 127)
            return dt_check_fail(check, "READ", i, "character %u between fields",
                                 reader->separator);
        if (!check_image(check, i, reader))
            return false;
        if (reader->from < 0 || reader->to > 1 || reader->from >= reader->to)
            return dt_check_fail(check, "READ", i, "part %g to %g", reader->from, reader->to);
    }
    return true;
}

static bool has_entry_named(const DtPlan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->n_entries; i++)
        if (strcmp(dt_plan_str(plan, plan->entries[i].name), name) == 0)
            return true;
    return false;
}

static bool has_entry(const DtPlan *plan, DtPlanStr name)
{
    return has_entry_named(plan, dt_plan_str(plan, name));
}

/* A formula may refuse the settings that the plan has, since a run may change them. */
static bool check_formula(Check *check, uint32_t i, const DtFormulaStep *step)
{
    const DtPlanScalar *scalar = &check->plan->scalars[i];
    const char *name = dt_plan_str(check->plan, scalar->name);
    DtFormulaProblem problem;
    double value;
    if (name[0] != '@')
        return dt_check_fail(check, "SCAL", i, "`%.40s` is no name of a scalar", name);
    return dt_formula_value(dt_plan_str(check->plan, scalar->formula), dt_formula_step, step,
                            &value, &problem) ||
           problem.is_refused || dt_check_fail(check, "SCAL", i, "its formula: %s", problem.text);
}

static bool check_scalars(Check *check)
{
    const DtPlan *plan = check->plan;
    DtFormulaSetting settings[DT_PLAN_MAX_SETTINGS];
    if (plan->n_settings > DT_PLAN_MAX_SETTINGS)
        return dt_check_fail(check, "SETT", 0, "%u settings", plan->n_settings);
    for (uint32_t i = 0; i < plan->n_settings; i++) {
        if (plan->settings[i].is_whole > 1)
            return dt_check_fail(check, "SETT", i, "is_whole is %u", plan->settings[i].is_whole);
        settings[i] = (DtFormulaSetting){dt_plan_str(plan, plan->settings[i].name),
                                         plan->settings[i].value};
    }
    const DtFormulaStep step = {.updates = 1,
                                .loss_scale = 1,
                                .steps = DT_PLAN_STEPS_ASSUMED,
                                .rows = (double)plan->meta->batch,
                                .settings = settings,
                                .n_settings = plan->n_settings};
    for (uint32_t i = 0; i < plan->n_scalars; i++) {
        const DtPlanScalar *scalar = &plan->scalars[i];
        if (!check_formula(check, i, &step))
            return false;
        if (!check_tensor(check, "SCAL", i, 0, 0, DT_PLAN_F32, scalar->arena, -1, scalar->offset,
                          4) ||
            !is_always(check, "SCAL", i, scalar->arena))
            return false;
    }
    return true;
}

static bool check_metrics(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_metrics; i++) {
        const DtPlanMetric *metric = &plan->metrics[i];
        if (!check_tensor(check, "METR", i, metric->first_axis, metric->n_axes, metric->dtype,
                          metric->arena, metric->stage, metric->offset, metric->bytes) ||
            ((!dt_check_predicts(plan, metric->entry) ||
              plan->arenas[metric->arena].kind == DT_ARENA_INSTEAD) &&
             !is_always(check, "METR", i, metric->arena)))
            return false;
        if (!has_entry(plan, metric->entry))
            return dt_check_fail(check, "METR", i, "is of an entry that the plan lacks");
    }
    return true;
}

static bool check_shows(Check *check)
{
    DtFormulaProblem problem;
    for (uint32_t i = 0; i < check->plan->n_shows; i++)
        if (!has_entry(check->plan, check->plan->shows[i].entry))
            return dt_check_fail(check, "SHOW", i, "is of an entry that the plan lacks");
        else if (!dt_show_has_value(check->plan, &check->plan->shows[i], &problem))
            return dt_check_fail(check, "SHOW", i, "%s", problem.text);
    return true;
}

/* Checks that the plan has the entries in which replicas exchange parameters. */
static bool check_mixes(Check *check)
{
    const DtPlan *plan = check->plan;
    const DtPlanMeta *meta = plan->n_meta ? plan->meta : NULL;
    char name[DT_PLAN_MIX_NAME];
    for (int64_t i = 0; meta && i < meta->mix_ways; i++) {
        dt_plan_name_mix(meta->mix_ways, i, name);
        if (!has_entry_named(plan, name))
            return dt_check_fail(check, "META", 0, "there is no entry `%s`", name);
    }
    if (meta && meta->mix_every > 0 &&
        (!has_entry_named(plan, "mix@average") || !has_entry_named(plan, "mix@spread")))
        return dt_check_fail(check, "META", 0, "replicas have no averages");
    return true;
}

static bool check_objectives(Check *check)
{
    const DtPlan *plan = check->plan;
    if (plan->n_objectives > DT_PLAN_MAX_OBJECTIVES ||
        (plan->n_meta && (plan->meta[0].steps > 0 || plan->meta[0].epochs > 0) &&
         !plan->n_objectives))
        return dt_check_fail(check, "OBJE", 0, "%u losses", plan->n_objectives);
    for (uint32_t i = 0; i < plan->n_objectives; i++) {
        const DtPlanObjective *o = &plan->objectives[i];
        if (o->every < 1 || o->every > DT_PLAN_MAX_BYTES)
            return dt_check_fail(check, "OBJE", i, "in every step that is a multiple of %lld",
                                 (long long)o->every);
        if (!has_entry(plan, o->step) || !has_entry(plan, o->update))
            return dt_check_fail(check, "OBJE", i, "names an entry that the plan lacks");
        if (dt_check_predicts(plan, o->step) || dt_check_predicts(plan, o->update))
            return dt_check_fail(check, "OBJE", i, "trains with what predicts");
        if (strcmp(dt_plan_str(plan, o->step), dt_plan_str(plan, o->update)) == 0)
            return dt_check_fail(check, "OBJE", i, "is made and used by one entry");
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(dt_plan_str(plan, o->loss), dt_plan_str(plan, plan->objectives[k].loss)) ==
                0)
                return dt_check_fail(check, "OBJE", i, "is a loss that another record has");
    }
    return true;
}

static bool check_saved(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_saved; i++) {
        const DtPlanSaved *s = &plan->saved[i];
        if (!dt_check_span(check, "SAVE", i, s->span))
            return false;
        if (s->iterations < 1 || s->iterations > INT32_MAX || s->saved < 0 || s->recomputed < 0 ||
            s->saved > INT64_MAX / s->iterations || s->recomputed > INT64_MAX / s->iterations)
            return dt_check_fail(check, "SAVE", i, "counts are out of range");
    }
    return true;
}

/* Checks records that only reports read. */
static bool check_told(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_peaks; i++) {
        const DtPlanPeak *peak = &plan->peaks[i];
        if (peak->entry >= plan->n_entries || peak->live < 0 || peak->live > DT_PLAN_MAX_BYTES)
            return dt_check_fail(check, "PEAK", i, "%lld bytes of entry %u", (long long)peak->live,
                                 peak->entry);
        if (!dt_check_span(check, "PEAK", i, peak->span))
            return false;
    }
    for (uint32_t i = 0; i < plan->n_attentions; i++) {
        const DtPlanAttention *a = &plan->attentions[i];
        const int64_t counts[] = {a->heads, a->kv_heads, a->head, a->queries, a->keys};
        if (a->kernel >= plan->n_kernels || (i && a->kernel <= plan->attentions[i - 1].kernel))
            return dt_check_fail(check, "ATTN", i, "is of kernel %u of %u, or not in their order",
                                 a->kernel, plan->n_kernels);
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            if (counts[k] < 1 || counts[k] > DT_PLAN_MAX_BYTES)
                return dt_check_fail(check, "ATTN", i, "counts are out of range");
        if (!(a->visible >= 0 && a->visible <= 1) || a->backward > 1 || a->dropout > 1)
            return dt_check_fail(check, "ATTN", i, "%g of its scores are visible", a->visible);
    }
    return plan->n_predictions <= 1 ||
           dt_check_fail(check, "PRED", 1, "a plan has %u predictions", plan->n_predictions);
}

/* Only the certificate reads the notes themselves. */
static bool check_notes(Check *check)
{
    const DtPlan *plan = check->plan;
    if (plan->n_logical == 0)
        return true;
    uint64_t bytes = plan->logical->notes_len;
    if (plan->n_notes != 0 && plan->n_notes != plan->n_entries)
        return dt_check_fail(check, "NOTE", plan->n_notes, "%u notes of %u entries", plan->n_notes,
                             plan->n_entries);
    for (uint32_t i = 0; i < plan->n_notes; i++)
        if ((uint64_t)plan->notes[i].first + plan->notes[i].count > bytes)
            return dt_check_fail(check, "NOTE", i, "%u bytes from %u of %llu", plan->notes[i].count,
                                 plan->notes[i].first, (unsigned long long)bytes);
    return true;
}

static bool check_names(Check *check)
{
    const char *tag;
    uint32_t index;
    char why[DT_CHECK_WHY];
    return dt_check_names(check->plan, &tag, &index, why) ||
           dt_check_fail(check, tag, index, "%s", why);
}

bool dt_check_records(Check *check)
{
    return check_meta(check) && check_groups(check) && check_channels(check) &&
           check_arenas(check) && check_axes(check) && check_blocks(check) && check_stores(check) &&
           dt_check_kernels(check) && check_inputs(check) && check_readers(check) &&
           check_scalars(check) && check_metrics(check) && check_shows(check) &&
           check_objectives(check) && check_mixes(check) && check_saved(check) &&
           check_told(check) && check_names(check) && check_notes(check);
}
