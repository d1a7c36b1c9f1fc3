/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: proves by identity testing that two functions compute the same on all ranks, where the
 * local rules of the certificate do not suffice (ring attention, scans in blocks, stated
 * gradients). Both are evaluated with random operands, all ranks in lockstep, over residues
 * (residue.h) and at few positions of each axis (box_small.c); every result is compared on every
 * rank. docs/boxes.md has what this proves, why few positions suffice, and the probability of a
 * wrong verdict. */
#ifndef DT_VERIFY_BOX_H
#define DT_VERIFY_BOX_H

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct CertProgram;
struct CertFunc;

/* State of a proof, with a cache of the pairs of functions that were proved equal. */
typedef struct DtBoxes DtBoxes;
DtBoxes *dt_box_begin(DtArena *arena);
void dt_box_end(DtBoxes *boxes); /* frees memory outside the arena */

/* Whether the functions give equal results for equal arguments. Arguments and results correspond in
 * order and have equal types; the programs have the same mesh. ALIKE: a cast to fewer digits counts
 * as an unknown function, so both must round alike. PARTS: y may compute in parts and round
 * elsewhere, but no more numbers of each kind than x does. REALS: roundings do not count. If they
 * are not equal, ret_problem says why. */
typedef enum DtBoxRounding { DT_BOX_ALIKE, DT_BOX_PARTS, DT_BOX_REALS } DtBoxRounding;
bool dt_box_equal(DtBoxes *boxes, const struct CertProgram *a, const struct CertFunc *x,
                  const struct CertProgram *b, const struct CertFunc *y, DtBoxRounding rounding,
                  DtText *ret_problem);

typedef struct DtBoxCounts {
    /* boxes (pairs of functions that were compared): found; proved, counting equal ones once */
    uint32_t boxes, proved;
    uint32_t rounded;       /* boxes that are equal, but round at different places */
    /* the name, in `placed`, of the function whose ring call computes another result; or NULL */
    const char *ring;
    const char *why;        /* for `ring`: the difference that was found */
} DtBoxCounts;
DtBoxCounts dt_box_counts(const DtBoxes *boxes);

/* SAME: equal; OTHER: different; LARGE: not decided, since it would take too long. */
typedef enum DtBoxVerdict { DT_BOX_SAME, DT_BOX_OTHER, DT_BOX_LARGE } DtBoxVerdict;

/* Whether two functions of a program, given as text, compute the same apart from rounding (REALS).
 * Used for claims of a program about itself, such as custom gradients. If not SAME, ret_problem
 * gives the reason. */
DtBoxVerdict dt_box_functions(DtArena *arena, const char *text, const char *x, const char *y,
                              DtText *ret_problem);

/* Whether two programs, given as texts, compute the same. They must be equal except for names,
 * unused values, and boxes: an op of `placed`, with the positions and constants that its operands
 * are computed from, is matched with a call in `final`. */
bool dt_box_prove(DtArena *arena, const char *placed, const char *final, DtBoxCounts *ret_counts,
                  DtText *ret_problem);

#endif
