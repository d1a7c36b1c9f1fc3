/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of dtc: one struct with all options, one function per command. Data goes to
 * stdout, messages to stderr; the exit code is that of base/status.h. */
#ifndef DT_CLI_CLI_H
#define DT_CLI_CLI_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "cost/cost.h"
#include "frontend/lower.h"

#include <stdbool.h>
#include <time.h>

typedef enum DtCliEmit {
    DT_EMIT_NONE,
    DT_EMIT_AST,
    DT_EMIT_IR,
    DT_EMIT_PLAN,
    DT_EMIT_C,
    DT_EMIT_CUDA,
    DT_EMIT_SCHEDULE,
    DT_EMIT_SCHEDULE_SVG,
    DT_EMIT_LAYOUT
} DtCliEmit;
typedef enum DtCliReport { DT_REPORT_NONE, DT_REPORT_TEXT, DT_REPORT_JSON, DT_REPORT_TRACE,
                           DT_REPORT_HTML, DT_REPORT_DOT } DtCliReport;

/* The options of a command line. */
typedef struct DtCli {
    DtArena *arena;
    DT_VEC(const char *) words; /* arguments that are no options */
    const char *output;
    bool check, params, list_passes, time_passes, json, no_kernels, unfused, write, verify;
    DtCliEmit emit;
    DtCliReport report;
    bool details;
    const char *measured; /* --measured: a trace of dtrun */
    DT_VEC(const char *) logs; /* --log: files of dtrun --log */
    const char *window;   /* "A..B", micro-batches of a picture; NULL: all */
    double tokens, price; /* of a run; money for a device and hour; 0: not given */
    const char *target; /* NULL until the program is known: then that of its cluster */
    const char *device; /* of dtc calibrate: "cpu", "cuda"; of dtc init; NULL: not given */
    const char *text;   /* of dtc init: a pattern of files; NULL: not given */
    const char *rows; /* NULL, or the target in whose order rows are added up */
    int epilogues; /* which epilogues products may have: 1 all, 0 none, -1 those of the target */
    DT_VEC(const char *) print_after;
    DT_VEC(DtOption) dims, sets;
    DT_VEC(const char *) lines; /* --add */
    const char *block; /* the text that replaced `auto`; NULL: there was no `auto` */
    const char *train, *parallel, *cluster, *library, *program;
    bool synthetic;
    bool color; /* of messages */
    void (*try_fixes)(const struct DtCli *cli); /* dt_cli_try_fixes; NULL: fixes are not tried */
    /* state of one compilation */
    DtDiags *diags;
    DtAst *ast;
    DtText timing; /* lines of --time-passes */
    uint32_t others; /* number of layouts that `auto` tries if this one is refused */
    /* why this layout was refused, if there are others (by a proof, a limit, for memory); else
     * NULL */
    const char *refused;
    DtSourceTexts reads; /* the files that the program was lowered from */
    /* for dtc recompile: the ranks that are wanted, 0: only say which are possible; and in the
     * compilation that it starts, the old plan and its path, the files in it, and the new size of
     * the layout */
    int64_t ranks;
    const struct DtPlan *old;
    const char *old_path;
    const DtSourceTexts *sources;
    const DtResize *resize;
    /* for dtc verify --program: the plan to compare the new one with, which is not written then */
    const struct DtPlan *against;
} DtCli;

/* Reads options; returns DT_EXIT_OK, or the exit code when there is nothing left to do
 * (ret_done). */
int dt_cli_parse(DtCli *cli, int argc, char *const *argv, int first, bool *ret_done);

/* ---- commands; each returns the exit code ---- */

int dt_cmd_build(DtCli *cli); /* dtc FILE: check, params, emit, plan */
int dt_cmd_fmt(DtCli *cli);
int dt_cmd_explain(DtCli *cli);
int dt_cmd_dump(DtCli *cli);
int dt_cmd_asm(DtCli *cli);
int dt_cmd_verify(DtCli *cli);
int dt_cmd_report(DtCli *cli);
int dt_cmd_compare(DtCli *cli);
int dt_cmd_calibrate(DtCli *cli);
int dt_cmd_init(DtCli *cli);
int dt_cmd_recompile(DtCli *cli);

/* ---- parts ---- */

/* Whether the plan needs no machine code. */
bool dt_cli_no_kernels(const DtCli *cli);

/* Returns which epilogues products may have, as bits of DtEpilogue. */
uint32_t dt_cli_epilogues(const DtCli *cli);

/* One line on stderr, "dtc: ..."; returns code. */
int dt_cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a layout: if `auto` has other layouts, the line is kept in cli->refused instead. */
int dt_cli_refuse(DtCli *cli, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The text so far, "" if nothing was added. */
const char *dt_cli_text(const DtText *text);
/* " (in FILE:LINE)" of the span that ends a certificate's message, if it has one; else "". */
const char *dt_cli_position(const DtCli *cli, const char *message);

/* Writes text to stdout; DT_EXIT_IO if that fails. */
int dt_cli_print(const DtText *text);

/* Writes the text to the file of -o; prints it if there is no -o. */
int dt_cli_write(const DtCli *cli, const DtText *text);

/* Prints diagnostics as asked for; DT_EXIT_DIAGNOSTICS if there are errors. */
int dt_cli_report(const DtCli *cli);

/* fixes.c: compiles the program with each fix of the diagnostics. Those that leave their error, or
 * make another one there, are not shown. */
void dt_cli_try_fixes(const DtCli *cli);

/* params.c */
void dt_cli_params(const DtProgram *program, bool json, DtText *ret_text);

/* cmd_build.c: lowers the program and compiles it. */
int dt_cli_build(DtCli *cli, const char *path);
/* Lowers the program only; NULL after errors in cli->diags. */
DtProgram *dt_cli_lower(DtCli *cli, const char *path);

struct DtCertCounts;
/* cmd_prove.c: appends the counts of a proof of a layout, as lines. */
void dt_cli_say_proved(const struct DtCertCounts *counts, DtText *ret_text);
/* Whether a program's plan, just compiled, has the same meaning as cli->against. */
int dt_cli_compare(const DtCli *cli, const struct DtPlan *plan);

/* Whether a plan that dtc recompile made has the program, data and training of the old one. */
int dt_cli_compare_old(const DtCli *cli, const struct DtPlan *plan);

/* origin.c: what is recompiled later. */
struct DtPlanBuilder;
/* Adds the options, the block and the texts of this compilation to the plan. */
void dt_cli_write_origin(const DtCli *cli, struct DtPlanBuilder *builder);
/* Reads them from a plan: the options of a command line, and the files where they would be now.
 * ret_path: the main file. Returns an exit code, not DT_EXIT_OK after a message. */
int dt_cli_read_origin(DtCli *cli, const struct DtPlan *plan, const char *plan_path,
                       DtCli *ret_options, DtSourceTexts *ret_sources, const char **ret_path);
/* The folder that the old plan, or a source in it, names, as seen from the folder of the new plan
 * at path `to`. */
const char *dt_cli_old_folder(const DtCli *cli, const char *folder, const char *to);

/* resize.c: the sizes that a layout can have. */
enum { DT_CLI_SIZES = 24 };
typedef struct DtCliSizes {
    int64_t fixed;  /* the product of the mesh axes that keep their sizes: all numbers of ranks are
                     * multiples of it */
    int64_t most;   /* the most ranks */
    int64_t ranks;  /* of the layout as the program says it */
    DtResize at[DT_CLI_SIZES]; /* what to try for the wanted number of ranks, best first */
    uint32_t n;
} DtCliSizes;
/* Finds the sizes of the program's layout for so many ranks (0: none). Returns an exit code, not
 * DT_EXIT_OK after a message. */
int dt_cli_sizes(const DtCli *cli, const DtProgram *program, int64_t ranks, DtCliSizes *ret_sizes);

/* machine.c: dtrun, in the folder that this program is in; NULL: there is none. */
const char *dt_cli_dtrun(DtArena *arena);

/* library.c: the folder of std.dsl; NULL if it cannot be found. */
const char *dt_cli_library(DtArena *arena);

/* cmd_report.c: writes the report that the options ask for, about the plan on this device model
 * (NULL: on the device that the plan names). Returns an exit code, not DT_EXIT_OK after a
 * message. */
int dt_cli_check_report(const DtCli *cli); /* options that need each other: 2 after a message */
int dt_cli_report_plan(const DtCli *cli, const struct DtPlan *plan, const DtCostModel *model,
                       DtText *ret_text);

/* picture.c: the schedule of the pipeline as a picture; plan, model NULL: with equal times. */
int dt_cli_picture(const DtCli *cli, const struct DtModule *module, const struct DtPlan *plan,
                   const DtCostModel *model);

/* clauses.c: whether functions of the program at path that have a second form (blocks, a gradient)
 * compute the same in it; not DT_EXIT_OK after a message. */
int dt_cli_check_clauses(DtCli *cli, struct DtModule *module, const char *path);
/* Reports the wrong clause of the named function if a ring of it does not compute the function's
 * result. False if the program at path has no such function, or it is the library's. why: the
 * difference. */
bool dt_cli_blame_stream(DtCli *cli, const char *path, const char *name, const char *why);
/* Compares two functions of one module by random evaluation (boxes), up to `tries` times; returns a
 * DtBoxVerdict. */
int dt_cli_compare_functions(DtCli *cli, const struct DtFunc *x, const struct DtFunc *y,
                             uint32_t tries, DtText *ret_said);
/* Returns the reason of a failed random evaluation without the op that it names, which the user did
 * not write. */
const char *dt_cli_reason(const DtCli *cli, const char *said);
/* The loop over blocks of a function with `emit`, or NULL. */
const struct DtOp *dt_cli_loop_over_blocks(const struct DtFunc *func);

/* tried.c: compares a function with its blocks in double precision, if floats decide and a box
 * proves nothing: a DtJudgeAlike. If that takes long, uses the function of the program at path with
 * smaller dims. */
int dt_cli_try_blocks(DtCli *cli, const struct DtFunc *func, const char *path);

/* gradients.c: checks that the gradients which functions state are their derivatives; returns an
 * exit code, not DT_EXIT_OK after a message. */
int dt_cli_check_gradients(DtCli *cli, struct DtModule *module);
/* Whether func has only ops that random evaluation over residues computes exactly; then a
 * difference that it finds is real. */
bool dt_cli_is_exact(const DtCli *cli, const struct DtFunc *func);

/* variant.c: the bytes of a plan of the program with these options. Fails with DT_EXIT_DIAGNOSTICS
 * where there is none. */
typedef enum DtVariant {
    DT_VARIANT_KERNELS, /* with machine code */
    DT_VARIANT_PLAN,    /* without */
    DT_VARIANT_STEP     /* nor entries that evaluate and predict */
} DtVariant;
DtStatus dt_cli_variant(const DtCli *cli, DtArena *arena, const DtLowerOptions *options,
                        DtVariant what, uint8_t **ret_bytes, size_t *ret_len);

/* auto.c: chooses the layout that the block leaves open, prints it on stderr, and sets cli->block
 * to the block's text. Returns DT_EXIT_OK, or another code after it has printed a message. */
struct DtAutoChoice; /* the layouts that the search ranked, from which the next one is taken */
int dt_cli_auto(DtCli *cli, const DtProgram *program, const char *path,
                struct DtAutoChoice **ret_choice);
/* Takes the next layout that the search ranked; false: there is none, or choice is NULL because
 * `auto` chose nothing. */
bool dt_cli_auto_next(DtCli *cli, struct DtAutoChoice *choice);
/* Frees the choice; NULL: there was none. */
void dt_cli_auto_end(struct DtAutoChoice *choice);

/* variant.c: how the program is lowered, as the command line says. */
DtLowerOptions dt_cli_lowering(const DtCli *cli, const char *path);

/* compile.c: from a checked program to the requested output. */
int dt_cli_compile(DtCli *cli, DtProgram *program, const char *path);
/* Returns the folder of the program as seen from the folder of the file `from` (NULL: the working
 * folder); absolute if they share none. */
const char *dt_cli_folder_from(DtArena *arena, const char *program, const char *from);
void dt_cli_list_passes(DtText *ret_text);

/* cmd_verify.c: compares the layout with the serial program; errors of a smaller program are left
 * in cli->diags. */
int dt_cli_verify(DtCli *cli, const DtLowerOptions *options);

/* One line of --time-passes: seconds since start, and the arena's growth. */
typedef struct DtCliClock {
    struct timespec start;
    size_t bytes;
} DtCliClock;
DtCliClock dt_cli_clock(const DtCli *cli);
void dt_cli_lap(DtCli *cli, DtCliClock *clock,
                const char *what); /* adds the line, restarts the clock */

/* The same with a part of the time in a line of its own (apart NULL: no such line). */
void dt_cli_lap_apart(DtCli *cli, DtCliClock *clock, const char *what, double seconds,
                      const char *apart);

#endif
