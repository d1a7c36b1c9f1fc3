/* SPDX-License-Identifier: Apache-2.0 */
/* A small valid plan that has every section, every kind of instruction and nested loops; repair of
 * checksums after a mutation, so that the checker and not only the digest is exercised; and a walk
 * that does by itself, on real memory, what a plan says it touches. */
#ifndef DT_TESTS_PLAN_FIXTURE_H
#define DT_TESTS_PLAN_FIXTURE_H

#include "plan/write.h"

DtPlanBuilder *fixture_plan(DtArena *arena);

/* Recomputes the checksums of all sections, and the digest, in the file's bytes. */
void fixture_repair(uint8_t *bytes, size_t len);

/* Runs through every entry for every rank: allocates the arenas exactly, evaluates all arguments
 * in plain 64-bit arithmetic and touches the first and last byte of everything each instruction
 * may read or write. Aborts (or lets the address sanitizer do so) where a checked plan leaves its
 * memory. Returns the number of bytes touched; plans that want more than limit bytes or runs are
 * not walked (0). */
uint64_t fixture_walk(const DtPlan *plan, int64_t limit);

#endif
