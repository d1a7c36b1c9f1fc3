/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: whether two functions do the same on all ranks, by identity testing. Both are evaluated with random operands,
 * all ranks in lockstep, over residues (residue.h) and at few positions (box_small.c), and every result is compared, on
 * every rank. What this proves, why few positions do, and the odds of a wrong verdict are in docs/boxes.md. */
#ifndef DT_VERIFY_BOX_H
#define DT_VERIFY_BOX_H

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct CertProgram;
struct CertFunc;

/* One per proof: it knows what was proved before. */
typedef struct DtBoxes DtBoxes;
DtBoxes *dt_box_begin(DtArena *arena);
void dt_box_end(DtBoxes *boxes); /* frees what the arena does not */

/* Whether what the functions make of equal arguments is equal: arguments and results correspond in order, with equal
 * types. The programs have the same mesh. A cast to fewer digits is a function of which nothing is known. What is done
 * in parts, by y, may round elsewhere: then functions are equal, too, that are as if no cast rounded (PARTS: if y
 * rounds no more numbers of each kind than x does; REALS: whatever rounds how much). If not, ret_problem says why. */
typedef enum DtBoxRounding { DT_BOX_ALIKE, DT_BOX_PARTS, DT_BOX_REALS } DtBoxRounding;
bool dt_box_equal(DtBoxes *boxes, const struct CertProgram *a, const struct CertFunc *x, const struct CertProgram *b,
                  const struct CertFunc *y, DtBoxRounding rounding, DtText *ret_problem);

typedef struct DtBoxCounts {
    uint32_t boxes, proved; /* met; of these, unlike others before */
    uint32_t rounded;       /* of those that were met, equal but for where they round */
    const char *ring;       /* the function whose ring call does not do what it means, as `placed` names it; or NULL */
    const char *why;        /* with ring: what is other */
} DtBoxCounts;
DtBoxCounts dt_box_counts(const DtBoxes *boxes);

/* LARGE: not told, it would take too long. */
typedef enum DtBoxVerdict { DT_BOX_SAME, DT_BOX_OTHER, DT_BOX_LARGE } DtBoxVerdict;

/* Whether two functions of a program, as a text, do the same but for where they round (REALS): what a program states
 * of itself. If not SAME, ret_problem says why. */
DtBoxVerdict dt_box_functions(DtArena *arena, const char *text, const char *x, const char *y, DtText *ret_problem);

/* Whether two programs, as texts, mean the same: they are the same but for names, values that nothing reads, and boxes:
 * an op of `placed`, and what makes its operands of nothing but positions and constants, against a call in `final`. */
bool dt_box_prove(DtArena *arena, const char *placed, const char *final, DtBoxCounts *ret_counts, DtText *ret_problem);

#endif
