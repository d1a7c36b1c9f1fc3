/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside verify: programs as the reader delivers them, nodes, values.
 *
 *   cert_text.c  IR text to these structs     cert_node.c  numbers of expressions
 *   cert_rule.c  placements of one op         cert_func.c  functions and loops
 *   cert_pack.c  buckets of several values   cert.c       entries, stores, claims
 *   cert_halo.c  windows over split axes */
#ifndef DT_VERIFY_INTERNAL_H
#define DT_VERIFY_INTERNAL_H

#include "verify/cert.h"

enum { CERT_RANK = 16, CERT_SPLIT = 4, CERT_MESH = 16 };

typedef struct CertAxis {
    const char *name; /* interned, as all names here */
    int64_t extent;
    uint8_t n, split[CERT_SPLIT]; /* mesh axes, major to minor */
    bool zigzag;
} CertAxis;

typedef struct CertType {
    const char *dtype;
    uint32_t rank;
    CertAxis axes[CERT_RANK];
    uint16_t partial;
    const char *pending; /* "sum", "max", "min"; NULL if nothing is */
} CertType;

typedef struct CertLoop {
    const char *label, *axis;
    int64_t count, first;
    bool reverse;
    uint32_t carried, invariant, stacked, stacked_out;
} CertLoop;

typedef struct CertRelabel {
    uint32_t n_from, n_to;
    const char *from[4], *to[4];
} CertRelabel;

typedef struct CertOp {
    const char *kind;
    uint32_t line;
    const char *where; /* "@1:20-30", or "" */
    uint32_t n_in, n_out;
    uint32_t *in; /* numbers of values */
    uint32_t first_out;
    CertType **types; /* of the results */
    const char *axes[CERT_RANK], *axes2[CERT_RANK];
    uint32_t n_axes, n_axes2;
    const char *attributes; /* what is left of the line and changes the meaning, as text */
    const char *text, *path, *reduce;
    double number;
    bool fills; /* number is not 0 */
    int store;  /* -1: none */
    const char *func;
    CertLoop loop;
    CertRelabel relabels[4];
    uint32_t n_relabels;
    uint16_t mesh;
    uint64_t stages;
} CertOp;

typedef struct CertFunc {
    const char *name;
    uint32_t n_args, n_values;
    DT_VEC(CertType *) args;
    DT_VEC(CertOp *) ops;
    DT_VEC(uint32_t) results;
} CertFunc;

typedef struct CertStore {
    const char *kind, *path;
    CertType *type;
    int64_t loops, first, whole, at;
    int stage, of, bucket;
    int members; /* of a bucket: its last member, or -1 */
    int before;  /* of a member: the one before it in the same bucket, or -1 */
} CertStore;

typedef struct CertResult {
    int store;
    const char *name;
    bool accumulate;
} CertResult;
typedef struct CertEntry {
    const char *name, *func;
    int stage;
    DT_VEC(CertResult) results;
} CertEntry;

typedef struct CertProgram {
    DtArena *arena;
    uint32_t n_mesh;
    const char *mesh[CERT_MESH];
    int64_t size[CERT_MESH];
    uint16_t time;
    DT_VEC(CertStore) stores;
    DT_VEC(CertFunc *) funcs;
    DT_VEC(CertEntry) entries;
    const char *pipe; /* mesh axis of the pipeline, NULL: none */
} CertProgram;

/* cert_text.c */
bool dt_certtext_read(DtArena *arena, const char *text, CertProgram *ret_program,
                      DtText *ret_problem);
const CertFunc *dt_certtext_func(const CertProgram *program,
                                 const char *name); /* NULL: there is none */
const CertAxis *dt_certtext_axis(const CertType *type, const char *name);

/* ---- nodes (cert_node.c) ---- */

typedef struct CertNode {
    uint32_t id;
    const char *kind, *attributes, *dtype;
    uint32_t rank;
    const char **axes; /* sorted by name */
    int64_t *extents;
    uint32_t n_in;
    struct CertNode **in;
    uint32_t index; /* which result */
    struct CertNode *next;
} CertNode;

typedef struct CertNodes CertNodes;
CertNodes *dt_certnode_table(DtArena *arena);
/* The node with these parts; axes and extents of type (NULL: a node without value). */
CertNode *dt_certnode_make(CertNodes *nodes, const char *kind, const char *attributes,
                           const CertType *type, uint32_t n_in, CertNode *const *in,
                           uint32_t index);
/* The logical type of a node's value. */
CertType dt_certnode_type(const CertNode *node);
/* x with every node that map says replaced; map(data, node) returns NULL for "as it is", and the same for the same
 * node as long as one replacing is used. */
typedef CertNode *CertMap(void *data, CertNode *node);
typedef struct CertReplace CertReplace;
CertReplace *dt_certnode_replacing(CertNodes *nodes, CertMap *map, void *data);
CertNode *dt_certnode_replace(CertReplace *replace, CertNode *x);
/* The sum of terms: chains of + are one multiset of terms, in which reductions over ranges of iterations that
 * adjoin are one. */
CertNode *dt_certnode_sum(CertNodes *nodes, const CertType *type, uint32_t n, CertNode *const *in);
/* x in another dtype; between floats, of a sum the sum of the terms so. */
CertNode *dt_certnode_cast(CertNodes *nodes, const CertType *type, CertNode *x);
bool dt_certnode_is_zero(const CertNode *node);
/* Where two expressions begin to differ, in words. */
void dt_certnode_differ(const CertNode *have, const CertNode *want, DtText *ret_text);

/* ---- values and functions ---- */

/* A value: what it is, how it lies, and for one that is stacked along a loop which iterations it covers:
 * first .. first + extent of that axis. Nodes of stacked values say nothing of the range. */
typedef struct CertValue {
    CertNode *node; /* NULL: not known yet */
    const CertType *type;
    const char *loop; /* its loop axis, NULL: none */
    int64_t first;
} CertValue;

typedef struct CertState CertState;
struct CertState {
    DtArena *arena;
    CertNodes *nodes;
    const CertProgram *program;
    DtText *problem;
    uint32_t values;
    const CertFunc *func; /* being evaluated */
    uint32_t depth;       /* of calls and loops */
    int stage;
    /* values of `param` and `input` ops */
    bool (*source)(CertState *state, const CertOp *op, CertValue *ret_value);
    /* the sum over pipeline stages; node NULL while not all of its terms are known */
    bool (*across)(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value);
    void *data;
};

/* The node type of a value: its loop axis has no extent. */
const CertType *dt_certfunc_open(CertState *state, const CertType *type, const char *loop);
bool dt_certfunc_fail(CertState *state, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Evaluates func; context names the loops around it. ret_results: one per result. */
bool dt_certfunc_run(CertState *state, const CertFunc *func, const char *context,
                     const CertValue *inputs, CertValue *ret_results);

/* ---- buckets (cert_pack.c) ---- */

bool dt_certpack_is(const CertNode *node);
/* The stores that lie in a bucket store, by offset. */
uint32_t dt_certpack_members(const CertState *state, int bucket, const CertStore ***ret_members);
CertNode *dt_certpack_store(CertState *state, int bucket); /* a bucket store as a source */
bool dt_certpack_lies(const CertNode *node,
                      const CertStore *member); /* the member begins and lies as its store says */
CertNode *dt_certpack_member(const CertNode *node, long long offset); /* NULL: none begins there */
bool dt_certpack_op(CertState *state, const CertOp *op, const CertValue *in, CertValue *out);
/* The node of result index of an op on buckets: out->type and range are set. */
bool dt_certpack_map(CertState *state, const CertOp *op, const char *attributes,
                     const CertValue *in, uint32_t index, CertValue *out);
/* The sum of values or, member by member, of buckets; ranges of iterations that adjoin become one. */
CertNode *dt_certpack_sum(CertState *state, const CertType *type, uint32_t n, CertNode *const *in);
CertNode *dt_certpack_each(CertState *state, const CertNode *node,
                           CertNode *(*change)(void *data, CertNode *member), void *data);

/* ---- windows over split axes (cert_halo.c) ---- */

/* What a window or fold says, without what changes nothing; NULL: it is malformed. */
const char *dt_certhalo_attributes(const CertOp *op, const CertValue *in);
/* The window or fold of a whole axis that op, a relabel of x to type, puts together from parts; NULL: it does not. */
CertNode *dt_certhalo_merge(CertState *state, const CertOp *op, CertNode *x, const CertType *type);

/* Whether the types of op's operands and results obey the local rule of its kind; says why not. */
bool dt_certrule_check(CertState *state, const CertOp *op, const CertValue *in);
/* The axis that is split by just these mesh axes, in their order; NULL: there is none. */
const CertAxis *dt_certrule_shifted(const CertType *type, uint16_t mesh);
bool dt_certrule_same(const CertType *a,
                      const CertType *b); /* equal axes in order, splits, pending */

#endif
