/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the oracle; run in the root of the source tree. See oracle.h. */
#include "oracle.h"

#include <string.h>

static const char usage[] =
    "oracle [-v] CASES export NAME FILE  parameters, inputs, loss and gradients of the "
    "interpreter\n"
    "oracle [-v] CASES check [NAME...]   the interpreter against recorded values of PyTorch\n"
    "oracle [-v] CASES plan [NAME...]    generated code against the interpreter\n"
    "oracle [-v] CASES unfused [NAME...] the same with one kernel per op\n"
    "oracle CASES list                   the names\n"
    "CASES: tests/oracle/cases.json or another such file\n";

typedef enum Command { CHECK, PLAN, UNFUSED } Command;

static bool run(Command command, const Case *c, bool verbose)
{
    if (verbose)
        printf("%s\n", c->name);
    Measure measure = {.tolerance = command == CHECK ? oracle_exact : oracle_single,
                       .verbose = verbose,
                       .good = true};
    if (command == CHECK)
        recorded_check("tests/oracle/recorded", c, &measure);
    else
        planned_check(c, command == UNFUSED, &measure);
    printf("%s: %s, worst %.2g\n", c->name, measure.good ? "good" : "DIFFERS", measure.worst);
    fflush(stdout);
    return measure.good;
}

/* Runs all cases, or those that are named. */
static int run_all(Command command, const Case *cases, uint32_t n, char **names, bool verbose)
{
    uint32_t n_run = 0, n_bad = 0, n_named = 0;
    while (names[n_named])
        n_named++;
    for (uint32_t i = 0; i < n; i++) {
        bool named = n_named == 0;
        for (uint32_t k = 0; k < n_named; k++)
            named |= strcmp(names[k], cases[i].name) == 0;
        if (!named)
            continue;
        n_run++;
        n_bad += !run(command, &cases[i], verbose);
    }
    if (n_run == 0 || (n_named > 0 && n_run != n_named))
        oracle_fail("there is no such case");
    printf("%u of %u good\n", n_run - n_bad, n_run);
    return n_bad > 0;
}

static int export_case(const Case *cases, uint32_t n, const char *name, const char *path)
{
    for (uint32_t i = 0; i < n; i++) {
        Sample sample;
        Outcome outcome;
        if (strcmp(cases[i].name, name) != 0)
            continue;
        sample_make(&sample, &cases[i]);
        outcome_evaluate(&sample, &outcome);
        export_write(&sample, &outcome, path);
        sample_free(&sample);
        return 0;
    }
    oracle_fail("there is no case `%s`", name);
}

static int run_command(char **words, bool verbose)
{
    static const char *const names[] = {"check", "plan", "unfused"};
    DtArena *arena = dt_arena_new();
    Case *cases;
    uint32_t n;
    int code = 2;
    json_t *root = case_read_all(arena, words[0], &cases, &n);
    if (strcmp(words[1], "list") == 0) {
        for (uint32_t i = 0; i < n; i++)
            printf("%s\n", cases[i].name);
        code = 0;
    } else if (strcmp(words[1], "export") == 0 && words[2] && words[3] && !words[4]) {
        code = export_case(cases, n, words[2], words[3]);
    }
    for (uint32_t i = 0; i < DT_COUNT(names); i++)
        if (strcmp(words[1], names[i]) == 0)
            code = run_all((Command)i, cases, n, words + 2, verbose);
    json_decref(root);
    dt_arena_free(arena);
    return code;
}

int main(int argc, char **argv)
{
    const bool verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    char **words = argv + 1 + verbose;
    const int code = argc > 2 + verbose ? run_command(words, verbose) : 2;
    if (code == 2)
        fputs(usage, stderr);
    return code;
}
