/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files config*.c: the tables of config.def as data, and the values read through
 * them. */
#ifndef DT_FRONTEND_CONFIG_INTERNAL_H
#define DT_FRONTEND_CONFIG_INTERNAL_H

#include "frontend/config.h"

typedef enum DtConfigClass {
    DT_CONFIG_BLOCK,
    DT_CONFIG_VERB,
    DT_CONFIG_GROUP,
    DT_CONFIG_MIXED,
    DT_CONFIG_EVAL,
    DT_CONFIG_SAVE,
    DT_CONFIG_GENERATE,
    DT_CONFIG_RAMP,
    DT_CONFIG_CODES,
    DT_CONFIG_LINK,
    DT_CONFIG_ESTIMATE,
    DT_CONFIG_SOURCE,
    DT_CONFIG_SAMPLER
} DtConfigClass;

/* The kinds of values. Kinds that are calls carry the name of their class. */
typedef enum DtConfigKind {
    DT_KIND_NATURAL,
    DT_KIND_NATURALS,
    DT_KIND_AHEAD,
    DT_KIND_COUNT,
    DT_KIND_NODES,
    DT_KIND_NUMBER,
    DT_KIND_NONNEGATIVE,
    DT_KIND_POSITIVE,
    DT_KIND_FRACTION,
    DT_KIND_BOOLEAN,
    DT_KIND_STRING,
    DT_KIND_LETTER,
    DT_KIND_FLOATTYPE,
    DT_KIND_DATATYPE,
    DT_KIND_SCALE,
    DT_KIND_BANDWIDTH,
    DT_KIND_SECONDS,
    DT_KIND_BYTES,
    DT_KIND_FLOPS,
    DT_KIND_MEASURE,
    DT_KIND_ESTIMATE,
    DT_KIND_FLAG,
    DT_KIND_GPU,
    DT_KIND_STACK,
    DT_KIND_NUMBERS,
    DT_KIND_PATHS,
    DT_KIND_TEXTS,
    DT_KIND_CUTS,
    DT_KIND_COUNTS,
    DT_KIND_SAMPLERS,
    DT_KIND_CHOICE_ORDER,
    DT_KIND_CHOICE_SCHEDULE,
    DT_KIND_CHOICE_OFFLOAD,
    DT_KIND_CHOICE_GOAL,
    DT_KIND_CHOICE_MATMUL,
    DT_KIND_CHOICE_DRAWS,
    DT_KIND_CHOICE_TEMPLATE,
    DT_KIND_CHOICE_TRAINS,
    DT_KIND_CHOICE_LONG,
    DT_KIND_CHOICE_CROP,
    DT_KIND_OPTIMIZER,
    DT_KIND_MIXED,
    DT_KIND_EVAL,
    DT_KIND_SAVE,
    DT_KIND_GENERATE,
    DT_KIND_RAMP,
    DT_KIND_CODES,
    DT_KIND_LINK,
    DT_KIND_SOURCE
} DtConfigKind;

typedef enum DtSchemaId {
#define DT_CONFIG_SCHEMA(ID, CLASS, name, help) DT_SCHEMA_##ID,
#define DT_CONFIG_KEY(...)
#define DT_CONFIG_CHOICE(...)
#include "frontend/config.def"
#undef DT_CONFIG_SCHEMA
#undef DT_CONFIG_KEY
#undef DT_CONFIG_CHOICE
    DT_SCHEMA_COUNT
} DtSchemaId;

typedef enum DtKeyId {
#define DT_CONFIG_SCHEMA(...)
#define DT_CONFIG_KEY(ID, key, KIND, preset, help) DT_KEY_##ID##_##key,
#define DT_CONFIG_CHOICE(...)
#include "frontend/config.def"
#undef DT_CONFIG_SCHEMA
#undef DT_CONFIG_KEY
#undef DT_CONFIG_CHOICE
    DT_KEY_COUNT
} DtKeyId;

typedef struct DtConfigSchema {
    DtConfigClass config_class;
    const char *name, *help;
} DtConfigSchema;
extern const DtConfigSchema dt_config_schemas[DT_SCHEMA_COUNT];

typedef struct DtConfigKey {
    DtSchemaId schema;
    const char *name;
    DtConfigKind kind;
    const char *preset, *help;
} DtConfigKey;
extern const DtConfigKey dt_config_keys[DT_KEY_COUNT];

/* One value, read and range-checked. given: written in the source (else the preset of the table).
 * present: given, or the table has a preset. */
typedef struct DtConfigValue {
    bool given, present;
    int64_t whole;
    double number, second; /* second number of a pair */
    DtDtype dtype;
    const char *word; /* interned: string, choice, or word */
    const DtExpr *expr;
    DtSpan span;
} DtConfigValue;

/* Values of all keys, indexed by DtKeyId; only those of the schema read are meaningful. */
typedef struct DtConfigValues {
    DtConfigValue at[DT_KEY_COUNT];
} DtConfigValues;

/* ---- config_kinds.c ---- */

/* One value that is to be read. */
typedef struct DtConfigReading {
    const DtConfigHost *host;
    const DtConfigKey *key;
    const DtExpr *expr;
    DtConfigValue *value;
} DtConfigReading;
/* The integers of a value of kind NATURALS that was read without errors, at most cap of them;
 * returns their number. */
uint32_t dt_configkinds_naturals(const DtConfigHost *host, const DtExpr *expr, int64_t *ret_numbers,
                                 uint32_t cap);
bool dt_configkinds_read(
    const DtConfigReading *r); /* reports and returns false if it is not of the kind */

/* ---- config_args.c ---- */

/* Reads arguments by the rows of schema: positional in order, named anywhere. Reports unknown,
 * repeated, missing and ill-kinded arguments; false if any. span: where a missing argument is
 * reported. */
bool dt_configargs_read(const DtConfigHost *host, DtSchemaId schema, const DtArg *args,
                        uint32_t n_args, DtSpan span, DtConfigValues *ret_values);
/* Like dt_configargs_read, for the `key = value` entries of a block. */
bool dt_configargs_entries(const DtConfigHost *host, DtSchemaId schema, DtEntries entries,
                           DtSpan span, DtConfigValues *ret_values);
/* Reads a call of one of the functions of a class: ret_schema is the one that it calls, ret_values
 * its arguments. False after a report. */
bool dt_configargs_call(const DtConfigHost *host, DtConfigClass config_class, const DtExpr *expr,
                        DtSchemaId *ret_schema, DtConfigValues *ret_values);
/* Returns the schema of that class and name; DT_SCHEMA_COUNT if there is none. */
DtSchemaId dt_configargs_find(DtConfigClass config_class, const char *name);
/* Returns the name that expr calls (`f` of `f(x)`); NULL if it is no call. */
const char *dt_configargs_callee(const DtExpr *expr);
/* Returns the names of a class's functions for messages, as `a, b or c`. */
const char *dt_configargs_list(DtArena *arena, DtConfigClass config_class);
/* `a`, `b` or `c`. */
const char *dt_configargs_join(DtArena *arena, const char *const *words, size_t n);
size_t dt_configargs_names(DtConfigClass config_class, const char *ret_names[DT_SCHEMA_COUNT]);
/* Adds the help "did you mean `x`?" if a spelling is near. */
void dt_configargs_suggest(DtDiag *diag, DtSpan span, const char *name, const char *const *names,
                           size_t n);
/* Returns the expression without parentheses around it. */
const DtExpr *dt_configargs_bare(const DtExpr *expr);
/* Splits `(a, b)` into its items; any other value is the only item (*single holds it). */
void dt_configargs_items(const DtExpr *expr, DtExpr *const **ret_items, uint32_t *ret_n,
                         DtExpr **single);
/* Returns `a.b.c` as one interned text; NULL if the expression is no path. */
const char *dt_configargs_path(const DtExpr *expr);

/* ---- one file per block ---- */

/* Reads a train block; never NULL: values that could not be read have their presets. ret_calls: the
 * calls of its optimizers, one per group. */
DtTrainConfig *dt_configtrain_read(const DtConfigHost *host, const DtItem *item,
                                   DtOptimizerCalls *ret_calls);
/* Reads the groups of parameters of a train block into train, and their optimizers' calls into
 * ret_calls. */
void dt_configgroup_read(const DtConfigHost *host, const DtItem *item, DtTrainConfig *train,
                         DtOptimizerCalls *ret_calls);
/* Whether the entry defines a group of parameters: it is a call of an optimizer with an argument
 * for groups. */
bool dt_configgroup_is(const DtConfigHost *host, const DtEntry *entry);
/* Splits a value of kind TEXTS into the texts of its list. */
void dt_configgroup_patterns(const DtConfigHost *host, const DtConfigValue *value,
                             DtPatterns *ret_patterns);
DtClusterConfig *dt_configcluster_read(const DtConfigHost *host, const DtItem *item);
/* Reads the device and stack blocks of the program's own files; the library's are read when
 * something names them. */
void dt_confighardware_read(const DtConfigHost *host);
/* Lists the names of all device (or stack) blocks, those of the program first; returns their
 * number. */
uint32_t dt_confighardware_names(const DtConfigHost *host, DtItemKind kind,
                                 const char ***ret_names);
/* Return the device or stack of that name (interned), from the program or else the library, read at
 * its first use. NULL if there is none. */
const DtDevice *dt_confighardware_device(const DtConfigHost *host, const char *name);
const DtStack *dt_confighardware_stack(const DtConfigHost *host, const char *name);
DtParallelConfig *dt_configparallel_read(const DtConfigHost *host, const DtItem *item);
/* Checks the mesh against the cluster, and mesh axes against their uses. cluster NULL: this
 * machine. */
void dt_configparallel_check(const DtConfigHost *host, const DtParallelConfig *parallel,
                             const DtClusterConfig *cluster);
typedef DT_VEC(DtReader) DtReaders;
/* Reads the right side of an assignment of a source: one reader, or those of a mixture. Types of
 * their inputs are left NULL. False after a report. */
bool dt_configsource_read(const DtConfigHost *host, const DtExpr *value, DtSpan span,
                          DtReaders *ret_readers);
/* Whether it is a call of `mix`. */
bool dt_configmix_is(const DtExpr *expr);
/* Reads an argument of `mix`: a source, times its weight (1 if there is none). */
bool dt_configmix_part(const DtConfigHost *host, const DtArg *arg, double *ret_weight,
                       const DtExpr **ret_source);
/* Checks that n sources can be mixed. */
bool dt_configmix_check(const DtConfigHost *host, const DtExpr *mix, const DtReader *parts,
                        uint32_t n);
/* Reports mixtures where a block can have none. */
void dt_configmix_check_train(const DtConfigHost *host, const DtTrainConfig *train);

/* ---- checks against the lowered module ---- */

typedef struct DtConfigLoop {
    const char *label, *axis;
    int64_t count;
    const DtFunc *body;
} DtConfigLoop;

/* Names that occur in a module: what directives may refer to. */
typedef struct DtConfigFacts {
    DT_VEC(const char *) axes; /* axes of values, except those of loops */
    DT_VEC(DtConfigLoop) loops;
    DT_VEC(const char *) labels;    /* labels of instances */
    DT_VEC(const char *) functions; /* functions, layers and models */
} DtConfigFacts;

/* Returns the span of an axis in a directive line (of the operand `a` or `place.a`), or that of the
 * line if it has no such operand. */
DtSpan dt_configcheck_operand(DtConfigItems items, DtSpan line, const char *name);
/* Whether an outermost loop of the program has this path, or one that ends with it. */
bool dt_configpipeline_knows(const DtConfigHost *host, const DtProgram *program, const char *path);
/* Checks the loops that a pipeline cuts, replaces their names by full paths, and determines the
 * pieces. */
void dt_configpipeline_check(const DtConfigHost *host, DtConfigItems items,
                             const DtProgram *program, const DtConfigFacts *facts,
                             const DtParallelConfig *parallel, DtPipeline *line);
/* Checks that the mesh of the chosen layout divides the extents of the axes that it splits; reports
 * those that it does not. */
void dt_configextents_check(const DtConfigHost *host, DtConfigItems items,
                            const DtProgram *program);
void dt_configdata_check(const DtConfigHost *host, DtProgram *program);
/* Reads what a call of a sampler says of its samples. */
void dt_configsamplers_read(const DtConfigHost *host, DtSchemaId schema, const DtConfigValues *v,
                            DtReader *ret_reader);
/* Checks that the inputs have room for the samples of `mlm` or `span_corruption`, and the axes that
 * they index its tokens; fills in the sentinel. */
void dt_configsamplers_check(const DtConfigHost *host, DtReader *reader);
/* Whether tokens of the source come to the input of that number. */
bool dt_configsamplers_has_tokens(const DtReader *reader, uint32_t input);
/* Reports tokenizers whose files are there and do not fit the inputs. */
void dt_configtokens_check(const DtConfigHost *host, const DtTrainConfig *train);
void dt_confignames_check(const DtConfigHost *host, const DtItem *item, DtProgram *program);
/* Adds, for each names block, one of the program's adapters as peft's files have them. */
void dt_configadapters_derive(const DtConfigHost *host, DtProgram *program);

#endif
