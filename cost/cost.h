/* SPDX-License-Identifier: Apache-2.0 */
/* From shapes to seconds: what an operation costs on a device. Pure functions without state, safe to call from any
 * thread; the same arguments give the same bits. docs/cost.md has the equations and where constants come from.
 *
 * Units are bytes, seconds, operations (a multiply-add is two) and bytes/s, all in SI. */
#ifndef DT_COST_COST_H
#define DT_COST_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DtCostDtype {
    DT_COST_F32,
    DT_COST_TF32, /* f32 in memory, products in tensor cores */
    DT_COST_F16,  /* f16 and bf16 */
    DT_COST_F8,
    DT_COST_DTYPES
} DtCostDtype;

double dt_cost_dtype_bytes(DtCostDtype dtype); /* of an element in memory */

/* ---- devices ---- */

typedef enum DtCostConstantId {
#define DT_COST_CONSTANT(id, value, within, unit, ORIGIN, source, meaning) DT_COST_##id,
#include "cost/constants.def"
#undef DT_COST_CONSTANT
    DT_COST_CONSTANTS
} DtCostConstantId;

typedef enum DtCostOrigin { DT_COST_FIT, DT_COST_READ, DT_COST_CHOSEN } DtCostOrigin;

/* A row of constants.def. */
typedef struct DtCostConstant {
    const char *name;
    double value, within; /* within: relative standard uncertainty */
    const char *unit;
    DtCostOrigin origin;
    const char *source, *meaning;
} DtCostConstant;
extern const DtCostConstant dt_cost_constants[DT_COST_CONSTANTS];

typedef struct DtCostEstimate {
    double value, within;
    const char *source; /* NULL: as in constants.def */
} DtCostEstimate;

typedef struct DtCostLink {
    double bytes_per_second; /* one way, of one device; 0: there is none */
    double seconds;          /* of an empty message, 0: as constants say */
} DtCostLink;

typedef struct DtDevice {
    const char *name, *description, *source; /* source: of the data sheet's numbers */
    const char *family;           /* the device that it is like, at the end; its own name; NULL: not known */
    bool is_gpu;
    double units;                 /* multiprocessors, or cores */
    double flops[DT_COST_DTYPES]; /* dense peak; 0: the device has no such products */
    double memory_bytes;          /* 0: not known (the host's) */
    double memory_rate, l2_bytes; /* l2_bytes: of the second cache; 0: not known */
    DtCostLink link;              /* inside a node */
    DtCostLink nic;               /* to other nodes, the share of one device */
    double host_rate;             /* to the memory of the host; 0: not known */
    int64_t node;                 /* devices of a usual node */
    DtCostEstimate at[DT_COST_CONSTANTS];
} DtDevice;

typedef struct DtDevices {
    const DtDevice *const *at;
    size_t n;
} DtDevices;

/* A device without a data sheet whose constants are those of constants.def. */
DtDevice dt_device_new(const char *name);
/* The one of that name; NULL if there is none. */
const DtDevice *dt_device_find(DtDevices devices, const char *name);

/* ---- stacks ---- */

typedef enum DtStackFlag {
#define DT_STACK_FLAG(id, in_plan, meaning) DT_STACK_##id,
#include "cost/stack.def"
#undef DT_STACK_FLAG
    DT_STACK_FLAGS
} DtStackFlag;

typedef struct DtStackRow {
    const char *name, *meaning;
    const char *in_plan; /* of what a plan's price has it: "" all, NULL nothing */
} DtStackRow;
extern const DtStackRow dt_stack_rows[DT_STACK_FLAGS];

/* A software. The flags of `ours` are all false: what our plans do is in them. */
typedef struct DtStack {
    const char *name, *description;
    bool has[DT_STACK_FLAGS];
    const char *source[DT_STACK_FLAGS]; /* of a flag that is set, NULL: not said */
} DtStack;

extern const DtStack dt_stack_ours;

/* ---- a model of cost ---- */

/* Nodes with one device. */
typedef struct DtCostNodes { const DtDevice *device; int64_t n; } DtCostNodes;
enum { DT_COST_NODE_KINDS = 4 };

typedef struct DtCostModel {
    const DtDevice *device; /* what times are those of */
    const DtStack *stack; /* NULL: ours */
    int64_t nodes, ranks_per_node;
    DtCostLink link, nic; /* what the cluster says itself; bytes_per_second 0: the device's */
    DtCostNodes kinds[DT_COST_NODE_KINDS]; uint32_t n_kinds; /* nodes of several kinds, in the order of ranks; device is
                                                              * that of the first; 0: all have it */
} DtCostModel;

static inline uint32_t dt_cost_kinds(const DtCostModel *model) { return model->n_kinds ? model->n_kinds : 1; }
/* The model with all nodes of that kind. */
DtCostModel dt_cost_on(const DtCostModel *model, uint32_t kind);
/* The kinds of the nodes that ranks first .. first + n - 1 are on, a set of bits. */
uint32_t dt_cost_kinds_of(const DtCostModel *model, int64_t first, int64_t n);
/* The memory of the largest device of all kinds, to that of the smallest of these. */
double dt_cost_larger(const DtCostModel *model, uint32_t kinds);

bool dt_cost_has(const DtCostModel *model, DtStackFlag flag);
double dt_cost_constant(const DtCostModel *model, DtCostConstantId id);

/* batch products [m, k] x [k, n] -> [m, n]. */
typedef struct DtCostProduct {
    int64_t m, n, k, batch; /* batch 0 counts as 1 */
    DtCostDtype dtype;      /* of the operands */
    double result_bytes;    /* of an element of the result; 0: as the operands */
    bool accumulates;       /* adds to a result that is read first */
    double extra_bytes;     /* an epilogue's own operands and results, for the whole op */
    bool is_unaligned;      /* strides or addresses that tensor cores cannot take; extents are looked at anyway */
} DtCostProduct;
double dt_cost_product(const DtCostModel *model, DtCostProduct op);
double dt_cost_product_bytes(DtCostProduct op); /* read and written, each tensor once */
/* What a product of a CPU moves between its caches: operands are copied to where the inner loops read them; the result
 * is cleared, read and written. Those of 16 bits are copies of f32 before that, and the result is rounded from one. */
double dt_cost_product_copies(DtCostProduct op);

/* A fused kernel, a copy, an initialisation. */
typedef struct DtCostKernel {
    double bytes;   /* read and written, each tensor once */
    double flops;   /* 0: not known, counts for nothing */
    double special; /* exponentials, and what else takes time, in a unit of codegen/kernel_price.c */
    double kernels; /* how many kernels run one after the other; 0: one */
    double ops;         /* elementwise operations in it, which a stack that is eager runs one by one; 0: one */
    double eager_bytes; /* what those read and write then; 0: twice the bytes, if there are several */
} DtCostKernel;
double dt_cost_kernel(const DtCostModel *model, DtCostKernel op);
/* Those that are waited for: a core has what its second cache holds as fast as its instructions ask for it. */
double dt_cost_kernel_bytes(const DtDevice *device, double bytes);

/* softmax(q k / sqrt(head)) v: q is [batch, heads, queries, head], k and v [batch, kv_heads, keys, head]. */
typedef struct DtCostAttention {
    int64_t batch, heads, kv_heads, head, queries, keys; /* of this rank */
    double visible;                                      /* share of the scores that masks leave, 0..1 */
    DtCostDtype dtype;
    bool backward;
    bool dropout; /* of the weights */
} DtCostAttention;
double dt_cost_attention(const DtCostModel *model, DtCostAttention op);

/* What one rank computes by itself. */
typedef enum DtCostOpKind { DT_COST_OP_PRODUCT, DT_COST_OP_KERNEL, DT_COST_OP_ATTENTION, DT_COST_OPS } DtCostOpKind;
typedef struct DtCostOp {
    DtCostOpKind kind;
    DtCostProduct product; /* of its kind the one that counts */
    DtCostKernel kernel;
    DtCostAttention attention;
} DtCostOp;
double dt_cost_op(const DtCostModel *model, const DtCostOp *op);

typedef enum DtCostCollectiveKind {
    DT_COST_ALL_REDUCE,
    DT_COST_ALL_GATHER,
    DT_COST_REDUCE_SCATTER,
    DT_COST_ALL_TO_ALL,
    DT_COST_BROADCAST
} DtCostCollectiveKind;
/* Among ranks devices that lie on nodes nodes. bytes: of the whole tensor, as all_gather leaves it on each rank, as
 * reduce_scatter and all_to_all find it. per_node: ranks of the group on one node, which share its network cards. */
typedef struct DtCostCollective {
    DtCostCollectiveKind kind;
    double bytes;
    int64_t ranks, per_node, nodes;
} DtCostCollective;
double dt_cost_collective(const DtCostModel *model, DtCostCollective op);

/* What the cluster says, else the device. */
DtCostLink dt_cost_link(const DtCostModel *model, bool crosses_nodes);

/* From one device to another. */
double dt_cost_message(const DtCostModel *model, double bytes, bool crosses_nodes);

/* The time of computing and communicating beside each other: the longer one, and what the collective takes from
 * computing. */
double dt_cost_beside(const DtCostModel *model, double compute, double communication);

/* An update of so many parameters that the rank owns; bytes: read and written for each, 0: of constants.def. */
double dt_cost_optimizer(const DtCostModel *model, double parameters, double bytes);

/* What a step of that many ranks takes beside its work, on the slowest nodes. step: the rest of it, that jitter is a
 * part of. */
double dt_cost_step_fixed(const DtCostModel *model, int64_t ranks, double step);
/* The constant that has it, by the stack: where the host begins each step, or only takes up results. */
DtCostConstantId dt_cost_step_constant(const DtCostModel *model);

/* ---- how sure ---- */

typedef enum DtCostKind {
    DT_COST_KIND_PRODUCT,
    DT_COST_KIND_KERNEL,
    DT_COST_KIND_ATTENTION,
    DT_COST_KIND_LINK,    /* collectives inside a node */
    DT_COST_KIND_NETWORK, /* across nodes */
    DT_COST_KIND_MESSAGE,
    DT_COST_KIND_FIXED,
    DT_COST_KINDS
} DtCostKind;

/* Relative standard uncertainty of the times of one kind, which err together. */
double dt_cost_within(const DtCostModel *model, DtCostKind kind);
/* The share of a step's time by which the truth may lie above or below, four times of five. exposed: seconds of each
 * kind on the critical path. */
double dt_cost_band(const DtCostModel *model, const double exposed[DT_COST_KINDS]);

#endif
