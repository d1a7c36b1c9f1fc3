/* SPDX-License-Identifier: Apache-2.0 */
/* The placed-type certificate: an independent check that a program which was placed on a mesh, cut into
 * micro-batches, pipeline stages and buckets, and partly recomputed, still means the serial program.
 *
 * It reads two texts of IR, the serial program (after differentiation) and the final one, with a reader of its
 * own, and knows nothing of the passes in between. Every value of both programs gets a *number* (cert_node.c):
 * equal numbers mean equal expressions over the same sources. Communication moves a value without changing
 * its number, so a value of the final program means the serial value of its number, laid out as its type
 * says, if each op obeys the local rule for the placements of its operands (cert_rule.c). What is claimed at
 * the end is that every loss, prediction, state, and updated parameter of the final program has the number
 * of the serial one, and that no sum is left pending that nobody completes.
 *
 * What is trusted: the local rules (one table), and that equal expressions have equal values up to the order of
 * additions and to a rounding to 16 bits and back; of padding (cert_pad.c), that sources begin with zeros in it and
 * that finite numbers times zero are zero. The order of a schedule, slots and addresses are not looked at here.
 *
 * Nor are the functions of pass `expand`: the final program is the one before it, where a ring call and an op in
 * zigzag order are one op each, with a rule. The plan certificate takes the program behind it. That those functions do
 * what the rules say rests on the algebra of a streaming softmax, which numbers of expressions do not have: they are
 * proved by evaluating them (box.h). */
#ifndef DT_VERIFY_CERT_H
#define DT_VERIFY_CERT_H

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct DtCertCounts {
    uint32_t values; /* of the final program whose rule was checked */
    uint32_t claims; /* results compared */
    uint32_t boxes;  /* calls of functions that ring calls and the zigzag order became; dt_box_prove's count */
} DtCertCounts;

/* True if final is proved equal to serial. Otherwise ret_problem says what is not and where (function, line
 * of the final text, source span as written there). Both texts are NUL-terminated. */
bool dt_cert_prove(DtArena *arena, const char *serial, const char *final, DtCertCounts *ret_counts,
                   DtText *ret_problem);

/* The same, step by step from what the values of final say they mean (verify/step.h), without numbering anything. */
bool dt_cert_prove_steps(DtArena *arena, const char *serial, const char *final, DtCertCounts *ret_counts,
                         DtText *ret_problem);

#endif
