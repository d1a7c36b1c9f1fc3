/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of matrix products, elementwise ops and reductions, in the order in which cuDNN recognises
 * attention. Rows of scores read K and V as their transposes. Values between the ops have no
 * memory. Forward, the library requires the statistic as a result, even if nothing reads it.
 *
 * Backward, dq is the direct result of a product. An engine that the library proposes then adds its
 * terms in a fixed order, and keeps all of dz for that in its workspace. Newer versions also have
 * engines whose workspace grows with the rows only; they do so if certain knobs are set, and the
 * library never proposes these. One of them adds the terms in f32 in our memory, so its graph has
 * one op more. Any other engine adds terms there in any order. */
#include "runtime/cuda_attend_graph.h"

#include <string.h>

enum { /* descriptors */
       POINTWISE = 0, ENGINE = 2, CONFIG = 3, PROPOSALS = 4, PLAN = 5, KNOB = 7, POINTWISE_OP = 13,
       GRAPH = 15, OPERANDS = 16, TENSOR = 17, MATMUL = 18, MATMUL_OP = 19, REDUCTION = 21,
       REDUCTION_OP = 22, RESHAPE_OP = 31
};
enum { /* types of attributes */
       IS_HANDLE = 0, IS_DTYPE = 1, IS_BOOL = 2, IS_INT64 = 3, IS_POINTER = 6, IS_MODE = 8,
       IS_KNOB = 9, IS_NOTE = 11, IS_MAP = 14, IS_DESC = 15, IS_REDUCE = 18
};
enum { /* attributes */
       MAP_MODE = 0, MAP_PRECISION = 1, MAP_AXIS = 9, PROPOSALS_MODE = 200, PROPOSALS_GRAPH = 201,
       PROPOSALS_RESULTS = 202, PROPOSALS_DEVICE = 204, CONFIG_ENGINE = 300, CONFIG_KNOBS = 302,
       PLAN_HANDLE = 400, PLAN_CONFIG = 401, PLAN_WORKSPACE = 402, PLAN_DEVICE = 407,
       KNOB_TYPE = 600, KNOB_VALUE = 601, MAP_OP = 750, MAP_X = 751, MAP_B = 752, MAP_Y = 753,
       MAP_T = 758, GRAPH_HANDLE = 800, GRAPH_OPS = 801, TENSOR_ALIGNED = 900, TENSOR_DTYPE = 901,
       TENSOR_EXTENTS = 902, TENSOR_STRIDES = 903, TENSOR_ID = 906, TENSOR_IS_VIRTUAL = 907,
       TENSOR_IS_VALUE = 908, OPERANDS_IDS = 1000, OPERANDS_AT = 1001, OPERANDS_WORKSPACE = 1003,
       ENGINE_GRAPH = 1300, ENGINE_NUMBER = 1301, ENGINE_NOTES = 1303, ENGINE_DEVICE = 1307,
       MATMUL_PRECISION = 1500, MATMUL_A = 1520, MATMUL_B = 1521, MATMUL_C = 1522, MATMUL_OF = 1523,
       REDUCE_OP = 1600, REDUCE_PRECISION = 1601, REDUCE_X = 1610, REDUCE_Y = 1611,
       REDUCE_OF = 1612, RESHAPE_X = 2200, RESHAPE_Y = 2201
};
enum { F32 = 0, F16 = 2, I32 = 4, BF16 = 9, BOOL = 11 }; /* types of elements */
enum { ADD = 0, MUL = 1, DIV = 6, SUB = 9, EXP = 13, LOG = 15, COPY = 21, GREATER = 302,
       NOT_LESS = 303, INDEX = 501, SELECT = 601 };
enum { REDUCE_ADD = 0, REDUCE_MAX = 3 };
enum { ANY_ORDER = 4 }; /* note of an engine: NONDETERMINISTIC */
/* knobs */
enum { STAGES = 14, KERNEL = 24, CLUSTER_ROWS = 27, STREAM = 38, TILE_ROWS = 40,
       TILE_COLUMNS = 41 };
enum { MOST_KNOBS = 6, MOST_OPS = 32 };
enum { MOST_PROPOSALS = 16, MOST_NOTES = 16, ALIGNED = 16, RANK = 4, ROWS = 2, COLUMNS = 3 };

typedef struct Shape {
    int64_t extent[RANK], stride[RANK];
} Shape;

typedef struct Tensor {
    DtCudnnDesc *desc;
    Shape shape;
} Tensor;

typedef struct Knob {
    int type;
    int64_t value;
} Knob;

/* An engine of cuDNN that, if these knobs are set, adds in a fixed order and needs a workspace that
 * only grows with the number of rows. The numbers are those of NVIDIA's cudnn-frontend
 * (override_heuristics_query of its SDPA node). */
typedef struct Engine {
    int from, to;              /* capabilities */
    size_t oldest, older_than; /* versions of the library */
    bool sums_in_memory;       /* dq is summed in f32, in memory of the graph's caller */
    int64_t number;
    Knob knobs[MOST_KNOBS]; /* type 0: the list ends here */
} Engine;

#define TILES(ROWS, COLUMNS, NUMBER)                                                 \
    {TILE_ROWS, ROWS}, {TILE_COLUMNS, COLUMNS}, {KERNEL, 2}, {STREAM, 0},            \
    {CLUSTER_ROWS, 0}, {STAGES, NUMBER}
enum { ALL = 1000000 };
static const Engine engines[] = {
    {90, 99, 92500, ALL, true, 6, {TILES(2, 1, 4)}},
    {100, 103, 91801, 92300, false, 5, {{KERNEL, 31}, {STAGES, 2}}},
    {100, 103, 92300, ALL, false, 5, {TILES(3, 2, 2)}},
    {104, 109, 91801, 92300, false, 17, {{KERNEL, 31}, {STAGES, 2}}},
    {104, 109, 92300, ALL, false, 17, {TILES(3, 2, 2)}},
};

typedef struct Build {
    DtCudnnDescs *descs;
    const DtCudnn *cudnn;
    const DtPlanSdpa *of;
    DtSdpaGraph *graph;
    DtCudnnDesc *ops[MOST_OPS];
    int64_t n_ops, next;
    uint64_t least; /* the smallest workspace of the plans that needed too much; 0: there was
                     * none */
    int io;
    bool sums_in_memory; /* of dq */
    bool good;
} Build;

/* ---- descriptors ---- */

static DtCudnnDesc *make(Build *b, int type)
{
    DtCudnnDesc *desc = NULL;
    b->good = b->good && b->cudnn->desc_new(type, &desc) == 0;
    if (desc)
        DT_PUSH(b->descs->arena, b->descs->made, desc);
    return desc;
}

static void set_all(Build *b, DtCudnnDesc *desc, int attribute, int type, int64_t n,
                    const void *values)
{
    b->good = b->good && b->cudnn->desc_set(desc, attribute, type, n, values) == 0;
}

static void set_int(Build *b, DtCudnnDesc *desc, int attribute, int64_t value)
{
    set_all(b, desc, attribute, IS_INT64, 1, &value);
}

/* Sets an attribute whose value is an enumeration. */
static void set_word(Build *b, DtCudnnDesc *desc, int attribute, int type, int value)
{
    set_all(b, desc, attribute, type, 1, &value);
}

static void set_true(Build *b, DtCudnnDesc *desc, int attribute)
{
    const char value = 1;
    set_all(b, desc, attribute, IS_BOOL, 1, &value);
}

static void set_desc(Build *b, DtCudnnDesc *desc, int attribute, DtCudnnDesc *value)
{
    set_all(b, desc, attribute, IS_DESC, 1, &value);
}

static void done(Build *b, DtCudnnDesc *desc)
{
    b->good = b->good && b->cudnn->desc_done(desc) == 0;
}

static void done_op(Build *b, DtCudnnDesc *op)
{
    done(b, op);
    if (b->n_ops < MOST_OPS)
        b->ops[b->n_ops++] = op;
}

/* ---- tensors ---- */

static Tensor tensor(Build *b, int64_t id, int dtype, Shape shape, int property)
{
    const Tensor t = {make(b, TENSOR), shape};
    set_int(b, t.desc, TENSOR_ID, id);
    set_word(b, t.desc, TENSOR_DTYPE, IS_DTYPE, dtype);
    set_all(b, t.desc, TENSOR_EXTENTS, IS_INT64, RANK, shape.extent);
    set_all(b, t.desc, TENSOR_STRIDES, IS_INT64, RANK, shape.stride);
    set_int(b, t.desc, TENSOR_ALIGNED, ALIGNED);
    if (property)
        set_true(b, t.desc, property);
    done(b, t.desc);
    return t;
}

static Tensor between(Build *b, int dtype, Shape shape)
{
    return tensor(b, b->next++, dtype, shape, TENSOR_IS_VIRTUAL);
}

/* Makes the tensor of an operand; its number for the library is one more, since 0 is not
 * allowed. */
static Tensor operand(Build *b, uint32_t number, int dtype, Shape shape)
{
    b->graph->uses[number] = true;
    return tensor(b, number + 1, dtype, shape, 0);
}

static Tensor value(Build *b, uint32_t number, int dtype)
{
    b->graph->uses[number] = true;
    return tensor(b, number + 1, dtype, (Shape){{1, 1, 1, 1}, {1, 1, 1, 1}}, TENSOR_IS_VALUE);
}

static Shape dense(int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    return (Shape){{batch, heads, rows, columns},
                   {heads * rows * columns, rows * columns, columns, 1}};
}

static Shape turned(Shape s)
{
    const int64_t extent = s.extent[ROWS], stride = s.stride[ROWS];
    s.extent[ROWS] = s.extent[COLUMNS];
    s.stride[ROWS] = s.stride[COLUMNS];
    s.extent[COLUMNS] = extent;
    s.stride[COLUMNS] = stride;
    return s;
}

/* Returns the shape and strides of one operand of the record. */
static Shape shape_of(const DtPlanSdpa *of, uint32_t part)
{
    const bool of_keys = part == DT_SDPA_K || part == DT_SDPA_V || part == DT_SDPA_DK ||
                         part == DT_SDPA_DV,
               of_rows = part == DT_SDPA_MAX || part == DT_SDPA_SUM;
    return (Shape){{of->batch, of_keys ? of->kv_heads : of->heads,
                    of_keys ? of->keys : of->queries, of_rows ? 1 : of->head},
                   {of->of_batch[part], of->of_head[part], of->of_row[part], 1}};
}

static Tensor part(Build *b, uint32_t number)
{
    return operand(b, number, b->io, shape_of(b->of, number));
}

static Tensor part_turned(Build *b, uint32_t number)
{
    return operand(b, number, b->io, turned(shape_of(b->of, number)));
}

static Shape scores(const Build *b)
{
    return dense(b->of->batch, b->of->heads, b->of->queries, b->of->keys);
}
static Shape rows(const Build *b) { return dense(b->of->batch, b->of->heads, b->of->queries, 1); }

/* ---- ops ---- */

static void map_to(Build *b, int mode, const Tensor *x, const Tensor *with, const Tensor *mask,
                   int64_t axis, const Tensor *y)
{
    DtCudnnDesc *map = make(b, POINTWISE), *op;
    set_word(b, map, MAP_MODE, IS_MAP, mode);
    set_word(b, map, MAP_PRECISION, IS_DTYPE, F32);
    if (mode == INDEX)
        set_int(b, map, MAP_AXIS, axis);
    done(b, map);
    op = make(b, POINTWISE_OP);
    set_desc(b, op, MAP_OP, map);
    set_desc(b, op, MAP_X, x->desc);
    if (with)
        set_desc(b, op, MAP_B, with->desc);
    if (mask)
        set_desc(b, op, MAP_T, mask->desc);
    set_desc(b, op, MAP_Y, y->desc);
    done_op(b, op);
}

static Tensor map(Build *b, int mode, Tensor x, const Tensor *with)
{
    const Tensor y = between(b, F32, x.shape);
    map_to(b, mode, &x, with, NULL, 0, &y);
    return y;
}

static Tensor numbers(Build *b, Tensor of, int64_t axis)
{
    const Tensor y = between(b, I32, of.shape);
    map_to(b, INDEX, &of, NULL, NULL, axis, &y);
    return y;
}

static void reduce_to(Build *b, int mode, Tensor x, Tensor y)
{
    DtCudnnDesc *reduction = make(b, REDUCTION), *op;
    set_word(b, reduction, REDUCE_OP, IS_REDUCE, mode);
    set_word(b, reduction, REDUCE_PRECISION, IS_DTYPE, F32);
    done(b, reduction);
    op = make(b, REDUCTION_OP);
    set_desc(b, op, REDUCE_OF, reduction);
    set_desc(b, op, REDUCE_X, x.desc);
    set_desc(b, op, REDUCE_Y, y.desc);
    done_op(b, op);
}

static Tensor reduce(Build *b, int mode, Tensor x)
{
    const Tensor y = between(b, F32, rows(b));
    reduce_to(b, mode, x, y);
    return y;
}

static void multiply_to(Build *b, Tensor a, Tensor with, Tensor c)
{
    DtCudnnDesc *matmul = make(b, MATMUL), *op;
    set_word(b, matmul, MATMUL_PRECISION, IS_DTYPE, F32);
    done(b, matmul);
    op = make(b, MATMUL_OP);
    set_desc(b, op, MATMUL_A, a.desc);
    set_desc(b, op, MATMUL_B, with.desc);
    set_desc(b, op, MATMUL_C, c.desc);
    set_desc(b, op, MATMUL_OF, matmul);
    done_op(b, op);
}

static Tensor multiply(Build *b, Tensor a, Tensor with)
{
    const Tensor c = between(b, F32, scores(b));
    multiply_to(b, a, with, c);
    return c;
}

/* Returns the transpose of x, with elements of the type that products read. */
static Tensor turn(Build *b, Tensor x)
{
    const Tensor y = between(b, b->io, turned(x.shape));
    DtCudnnDesc *op = make(b, RESHAPE_OP);
    set_desc(b, op, RESHAPE_X, x.desc);
    set_desc(b, op, RESHAPE_Y, y.desc);
    done_op(b, op);
    return y;
}

/* ---- attention ---- */

/* Returns x where the comparison of query and key holds, else -inf (`hidden`). */
static Tensor keep(Build *b, Tensor x, int comparison, Tensor left, Tensor right, Tensor hidden)
{
    const Tensor is = between(b, BOOL, x.shape), y = between(b, F32, x.shape);
    map_to(b, comparison, &left, &right, NULL, 0, &is);
    map_to(b, SELECT, &x, &hidden, &is, 0, &y);
    return y;
}

static Tensor mask(Build *b, Tensor x)
{
    if (!b->of->causal && b->of->window == 0)
        return x;
    const Tensor hidden = value(b, DT_SDPA_HIDDEN, F32);
    if (b->of->causal) {
        const Tensor query = numbers(b, x, ROWS), key = numbers(b, x, COLUMNS);
        x = keep(b, x, NOT_LESS, query, key, hidden);
    }
    if (b->of->window > 0) {
        const Tensor query = numbers(b, x, ROWS), key = numbers(b, x, COLUMNS),
                     window = value(b, DT_SDPA_WINDOW, F32);
        const Tensor last = map(b, ADD, key, &window);
        x = keep(b, x, GREATER, last, query, hidden);
    }
    return x;
}

static Tensor scaled_scores(Build *b, Tensor q, Tensor k_turned, Tensor scale)
{
    const Tensor z = multiply(b, q, k_turned);
    return map(b, MUL, z, &scale);
}

/* Multiplies x and y for each head of queries, and adds up the products of those that share a head
 * of keys. */
static void multiply_shared(Build *b, Tensor x, Tensor y, Tensor to)
{
    if (b->of->heads == b->of->kv_heads) {
        multiply_to(b, x, y, to);
        return;
    }
    const Tensor each =
        between(b, b->io, dense(b->of->batch, b->of->heads, b->of->keys, b->of->head));
    multiply_to(b, x, y, each);
    reduce_to(b, REDUCE_ADD, each, to);
}

static void forward(Build *b)
{
    const Tensor q = part(b, DT_SDPA_Q), k = part_turned(b, DT_SDPA_K), v = part(b, DT_SDPA_V),
                 o = part(b, DT_SDPA_O), scale = value(b, DT_SDPA_SCALE, F32),
                 z = mask(b, scaled_scores(b, q, k, scale)), most = reduce(b, REDUCE_MAX, z),
                 below = map(b, SUB, z, &most), e = map(b, EXP, below, NULL),
                 sum = reduce(b, REDUCE_ADD, e);
    const Tensor log = map(b, LOG, sum, NULL),
                 statistic = operand(b, DT_SDPA_STATISTIC, F32, rows(b)),
                 p = between(b, b->io, z.shape);
    map_to(b, ADD, &most, &log, NULL, 0, &statistic);
    map_to(b, DIV, &e, &sum, NULL, 0, &p);
    multiply_to(b, p, v, o);
}

static void backward(Build *b)
{
    const Tensor q = part(b, DT_SDPA_Q), k = part_turned(b, DT_SDPA_K),
                 v = part_turned(b, DT_SDPA_V), o = part(b, DT_SDPA_O), d_o = part(b, DT_SDPA_DO),
                 dq = part(b, DT_SDPA_DQ), dk = part(b, DT_SDPA_DK), dv = part(b, DT_SDPA_DV),
                 statistic = operand(b, DT_SDPA_STATISTIC, F32, rows(b)),
                 scale = value(b, DT_SDPA_SCALE, F32), one = value(b, DT_SDPA_ONE, F32),
                 dot = operand(b, DT_SDPA_DOT, F32, rows(b));
    Tensor product =
        between(b, F32, dense(b->of->batch, b->of->heads, b->of->queries, b->of->head));
    map_to(b, MUL, &d_o, &o, NULL, 0, &product);
    const Tensor sum = reduce(b, REDUCE_ADD, product);
    map_to(b, MUL, &sum, &one, NULL, 0, &dot);
    const Tensor z = scaled_scores(b, q, k, scale), below = map(b, SUB, z, &statistic),
                 p = map(b, EXP, mask(b, below), NULL);
    multiply_shared(b, turn(b, p), d_o, dv);
    const Tensor dp = multiply(b, d_o, v), off = map(b, SUB, dp, &dot), dz = map(b, MUL, off, &p),
                 ds = between(b, b->io, p.shape);
    map_to(b, MUL, &dz, &scale, NULL, 0, &ds);
    multiply_shared(b, turn(b, ds), q, dk);
    const Tensor k_rows = turn(b, k);
    if (!b->sums_in_memory) {
        multiply_to(b, ds, k_rows, dq);
        return;
    }
    const Shape shape = dense(b->of->batch, b->of->heads, b->of->queries, b->of->head);
    const Tensor sums = operand(b, DT_SDPA_DQ_SUMS, F32, shape);
    multiply_to(b, ds, k_rows, sums);
    map_to(b, COPY, &sums, NULL, NULL, 0, &dq);
}

/* ---- plans ---- */

const char *dt_cudnn_error(const DtCudnn *cudnn, DtArena *arena)
{
    static const char mark[] = "Reason: ";
    char said[2000] = "";
    cudnn->last_error(said, sizeof said);
    const char *reason = strstr(said, mark);
    reason = reason ? reason + sizeof mark - 1 : said;
    return reason[0] ? dt_arena_strndup(arena, reason, strcspn(reason, "\n"))
                     : "it does not say why";
}

static void set_device(Build *b, const DtCudnnDevice *device, DtCudnnDesc *desc, int of_handle,
                       int of_properties)
{
    if (device->handle && of_handle)
        set_all(b, desc, of_handle, IS_HANDLE, 1, &device->handle);
    if (!device->handle && of_properties)
        set_desc(b, desc, of_properties, device->properties);
}

static bool has_one_order(Build *b, DtCudnnDesc *config)
{
    DtCudnnDesc *engine = make(b, ENGINE);
    int notes[MOST_NOTES];
    int64_t n = 0;
    bool is = b->good && b->cudnn->desc_get(config, CONFIG_ENGINE, IS_DESC, 1, &n, &engine) == 0 &&
              n == 1 &&
              b->cudnn->desc_get(engine, ENGINE_NOTES, IS_NOTE, MOST_NOTES, &n, notes) == 0;
    for (int64_t i = 0; is && i < n && i < MOST_NOTES; i++)
        is = notes[i] != ANY_ORDER;
    return is;
}

/* Makes a plan with that engine and its knobs. False: the library does not have the engine after
 * all, or it needs too much memory. */
static bool plan_of(Build *b, const DtCudnnDevice *device, DtCudnnDesc *config)
{
    DtSdpaGraph *graph = b->graph;
    int64_t n = 0, bytes = 0;
    graph->plan = make(b, PLAN);
    set_device(b, device, graph->plan, PLAN_HANDLE, 0);
    set_desc(b, graph->plan, PLAN_CONFIG, config);
    set_device(b, device, graph->plan, 0, PLAN_DEVICE);
    done(b, graph->plan);
    const bool made =
        b->good && b->cudnn->desc_get(graph->plan, PLAN_WORKSPACE, IS_INT64, 1, &n, &bytes) == 0;
    b->good = true;
    graph->workspace = bytes > 0 ? (uint64_t)bytes : 0;
    const uint64_t all = graph->workspace + graph->sums;
    if (made && all > b->of->workspace && (b->least == 0 || all < b->least))
        b->least = all;
    return made && all <= b->of->workspace;
}

static DtCudnnDesc *graph_of(Build *b, const DtCudnnDevice *device)
{
    DtCudnnDesc *graph = make(b, GRAPH);
    set_device(b, device, graph, GRAPH_HANDLE, 0);
    set_all(b, graph, GRAPH_OPS, IS_DESC, b->n_ops, b->ops);
    done(b, graph);
    return graph;
}

/* Takes the first plan that the library proposes and that always adds in the same order. */
static bool plan_proposed(Build *b, const DtCudnnDevice *device)
{
    DtCudnnDesc *graph = graph_of(b, device), *proposals = make(b, PROPOSALS),
                *configs[MOST_PROPOSALS] = {0};
    int64_t n = 0;
    set_desc(b, proposals, PROPOSALS_GRAPH, graph);
    set_word(b, proposals, PROPOSALS_MODE, IS_MODE, 3 /* A */);
    set_device(b, device, proposals, 0, PROPOSALS_DEVICE);
    done(b, proposals);
    for (int i = 0; i < MOST_PROPOSALS; i++)
        configs[i] = make(b, CONFIG);
    if (!b->good ||
        b->cudnn->desc_get(proposals, PROPOSALS_RESULTS, IS_DESC, MOST_PROPOSALS, &n, configs) != 0)
        return false;
    for (int64_t i = 0; i < n && i < MOST_PROPOSALS; i++)
        if (has_one_order(b, configs[i]) && plan_of(b, device, configs[i]))
            return true;
    return false;
}

static bool plan_named(Build *b, const DtCudnnDevice *device, const Engine *of)
{
    DtCudnnDesc *graph = graph_of(b, device), *engine = make(b, ENGINE), *config = make(b, CONFIG),
                *knobs[MOST_KNOBS];
    int64_t n = 0;
    set_desc(b, engine, ENGINE_GRAPH, graph);
    set_int(b, engine, ENGINE_NUMBER, of->number);
    set_device(b, device, engine, 0, ENGINE_DEVICE);
    done(b, engine);
    for (; n < MOST_KNOBS && of->knobs[n].type; n++) {
        knobs[n] = make(b, KNOB);
        set_word(b, knobs[n], KNOB_TYPE, IS_KNOB, of->knobs[n].type);
        set_int(b, knobs[n], KNOB_VALUE, of->knobs[n].value);
        done(b, knobs[n]);
    }
    set_desc(b, config, CONFIG_ENGINE, engine);
    set_all(b, config, CONFIG_KNOBS, IS_DESC, n, knobs);
    done(b, config);
    return b->good && plan_of(b, device, config);
}

static const Engine *engine_of(const DtCudnn *cudnn, const DtCudnnDevice *device)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        if (device->capability >= engines[i].from && device->capability <= engines[i].to &&
            cudnn->version() >= engines[i].oldest && cudnn->version() < engines[i].older_than)
            return &engines[i];
    return NULL;
}

/* In the backward pass, the notes of an engine do not tell whether its knobs change the order of
 * sums. On GPU generations for which NVIDIA's frontend names an engine and knobs with a fixed
 * order, proposals of the library are therefore not used. */
static bool proposals_are_in_order(int capability)
{
    enum { DATACENTER = 9, GEFORCE = 12 };
    return capability / 10 <= DATACENTER || capability / 10 == GEFORCE;
}

/* ---- of a record ---- */

static Build begin(DtCudnnDescs *descs, const DtPlanSdpa *record, DtSdpaGraph *graph)
{
    *graph = (DtSdpaGraph){.plan = NULL};
    return (Build){.descs = descs,
                   .cudnn = descs->cudnn,
                   .of = record,
                   .graph = graph,
                   .next = DT_SDPA_OPERANDS + 1,
                   .io = record->dtype == DT_PLAN_BF16 ? BF16 : F16,
                   .good = true};
}

static bool build_proposed(Build *b, const DtCudnnDevice *device)
{
    if (b->of->backward)
        backward(b);
    else
        forward(b);
    return b->good && plan_proposed(b, device);
}

static bool build_named(Build *b, const DtCudnnDevice *device, const Engine *engine)
{
    b->sums_in_memory = engine->sums_in_memory;
    if (b->sums_in_memory)
        b->graph->sums =
            (uint64_t)(b->of->batch * b->of->heads * b->of->queries * b->of->head) * sizeof(float);
    backward(b);
    return b->good && plan_named(b, device, engine);
}

bool dt_sdpa_graph(DtCudnnDescs *descs, const DtCudnnDevice *device, const DtPlanSdpa *record,
                   DtSdpaGraph *ret_graph, const char **ret_why)
{
    const Engine *engine = record->backward ? engine_of(descs->cudnn, device) : NULL;
    const bool proposes = !record->backward || proposals_are_in_order(device->capability);
    Build b = begin(descs, record, ret_graph);
    if (proposes && build_proposed(&b, device))
        return true;
    const uint64_t least = b.least;
    if (engine)
        b = begin(descs, record, ret_graph);
    if (engine && build_named(&b, device, engine))
        return true;
    b.least = b.least == 0 || (least && least < b.least) ? least : b.least;
    *ret_why = !proposes && !engine ? "its sums have no known order on this generation of GPUs"
               : b.least            ? dt_arena_printf(descs->arena, "it wants %llu bytes",
                                                      (unsigned long long)b.least)
                                    : dt_cudnn_error(descs->cudnn, descs->arena);
    return false;
}

bool dt_sdpa_execute(const DtCudnn *cudnn, DtCudnnHandle *handle, const DtSdpaGraph *graph,
                     void *const operands[DT_SDPA_OPERANDS], void *workspace)
{
    int64_t ids[DT_SDPA_OPERANDS], n = 0;
    void *at[DT_SDPA_OPERANDS];
    DtCudnnDesc *pack = NULL;
    for (uint32_t i = 0; i < DT_SDPA_OPERANDS; i++)
        if (graph->uses[i]) {
            ids[n] = i + 1;
            at[n++] = operands[i];
        }
    const bool good = cudnn->desc_new(OPERANDS, &pack) == 0 &&
                      cudnn->desc_set(pack, OPERANDS_IDS, IS_INT64, n, ids) == 0 &&
                      cudnn->desc_set(pack, OPERANDS_AT, IS_POINTER, n, at) == 0 &&
                      cudnn->desc_set(pack, OPERANDS_WORKSPACE, IS_POINTER, 1, &workspace) == 0 &&
                      cudnn->desc_done(pack) == 0 && cudnn->execute(handle, graph->plan, pack) == 0;
    if (pack)
        cudnn->desc_free(pack);
    return good;
}

void dt_cudnn_descs_free(DtCudnnDescs *descs)
{
    for (uint32_t i = descs->made.n; i-- > 0;)
        descs->cudnn->desc_free(descs->made.at[i]);
    descs->made.n = 0;
}
