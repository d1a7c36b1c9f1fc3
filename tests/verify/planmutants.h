/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that planmutants.c takes from planmutants_record.c and planmutants_start.c: copy is changed, the bytes of the
 * file that plan was read from. False: there was nothing to change, or it is as it was. below(n): a random number less
 * than n. */
#ifndef DT_TESTS_PLANMUTANTS_H
#define DT_TESTS_PLANMUTANTS_H

#include "plan/plan.h"

#include <stdbool.h>

bool mutant_of_record(const DtPlan *plan, const uint8_t *bytes, uint8_t *copy, uint32_t (*below)(uint64_t n));
bool mutant_of_code(const DtPlan *plan, const uint8_t *bytes, uint8_t *copy, uint32_t (*below)(uint64_t n));
bool mutant_of_text(const DtPlan *plan, const uint8_t *bytes, uint8_t *copy, uint32_t (*below)(uint64_t n));
bool mutant_of_start(const DtPlan *plan, const uint8_t *bytes, uint8_t *copy, uint32_t (*below)(uint64_t n));

/* What planmutants_known.c draws mutants with: each of a kind, from the state, in copy. */
typedef struct MutantKind {
    const char *name;
    bool (*make)(void);
} MutantKind;

typedef struct Mutants {
    const DtPlan *plan;
    const uint8_t *bytes;
    uint8_t *copy;
    size_t len, n_kinds;
    uint64_t *state;
    const MutantKind *kinds;
    bool (*rejects)(bool *ret_read); /* whether the certificate rejects what lies in copy, if the reader takes it */
} Mutants;

/* planmutants PLAN known|draw ...: exit status. */
int mutants_known(const Mutants *mutants, int argc, char **argv);

#endif
