/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by cudnn.c, which has the stand-in's descriptors, and cudnn_run.c, which executes
 * graphs. */
#ifndef DT_TESTS_STANDIN_CUDNN_H
#define DT_TESTS_STANDIN_CUDNN_H

#include "standin.h"

enum { RANK = 4, MOST_KNOBS = 6, MOST_OPS = 64, MOST_SET = 16, MOST_POINTERS = 32 };
/* Values of cuDNN's enumerations, according to its documentation. */
enum {
    POINTWISE = 0,
    ENGINE = 2,
    CONFIG = 3,
    PROPOSALS = 4,
    PLAN = 5,
    KNOB = 7,
    POINTWISE_OP = 13,
    GRAPH = 15,
    PACK = 16,
    TENSOR = 17,
    MATMUL = 18,
    MATMUL_OP = 19,
    REDUCTION = 21,
    REDUCTION_OP = 22,
    RESHAPE_OP = 31
};
enum { FLOAT = 0, HALF = 2, INT32 = 4, BFLOAT16 = 9, BOOLEAN = 11 };
enum {
    ADD = 0,
    MUL = 1,
    DIV = 6,
    SUB = 9,
    EXP = 13,
    LOG = 15,
    IDENTITY = 21,
    CMP_GT = 302,
    CMP_GE = 303,
    GEN_INDEX = 501,
    SELECT = 601
};

typedef struct Desc Desc;
typedef struct Value { /* the value of an attribute */
    int attribute;
    int64_t n, *at; /* integers, enumerations and addresses, 8 bytes each */
} Value;
struct Desc {
    int type;
    bool done;
    Value set[MOST_SET];
    uint32_t n_set;
    bool any_order; /* of a proposal, its engine and its plan: whether sums are added in any
                     * order */
};

const Value *cudnn_value(const Desc *desc, int attribute); /* The attribute; NULL: it is not set */
int64_t cudnn_number(const Desc *desc, int attribute, int64_t otherwise);
/* The descriptor that is an attribute's value; NULL: it is not set */
const Desc *cudnn_desc(const Desc *desc, int attribute);

/* Runs a plan's graph on these operands, by number of the tensor. */
typedef struct CudnnWork {
    const Desc *graph;
    int64_t ids[MOST_POINTERS];
    uint64_t at[MOST_POINTERS], workspace;
    float value[MOST_POINTERS]; /* addresses of those that are in memory of the process */
    uint32_t n;
    int64_t bytes; /* bytes of the workspace */
    bool any_order;
} CudnnWork;
void cudnn_run(const void *work);
/* The number after a word of DT_STANDIN: for this GPU ("cudnn_slow1="), else for all; 0: there is
 * none. */
long long cudnn_setting(const char *name);
int64_t cudnn_elements(const Desc *tensor); /* bytes from the first to the last element in memory */
size_t cudnn_element_bytes(int64_t dtype);

#endif
