/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of planmutants: planmutants_inst.c (faults in instructions, their arguments and notes),
 * planmutants_flow.c (in schedules, and in where values are stored), planmutants_record.c (in other
 * records), planmutants_start.c (in operations that run beside other work), planmutants_known.c
 * (recorded faults). */
#ifndef DT_TESTS_PLANMUTANTS_H
#define DT_TESTS_PLANMUTANTS_H

#include "plan/plan.h"
#include "verify/plan.h"

#include <stdbool.h>

extern DtPlan plan;          /* the plan as it was read */
extern const uint8_t *bytes; /* bytes of the file */
extern uint8_t *copy;        /* copy of the bytes, which is changed */
extern size_t file_len, copy_len; /* copy_len: a fault may make the copy longer, by MORE at most */
extern DtCertSpan *spans;    /* by instruction: its note */
extern uint64_t state;       /* state of the random numbers */

enum { MORE = 64 };

/* The record in the copy that corresponds to this one in the plan. */
#define COPY_OF(record) ((void *)(copy + ((const uint8_t *)(record) - bytes)))
#define RECORD(field, type, index) ((type *)COPY_OF(plan.field) + (index))

void begin_copy(void);          /* the record in the unchanged plan */
uint32_t below(uint64_t n);     /* a random number less than n */
bool change(int64_t *at);       /* changes a number to another one; false: it is unchanged */
DtPlanArg *any_arg(DtPlanArgKind kind);                  /* a random instruction in the copy; NULL:
                                                          * there is none */
DtPlanInst *any_inst(uint32_t first, uint32_t last);     /* the same, of these kinds */
const DtPlanBody *body_of(uint32_t inst);                /* the body that contains it; NULL: none */
bool same_place(const DtPlanArg *a, const DtPlanArg *b);

/* Makes a fault of each kind in the copy. False: there was nothing to change, or nothing has
 * changed. */
#define MUTANT_KINDS(K)                                                                           \
    K(offset)                                                                                     \
    K(reuse) K(stride) K(length) K(coordinate) K(slot) K(peer) K(drop) K(double) K(swap) K(group) \
        K(count) K(epilogue) K(moved) K(reduce) K(dtype) K(blocks) K(product) K(accumulate)       \
            K(kernel) K(operands) K(results) K(guard) K(store) K(loop) K(actions) K(channel)      \
                K(integer) K(metric) K(axis) K(entry) K(stage) K(hoist) K(scratch) K(prologue)    \
                    K(ring) K(record) K(code) K(start) K(event) K(stale) K(text) K(message)       \
                        K(sdpa) K(narrow)
#define MUTANT_DECLARE(name) bool mutant_##name(void);
MUTANT_KINDS(MUTANT_DECLARE)

typedef struct MutantKind {
    const char *name;
    bool (*make)(void);
} MutantKind;
extern const MutantKind kinds[];
extern const size_t n_kinds;

/* Whether the certificate rejects the plan in the copy; false with *ret_read false: the plan's
 * reader already refuses it. */
bool rejects(bool *ret_read);

/* planmutants PLAN known|draw ...: returns the exit status. */
int mutants_known(int argc, char **argv);

#endif
