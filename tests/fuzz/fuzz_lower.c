/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of the whole frontend: any sequence of bytes is either lowered to a module that the
 * verifier accepts, or refused with diagnostics. */
#include "frontend/lower.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *const fuzz_corpus[];
const char *const fuzz_corpus[] = {"examples/*.dsl", "tests/golden/errors/E0[2-9]*.dsl",
                                   "tests/golden/errors/L*.dsl", "tests/golden/errors/mini/*.dsl",
                                   NULL};

static void require(bool condition, const char *what, const DtText *details)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_lower: %s\n%s", what, details->at ? details->at : "");
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64];
    static FILE *nowhere;
    if (file < 0) {
        file = memfd_create("fuzz.dsl", 0);
        nowhere = fopen("/dev/null", "w");
        if (file < 0 || !nowhere)
            abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size)
        abort();
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    DtLowerOptions options = {.path = path, .library = "lib", .synthetic = size & 1};
    DtProgram *program = dt_lower(arena, diags, &options);
    DtText problems = {0};
    require(program || dt_diag_errors(diags), "no program and no error", &problems);
    if (program && !dt_diag_errors(diags))
        require(dt_verify_module(program->module, &problems), "the verifier refuses the module",
                &problems);
    dt_diag_print(diags, nowhere, false);
    dt_diag_print_json(diags, nowhere);
    dt_text_free(&problems);
    dt_arena_free(arena);
    return 0;
}
