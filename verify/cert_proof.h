/* SPDX-License-Identifier: Apache-2.0 */
/* The state of evaluating a program entry by entry: shared by cert.c (compares results),
 * cert_entry.c (runs entries) and cert_source.c (their parameters, inputs and stores). */
#ifndef DT_VERIFY_CERT_PROOF_H
#define DT_VERIFY_CERT_PROOF_H

#include "verify/internal.h"

typedef struct CertLeft { /* A result that an entry leaves in a store or under a name. */
    const char *entry; /* name of the entry without its number: "grad" of "grad.b0" */
    const char *key;   /* "param h.wq.w", or the name of the result */
    CertValue value;
} CertLeft;

typedef struct CertPart { /* A result of one entry that adds a term to a gradient's store. */
    const CertResult *result;
    const char *base;
    CertValue value;
    int32_t next; /* index of the next part for the same store; -1: none */
} CertPart;

/* A sum over pipeline stages: number `number`, in the order of the text, of those over these stages
 * in entries of this name. */
typedef struct CertAcross {
    const char *entry;
    const char *stages;
    uint32_t number;
    CertNode **terms; /* by stage: its term; NULL: not known yet */
    CertNode *all;    /* the sum; NULL while some term is not known */
    CertValue like;   /* a value that has the placement of every term */
    int64_t total;    /* CertValue.total of one of them */
} CertAcross;

typedef struct CertProof {
    CertState state;
    CertProgram program;
    const CertStore **by_key; /* stores, sorted by key */
    struct CertProof *serial;
    /* by number of a store of each stage, in this and the next two: */
    CertValue *stored; /* the value that pieces stored there, */
    /* the name of the run of entries that it belongs to: other runs work on other data */
    const char **run;
    int32_t *writers;  /* index of the first of the parts that are added to it; -1: none */
    const CertChannel **from;
    DT_VEC(CertPart) parts;
    DT_VEC(CertAcross) sums;
    /* the sets of stages of the sums that the present entry has reached, in order */
    DT_VEC(const char *) across;
    uint32_t news;               /* how many terms of sums have become known so far */
    const char *base;
    /* paths of buckets that may have values other than zero after their members */
    DT_VEC(const char *) filled;
    DT_VEC(CertLeft) left;
} CertProof;

/* Whether base is "update", one of several losses' "update@critic", "quantize" or "mix". */
static inline bool dt_certproof_is_update(const char *base)
{
    const DtPlanName name = dt_plan_name(base);
    return dt_plan_run_updates(name.run) && !dt_plan_name_is_part(&name);
}

/* Whether the gradient entry adds up values in the store for the update to use: gradients, and the
 * next values of states. */
static inline bool dt_certproof_is_total(const CertStore *store)
{
    return dt_cert_is(store->kind, "grad") || dt_cert_is(store->kind, "next");
}

static inline bool dt_certproof_is_passed(const CertStore *store)
{
    return dt_cert_is(store->kind, "saved") || dt_cert_is(store->kind, "channel");
}

static inline const char *dt_certproof_loop_of(const CertStore *store)
{
    return store->loops ? store->type->axes[0].name : NULL;
}

static inline const CertStore *dt_certproof_store_at(const CertProof *p, int64_t store)
{
    return store >= 0 ? &p->program.stores.at[store] : NULL;
}

/* ---- cert_source.c ---- */

/* Returns the entry's name without the piece or stage: "grad" of "grad.f0" and "grad.b1",
 * "grad.prologue" of "grad.prologue.2". */
const char *dt_certsource_base(const CertProgram *program, const CertEntry *entry);
uint32_t dt_certsource_stages(const CertProgram *program);
/* Returns the store of this key; NULL: there is none. */
const CertStore *dt_certsource_find(const CertProof *p, const char *key);
/* writers: records which results go to each store. is_known: whether all terms of the store are
 * known. add: records one entry's result as a term of a gradient. gradient: sets *ret_value to the
 * sum of all terms, if they are known. False after a problem. */
bool dt_certsource_writers(CertProof *p);
bool dt_certsource_is_known(const CertProof *p, uint32_t place);
bool dt_certsource_add(CertProof *p, const CertResult *result, CertValue value);
bool dt_certsource_gradient(CertProof *p, uint32_t place, CertValue *ret_value);
/* Returns the value that a stage finds in a store through which pieces pass values, with node NULL
 * while it is not known; NULL after a problem. */
const CertValue *dt_certsource_passed(CertProof *p, const CertOp *op, int64_t number,
                                      int64_t stage);
/* CertState.source, CertState.across and CertState.total call these. */
bool dt_certsource_of(CertState *state, const CertOp *op, CertValue *ret_value);
bool dt_certsource_across(CertState *state, const CertOp *op, CertValue x, CertValue *ret_value);
CertNode *dt_certsource_total(CertState *state, int64_t number, CertNode *node);

/* ---- cert_entry.c ---- */

/* Reads the program and evaluates its entries; false after a problem. is_serial: it is a second
 * serial program, whose values have no numbers. */
bool dt_certentry_begin(CertProof *p, CertProof *serial, CertMeant *meant, CertNodes *nodes,
                        bool is_serial, const char *text, DtText *problem);

#endif
