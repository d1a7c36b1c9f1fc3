/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives from IR to real ranks: modules of random communication ops over random splits, each
 * rank a process over shared memory, against the lockstep interpreter. All numbers are small
 * integers, so that every sum is exact and results must be equal.
 *
 * A module holds many chains
 *     param -> [reduction, so that it is pending] -> [expansion] -> [transposition] -> op -> [neg],
 * some with a second op on the same operand. Most ops are started at their place and waited for at
 * the end of the function. In between no instruction may write what they read or write. Ranks that
 * run in order would not notice such a write, so the test checks it itself. */
#include "base/pairs.h"
#include "base/half.h"
#include "base/intern.h"
#include "codegen/codegen.h"
#include "ir/interp_ranks.h"
#include "passes/passes.h"
#include "runtime/runtime.h"
#include "tests/look.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHAINS = 48, MOST_AXES = 4, OUT_BYTES = 1 << 20 };

typedef struct Case {
    DtArena *arena;
    DtModule *module;
    DtFunc *func;
    DtTensor *whole[CHAINS + 8]; /* values by store */
    uint64_t state;              /* state of the random numbers */
} Case;

static uint32_t draw(Case *c, uint32_t below)
{
    c->state = c->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(c->state >> 33) % below;
}

/* ---- random types ---- */

/* Operand and result of a communication op under construction. */
typedef struct Pair {
    uint32_t rank;
    DtAxis x[MOST_AXES], y[MOST_AXES];
    uint16_t mesh, partial;
} Pair;

static void split(DtAxis *axis, uint32_t m) { axis->split[axis->n_split++] = (uint8_t)m; }

/* Chooses the splits that both types have, then those that the operand loses or the result gains,
 * for the mesh axes of the op. Along each axis, splits are either lost or gained. */
static Pair draw_pair(Case *c, DtOpKind kind)
{
    static const char *const names[MOST_AXES] = {"p", "q", "r", "s"};
    const DtMesh *mesh = &c->module->mesh;
    Pair pair = {.rank = 1 + draw(c, MOST_AXES)};
    bool loses = kind == DT_OP_ALL_GATHER || kind == DT_OP_ALL_TO_ALL;
    bool gains = kind == DT_OP_REDUCE_SCATTER || kind == DT_OP_ALL_TO_ALL || kind == DT_OP_SHARD;
    if (kind == DT_OP_ALL_TO_ALL && pair.rank < 2)
        pair.rank = 2;
    pair.mesh = (uint16_t)(1 + draw(c, (1u << mesh->n) - 1));
    if (kind == DT_OP_REDUCE_SCATTER || kind == DT_OP_ALL_REDUCE)
        pair.partial = pair.mesh;
    for (uint32_t i = 0; i < pair.rank; i++)
        pair.x[i] = pair.y[i] = (DtAxis){.name = dt_intern(names[i]), .extent = 1 + draw(c, 4)};
    for (uint32_t m = 0; m < mesh->n; m++) {
        uint32_t a = draw(c, pair.rank);
        if (!(pair.mesh >> m & 1) && draw(c, 2)) {
            split(&pair.x[a], m);
            split(&pair.y[a], m);
        }
    }
    /* axes before this number lose splits, the others gain them */
    uint32_t pivot = pair.rank > 1 ? 1 + draw(c, pair.rank - 1) : 1;
    /* down: from major to minor, against the order of the mesh */
    bool both = loses && gains, down = draw(c, 2);
    for (uint32_t i = 0; i < mesh->n; i++) {
        uint32_t m = down ? mesh->n - 1 - i : i;
        if (!(pair.mesh >> m & 1))
            continue;
        if (loses)
            split(&pair.x[both ? draw(c, pivot) : draw(c, pair.rank)], m);
        if (gains)
            split(&pair.y[both ? pivot + draw(c, pair.rank - pivot) : draw(c, pair.rank)], m);
    }
    if (kind == DT_OP_PARTNER) { /* a rank has one element of the first axis */
        pair.x[0].n_split = 0;
        pair.x[0].extent = 1;
        for (uint32_t m = 0; m < mesh->n; m++)
            if (pair.mesh >> m & 1)
                split(&pair.x[0], m);
        pair.y[0] = pair.x[0];
    }
    for (uint32_t i = 0; i < pair.rank; i++) {
        const DtAxis *more = pair.x[i].n_split > pair.y[i].n_split ? &pair.x[i] : &pair.y[i];
        int64_t ranks = 1;
        for (uint32_t s = 0; s < more->n_split; s++)
            ranks *= mesh->axes[more->split[s]].size;
        pair.x[i].extent = pair.y[i].extent = pair.x[i].extent * ranks;
    }
    return pair;
}

/* ---- modules ---- */

static DtValue *add_param(Case *c, DtBuilder *b, const DtType *type)
{
    DtStore *store = DT_NEW(c->arena, DtStore);
    const char *path = dt_intern_printf("x%u", c->module->stores.n);
    *store = (DtStore){.kind = DT_STORE_PARAM, .path = path, .pattern = path, .type = type,
                       .written_rank = type->rank, .stage = -1, .index = c->module->stores.n};
    DtTensor *whole = dt_interp_tensor(c->arena, type);
    for (int64_t i = 0; i < dt_type_elements(type); i++)
        whole->at[i] = type->dtype == DT_BOOL ? draw(c, 2) : (double)draw(c, 9) - 4;
    c->whole[store->index] = whole;
    DT_PUSH(c->arena, c->module->stores, store);
    return dt_graph_source(b, DT_OP_PARAM, type, path, store);
}

/* Adds a value of that type with a reduction pending over pair->partial. Sometimes it is constant
 * along an axis; then its memory does not have that axis. */
static DtValue *add_operand(Case *c, DtBuilder *b, const Pair *pair, DtDtype dtype, DtReduce reduce)
{
    const DtMesh *mesh = &c->module->mesh;
    DtAxis axes[DT_MAX_RANK];
    const char *ranks[DT_MAX_MESH];
    uint32_t n = 0, n_ranks = 0;
    for (uint32_t m = 0; m < mesh->n; m++)
        if (pair->partial >> m & 1) {
            axes[n] = (DtAxis){.name = dt_intern_printf("@%s", mesh->axes[m].name),
                               .extent = mesh->axes[m].size};
            split(&axes[n], m);
            ranks[n_ranks++] = axes[n++].name;
        }
    uint32_t equal = draw(c, 3) ? pair->rank : draw(c, pair->rank);
    for (uint32_t i = 0; i < pair->rank; i++)
        if (i != equal)
            axes[n++] = pair->x[i];
    DtValue *x = add_param(c, b, dt_type_plain(dtype, n, axes));
    if (n_ranks)
        x = dt_graph_reduce(b, reduce, x, n_ranks, ranks);
    /* sums of bf16 values are computed in f32 */
    x = x->type->dtype == dtype ? x : dt_graph_cast(b, x, dtype);
    return dt_graph_expand(
        b, x,
        dt_type_make(dtype, pair->rank, pair->x, x->type->partial, (DtReduce)x->type->pending));
}

/* Returns the type with its axes in rotated order. */
static const DtType *turned(const DtType *type, uint32_t by)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        axes[i] = type->axes[(i + by) % type->rank];
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

static void add_result(Case *c, DtEntryPoint *entry, DtValue *value)
{
    dt_graph_return(c->func, value);
    DtEntryResult result = {.name = dt_intern_printf("out.%u", entry->results.n)};
    DT_PUSH(c->arena, entry->results, result);
}

/* Elements of partners along the first axis. */
static DtValue *add_partner(Case *c, DtBuilder *b, const Pair *pair, DtValue *x)
{
    const int64_t round = draw(c, (uint32_t)dt_pairs_rounds(pair->x[0].extent) + 1);
    x = dt_graph_partner(b, x, pair->x[0].name, round == 0 && draw(c, 2), round, pair->mesh);
    return x;
}

static void add_chain(Case *c, DtBuilder *b, DtEntryPoint *entry)
{
    static const DtOpKind kinds[] = {DT_OP_ALL_GATHER, DT_OP_REDUCE_SCATTER, DT_OP_ALL_REDUCE,
                                     DT_OP_ALL_TO_ALL, DT_OP_SHARD,          DT_OP_SHIFT,
                                     DT_OP_PARTNER};
    static const DtDtype dtypes[] = {DT_F32, DT_F32, DT_I32, DT_BF16, DT_BOOL};
    DtOpKind kind = kinds[draw(c, DT_COUNT(kinds))];
    Pair pair = draw_pair(c, kind);
    DtDtype dtype = dtypes[draw(c, DT_COUNT(dtypes) - (pair.partial != 0))];
    DtReduce reduce = draw(c, 2) ? DT_REDUCE_SUM : draw(c, 2) ? DT_REDUCE_MAX : DT_REDUCE_MIN;
    if (!dt_dtype_is_float(dtype) && pair.partial)
        dtype = DT_F32;
    DtValue *x = add_operand(c, b, &pair, dtype, reduce);
    const DtType *y = dt_type_plain(dtype, pair.rank, pair.y);
    if (draw(c, 3) == 0) {
        uint32_t by = draw(c, pair.rank);
        x = dt_graph_reorder(b, x, turned(x->type, by));
        y = turned(y, by);
    }
    DtValue *operand = x;
    x = kind == DT_OP_PARTNER ? add_partner(c, b, &pair, x)
                              : dt_graph_comm(b, kind, x, pair.mesh, y);
    if (kind == DT_OP_SHIFT)
        x->op->reverse = draw(c, 2);
    /* this op could take the operand's memory if the first op had not been started */
    if (operand->type->partial && draw(c, 2)) {
        const DtType *sum = dt_type_plain(dtype, operand->type->rank, operand->type->axes);
        DtValue *second = dt_graph_comm(b, DT_OP_ALL_REDUCE, operand, operand->type->partial, sum);
        add_result(c, entry, dt_graph_unary(b, DT_OP_NEG, second));
    }
    if (dtype != DT_BOOL && draw(c, 3) == 0)
        x = dt_graph_unary(b, DT_OP_NEG, x);
    add_result(c, entry, x);
}

static void make_case(Case *c, uint32_t n, const int64_t *sizes, uint64_t seed)
{
    static const char *const names[] = {"d", "t", "u"};
    *c = (Case){.arena = dt_arena_new(), .state = seed};
    c->module = dt_graph_module(c->arena, NULL);
    for (uint32_t m = 0; m < n; m++)
        c->module->mesh.axes[m] = (DtMeshAxis){.name = dt_intern(names[m]), .size = sizes[m]};
    c->module->mesh.n = n;
    c->func = dt_graph_func(c->module, "predict", DT_FUNC_ENTRY);
    DtEntryPoint entry = dt_entry_new(DT_ENTRY_PREDICT, NULL, DT_PART_WHOLE, -1);
    entry.func = c->func;
    entry.stage = -1;
    DtBuilder b = {.func = c->func};
    for (uint32_t i = 0; i < CHAINS; i++)
        add_chain(c, &b, &entry);
    DT_PUSH(c->arena, c->module->entries, entry);
    DtText problems = {0};
    cr_assert(dt_verify_module(c->module, &problems), "%s", problems.at);
    dt_text_free(&problems);
}

/* ---- both ways to run it ---- */

static DtTensor *part_of(void *context, const DtOp *op, uint32_t rank)
{
    Case *c = context;
    return dt_ranks_slice(c->arena, c->whole[op->store->index], op->store->type, &c->module->mesh,
                          rank);
}

static double get(const DtType *type, const char *at, int64_t i)
{
    switch (type->dtype) {
    case DT_BOOL: return ((const uint8_t *)at)[i];
    case DT_I32: return ((const int32_t *)(const void *)at)[i];
    case DT_BF16: return (double)dt_half_from_bf16(((const uint16_t *)(const void *)at)[i]);
    default: return (double)((const float *)(const void *)at)[i];
    }
}

static void put(const DtType *type, char *at, int64_t i, double value)
{
    switch (type->dtype) {
    case DT_BOOL: ((uint8_t *)at)[i] = (uint8_t)value; break;
    case DT_I32: ((int32_t *)(void *)at)[i] = (int32_t)value; break;
    case DT_BF16: ((uint16_t *)(void *)at)[i] = dt_half_to_bf16((float)value); break;
    default: ((float *)(void *)at)[i] = (float)value; break;
    }
}

/* The life of one rank process: results of the entry to `out`, one after the other. */
static int be_rank(Case *c, const DtPlan *plan, uint32_t number, int fd, char *out)
{
    DtRunOptions options = {.plan_path = "test.plan",
                            .steps = -1,
                            .quiet = true,
                            .gemm = DT_GEMM_PLAIN,
                            .timeout = 20,
                            .generate = ""}; /* this makes memory for predictions exist */
    DtRank rank = {0};
    alarm(60);
    DtStatus status = dt_load_rank(&options, plan, number, fd, &rank);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "rank %u: %s\n", number, status.message);
        return 1;
    }
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        const DtStore *store = c->module->stores.at[s];
        const DtTensor *part =
            dt_ranks_slice(c->arena, c->whole[s], store->type, &c->module->mesh, number);
        for (int64_t i = 0; i < dt_type_elements(part->type); i++)
            put(store->type, look_at(&rank, plan->stores[s].arena, plan->stores[s].offset), i,
                part->at[i]);
    }
    if (!dt_exec_entry(&rank, "predict")) {
        fprintf(stderr, "rank %u: %s\n", number, rank.failure.message);
        return 1;
    }
    for (uint32_t m = 0; m < plan->n_metrics; out += (plan->metrics[m].bytes + 63) / 64 * 64, m++)
        memcpy(out, look_at(&rank, plan->metrics[m].arena, plan->metrics[m].offset),
               (size_t)plan->metrics[m].bytes);
    return 0;
}

static void run_ranks(Case *c, const DtPlan *plan, uint32_t n, char *out)
{
    int fd;
    pid_t pids[16];
    DtStatus status = dt_shared_create(plan, 0, &fd);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    for (uint32_t r = 0; r < n; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            _exit(be_rank(c, plan, r, fd, out + (size_t)r * OUT_BYTES));
    }
    for (uint32_t r = 0; r < n; r++) {
        int code;
        cr_assert_eq(waitpid(pids[r], &code, 0), pids[r]);
        cr_assert(WIFEXITED(code) && WEXITSTATUS(code) == 0, "rank %u ended with %d", r, code);
    }
    close(fd);
}

static const char *type_text(Case *c, const DtType *type)
{
    DtText text = {0};
    dt_type_print_extents(type, &c->module->mesh, &text);
    const char *copy = dt_arena_strndup(c->arena, text.at, text.len);
    dt_text_free(&text);
    return copy;
}

static void compare(Case *c, const DtPlan *plan, uint32_t n, const char *out,
                    DtTensor *const *expected)
{
    for (uint32_t r = 0; r < n; r++) {
        const char *at = out + (size_t)r * OUT_BYTES;
        for (uint32_t i = 0; i < c->func->results.n;
             at += (plan->metrics[i].bytes + 63) / 64 * 64, i++) {
            const DtTensor *want = expected[i * n + r];
            const DtType *type = c->func->results.at[i]->type;
            int64_t elements = dt_type_elements(want->type);
            cr_assert_eq(plan->metrics[i].bytes, elements * (int64_t)dt_dtype_size(type->dtype));
            for (int64_t k = 0; k < elements; k++)
                cr_assert_eq(get(type, at, k), want->at[k],
                             "rank %u, result %u %s: element %ld is %g instead of %g", r, i,
                             type_text(c, type), (long)k, get(type, at, k), want->at[k]);
        }
    }
}

/* ---- exchanges in flight ---- */

static bool meet(const DtPlanArg *a, const DtPlanArg *b)
{
    return a->kind == DT_ARG_ADDRESS && b->kind == DT_ARG_ADDRESS && a->arena == b->arena &&
           a->base < b->base + b->bytes && b->base < a->base + a->bytes;
}

/* Checks that from a start to the wait for its event, nothing that it reads or writes is written,
 * and nothing that it writes is read. The addresses in these modules depend on no register, and
 * different ranks use different memory. */
static uint32_t check_starts(const DtPlan *plan, const DtPlanBody *body)
{
    uint32_t n_starts = 0;
    const DtPlanInst *insts = plan->insts + body->first_inst;
    for (uint32_t s = 0; s < body->n_insts; s++) {
        if (insts[s].kind == DT_INST_WAIT || !insts[s].event)
            continue;
        uint32_t at = s + 1;
        for (; at < body->n_insts &&
               !(insts[at].kind == DT_INST_WAIT && insts[at].event == insts[s].event);
             at++)
            for (uint32_t a = 0; a < insts[at].n_args; a++)
                for (uint32_t o = 0; o < insts[s].n_args; o++) {
                    const DtPlanArg *arg = &plan->args[insts[at].first_arg + a],
                                    *own = &plan->args[insts[s].first_arg + o];
                    cr_assert(!meet(arg, own) || (!arg->written && !own->written),
                              "instruction %u touches argument %u of %u, which is on its way", at,
                              o, s);
                }
        cr_assert_lt(at, body->n_insts, "nobody waits for instruction %u", s);
        n_starts++;
    }
    return n_starts;
}

static void check_case(uint32_t n_mesh, const int64_t *sizes, uint64_t seed, bool unfused)
{
    Case c;
    make_case(&c, n_mesh, sizes, seed);
    uint32_t n = dt_ranks_count(&c.module->mesh);
    DtRanks ranks = {.arena = c.arena, .mesh = &c.module->mesh, .source = part_of, .context = &c};
    DtTensor **expected = DT_NEW_ARRAY(c.arena, DtTensor *, c.func->results.n * n);
    dt_ranks_run(&ranks, c.func, NULL, expected);
    cr_assert_null(ranks.differs.value);

    DtProgram program = {.module = c.module};
    dt_pass_fuse(c.module, &(DtPassContext){.unfused = unfused});
    dt_pass_order(c.module, &(DtPassContext){0});
    dt_pass_memory(c.module, &(DtPassContext){.unfused = unfused});
    DtCodegenOptions options = {
        .target = "cpu", .source = "test.dsl", .source_folder = "", .compiler = "test",
        .unfused = unfused};
    DtPlanBuilder *builder = dt_write_new(c.arena);
    DtStatus status = dt_codegen_plan(&program, &options, builder);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    DtPlan plan;
    uint8_t *bytes;
    size_t len;
    dt_write_bytes(builder, &bytes, &len);
    status = dt_read_bytes(bytes, len, &plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    uint32_t n_starts = 0;
    for (uint32_t i = 0; i < plan.n_bodies; i++)
        n_starts += check_starts(&plan, &plan.bodies[i]);
    cr_assert_gt(n_starts, CHAINS / 3);
    char *out = mmap(NULL, (size_t)n * OUT_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(out != MAP_FAILED);
    run_ranks(&c, &plan, n, out);
    compare(&c, &plan, n, out, expected);
    munmap(out, (size_t)n * OUT_BYTES);
    dt_arena_free(c.arena);
}

Test(exchange, over_one_mesh_axis, .timeout = 120)
{
    check_case(1, (const int64_t[]){2}, 1, false);
    check_case(1, (const int64_t[]){3}, 2, false);
}
Test(exchange, over_two_mesh_axes, .timeout = 120)
{
    check_case(2, (const int64_t[]){2, 2}, 3, false);
    check_case(2, (const int64_t[]){3, 2}, 4, true);
}
Test(exchange, over_three_mesh_axes, .timeout = 120)
{
    check_case(3, (const int64_t[]){2, 2, 2}, 5, false);
    check_case(3, (const int64_t[]){2, 2, 2}, 102, false);
}
