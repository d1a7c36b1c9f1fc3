/* SPDX-License-Identifier: Apache-2.0 */
/* libcudnn.so.9: graphs of its backend API, in loops (standin.h). A descriptor takes the attributes
 * that are documented for its type, each of its own type and number, before it is finalized and not
 * after; it is finalized if those that it needs are there, name finalized descriptors, and make
 * sense: extents of operands agree, what lies between ops has one maker before its readers, what is
 * read and written has an address. What an engine of the library wants beyond that is not known
 * here (test_attend_plan.c asks the library).
 *
 * DT_STANDIN: cudnn=VERSION (91900); cudnn_bytes=N: plans want so much more workspace;
 * cudnn_scores=N: those that are proposed do; cudnn_slow=1: they take ten seconds, and no time
 * otherwise. Each but the version with a number before the sign: of that GPU (cudnn_slow1=1). */
#include "cudnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD = 2000, UNSUPPORTED = 3000, MANY = 64, LARGEST = 1 << 20, ANY_ORDER = 4 };
enum {
    IS_HANDLE = 0,
    IS_DTYPE = 1,
    IS_BOOL = 2,
    IS_INT64 = 3,
    IS_POINTER = 6,
    IS_MODE = 8,
    IS_KNOB = 9,
    IS_NOTE = 11,
    IS_MAP = 14,
    IS_DESC = 15,
    IS_REDUCE = 18
};

typedef struct Handle {
    Stream *stream;
} Handle;

static char said[200];
size_t cudnnGetVersion(void);

static int fail(int status, const char *why, const Desc *desc)
{
    snprintf(said, sizeof said, "%s, descriptor of type %d", why, desc ? desc->type : -1);
    return status;
}

/* ---- attributes ---- */

typedef struct Rule {
    int desc, attribute, type;
    int64_t least, most;
    bool needed;
} Rule;

static const Rule rules[] = {
    {POINTWISE, 0, IS_MAP, 1, 1, true},
    {POINTWISE, 1, IS_DTYPE, 1, 1, true},
    {POINTWISE, 9, IS_INT64, 1, 1, false},
    {ENGINE, 1300, IS_DESC, 1, 1, true},
    {ENGINE, 1301, IS_INT64, 1, 1, true},
    {CONFIG, 300, IS_DESC, 1, 1, true},
    {CONFIG, 302, IS_DESC, 1, MOST_KNOBS, true},
    {KNOB, 600, IS_KNOB, 1, 1, true},
    {KNOB, 601, IS_INT64, 1, 1, true},
    {PROPOSALS, 200, IS_MODE, 1, 1, true},
    {PROPOSALS, 201, IS_DESC, 1, 1, true},
    {PLAN, 400, IS_HANDLE, 1, 1, true},
    {PLAN, 401, IS_DESC, 1, 1, true},
    {POINTWISE_OP, 750, IS_DESC, 1, 1, true},
    {POINTWISE_OP, 751, IS_DESC, 1, 1, true},
    {POINTWISE_OP, 752, IS_DESC, 1, 1, false},
    {POINTWISE_OP, 753, IS_DESC, 1, 1, true},
    {POINTWISE_OP, 758, IS_DESC, 1, 1, false},
    {GRAPH, 800, IS_HANDLE, 1, 1, true},
    {GRAPH, 801, IS_DESC, 1, MOST_OPS, true},
    {TENSOR, 900, IS_INT64, 1, 1, true},
    {TENSOR, 901, IS_DTYPE, 1, 1, true},
    {TENSOR, 902, IS_INT64, 3, RANK, true},
    {TENSOR, 903, IS_INT64, 3, RANK, true},
    {TENSOR, 906, IS_INT64, 1, 1, true},
    {TENSOR, 907, IS_BOOL, 1, 1, false},
    {TENSOR, 908, IS_BOOL, 1, 1, false},
    {PACK, 1000, IS_INT64, 1, MOST_POINTERS, true},
    {PACK, 1001, IS_POINTER, 1, MOST_POINTERS, true},
    {PACK, 1003, IS_POINTER, 1, 1, true},
    {MATMUL, 1500, IS_DTYPE, 1, 1, true},
    {MATMUL_OP, 1520, IS_DESC, 1, 1, true},
    {MATMUL_OP, 1521, IS_DESC, 1, 1, true},
    {MATMUL_OP, 1522, IS_DESC, 1, 1, true},
    {MATMUL_OP, 1523, IS_DESC, 1, 1, true},
    {REDUCTION, 1600, IS_REDUCE, 1, 1, true},
    {REDUCTION, 1601, IS_DTYPE, 1, 1, true},
    {REDUCTION_OP, 1610, IS_DESC, 1, 1, true},
    {REDUCTION_OP, 1611, IS_DESC, 1, 1, true},
    {REDUCTION_OP, 1612, IS_DESC, 1, 1, true},
    {RESHAPE_OP, 2200, IS_DESC, 1, 1, true},
    {RESHAPE_OP, 2201, IS_DESC, 1, 1, true},
};

static const Rule *rule_of(int desc, int attribute)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].desc == desc && rules[i].attribute == attribute)
            return &rules[i];
    return NULL;
}

const Value *cudnn_value(const Desc *desc, int attribute)
{
    for (uint32_t i = 0; i < desc->n_set; i++)
        if (desc->set[i].attribute == attribute)
            return &desc->set[i];
    return NULL;
}

int64_t cudnn_number(const Desc *desc, int attribute, int64_t otherwise)
{
    const Value *value = cudnn_value(desc, attribute);
    return value ? value->at[0] : otherwise;
}

const Desc *cudnn_desc(const Desc *desc, int attribute)
{
    return (const Desc *)(intptr_t)cudnn_number(desc, attribute, 0);
}

static size_t bytes_of(int type)
{
    return type == IS_BOOL                                                                  ? 1
           : type == IS_HANDLE || type == IS_INT64 || type == IS_POINTER || type == IS_DESC ? 8
                                                                                            : 4;
}

static int64_t read_value(const char *at, size_t bytes)
{
    int32_t word;
    int64_t value;
    if (bytes == 1)
        return *at;
    memcpy(bytes == 4 ? (void *)&word : (void *)&value, at, bytes);
    return bytes == 4 ? word : value;
}

int cudnnBackendSetAttribute(Desc *desc, int attribute, int type, int64_t n, const void *values)
{
    const Rule *rule = desc ? rule_of(desc->type, attribute) : NULL;
    if (!rule || rule->type != type || n < rule->least || n > rule->most || !values)
        return fail(BAD, "an attribute that the descriptor does not have", desc);
    if (desc->done || cudnn_value(desc, attribute) || desc->n_set == MOST_SET)
        return fail(BAD, "an attribute is set twice, or too late", desc);
    Value *value = &desc->set[desc->n_set++];
    *value = (Value){attribute, n, calloc((size_t)n, sizeof *value->at)};
    for (int64_t i = 0; i < n; i++) {
        value->at[i] =
            read_value((const char *)values + (size_t)i * bytes_of(type), bytes_of(type));
        if ((type == IS_HANDLE || (type == IS_DESC && desc->type != PACK)) && !value->at[i])
            return fail(BAD, "no descriptor", desc);
        if (type == IS_DESC && !((const Desc *)(intptr_t)value->at[i])->done)
            return fail(BAD, "a descriptor that is not finalized", desc);
    }
    return OK;
}

/* ---- what makes sense ---- */

static const int64_t *extents(const Desc *tensor) { return cudnn_value(tensor, 902)->at; }

static bool is_tensor(const Desc *t, int64_t rank)
{
    return t && t->type == TENSOR && cudnn_value(t, 902)->n == rank;
}

static bool is_good_tensor(const Desc *t)
{
    const Value *extent = cudnn_value(t, 902), *stride = cudnn_value(t, 903);
    const int64_t aligned = cudnn_number(t, 900, 0);
    bool is = extent->n == RANK && stride->n == RANK && aligned > 0 && !(aligned & (aligned - 1)) &&
              cudnn_element_bytes(cudnn_number(t, 901, -1)) > 0 &&
              !(cudnn_number(t, 907, 0) && cudnn_number(t, 908, 0));
    for (int64_t d = 0; d < extent->n && is; d++)
        is = extent->at[d] > 0 && extent->at[d] < LARGEST && stride->at[d] > 0;
    return is;
}

/* Checks broadcasting: if two extents differ, x has extent 1 or, if heads share a head of keys, a
 * divisor. */
static bool broadcasts(const Desc *x, const Desc *y, int dims, bool heads)
{
    for (int d = 0; d < dims; d++)
        if (extents(x)[d] != extents(y)[d] && extents(x)[d] != 1 &&
            !(heads && d == 1 && extents(y)[d] % extents(x)[d] == 0))
            return false;
    return true;
}

static bool is_good_map(const Desc *op)
{
    const Desc *map = cudnn_desc(op, 750), *x = cudnn_desc(op, 751), *b = cudnn_desc(op, 752),
               *y = cudnn_desc(op, 753), *t = cudnn_desc(op, 758);
    if (map->type != POINTWISE || !is_tensor(x, RANK) || !is_tensor(y, RANK) ||
        (b && !is_tensor(b, RANK)))
        return false;
    const int64_t mode = cudnn_number(map, 0, -1), x_type = cudnn_number(x, 901, -1),
                  y_type = cudnn_number(y, 901, -1);
    const bool two = mode == ADD || mode == MUL || mode == DIV || mode == SUB || mode == CMP_GT ||
                     mode == CMP_GE,
               one = mode == EXP || mode == LOG || mode == IDENTITY || mode == GEN_INDEX,
               compares = mode == CMP_GT || mode == CMP_GE;
    if ((!two && !one && mode != SELECT) || (b != NULL) != (two || mode == SELECT) ||
        (t != NULL) != (mode == SELECT) || (cudnn_value(map, 9) != NULL) != (mode == GEN_INDEX) ||
        (y_type == BOOLEAN) != compares || (y_type == INT32) != (mode == GEN_INDEX))
        return false;
    if (mode == GEN_INDEX && (cudnn_number(map, 9, -1) < 0 || cudnn_number(map, 9, -1) >= RANK))
        return false;
    if (mode == SELECT && (!is_tensor(t, RANK) || cudnn_number(t, 901, -1) != BOOLEAN ||
                           !broadcasts(t, y, RANK, false)))
        return false;
    return broadcasts(x, y, RANK, false) && (!b || broadcasts(b, y, RANK, false)) &&
           x_type != BOOLEAN;
}

static bool is_good_matmul(const Desc *op)
{
    const Desc *a = cudnn_desc(op, 1520), *b = cudnn_desc(op, 1521), *c = cudnn_desc(op, 1522);
    if (cudnn_desc(op, 1523)->type != MATMUL || !is_tensor(a, RANK) || !is_tensor(b, RANK) ||
        !is_tensor(c, RANK))
        return false;
    return extents(a)[2] == extents(c)[2] && extents(b)[3] == extents(c)[3] &&
           extents(a)[3] == extents(b)[2] && broadcasts(a, c, 2, false) &&
           broadcasts(b, c, 2, true) && cudnn_number(a, 901, -1) == cudnn_number(b, 901, -2) &&
           (cudnn_number(a, 901, -1) == HALF || cudnn_number(a, 901, -1) == BFLOAT16);
}

static bool is_good_reduction(const Desc *op)
{
    const Desc *x = cudnn_desc(op, 1610), *y = cudnn_desc(op, 1611), *of = cudnn_desc(op, 1612);
    const int64_t mode = of->type == REDUCTION ? cudnn_number(of, 1600, -1) : -1;
    return (mode == 0 || mode == 3) && is_tensor(x, RANK) && is_tensor(y, RANK) &&
           broadcasts(y, x, RANK, mode == 0);
}

/* Checks that a tensor is the same memory with other extents. */
static bool is_good_reshape(const Desc *op)
{
    const Desc *x = cudnn_desc(op, 2200), *y = cudnn_desc(op, 2201);
    return is_tensor(x, RANK) && is_tensor(y, RANK) && cudnn_elements(x) == cudnn_elements(y) &&
           cudnn_number(y, 907, 0);
}

/* The tensors that an op reads or writes, NULL if it has fewer; the last one is written. */
static uint32_t tensors_of(const Desc *op, const Desc *ret[RANK])
{
    static const int attributes[][RANK] = {
        {751, 752, 758, 753}, {1520, 1521, 0, 1522}, {1610, 0, 0, 1611}, {2200, 0, 0, 2201}};
    const int row = op->type == POINTWISE_OP   ? 0
                    : op->type == MATMUL_OP    ? 1
                    : op->type == REDUCTION_OP ? 2
                                               : 3;
    for (int i = 0; i < RANK; i++)
        ret[i] = attributes[row][i] ? cudnn_desc(op, attributes[row][i]) : NULL;
    return RANK;
}

/* Returns the op before number `at` that makes the tensor; -1: there is none. */
static int64_t maker(const Value *ops, int64_t at, const Desc *tensor)
{
    const Desc *of[RANK];
    for (int64_t i = 0; i < at; i++) {
        tensors_of((const Desc *)(intptr_t)ops->at[i], of);
        if (of[RANK - 1] == tensor)
            return i;
    }
    return -1;
}

static bool is_op(const Desc *desc)
{
    return desc->type == POINTWISE_OP || desc->type == MATMUL_OP || desc->type == REDUCTION_OP ||
           desc->type == RESHAPE_OP;
}

/* Checks that two tensors with the same number are equal. */
static bool has_own_number(const Value *ops, const Desc *tensor)
{
    const Desc *of[RANK];
    for (int64_t i = 0; i < ops->n; i++) {
        tensors_of((const Desc *)(intptr_t)ops->at[i], of);
        for (int k = 0; k < RANK; k++)
            if (of[k] && of[k] != tensor &&
                cudnn_number(of[k], 906, 0) == cudnn_number(tensor, 906, 0))
                return false;
    }
    return true;
}

static bool is_good_graph(const Desc *graph)
{
    const Value *ops = cudnn_value(graph, 801);
    for (int64_t i = 0; i < ops->n; i++) {
        const Desc *op = (const Desc *)(intptr_t)ops->at[i], *of[RANK];
        if (!is_op(op))
            return false;
        tensors_of(op, of);
        for (int k = 0; k < RANK; k++) {
            const bool written = k == RANK - 1;
            if (!of[k])
                continue;
            if (!has_own_number(ops, of[k]) ||
                (written && (maker(ops, i, of[k]) >= 0 || cudnn_number(of[k], 908, 0))) ||
                (!written && cudnn_number(of[k], 907, 0) && maker(ops, i, of[k]) < 0))
                return false;
        }
    }
    return true;
}

/* Engines that add in one order if all these knobs are set, and in any order otherwise. */
static const struct {
    int64_t engine, oldest, older_than;
    bool through_memory; /* for an engine with which dq is the copy of an f32 tensor in memory */
    int64_t knobs[MOST_KNOBS][2];
} in_order[] = {
    {6, 92500, 1000000, true, {{40, 2}, {41, 1}, {24, 2}, {38, 0}, {27, 0}, {14, 4}}},
    {5, 91801, 92300, false, {{24, 31}, {14, 2}}},
    {17, 91801, 92300, false, {{24, 31}, {14, 2}}},
    {5, 92300, 1000000, false, {{40, 3}, {41, 2}, {24, 2}, {38, 0}, {27, 0}, {14, 2}}},
    {17, 92300, 1000000, false, {{40, 3}, {41, 2}, {24, 2}, {38, 0}, {27, 0}, {14, 2}}},
};

static bool is_good_config(const Desc *config)
{
    const Value *knobs = cudnn_value(config, 302);
    bool is = cudnn_desc(config, 300)->type == ENGINE;
    for (int64_t i = 0; i < knobs->n; i++)
        is = is && ((const Desc *)(intptr_t)knobs->at[i])->type == KNOB;
    return is;
}

static bool has_knob(const Desc *config, int64_t type, int64_t value)
{
    const Value *knobs = cudnn_value(config, 302);
    for (int64_t i = 0; i < knobs->n; i++) {
        const Desc *knob = (const Desc *)(intptr_t)knobs->at[i];
        if (cudnn_number(knob, 600, -1) == type)
            return cudnn_number(knob, 601, -1) == value;
    }
    return false;
}

/* Whether the graph copies a tensor that has memory of its own. */
static bool copies(const Desc *graph)
{
    const Value *ops = cudnn_value(graph, 801);
    const Desc *op = (const Desc *)(intptr_t)ops->at[ops->n - 1];
    return op->type == POINTWISE_OP && cudnn_number(cudnn_desc(op, 750), 0, -1) == IDENTITY &&
           !cudnn_number(cudnn_desc(op, 751), 907, 0);
}

static bool is_in_order(const Desc *config)
{
    const Desc *engine = cudnn_desc(config, 300);
    const int64_t version = (int64_t)cudnnGetVersion();
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++) {
        bool is = in_order[i].engine == cudnn_number(engine, 1301, -1) &&
                  version >= in_order[i].oldest && version < in_order[i].older_than &&
                  copies(cudnn_desc(engine, 1300)) == in_order[i].through_memory;
        for (int k = 0; is && k < MOST_KNOBS && in_order[i].knobs[k][0]; k++)
            is = has_knob(config, in_order[i].knobs[k][0], in_order[i].knobs[k][1]);
        if (is)
            return true;
    }
    return false;
}

static bool makes_sense(const Desc *desc)
{
    switch (desc->type) {
    case TENSOR: return is_good_tensor(desc);
    case POINTWISE_OP: return is_good_map(desc);
    case MATMUL_OP: return is_good_matmul(desc);
    case REDUCTION_OP: return is_good_reduction(desc);
    case RESHAPE_OP: return is_good_reshape(desc);
    case GRAPH: return is_good_graph(desc);
    case PROPOSALS: return cudnn_desc(desc, 201)->type == GRAPH && cudnn_number(desc, 200, -1) == 3;
    case PLAN: return cudnn_desc(desc, 401)->type == CONFIG;
    case ENGINE: return cudnn_desc(desc, 1300)->type == GRAPH;
    case CONFIG: return is_good_config(desc);
    case PACK: return cudnn_value(desc, 1000)->n == cudnn_value(desc, 1001)->n;
    case KNOB:
    case POINTWISE:
    case MATMUL:
    case REDUCTION: return true;
    default: return false;
    }
}

/* ---- descriptors ---- */

int cudnnBackendCreateDescriptor(int type, Desc **ret_desc)
{
    *ret_desc = calloc(1, sizeof **ret_desc);
    (*ret_desc)->type = type;
    return OK;
}

int cudnnBackendDestroyDescriptor(Desc *desc)
{
    for (uint32_t i = 0; i < desc->n_set; i++)
        free(desc->set[i].at);
    free(desc);
    return OK;
}

int cudnnBackendFinalize(Desc *desc)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].desc == desc->type && rules[i].needed &&
            !cudnn_value(desc, rules[i].attribute))
            return fail(BAD, "an attribute is missing", desc);
    if (desc->done || !makes_sense(desc))
        return fail(BAD, "it makes no sense", desc);
    if (desc->type == CONFIG) { /* the configuration contains its graph, as those that are proposed
                                 * do */
        desc->any_order = !is_in_order(desc);
        desc->set[desc->n_set++] = (Value){301, 1, calloc(1, sizeof(int64_t))};
        desc->set[desc->n_set - 1].at[0] =
            (int64_t)(intptr_t)cudnn_desc(cudnn_desc(desc, 300), 1300);
    }
    if (desc->type == PLAN)
        desc->any_order = cudnn_desc(desc, 401)->any_order;
    desc->done = true;
    return OK;
}

/* Returns how many products a graph has. Attention has two; with more it is a gradient, whose terms
 * may be added in any order. */
static uint32_t products(const Desc *graph)
{
    const Value *ops = cudnn_value(graph, 801);
    uint32_t n = 0;
    for (int64_t i = 0; i < ops->n; i++)
        n += ((const Desc *)(intptr_t)ops->at[i])->type == MATMUL_OP;
    return n;
}

static int propose(const Desc *proposals, int64_t most, int64_t *ret_n, Desc **ret_configs)
{
    const Desc *graph = cudnn_desc(proposals, 201);
    const uint32_t n = products(graph);
    *ret_n = 0;
    for (int any = n > 2; any >= 0 && n >= 2 && *ret_n < most; any--) {
        Desc *config = ret_configs[(*ret_n)++];
        if (!config || config->type != CONFIG || config->done)
            return fail(BAD, "no configuration to fill", config);
        config->done = true;
        config->any_order = any;
        config->set[config->n_set++] = (Value){301, 1, calloc(1, sizeof(int64_t))};
        config->set[0].at[0] = (int64_t)(intptr_t)graph;
    }
    return OK;
}

long long cudnn_setting(const char *name)
{
    char all[40], own[40];
    snprintf(all, sizeof all, "%s=", name);
    snprintf(own, sizeof own, "%s%d=", name, standin_device());
    return standin_setting(own, standin_setting(all, 0));
}

/* Returns the workspace of a plan: in the backward pass all gradients of scores, which the library
 * needs if it proposed the plan. */
static int64_t workspace_of(const Desc *plan)
{
    const Desc *config = cudnn_desc(plan, 401), *graph = cudnn_desc(config, 301);
    const Value *ops = cudnn_value(graph, 801);
    int64_t most = 0;
    if (cudnn_value(config, 302))
        return 256 + cudnn_setting("cudnn_bytes");
    for (int64_t i = 0; i < ops->n; i++) {
        const Desc *op = (const Desc *)(intptr_t)ops->at[i];
        const int64_t *e = op->type == MATMUL_OP ? extents(cudnn_desc(op, 1522)) : NULL;
        const int64_t bytes =
            e ? 2 * e[0] * e[1] * ((e[2] + 63) / 64 * 64) * ((e[3] + 127) / 128 * 128) : 0;
        most = most == 0 ? bytes : most; /* the first product computes the scores */
    }
    return 256 + (products(graph) > 2 ? most + cudnn_setting("cudnn_scores") : 0) +
           cudnn_setting("cudnn_bytes");
}

int cudnnBackendGetAttribute(const Desc *desc, int attribute, int type, int64_t n, int64_t *ret_n,
                             void *ret_values)
{
    if (!desc || !desc->done)
        return fail(BAD, "a descriptor that is not finalized", desc);
    if (desc->type == PROPOSALS && attribute == 202 && type == IS_DESC)
        return propose(desc, n, ret_n, ret_values);
    *ret_n = 1;
    if (desc->type == CONFIG && attribute == 300 && type == IS_DESC && n == 1) {
        Desc *engine = *(Desc **)ret_values;
        if (!engine || engine->type != ENGINE)
            return fail(BAD, "no engine to fill", desc);
        engine->done = true;
        engine->any_order = desc->any_order;
        return OK;
    }
    if (desc->type == ENGINE && attribute == 1303 && type == IS_NOTE && n >= 1) {
        const int note = ANY_ORDER;
        *ret_n = desc->any_order;
        if (desc->any_order)
            memcpy(ret_values, &note, sizeof note);
        return OK;
    }
    if (desc->type == PLAN && attribute == 402 && type == IS_INT64 && n == 1) {
        const int64_t bytes = workspace_of(desc);
        memcpy(ret_values, &bytes, sizeof bytes);
        return OK;
    }
    return fail(BAD, "an attribute that cannot be asked for", desc);
}

/* ---- work ---- */

/* Checks that the pack contains each tensor of the graph that has memory, at an address that is
 * possible for it. */
static bool has_operands(const Desc *graph, CudnnWork *work, const int64_t *ids, const int64_t *at,
                         int64_t n)
{
    const Value *ops = cudnn_value(graph, 801);
    for (int64_t i = 0; i < ops->n; i++) {
        const Desc *of[RANK];
        tensors_of((const Desc *)(intptr_t)ops->at[i], of);
        for (int k = 0; k < RANK; k++) {
            int64_t p = 0;
            if (!of[k] || cudnn_number(of[k], 907, 0))
                continue;
            while (p < n && ids[p] != cudnn_number(of[k], 906, -1))
                p++;
            if (p == n || !at[p] ||
                at[p] % cudnn_number(of[k], cudnn_number(of[k], 908, 0) ? 0 : 900, 1))
                return false;
            work->ids[p] = ids[p];
            if (cudnn_number(of[k], 908, 0))
                memcpy(&work->value[p], (const void *)(intptr_t)at[p], sizeof work->value[p]);
            else
                work->at[p] = (uint64_t)at[p];
        }
    }
    return true;
}

int cudnnBackendExecute(Handle *handle, const Desc *plan, const Desc *pack)
{
    if (!handle || !handle->stream || plan->type != PLAN || !plan->done || pack->type != PACK ||
        !pack->done)
        return fail(BAD, "no plan and operands", plan);
    const Value *ids = cudnn_value(pack, 1000), *at = cudnn_value(pack, 1001);
    CudnnWork work = {.graph = cudnn_desc(cudnn_desc(plan, 401), 301),
                      .n = (uint32_t)ids->n,
                      .workspace = (uint64_t)cudnn_number(pack, 1003, 0),
                      .bytes = workspace_of(plan),
                      .any_order = plan->any_order};
    if (!work.workspace || work.workspace % 16 ||
        !has_operands(work.graph, &work, ids->at, at->at, ids->n))
        return fail(BAD, "an operand is missing, or lies wrongly", plan);
    return standin_begin(handle->stream, cudnn_run, &work, sizeof work);
}

size_t cudnnGetVersion(void) { return (size_t)standin_setting("cudnn=", 91900); }

void cudnnGetLastErrorString(char *ret_text, size_t bytes)
{
    snprintf(ret_text, bytes, "%s", said);
}

int cudnnCreate(Handle **ret_handle)
{
    return (*ret_handle = calloc(1, sizeof **ret_handle)) ? OK : BAD;
}

int cudnnDestroy(Handle *handle)
{
    free(handle);
    return OK;
}

int cudnnSetStream(Handle *handle, Stream *stream)
{
    handle->stream = stream;
    return OK;
}
