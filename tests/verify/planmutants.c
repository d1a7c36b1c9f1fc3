/* SPDX-License-Identifier: Apache-2.0 */
/* planmutants PLAN SEED COUNT [KEEP]: the certificate of a plan file against single faults in it.
 *
 * For each kind of fault, COUNT mutants that the plan's reader still takes go to the certificate.
 * Instructions that are dropped, doubled or swapped take their notes along: such a plan is what a
 * wrong compiler would write. A line per kind says how many were rejected and how many were
 * accepted; the latter are written to KEEP-KIND-N.plan, to be run, and the first that was rejected
 * to KEEP-KIND.plan. A line `differs` says that the verdict is another if all iterations of loops
 * are run (tried for what is accepted, and for a quarter of the rest). 1 if the plan itself does
 * not hold. Where the kinds are: planmutants.h. */
#include "base/file.h"
#include "plan/read.h"
#include "plan_fixture.h"
#include "planmutants.h"
#include "verify/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 1 << 28, TRIES = 60 };

DtPlan plan;          /* the plan as it was read */
const uint8_t *bytes; /* bytes of the file */
uint8_t *copy;        /* copy of the bytes, which is changed */
DtCertSpan *spans;    /* by instruction: its note */
static DtLogicalTexts proved; /* digest of the plan that was read */
uint64_t state;
size_t file_len, copy_len;

uint32_t below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((state >> 33) % n) : 0;
}

DtPlanArg *any_arg(DtPlanArgKind kind)
{
    for (int i = 0; i < 200; i++) {
        uint32_t at = below(plan.n_args);
        if (plan.args[at].kind == kind)
            return RECORD(args, DtPlanArg, at);
    }
    return NULL;
}

DtPlanInst *any_inst(uint32_t first, uint32_t last)
{
    uint32_t start = below(plan.n_insts);
    for (uint32_t i = 0; i < plan.n_insts; i++) {
        uint32_t at = (start + i) % plan.n_insts;
        if (plan.insts[at].kind >= first && plan.insts[at].kind <= last)
            return RECORD(insts, DtPlanInst, at);
    }
    return NULL;
}

bool change(int64_t *at)
{
    int64_t old = *at;
    *at = below(3) == 0 ? 0 : below(2) ? old * 2 : old + (old ? old : 64) * (below(2) ? 1 : -1);
    return *at != old;
}

#define MUTANT_ROW(name) {#name, mutant_##name},
const MutantKind kinds[] = {MUTANT_KINDS(MUTANT_ROW)};
const size_t n_kinds = DT_COUNT(kinds);

/* Whether the certificate proves the plan. All iterations are run of what it proves, and of some
 * that it does not: the verdict is the same. */
static bool proves(const DtPlan *mutant, const DtLogicalTexts *texts, DtText *problem)
{
    static uint32_t refused;
    DtText said = {0};
    DtArena *arena = dt_arena_new();
    const bool part = dt_certplan_prove(arena, mutant, texts->final, problem),
               again = part || refused++ % 4 == 0,
               whole =
                   again ? dt_certplan_trace(arena, mutant, texts->final, true, NULL, &said) : part;
    if (part != whole)
        printf("differs: %s of all iterations, %s of some: %s%s\n", whole ? "proved" : "refused",
               part ? "proved" : "refused", said.len ? said.at : "",
               problem->len ? problem->at : "");
    dt_text_free(&said);
    dt_arena_free(arena);
    return part;
}

bool rejects(bool *ret_read)
{
    DtPlan mutant;
    DtText problem = {0};
    fixture_repair(copy, copy_len);
    DtStatus status = dt_read_bytes(copy, copy_len, &mutant);
    *ret_read = dt_status_ok(&status);
    if (!*ret_read)
        return false;
    DtArena *arena = dt_arena_new();
    DtLogicalTexts texts;
    DtCertCounts counts;
    bool rejected = !dt_certfile_open(arena, &mutant, &texts, &problem);
    if (!rejected &&
        (strcmp(texts.serial, proved.serial) != 0 || strcmp(texts.placed, proved.placed) != 0 ||
         strcmp(texts.final, proved.final) != 0))
        rejected = !dt_certfile_programs(arena, &texts, &counts, &problem);
    rejected = rejected || !proves(&mutant, &texts, &problem) ||
               !dt_certfile_facts(arena, &mutant, &texts, &problem);
    dt_text_free(&problem);
    dt_arena_free(arena);
    return rejected;
}

void begin_copy(void)
{
    memcpy(copy, bytes, file_len);
    copy_len = file_len;
}

static void try_kind(size_t kind, uint32_t wanted, const char *keep)
{
    uint32_t rejected = 0, accepted = 0, refused = 0;
    for (uint32_t i = 0; i < wanted * TRIES && rejected + accepted < wanted; i++) {
        bool read;
        begin_copy();
        if (!kinds[kind].make() || memcmp(copy, bytes, file_len) == 0)
            continue;
        bool bad = rejects(&read);
        refused += !read;
        rejected += bad;
        if (!read)
            continue;
        char path[512];
        if (bad)
            snprintf(path, sizeof path, "%s-%s.plan", keep ? keep : "", kinds[kind].name);
        else
            snprintf(path, sizeof path, "%s-%s-%u.plan", keep ? keep : "", kinds[kind].name,
                     accepted++);
        if (keep && (!bad || rejected == 1))
            (void)dt_file_write(path, copy, copy_len);
    }
    printf("%s rejected %u accepted %u unreadable %u\n", kinds[kind].name, rejected, accepted,
           refused);
}

int main(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    char *file;
    DtText problem = {0};
    DtCertCounts counts;
    if (argc < 4)
        return 2;
    DtStatus status = dt_file_read(arena, argv[1], MAX, &file, &file_len);
    bytes = (const uint8_t *)file;
    if (dt_status_ok(&status))
        status = dt_read_bytes(bytes, file_len, &plan);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "planmutants: %s\n", status.message);
        return 1;
    }
    copy = dt_arena_alloc(arena, file_len + MORE);
    spans = DT_NEW_ARRAY(arena, DtCertSpan, plan.n_insts + 1);
    if (!dt_certfile_open(arena, &plan, &proved, &problem) ||
        !dt_certfile_prove(arena, &plan, &proved, &counts, &problem) ||
        !dt_certplan_trace(arena, &plan, proved.final, false, spans, &problem)) {
        printf("fails: %s\n", problem.at);
        dt_text_free(&problem);
        dt_arena_free(arena);
        return 1;
    }
    if (argc > 4 && (strcmp(argv[2], "known") == 0 || strcmp(argv[2], "draw") == 0)) {
        const int code = mutants_known(argc, argv);
        dt_arena_free(arena);
        return code;
    }
    state = strtoull(argv[2], NULL, 10);
    for (size_t k = 0; k < n_kinds; k++)
        try_kind(k, (uint32_t)strtoul(argv[3], NULL, 10), argc > 4 ? argv[4] : NULL);
    dt_text_free(&problem);
    dt_arena_free(arena);
    return 0;
}
