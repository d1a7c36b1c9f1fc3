/* SPDX-License-Identifier: Apache-2.0 */
/* judged PROGRAM.dsl FINAL.ir...: the verdict of the interpreter of all ranks on texts of the
 * placed program; for each FINAL a line "equal", "differs", or "broken": it cannot be evaluated. A
 * text need not obey the local rules. Each is evaluated in a process of its own, which a broken one
 * may take down. */
#include "base/file.h"
#include "codegen/codegen.h"
#include "ir/irtext.h"
#include "ir/pipeline.h"
#include "passes/check/internal.h"
#include "passes/passes.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX = 1 << 28, EQUAL = 0, DIFFERS = 10, BROKEN = 11, SECONDS = 20 };

static int judge(DtArena *arena, const DtJudgeCase *serial, const char *text, size_t len)
{
    DtJudgeCase c = *serial;
    DtJudgement judgement;
    DtModule *module = dt_irtext_parse(arena, dt_diag_new(arena), text, len);
    if (!module)
        return BROKEN;
    dt_pass_expand(module, &(DtPassContext){0}); /* the texts are those of the option before it */
    dt_pipeline_unfold(module);
    c.placed = module;
    return dt_judge_compare(&c, &judgement) ? EQUAL : DIFFERS;
}

static const char *judge_apart(DtArena *arena, const DtJudgeCase *serial, const char *text,
                               size_t len)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        if (!freopen("/dev/null", "w", stderr))
            _exit(BROKEN);
        _exit(judge(arena, serial, text, len));
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return "broken";
    return WEXITSTATUS(status) == EQUAL     ? "equal"
           : WEXITSTATUS(status) == DIFFERS ? "differs"
                                            : "broken";
}

int main(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    if (argc < 3)
        return 2;
    DtLowerOptions options = {.path = argv[1], .library = "lib", .synthetic = true};
    const DtJudgeProgram task = {.options = &options,
                                 .steps = 1};
    DtProgram *program = dt_lower(arena, diags, &options);
    if (!program) {
        dt_diag_print(diags, stderr, false);
        return 1;
    }
    DtJudgeCase serial = {.arena = arena,
                          .serial = dt_judge_serial(arena, &options),
                          .train = program->train,
                          .steps = task.steps};
    for (int i = 2; i < argc; i++) {
        char *text;
        size_t len;
        DtStatus status = dt_file_read(arena, argv[i], MAX, &text, &len);
        if (!dt_status_ok(&status)) {
            fprintf(stderr, "judged: %s\n", status.message);
            return 1;
        }
        puts(judge_apart(arena, &serial, text, len));
    }
    dt_arena_free(arena);
    return 0;
}
