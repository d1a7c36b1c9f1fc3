/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration blocks: train, cluster, parallel, names. Every key and directive is a row of
 * config.def; the functions here turn entries of the syntax tree into the plain data of
 * ir/config.h, checked, with a diagnostic at every value that makes no sense.
 *
 * The lowering calls, in this order:
 *   1. dt_configset_apply    once, after all files are parsed: `--set block.key=value` rewrites the
 *                            trees
 *   2. dt_configblocks_read  once, when names and dims are known: fills the three lists of the
 *                            program and chooses train, cluster, parallel
 *   3. the entries of the chosen train block for which dt_config_is_setting is false are the
 *      program: source assignments (dt_config_is_source) become `input` ops, the rest are
 *      statements
 *   4. dt_configcheck_program  after a lowering without errors: what needs the lowered module
 *                            (axes, loops, instances, extents, parameters) */
#ifndef DT_FRONTEND_CONFIG_H
#define DT_FRONTEND_CONFIG_H

#include "frontend/ast.h"
#include "frontend/lower.h"
#include "ir/config.h"
#include "ir/map.h"

/* A constant number of the language. is_integer: whole is exact, and number == (double)whole.
 * is_truth: it is true (whole 1) or false, which only readers get that set takes_truth before. */
typedef struct DtConfigNumber {
    bool takes_truth, is_truth;
    bool is_integer;
    int64_t whole;
    double number;
} DtConfigNumber;

/* What the lowering provides for reading the blocks. */
typedef struct DtConfigHost {
    DtArena *arena;
    DtDiags *diags;
    const DtLowerOptions *options;
    void *context;
    DtProgram *program;          /* receives the devices and stacks that clusters name */
    DtItem *const *items; uint32_t n_items; /* of all files */
    /* The value of a constant expression (literals, dims, arithmetic). Reports what is wrong and
     * returns false if it is none. */
    bool (*constant)(void *context, const DtExpr *expr, DtConfigNumber *ret_number);
    /* The same for the condition of an `if`. */
    bool (*truth)(void *context, const DtExpr *expr, bool *ret_truth);
    /* whether it is a call of an optimizer */
    bool (*is_optimizer)(void *context, const DtExpr *expr);
    bool (*in_library)(void *context, DtSpan span);
    /* device, stack; NULL: none */
    const DtItem *(*library_block)(void *context, DtItemKind kind, const char *name);
} DtConfigHost;

/* All items (blocks and definitions) of all files, in order of inclusion. */
typedef struct DtConfigItems {
    DtItem *const *at;
    uint32_t n;
} DtConfigItems;

/* The calls of a train block's optimizers, one per group of parameters. */
typedef DT_VEC(const DtExpr *) DtOptimizerCalls;

/* The name of the parallel block that says `default`; NULL: none does. Reports a second one. */
const char *dt_configset_default(DtDiags *diags, DtConfigItems items);

/* The block that `--parallel auto` stands for if no block has that name: one on the chosen
 * cluster, or the only one, that leaves everything open. NULL: not asked for, or after E0003. */
DtItem *dt_configset_auto(DtArena *arena, DtDiags *diags, const DtLowerOptions *options,
                          DtConfigItems items);

/* Rewrites the trees as options->sets say: `train.steps=100`, `train.optimizer.lr=0.1`,
 * `parallel.mesh.data=2`, `parallel.micro=4`, `cluster.gpus=4`; a block may be named by its own
 * name (`d3.micro=4`). The value is read as an expression of the language. Reports E0002 for what
 * cannot be set. */
void dt_configset_apply(DtArena *arena, DtDiags *diags, const DtLowerOptions *options,
                        DtConfigItems items);

/* config_resize.c: gives the named parallel block, and its cluster, another number of ranks. */
void dt_configresize_apply(DtArena *arena, const DtResize *resize, DtConfigItems items);

/* Fills trains, clusters, parallels and the chosen ones. Readers have names but types NULL: the
 * lowering fills them when it makes the inputs. ret_train_item is the chosen train block (NULL:
 * none), ret_calls its optimizers. */
void dt_configblocks_read(const DtConfigHost *host, DtConfigItems items, DtProgram *program,
                          const DtItem **ret_train_item, DtOptimizerCalls *ret_calls);

/* Whether an argument of that name in an optimizer's call says something of the group of
 * parameters, rather than of the optimizer. */
bool dt_config_is_group_option(const char *name);

/* An entry of a train block is a setting (`steps = 100`), a source assignment, or a statement. */
bool dt_config_is_setting(const DtConfigHost *host, const DtEntry *entry);
bool dt_config_is_source(const DtEntry *entry);
/* Whether the entry is an `adapt` line with all of its parts (lower_adapt.c). */
bool dt_config_is_adapt(const DtEntry *entry);
/* Whether the name is that of a source or sampler of data: `text`, `next_token`. */
bool dt_config_is_reader(const char *name);
/* Adds the names that an expression mentions, as keys. */
void dt_config_mentioned(const DtExpr *expr, DtMap *ret_names);

/* Whether a parallel block is checked against the program. All are, except that a layout named
 * on the command line, or the only one if there are several train blocks, excludes the others. */
bool dt_configcheck_concerns(const DtLowerOptions *options, const DtProgram *program,
                             const DtParallelConfig *p);

/* Checks the blocks against the lowered module: names of axes, loops and instances, extents that
 * the mesh must divide, the inputs of readers, the parameters of names blocks. Fills types of
 * readers that are still NULL from the `input` ops. */
void dt_configcheck_program(const DtConfigHost *host, DtConfigItems items, DtProgram *program);

/* Checks what a plan needs in addition: an optimizer, steps, a chosen layout. Reports and returns
 * false if something is missing. */
bool dt_configready_check(DtDiags *diags, const DtProgram *program, bool parallel_was_named,
                          bool for_gpus);

/* The manual of one block, directive, configuration function or key (`train`, `shard`, `gpus`), or
 * of all of them (name NULL): every key with kind, default and purpose. False if there is none of
 * that name. */
bool dt_configexplain_print(const char *name, DtText *ret_text);
/* Prints the same for a function of training.dsl (optimizers, schedules) or a function or layer of
 * std.dsl of the library in folder; wanted NULL: for all of training.dsl. False if there is
 * none. */
bool dt_library_explain(DtArena *arena, const char *folder, const char *wanted, DtText *ret_text);
/* Prints the devices and stacks of the library: a list for `device`, `stack` and `cluster`, or the
 * block of that name. False if there is none. */
bool dt_library_hardware(DtArena *arena, const char *folder, const char *wanted, DtText *ret_text);
/* Finds the block `WORD NAME { .. }`, whose `}` begins a line, in a text. */
bool dt_library_block(const char *text, const char *word, const char *name, size_t *ret_from,
                      size_t *ret_to);
/* Lists the names of the library's blocks `device` or `stack`, interned, at most cap; returns their
 * number. */
uint32_t dt_library_blocks(DtArena *arena, const char *folder, const char *word,
                           const char **ret_names, uint32_t cap);
/* Lists the names that a file of the library defines ("training.dsl", "std.dsl"), interned, at most
 * cap; returns their number. */
uint32_t dt_library_names(DtArena *arena, const char *folder, const char *file,
                          const char **ret_names, uint32_t cap);
/* Lists all names that dt_configexplain_print takes, at most cap; returns their number. */
uint32_t dt_configexplain_names(const char **ret_names, uint32_t cap);

#endif
