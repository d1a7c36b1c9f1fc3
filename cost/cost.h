/* SPDX-License-Identifier: Apache-2.0 */
/* From shapes to seconds: what an operation costs on a device. Pure functions without state, safe
 * to call from any thread; the same arguments give the same bits. docs/cost.md has the equations
 * and where constants come from.
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

double dt_cost_dtype_bytes(DtCostDtype dtype); /* bytes of an element in memory */

/* ---- devices ---- */

typedef enum DtCostConstantId {
#define DT_COST_CONSTANT(id, value, within, unit, ORIGIN, source, meaning) DT_COST_##id,
#include "cost/constants.def"
#undef DT_COST_CONSTANT
    DT_COST_CONSTANTS
} DtCostConstantId;

typedef enum DtCostOrigin { DT_COST_FIT, DT_COST_READ, DT_COST_CHOSEN } DtCostOrigin;

/* A row of constants.def. within: relative standard uncertainty */
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
    const char *source; /* values in place of those of constants.def; NULL: the table's */
} DtCostEstimate;

typedef struct DtCostLink {
    double bytes_per_second; /* bytes per second in one direction, of one device; 0: there is no
                              * such link */
    double seconds;          /* seconds of an empty message; 0: as in constants.def */
} DtCostLink;

typedef struct DtDevice {
    const char *name, *description, *source; /* source: of the data sheet's numbers */
    /* the device at the end of the chain of `like`; its own name without one; NULL: not known */
    const char *family;
    bool is_gpu;
    double units;                 /* multiprocessors, or cores */
    double flops[DT_COST_DTYPES]; /* dense peak; 0: the device has no such products */
    double memory_bytes;          /* 0: not known (the host's) */
    double memory_rate, l2_bytes; /* l2_bytes: of the second cache; 0: not known */
    DtCostLink link;              /* link inside a node */
    DtCostLink nic;               /* link to other nodes, as the share of one device */
    double host_rate;             /* to the memory of the host; 0: not known */
    int64_t node;                 /* devices of a usual node */
    DtCostEstimate at[DT_COST_CONSTANTS];
} DtDevice;

typedef struct DtDevices {
    const DtDevice *const *at;
    size_t n;
} DtDevices;

/* A device with that name and without a data sheet, whose constants are those of constants.def. */
DtDevice dt_device_new(const char *name);
/* Returns the device of that name; NULL if there is none. */
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
    /* the part of a plan's price that already contains the flag's effect: "" all, NULL none */
    const char *in_plan;
} DtStackRow;
extern const DtStackRow dt_stack_rows[DT_STACK_FLAGS];

/* A software stack. The flags of `ours` are all false: our plans contain the effects that flags
 * describe. */
typedef struct DtStack {
    const char *name, *description;
    bool has[DT_STACK_FLAGS];
    const char *source[DT_STACK_FLAGS]; /* by flag that is set: where the effect is known from;
                                         * NULL: not given */
} DtStack;

extern const DtStack dt_stack_ours;

/* ---- a model of cost ---- */

/* Nodes with one kind of device. */
typedef struct DtCostNodes { const DtDevice *device; int64_t n; } DtCostNodes;
enum { DT_COST_NODE_KINDS = 4 };

typedef struct DtCostModel {
    const DtDevice *device; /* the device whose times are asked for */
    const DtStack *stack; /* NULL: ours */
    int64_t nodes, ranks_per_node;
    DtCostLink link, nic; /* replaces the device's links; bytes_per_second 0: the device's own */
    /* nodes of several kinds, in the order of ranks, `device` being that of the first kind;
     * n_kinds 0: all nodes have `device` */
    DtCostNodes kinds[DT_COST_NODE_KINDS]; uint32_t n_kinds;
} DtCostModel;

static inline uint32_t dt_cost_kinds(const DtCostModel *model)
{
    return model->n_kinds ? model->n_kinds : 1;
}
/* Returns the model as if all nodes were of that kind. */
DtCostModel dt_cost_on(const DtCostModel *model, uint32_t kind);
/* Returns the kinds of nodes with ranks first .. first + n - 1, as a bit set. */
uint32_t dt_cost_kinds_of(const DtCostModel *model, int64_t first, int64_t n);
/* The memory of the largest device of all kinds, divided by that of the smallest of these kinds. */
double dt_cost_larger(const DtCostModel *model, uint32_t kinds);

bool dt_cost_has(const DtCostModel *model, DtStackFlag flag);
double dt_cost_constant(const DtCostModel *model, DtCostConstantId id);

/* batch products [m, k] x [k, n] -> [m, n]. */
typedef struct DtCostProduct {
    int64_t m, n, k, batch; /* batch 0 counts as 1 */
    DtCostDtype dtype;      /* dtype of the operands */
    double result_bytes;    /* bytes of an element of the result; 0: like the operands */
    bool accumulates;       /* adds to the contents of the result, which are read first */
    double extra_bytes;     /* bytes of the epilogue's own operands and results, for the whole op */
    /* strides or addresses are unsuitable for tensor cores; extents are checked anyway */
    bool is_unaligned;
} DtCostProduct;
double dt_cost_product(const DtCostModel *model, DtCostProduct op);
double dt_cost_product_bytes(DtCostProduct op); /* bytes read and written, counting each tensor
                                                 * once */
/* Bytes that a product on a CPU copies between its caches: operands are copied to where the
 * inner loops read them; the result is cleared, read and written. Operands of 16 bits are first
 * converted to f32, and the result is rounded from f32. */
double dt_cost_product_copies(DtCostProduct op);

/* A fused kernel, a copy, an initialisation. */
typedef struct DtCostKernel {
    double bytes;   /* read and written, each tensor once */
    double flops;   /* 0: not known, not counted */
    /* exponentials and other slow operations, in the unit of codegen/kernel_price.c */
    double special;
    double kernels; /* number of kernels in sequence; 0: one */
    /* elementwise operations in it, which an eager stack runs one by one; 0: one */
    double ops;
    /* bytes that those read and write; 0: twice `bytes`, if there are several */
    double eager_bytes;
} DtCostKernel;
double dt_cost_kernel(const DtCostModel *model, DtCostKernel op);
/* The bytes that cost time: data in a core's second-level cache arrive as fast as instructions
 * ask for them. */
double dt_cost_kernel_bytes(const DtDevice *device, double bytes);

/* softmax(q k / sqrt(head)) v: q is [batch, heads, queries, head], k and v [batch, kv_heads, keys,
 * head]. */
typedef struct DtCostAttention {
    int64_t batch, heads, kv_heads, head, queries, keys; /* batch and heads of this rank */
    /* fraction of the scores that masks leave, 0..1 */
    double visible;
    DtCostDtype dtype;
    bool backward;
    bool dropout; /* dropout is applied to the weights */
} DtCostAttention;
double dt_cost_attention(const DtCostModel *model, DtCostAttention op);

/* An operation of one rank, without communication. */
typedef enum DtCostOpKind {
    DT_COST_OP_PRODUCT,
    DT_COST_OP_KERNEL,
    DT_COST_OP_ATTENTION,
    DT_COST_OPS
} DtCostOpKind;
typedef struct DtCostOp {
    DtCostOpKind kind;
    DtCostProduct product; /* valid only for the operation's kind */
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
/* A collective among `ranks` devices on `nodes` nodes. bytes: of the whole tensor, as all_gather
 * leaves it on each rank, and as reduce_scatter and all_to_all find it. per_node: ranks of the
 * group on one node, which share its network cards. */
typedef struct DtCostCollective {
    DtCostCollectiveKind kind;
    double bytes;
    int64_t ranks, per_node, nodes;
} DtCostCollective;
double dt_cost_collective(const DtCostModel *model, DtCostCollective op);

/* Returns the link that the cluster gives (nic, if it crosses nodes), or the device's. */
DtCostLink dt_cost_link(const DtCostModel *model, bool crosses_nodes);

/* Returns the seconds of a message from one device to another. */
double dt_cost_message(const DtCostModel *model, double bytes, bool crosses_nodes);

/* Seconds of computing and communicating at the same time: the longer of the two, plus the time by
 * which a running collective slows down computing. */
double dt_cost_beside(const DtCostModel *model, double compute, double communication);

/* The update of the parameters that the rank owns; bytes: read and written per parameter, 0: as
 * in constants.def. */
double dt_cost_optimizer(const DtCostModel *model, double parameters, double bytes);

/* Fixed seconds of a step of that many ranks, at the pace of the slowest nodes. step: seconds of
 * the rest of the step, to which jitter is proportional. */
double dt_cost_step_fixed(const DtCostModel *model, int64_t ranks, double step);
/* The constant for the host's work in a step, which depends on the stack: the host starts each
 * operation of a step, or only collects results. */
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

/* Relative standard uncertainty of the times of one kind, whose errors are correlated. */
double dt_cost_within(const DtCostModel *model, DtCostKind kind);
/* The relative band around a step's time that contains the truth four times in five. exposed:
 * seconds of each kind on the critical path. */
double dt_cost_band(const DtCostModel *model, const double exposed[DT_COST_KINDS]);

#endif
