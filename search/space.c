/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what ranks of a program can split, from its functions and not from names.
 *
 *   samples    the first axis of the inputs that readers fill
 *   loops      outermost loops with parameters of their own
 *   positions  axes of values that such a loop carries, which no product with a parameter sums
 *   keys       axes that functions stream over
 *   experts    axes of parameters that are batch axes in all their products
 *   split      for each large parameter the first of the other axes that layers do not carry:
 *              heads, not the elements of a head. Layers compute in parts along these axes and
 *              add up once */
#include "search/search.h"

#include "base/intern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64, MOST_NAMES = 64, MOST_KEPT = 16 };
/* a smaller parameter than this share of the layer's largest one is not worth a split */
static const double SMALL = 0.01;

typedef struct Names { const char *at[MOST_NAMES]; uint32_t n; } Names;

typedef struct Finder {
    DtArena *arena;
    DtDiags *diags;
    const DtProgram *program;
    DtSpace *space;
    /* axes of inputs and of what loops pass on; axes of parameters that products have in common
     * with the other operand; axes that products with parameters sum over or make */
    Names kept, batch, matrix;
    const DtFunc *bodies[DT_SPACE_LOOPS];
} Finder;

static bool has(const Names *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (names->at[i] == name)
            return true;
    return false;
}

static void add(Names *names, const char *name)
{
    if (!has(names, name) && names->n < MOST_NAMES)
        names->at[names->n++] = name;
}

static void add_axes(Names *names, const DtType *type)
{
    for (uint32_t i = 0; i < type->rank; i++)
        add(names, type->axes[i].name);
}

static void add_axis(DtSpaceAxis *axes, uint32_t *n, uint32_t cap, const DtAxis *axis)
{
    for (uint32_t i = 0; i < *n; i++)
        if (axes[i].name == axis->name)
            return;
    if (*n < cap)
        axes[(*n)++] = (DtSpaceAxis){axis->name, axis->extent};
}

/* The function's name in the source text: the module distinguishes equal names by a number. */
static const char *name_of(const DtFunc *func)
{
    const char *dot = strchr(func->name, '.');
    return func->library ? func->library
           : dot         ? dt_intern_n(func->name, (size_t)(dot - func->name))
                         : func->name;
}

/* ---- loops ---- */

static double bytes_of(const DtType *type)
{
    return (double)dt_type_elements(type) * (double)dt_dtype_size(type->dtype);
}

static void add_loop(Finder *f, const DtOp *op, const char *path)
{
    DtSpace *s = f->space;
    if (op->loop->n_stacked == 0 || s->n_loops == DT_SPACE_LOOPS)
        return;
    for (uint32_t i = 0; i < s->n_loops; i++)
        if (s->loops[i].path == path)
            return;
    DtSpaceLoop *loop = &s->loops[s->n_loops++];
    *loop = (DtSpaceLoop){.path = path, .count = op->loop->count};
    f->bodies[s->n_loops - 1] = op->func;
    for (uint32_t i = 0; i < op->loop->n_carried; i++) {
        loop->carried += bytes_of(op->in[i]->type);
        add_axes(&f->kept, op->in[i]->type);
    }
}

static void find_loops(Finder *f, const DtFunc *func, const char *prefix, int depth)
{
    for (uint32_t i = 0; depth < DEEPEST && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const char *label = op->kind == DT_OP_LOOP ? op->loop->label : op->text;
        if (!op->func)
            continue;
        const char *path = !label || !*label ? prefix
                           : *prefix         ? dt_intern_printf("%s.%s", prefix, label)
                                             : label;
        if (op->kind == DT_OP_LOOP)
            add_loop(f, op, path);
        else
            find_loops(f, op->func, path, depth + 1);
    }
}

/* ---- axes ---- */

static bool is_parameter(const DtFunc *func, const DtValue *value)
{
    while (value->op && (value->op->kind == DT_OP_CAST || value->op->kind == DT_OP_RELABEL))
        value = value->op->in[0];
    return value->op ? value->op->kind == DT_OP_PARAM : value->index >= func->n_args;
}

/* Sorts the axes of a product's operand that is a parameter: those that both operands keep into
 * f->batch, all others into f->matrix. */
static void look_at_product(Finder *f, const DtOp *op, uint32_t operand)
{
    const DtType *type = op->in[operand]->type, *other = op->in[1 - operand]->type;
    for (uint32_t i = 0; i < type->rank; i++) {
        const char *axis = type->axes[i].name;
        if (dt_op_has_axis(op, axis))
            add(&f->matrix, axis);
        else
            add(dt_type_find(other, axis) >= 0 ? &f->batch : &f->matrix, axis);
    }
}

static void look_at_functions(Finder *f)
{
    const DtModule *module = f->program->module;
    DtSpace *s = f->space;
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        const DtFunc *func = module->funcs.at[i];
        for (uint32_t k = 0; k < func->ops.n; k++)
            for (uint32_t n = 0; func->ops.at[k]->kind == DT_OP_DOT && n < 2; n++)
                if (is_parameter(func, func->ops.at[k]->in[n]))
                    look_at_product(f, func->ops.at[k], n);
        if (!func->stream || func->stream->product)
            continue;
        for (uint32_t k = 0; !func->stream->is_ordered && k < func->inputs.n; k++) {
            const int at = dt_type_find(func->inputs.at[k]->type, func->stream->axis);
            if (at >= 0)
                add_axis(s->keys, &s->n_keys, DT_SPACE_LOOPS, &func->inputs.at[k]->type->axes[at]);
        }
    }
}

static void find_positions(Finder *f)
{
    DtSpace *s = f->space;
    const DtModule *module = f->program->module;
    /* records the extents of axes where they occur first */
    for (uint32_t i = 0; s->n_loops && i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->inputs.n; k++) {
            const DtType *type = module->funcs.at[i]->inputs.at[k]->type;
            for (uint32_t a = 0; a < type->rank; a++) {
                const char *axis = type->axes[a].name;
                if (has(&f->kept, axis) && !has(&f->matrix, axis) && !has(&f->batch, axis) &&
                    axis != s->samples.name)
                    add_axis(s->positions, &s->n_positions, DT_SPACE_LOOPS, &type->axes[a]);
            }
        }
}

/* Returns the elements of a parameter in one iteration of its loops. */
static double elements_of(const DtStore *store)
{
    double n = (double)dt_type_elements(store->type);
    for (uint32_t i = 0; i < store->n_loops; i++)
        n /= (double)store->type->axes[i].extent;
    return n;
}

/* Returns the elements (per iteration) of the largest parameter in a loop, or of the largest of all
 * if no loop has any. */
static double largest_of(const DtModule *module)
{
    double most[2] = {0};
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->kind == DT_STORE_PARAM)
            most[store->n_loops > 0] = fmax(most[store->n_loops > 0], elements_of(store));
    }
    return most[1] > 0 ? most[1] : most[0];
}

/* Returns the largest parameter that was not visited yet, and marks it as visited; NULL if all
 * others are small (below SMALL of the largest). */
static const DtStore *next_parameter(const Finder *f, bool *looked_at)
{
    const DtModule *module = f->program->module;
    const double least = SMALL * largest_of(module);
    const DtStore *most = NULL;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->kind == DT_STORE_PARAM && !looked_at[i] && elements_of(store) >= least &&
            (!most || elements_of(store) > elements_of(most)))
            most = store;
    }
    if (most)
        looked_at[most->index] = true;
    return most;
}

static bool is_split(const DtSpace *s, const DtStore *store)
{
    for (uint32_t i = 0; i < s->n_split; i++)
        if (dt_type_find(store->type, s->split[i].name) >= store->n_loops)
            return true;
    return false;
}

static void find_split(Finder *f)
{
    DtSpace *s = f->space;
    bool *looked_at = DT_NEW_ARRAY(f->arena, bool, f->program->module->stores.n + 1);
    for (const DtStore *store; (store = next_parameter(f, looked_at));) {
        bool found = store->type->rank < store->n_loops + 2 || is_split(s, store);
        for (uint32_t i = store->n_loops; i < store->type->rank; i++) {
            const DtAxis *axis = &store->type->axes[i];
            const bool expert = has(&f->batch, axis->name) && !has(&f->matrix, axis->name);
            if (expert && store->type->rank >= store->n_loops + 3 && !s->experts.name)
                s->experts = (DtSpaceAxis){axis->name, axis->extent};
            if (found || expert || has(&f->kept, axis->name))
                continue;
            add_axis(s->split, &s->n_split, DT_SPACE_AXES, axis);
            found = true;
        }
    }
}

/* ---- recomputed values ---- */

/* A call, in the body of a loop, of a function with products. If its result is kept, it is not
 * computed again. */
typedef struct Kept {
    uint32_t loop;
    const char *name;      /* the label of the instance or, for a fn, its name */
    double flops, bytes;   /* bytes and products of all calls of that name */
} Kept;

typedef struct Keeps { Kept at[MOST_NAMES]; uint32_t n; } Keeps;

static double products_of(const DtFunc *func, int depth)
{
    double flops = 0;
    for (uint32_t i = 0; depth < DEEPEST && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_DOT) {
            double n = 2 * (double)dt_type_elements(op->out[0]->type);
            for (uint32_t k = 0; k < op->n_axes; k++)
                n *= (double)dt_type_extent(op->in[0]->type, op->axes[k]);
            flops += n;
        } else if (op->func) {
            flops += products_of(op->func, depth + 1) *
                     (op->kind == DT_OP_LOOP ? (double)op->loop->count : 1);
        }
    }
    return flops;
}

static bool has_product(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->kind == DT_OP_DOT)
            return true;
    return false;
}

static void add_kept(Keeps *keeps, uint32_t loop, const char *name, const DtOp *call)
{
    uint32_t i = 0;
    while (i < keeps->n && (keeps->at[i].name != name || keeps->at[i].loop != loop))
        i++;
    if (i == MOST_NAMES)
        return;
    if (i == keeps->n)
        keeps->at[keeps->n++] = (Kept){.loop = loop, .name = name};
    keeps->at[i].flops += products_of(call->func, 0);
    for (uint32_t k = 0; k < call->n_out; k++)
        keeps->at[i].bytes += bytes_of(call->out[k]->type);
}

/* Adds to keeps the innermost calls with a label or of a streaming function that contain products;
 * their results may be kept. */
static void find_keeps(Keeps *keeps, uint32_t loop, const DtFunc *func, int depth)
{
    for (uint32_t i = 0; depth < DEEPEST && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_CALL)
            continue;
        if (op->func->stream && !op->func->stream->product)
            add_kept(keeps, loop, name_of(op->func), op);
        else if (op->text && *op->text && has_product(op->func))
            add_kept(keeps, loop, op->text, op);
        else
            find_keeps(keeps, loop, op->func, depth + 1);
    }
}

static int by_worth(const void *a, const void *b)
{
    const Kept *x = a, *y = b;
    return x->flops * y->bytes > y->flops * x->bytes ? -1
                                                     : x->flops * y->bytes < y->flops * x->bytes;
}

/* Returns the text of the `remat` lines, one for each loop, that keep the results of the first n
 * calls. */
static const char *lines_that_keep(const Finder *f, const Keeps *keeps, uint32_t n)
{
    const char *lines = "";
    for (uint32_t l = 0; l < f->space->n_loops; l++) {
        const char *list = "";
        uint32_t count = 0;
        for (uint32_t i = 0; i < n; i++)
            if (keeps->at[i].loop == l)
                list = dt_arena_printf(f->arena, "%s%s%s", list, count++ ? ", " : "",
                                       keeps->at[i].name);
        lines = dt_arena_printf(f->arena, "%s%sremat %s%s%s%s", lines, l ? "\n  " : "",
                                f->space->loops[l].path,
                                count == 0   ? ""
                                : count == 1 ? " (keep = "
                                             : " (keep = (",
                                list,
                                count == 0   ? ""
                                : count == 1 ? ")"
                                             : "))");
    }
    return lines;
}

/* Makes the choices of recomputation, from nothing to everything. One call after the other is no
 * longer kept: first those with the fewest products for the bytes of their results. Calls with
 * equal ratios are dropped together. */
static void find_remats(Finder *f)
{
    DtSpace *s = f->space;
    Keeps keeps = {.n = 0};
    double all = 0, recomputed = 0;
    s->remats[s->n_remats++] = (DtSpaceRemat){.lines = ""};
    if (s->n_loops == 0 || s->has_remat)
        return;
    for (uint32_t i = 0; i < s->n_loops; i++) {
        find_keeps(&keeps, i, f->bodies[i], 0);
        all += products_of(f->bodies[i], 0);
    }
    qsort(keeps.at, keeps.n, sizeof *keeps.at, by_worth);
    while (keeps.n > MOST_KEPT)
        recomputed += keeps.at[--keeps.n].flops;
    for (uint32_t n = keeps.n;; n--) {
        const bool apart = n == 0 || n == keeps.n || by_worth(&keeps.at[n - 1], &keeps.at[n]) != 0;
        if (apart && s->n_remats < DT_SPACE_REMATS)
            s->remats[s->n_remats++] = (DtSpaceRemat){lines_that_keep(f, &keeps, n),
                                                      all > 0 ? recomputed / all : 0};
        if (n == 0)
            return;
        recomputed += keeps.at[n - 1].flops;
    }
}

/* ---- settings already in the block ---- */

static const char *const role_names[DT_ROLES][6] = {
    {"pipe", "pp", "pipeline", "stage"}, {"data", "dp", "fsdp"},
    {"context", "cp", "sequence", "sp"}, {"expert", "ep", "experts"},
    {"tensor", "tp", "model", "mp"}};

/* Returns what the ranks along a mesh axis split by lines of the block: stages, experts, tensors,
 * positions or samples. DT_ROLES if no line uses it. */
static DtRole role_of_lines(const Finder *f, const char *mesh)
{
    const DtParallelConfig *p = f->program->parallel;
    const DtSpace *s = f->space;
    DtRole role = DT_ROLES;
    for (uint32_t i = 0; i < p->pipelines.n; i++)
        if (p->pipelines.at[i].on == mesh)
            return DT_ROLE_PIPE;
    for (uint32_t i = 0; i < p->shards.n; i++)
        for (uint32_t m = 0; m < p->shards.at[i].n_mesh; m++)
            for (uint32_t a = 0; p->shards.at[i].mesh[m] == mesh && a < p->shards.at[i].n_axes;
                 a++) {
                const char *axis = p->shards.at[i].axes[a];
                bool position = false;
                for (uint32_t k = 0; k < s->n_positions; k++)
                    position = position || s->positions[k].name == axis;
                for (uint32_t k = 0; k < s->n_keys; k++)
                    position = position || s->keys[k].name == axis;
                if (axis == s->experts.name)
                    return DT_ROLE_EXPERT;
                if (!position && axis != s->samples.name)
                    return DT_ROLE_TENSOR;
                if (role == DT_ROLES)
                    role = position ? DT_ROLE_CONTEXT : DT_ROLE_DATA;
            }
    for (uint32_t i = 0; i < p->zeros.n; i++)
        for (uint32_t m = 0; m < p->zeros.at[i].n_on; m++)
            if (role == DT_ROLES && p->zeros.at[i].on[m] == mesh)
                role = DT_ROLE_DATA;
    return role;
}

static DtRole role_of(const Finder *f, const char *mesh)
{
    DtRole role = role_of_lines(f, mesh);
    for (int r = 0; role == DT_ROLES && r < DT_ROLES; r++)
        for (int i = 0; i < 6 && role_names[r][i]; i++)
            if (!strcmp(role_names[r][i], mesh))
                role = (DtRole)r;
    return role;
}

static bool read_mesh(Finder *f)
{
    const DtParallelConfig *p = f->program->parallel;
    DtSpace *s = f->space;
    s->has_mesh = p->mesh.n > 0;
    for (uint32_t m = 0; m < p->mesh.n; m++) {
        const char *name = p->mesh.axes[m].name;
        const DtRole role = role_of(f, name);
        if (role == DT_ROLES) {
            DtDiag *d = dt_diag_report(f->diags, E0513, p->mesh_span,
                                       "`auto` cannot tell what mesh axis `%s` is for", name);
            dt_diag_help(
                d, "name it pipe, data, context, expert or tensor, or split something over it");
            return false;
        }
        if (s->in_mesh[role]) {
            DtDiag *d = dt_diag_report(f->diags, E0513, p->mesh_span,
                                       "mesh axes `%s` and `%s` are of one sort, %s", s->mesh[role],
                                       name, role_names[role][0]);
            dt_diag_note(
                d,
                "`auto` gives each sort one axis; what a line splits over an axis says its sort");
            return false;
        }
        s->in_mesh[role] = true;
        s->size[role] = p->mesh.axes[m].size;
        s->mesh[role] = p->mesh.axes[m].name;
    }
    for (int r = 0; r < DT_ROLES; r++)
        s->size[r] = s->size[r] ? s->size[r] : 1;
    return true;
}

static const char *with(DtArena *arena, const char *lines, const char *line)
{
    return dt_arena_printf(arena, "%s  %s\n", lines, line);
}

/* Copies the block's own `shard`, `remat`, `pipeline` and `zero` lines, as they are written, to the
 * space, and records which kinds of lines there are. */
static void read_lines(Finder *f, DtSpaceSource *text_of, void *context)
{
    const DtParallelConfig *p = f->program->parallel;
    DtSpace *s = f->space;
    DtSpan last = {0};
    s->kept = "";
    for (uint32_t i = 0; i < p->shards.n; i++) {
        const DtShard *shard = &p->shards.at[i];
        for (uint32_t m = 0; m < shard->n_mesh && shard->n_place == 0; m++)
            for (int r = 0; r < DT_ROLES; r++)
                for (uint32_t a = 0; a < shard->n_axes; a++)
                    if (shard->mesh[m] == s->mesh[r] && s->n_shards < DT_SPACE_SHARDS)
                        s->shards[s->n_shards++] = (DtSpaceShard){shard->axes[a], (DtRole)r};
        /* a line may have made several records */
        if (last.file != shard->span.file || last.lo != shard->span.lo)
            s->kept = with(f->arena, s->kept, text_of(context, shard->span));
        last = shard->span;
    }
    for (uint32_t i = 0; i < p->remats.n; i++)
        if (i == 0 || p->remats.at[i].span.lo != p->remats.at[i - 1].span.lo)
            s->kept = with(f->arena, s->kept, text_of(context, p->remats.at[i].span));
    s->has_remat = p->remats.n > 0;
    if (p->pipelines.n) {
        s->pipeline = &p->pipelines.at[0];
        s->pipeline_line = text_of(context, s->pipeline->span);
    }
    for (uint32_t i = 0; i < p->zeros.n; i++)
        s->zero_line = dt_arena_printf(f->arena, "%s%s%s", i ? s->zero_line : "", i ? "\n  " : "",
                                       text_of(context, p->zeros.at[i].span));
    s->zero = p->zeros.n ? p->zeros.at[0].level : 0;
    s->waits = p->zeros.n && p->zeros.at[0].prefetch == 0;
    s->micro = p->micro_span.file ? p->micro : 0;
}

/* ---- all ---- */

static void count_parameters(Finder *f)
{
    const DtModule *module = f->program->module;
    const DtTrainConfig *train = f->program->train;
    const DtPrecision *p = &train->precision;
    double states = 0;
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == DT_STORE_PARAM) {
            f->space->parameters += (double)dt_type_elements(module->stores.at[i]->type);
            f->space->has_axes = f->space->has_axes || module->stores.at[i]->type->rank > 0;
        }
    for (uint32_t i = 0; i < train->optimizer.rules.n; i++)
        states = fmax(states, 4.0 * train->optimizer.rules.at[i].func->params.n);
    f->space->has_state = p->has_master || states > 0;
    for (uint32_t i = 0; i < f->space->n_loops; i++)
        f->space->prefetches = f->space->prefetches || f->space->loops[i].count > 1;
    f->space->parameter_bytes = (double)dt_dtype_size(p->params) + (double)dt_dtype_size(p->grads) +
                                (p->has_master ? 4 : 0) + states;
}

bool dt_space_find(DtArena *arena, DtDiags *diags, const DtProgram *program, DtSpaceSource *text_of,
                   void *context, DtSpace *ret_space)
{
    const DtParallelConfig *p = program->parallel;
    const DtClusterConfig *cluster = program->cluster;
    DtSpace *s = ret_space;
    *s = (DtSpace){.name = p->name, .cluster = cluster ? cluster->name : p->cluster,
                   .devices = cluster ? cluster->nodes * cluster->gpus : 1,
                   .node = cluster ? cluster->gpus : 1};
    Finder f = {.arena = arena, .diags = diags, .program = program, .space = s};
    if (!program->train || !program->train->readers.n) {
        dt_diag_report(diags, E0513, p->auto_span,
                       "`auto` lays out training: the program has no `train` block with data");
        return false;
    }
    for (int r = 0; r < DT_ROLES; r++)
        s->mesh[r] = role_names[r][0];
    const DtReader *reader = &program->train->readers.at[0];
    s->samples = (DtSpaceAxis){reader->types[0]->axes[0].name, reader->types[0]->axes[0].extent};
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        add_axes(&f.kept, reader->types[i]);
    for (uint32_t k = 0; cluster && k < cluster->n_kinds; k++)
        if (cluster->kinds[k].device && cluster->kinds[k].device->is_gpu)
            s->memory = fmax(s->memory, p->auto_memory * cluster->kinds[k].device->memory_bytes);
    s->wants_memory = !strcmp(p->auto_goal, "memory");
    for (uint32_t i = 0; i < program->module->entries.n; i++)
        if (program->module->entries.at[i].kind == DT_ENTRY_LOSS)
            find_loops(&f, program->module->entries.at[i].func, "", 0);
    count_parameters(&f);
    look_at_functions(&f);
    find_positions(&f);
    find_split(&f);
    if (!read_mesh(&f))
        return false;
    read_lines(&f, text_of, context);
    find_remats(&f);
    return true;
}
