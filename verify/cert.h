/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate: an independent check that a program whose calls were written out, which was
 * placed on a mesh, cut into micro-batches, pipeline stages and buckets, and partly recomputed,
 * still means the serial program.
 *
 * It reads two texts of IR, the serial program (after differentiation) and the final one, with a
 * reader of its own, and knows nothing of the passes in between, but for what they say: the number
 * of the serial value that a value means (`means=` of the text), which is not believed.
 *
 * Every value of the serial program is a node, and equal ones are one: those of the same op, with
 * the same attributes, of the same nodes. So calls may be written out, and equal ops become one. An
 * op of the final program means the node that is made so of what its operands mean. If there is
 * none, the number helps: the op means the serial value that it names if it is of the same kind,
 * with the same attributes, and its operands turn out to be that one's. It may lie as cert_rule.c
 * allows. Communication moves a value without changing what it means. An op that says something
 * else than it makes is refused where it is used.
 *
 *  - A call is what its function makes of the operands.
 *  - In the body of a loop, a node is a value at the iteration (cert_func.c). So a part of a loop
 *    is a loop, and what one iteration has left is what the same iteration of another loop reads.
 *  - Few nodes are none of the serial program: what a loop carries between two iterations, the sum
 *    over some iterations, the terms of a sum, what a linear op makes of one term. A sum of them is
 *    compared with a serial value term by term (cert_sum.c).
 *  - Of an op that puts terms together, or is none of the serial program, the node says what it is
 *    made of; the forms that passes make of several ops (kept on the first rank, windows with
 *    edges, buckets) are recognised in these.
 *
 * What is claimed at the end is that every loss, prediction, state, and updated parameter of the
 * final program means that of the serial one, and that no sum is left pending that nobody
 * completes.
 *
 * Rounding is part of what a value means: a cast that the serial program lacks is refused, and one
 * that the final program lacks. Terms may be added up in a wider dtype than the serial program
 * does, not in a narrower one; only sums over ranks of gradients are taken in the dtype that the
 * program says (`crossing` of the text): of what the serial program leaves as such, and of their
 * terms (cert_step.c).
 *
 * What is trusted: the local rules (one table); that equal expressions have equal values up to the
 * order of additions; of padding (cert_pad.c), and of what a bucket has behind its members, that
 * sources begin with zeros in it and that finite numbers times zero are zero, as is zero divided by
 * a number that all of a tensor is divided by. The order of a schedule, slots and addresses are not
 * looked at here.
 *
 * Nor are the functions of pass `expand`: the final program is the one before it, where a ring call
 * and an op in zigzag order are one op each, with a rule. The plan certificate takes the program
 * behind it. That those functions do what the rules say rests on the algebra of a streaming
 * softmax, which no local rule has: they are proved by evaluating them (box.h). */
#ifndef DT_VERIFY_CERT_H
#define DT_VERIFY_CERT_H

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct DtCertCounts {
    uint32_t values; /* values of the final program whose rule was checked */
    uint32_t claims; /* results compared */
    uint32_t boxes;  /* calls that became functions for rings or zigzag order, proved by
                      * dt_box_prove */
    uint32_t rounded; /* those of `boxes` that round parts where the call rounds its result */
    const char *ring, *why; /* see DtBoxCounts */
} DtCertCounts;

/* True if final is proved equal to serial. Otherwise ret_problem names the value and its place
 * (function, line of the final text, source span as written there). Both texts are
 * NUL-terminated. */
bool dt_cert_prove(DtArena *arena, const char *serial, const char *final, DtCertCounts *ret_counts,
                   DtText *ret_problem);

/* Whether other is the same serial program: op by op, except for names, spans, order and repeated
 * ops. Otherwise ret_problem gives the first difference. */
bool dt_cert_same(DtArena *arena, const char *serial, const char *other, DtText *ret_problem);

#endif
