/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the lowering share. Private to frontend/.
 *
 * One evaluator walks the program as called. Expressions give values (DtVal): constants, which
 * are computed at once, or tensors, which are values of the IR function being built (DtFrame).
 * Calls of layers and of library functions make IR functions, one per distinct combination of
 * definition, axis arguments, constants and argument types (lower_memo.c); other functions are
 * evaluated in place.
 *
 *   scope.c         files, includes, file-level names, dims
 *   lower.c         driver, entry functions, stores
 *   lower_frame.c   IR functions under construction: captures, parameters, labels, state writes
 *   lower_report.c  diagnostics with the chain of calls; texts of types and expressions
 *   lower_axes.c    axis names and lists, declared types, extents
 *   lower_value.c   dtypes: weak literals, joins, casts, broadcasting maps
 *   lower_expr.c    expressions
 *   lower_copies.c  copies of instances
 *   lower_const.c   arithmetic on constants, powers
 *   lower_index.c   square brackets after a value
 *   lower_train.h   the same for train blocks: schedules, metrics, adapters, optimizers
 *   lower_call.c    calls: callee, arguments, signatures
 *   lower_bind.c    arguments and results against signatures
 *   lower_memo.c    functions made by calls, instances, results
 *   lower_stmt.c    statements
 *   lower_repeat.c  repeat
 *   lower_clause.c  what functions say of themselves: lower_gradient.c, lower_stream.c
 *   lower_sequence.c  what a loop reads and makes position by position
 *   builtins*.c     built-in functions
 *   lower_alone.c   definitions of a library, which nothing calls
 *   names.c         names in definitions that nothing calls
 *   lower_unread.c  values that nothing reads, parameters that no loss depends on
 *   lint.c          names that nothing uses */
#ifndef DT_FRONTEND_LOWER_INTERNAL_H
#define DT_FRONTEND_LOWER_INTERNAL_H

#include "frontend/ast.h"
#include "frontend/config.h"
#include "frontend/lower.h"
#include "ir/ir.h"
#include "ir/map.h"

typedef struct DtLower DtLower;
typedef struct DtFrame DtFrame;
typedef struct DtVal DtVal;
typedef struct DtActivation DtActivation;
typedef struct DtInstance DtInstance;
typedef struct DtBuiltin DtBuiltin;
typedef struct DtAdapter DtAdapter;
typedef struct DtMerge DtMerge;

enum {
    DT_LOWER_CALLS = 64,      /* the deepest nesting of calls */
    DT_LOWER_DEPTH = 1000,    /* the deepest nesting of expressions, through calls */
    DT_LOWER_STEPS = 1000000, /* the most expressions that are evaluated in all */
    /* the most parameters and states of a layer, including all instances in it */
    DT_LOWER_PARAMS = 1 << 16,
    DT_LOWER_OPS = 1 << 19,   /* the most ops of all entries once calls are inlined */
    DT_LOWER_INCLUDES = 64    /* the deepest nesting of includes */
};

typedef enum DtClauseKind {
    DT_CLAUSE_GRADIENT,
    DT_CLAUSE_STREAM,
    DT_CLAUSE_MERGE,
    DT_CLAUSE_NEUTRAL,
    DT_CLAUSE_EMIT,
    DT_CLAUSE_FINISH,
    DT_CLAUSES
} DtClauseKind;

/* ---- axes ---- */

typedef DT_VEC(const char *) DtAxisNames;

/* An axis argument: the names it stands for, and where it was written. */
typedef struct DtAxisList {
    DtAxisNames names;
    DtSpan span;
} DtAxisList;
typedef DT_VEC(DtAxisList) DtAxisLists;

/* ---- values ---- */

typedef enum DtValKind {
    DT_VAL_ERROR, /* an error was reported; users of the value report nothing further */
    DT_VAL_INT,   /* constants */
    DT_VAL_FLOAT,
    DT_VAL_BOOL,
    DT_VAL_TENSOR,
    DT_VAL_TUPLE,
    DT_VAL_STRING,
    DT_VAL_FUNCTION, /* a definition, built-in or dtype, perhaps with axis arguments */
    DT_VAL_INSTANCE, /* a layer with its parameters */
    DT_VAL_INIT,     /* an initialiser */
    DT_VAL_NOTHING   /* a call without results */
} DtValKind;

typedef struct DtFunction {
    const DtDef *def; /* the definition, or NULL: */
    const DtBuiltin *builtin;
    bool is_cast; /* a built-in; or a cast to dtype */
    DtDtype dtype;
    DtAxisLists axes;
    bool has_axes;
    DtName label;
    DtSpan span;
} DtFunction;

struct DtVal {
    DtValKind kind;
    /* TENSOR: a float made of literals and integers only, which takes the dtype of the other
     * operand */
    bool weak;
    union {
        int64_t whole; /* value of INT, BOOL */
        double number; /* value of FLOAT */
        struct {
            DtValue *value;
            DtFrame *frame;
        } tensor;
        struct {
            const DtVal *at;
            uint32_t n;
        } tuple;
        const DtExpr *string;
        const DtFunction *function;
        DtInstance *instance;
        DtInit init;
    };
};

/* A name in scope. span: where it was bound; made: the expression that it was bound to. */
typedef struct DtBinding {
    const char *name;
    DtVal val;
    DtSpan span;
    const DtExpr *made;
    int32_t state; /* if the name is a state: number of the frame's parameter + 1; else 0 */
} DtBinding;

typedef struct DtScope {
    struct DtScope *parent;
    DT_VEC(DtBinding) names;
    DtFrame *frame;
    bool is_loop; /* body of a repeat: names bound in it end with it */
    const char *label;
} DtScope;

/* ---- functions under construction ---- */

typedef struct DtFrameParam {
    DtFormalParam formal;
    DtValue *value;          /* the parameter's value in this frame */
    DtStore *store;          /* its store, in entry functions */
    const DtInstance *owner; /* NULL: the frame's own text declares it */
    DtSpan written;          /* place where its new value was assigned; file 0: nowhere */
    DtValue *new_value;
} DtFrameParam;

typedef struct DtCapture {
    DtValue *outer, *inner;
    DtFrame *frame;
} DtCapture;
typedef struct DtLabel {
    const char *path;
    DtSpan span;
} DtLabel;

/* An element that a loop takes: `x[seq = mul * t + add]` in `repeat t`, with x from outside the
 * loop. */
typedef struct DtElement {
    DtValue *outer, *inner; /* outer: x, a value of frame `home`; inner: the element, an input of
                             * the body */
    DtFrame *home;
    const char *axis;
    int64_t mul, add;
} DtElement;

/* A value that a loop makes element by element, `y[seq = t] = h`; y exists after the loop. */
typedef struct DtCollected {
    const char *name, *axis;
    bool backwards; /* written as `y[seq = count - 1 - t]` */
    DtValue *inner; /* the element of one iteration */
    DtSpan span;
    const DtExpr *made;
} DtCollected;

struct DtFrame {
    DtFrame *parent; /* frame whose values this one may capture; NULL: none */
    DtFunc *func;
    DtBuilder b;
    bool is_entry, is_loop;
    bool is_rule; /* the frame is an optimizer's update of one parameter */
    const DtDef *def; /* the layer or model; NULL: the train block, a loop */
    DtFrame *random; /* the frame in which random sites are numbered: that of the layer */
    uint32_t n_random;
    const char *prefix; /* prefix of paths for iterations of unrolled loops: "" or "t.0." */
    /* what comes before the paths of instances made here, from the program on: "" or
     * "h.#.attention."; NULL: the frame is inside of an adapter, whose instances get none */
    const char *where;
    DT_VEC(DtValue *) args;
    DT_VEC(DtCapture) captures;
    DT_VEC(DtFrameParam) params;
    DT_VEC(DtLabel) labels;
    DtMap capture_at, param_at, label_at; /* 1 + number in the lists above: by outer value, by path,
                                           * by path */
    int64_t count; /* number of iterations of a loop */
    uint64_t called; /* how many ops its callees have once they are inlined; for entries see
                      * DtLower.called */
    DT_VEC(DtElement) elements;
    DT_VEC(DtCollected) collected;
};

struct DtInstance {
    const DtDef *def;
    DtAxisLists axes;
    bool has_axes;
    DtName label;
    DtFrame *home;    /* the frame that has its parameters */
    const char *path; /* path within home: "" for a model without label, else "t.0.wq" */
    /* of `copy(policy)`: the instance of which this is a copy, with parameters of its own that
     * never change; else NULL. copy: bytes of its label and the dot after it, with which its path
     * and those of its adapter begin; 0: it is no copy */
    const DtInstance *original;
    uint32_t copy;
    DtSpan span;
    DtInstance *adapter;         /* wraps the calls of this instance; NULL: none */
    const DtAdapter *adapter_of; /* of an adapter: the line that made it; else NULL */
    DtMerge *merge;              /* of an adapter: what its calls showed */
};

/* A call being evaluated. */
struct DtActivation {
    DtActivation *caller;
    const DtDef *def; /* NULL: the train block */
    DtSpan call;      /* the place of the call; file 0: it was not called */
    DtScope *scope;
    DtFrame *frame;
    DtAxisLists axes;       /* what the axis parameters def->axes stand for */
    /* extents of `axis` names, from the arguments; -1: arguments disagree */
    DT_VEC(DtAxis) extents;
    bool has_returned;
    DtVal returned;
    DtSpan returned_span;
    const DtStmt *clauses[DT_CLAUSES]; /* by kind: the clause that was met; NULL: none so far */
    bool in_clause;            /* a clause is being evaluated */
    DT_VEC(DtBinding) formals; /* the formals as they were bound, if the definition has clauses */
    DT_VEC(DtBinding) ended; /* names of loops that have ended */
    uint32_t depth;
};

/* ---- file-level names ---- */

typedef struct DtSourceFile {
    const char *path, *identity;
    uint32_t file;
    DtAst *ast;
    bool is_library;
} DtSourceFile;

/* An `include` line: file `from` has it, and it names file `to`. */
typedef struct DtInclusion { uint32_t from, to; } DtInclusion;

typedef enum DtGlobalKind {
    DT_GLOBAL_DIM,
    DT_GLOBAL_CONSTANT,
    DT_GLOBAL_AXIS,
    DT_GLOBAL_DEF
} DtGlobalKind;
typedef struct DtGlobal {
    DtGlobalKind kind;
    const char *name;
    DtSpan span;
    const DtExpr *value; /* the value of a dim or constant, as an expression */
    const char *option;  /* the text that -D gives a dim or constant */
    const DtDef *def;
    uint8_t state; /* dim, constant: 0 not yet evaluated, 1 being evaluated, 2 known, 3 wrong */
    int64_t extent;
    const DtVal *constant; /* the value of a constant that is known */
    bool used, is_library;
    /* for an axis of the library: the name that it has in this program, see scope.c */
    const char *meant;
} DtGlobal;

/* An instance of a layer, and the `adapt` line that matches it. Loops' iterations are one. */
typedef struct DtSite {
    const char *called; /* its path and its layer: `h.#.attention.wq:linear` */
    const DtAdapter *adapter; /* NULL: no line matches */
    const DtMerge *merge; /* what calls of the adapter showed; NULL: it has none */
} DtSite;
typedef DT_VEC(DtSite) DtSites;

/* A function that was made for calls, or the failure to make it. */
typedef struct DtMemo {
    const char *key; /* key, interned; NULL: made for one call only */
    const DtDef *def;
    DtFunc *func;   /* NULL: the function has errors */
    uint64_t ops;   /* ops of func once its own calls are inlined */
    DtSites sites;  /* the instances in it, at any depth, with paths that begin at the function */
    bool in_adapter; /* it was made inside of an adapter, where instances get no adapters */
    DtVal *results; /* its results: for tensors, tensor.value is the value in func */
    uint32_t n_results;
    bool is_tuple;
} DtMemo;

/* The last call whose name is of another framework: its error, and how the call is written. */
typedef struct DtUnknownCall {
    DtDiag *diag;
    const char *word;
    const DtExpr *call; /* NULL: not known yet */
} DtUnknownCall;

struct DtLower {
    DtArena *arena;
    DtDiags *diags;
    const DtLowerOptions *options;
    DtProgram *program;
    DtModule *module;
    DT_VEC(DtSourceFile) files;
    DT_VEC(DtInclusion) inclusions; /* of all files */
    DT_VEC(const DtItem *) blocks; /* blocks of the library (devices, stacks) that the program
                                    * uses */
    DT_VEC(DtItem *) items;
    DT_VEC(DtGlobal *) globals;
    /* two hash tables by name: of dims and definitions; of dims and axes */
    DtGlobal **value_table, **axis_table;
    /* table of the library's definitions; value_table has them too, except those that a file of the
     * program redefines */
    DtGlobal **library_table;
    DtGlobal **library_axes; /* table of the library's axes, by their names in the library */
    uint32_t table_size;
    DT_VEC(DtGlobal *) made_up;           /* invented axes of a definition that is checked alone */
    DT_VEC(DtMemo *) memos;
    DT_VEC(DtAdapter *) adapters; /* the `adapt` lines of the chosen train block */
    DtSites sites; /* instances in the order in which they were met, if there are adapters */
    DT_VEC(const DtInstance *) copies; /* the calls of `copy`, of all entries */
    DtActivation *now;
    bool training;
    bool in_init; /* an initialiser is being evaluated */
    DtDtype compute, params;
    DtMap store_at; /* stores by path */
    DtMap assigned_at; /* by the span of the assigned name */
    DT_VEC(struct DtAssigned *) assigned;
    DtMap taken; /* branches of `if` that were lowered, and divisions that drew a lint */
    const int64_t *rank; /* value of `rank` inside an optimizer, else NULL */
    const DtStore *updated; /* the parameter for which the optimizer is evaluated */
    bool rank_counts;       /* the optimizer has used `rank` */
    DtOptimizerCalls optimizers; /* of the chosen train block, one per group */
    const DtExpr *average;       /* its call of a rule of averages; NULL: there is none */
    uint32_t depth, steps;
    uint64_t called; /* how many ops the callees of entries have once they are inlined */
    /* while numbers of the step are read: their frame; else NULL */
    DtFrame *scalars;
    DtTrainConfig *reading;     /* the train block that these numbers belong to */
    /* key for the next call, whose constants remain settings that a run may change; else NULL */
    const char *setting_key;
    uint32_t in_branch;         /* depth of `if` branches that depend on a run-time value */
    uint32_t n_rules;           /* how many updates were lowered, one per parameter */
    bool gave_up;               /* a limit was exceeded, and reported */
    bool lacks_include;         /* a missing include of std.dsl was reported */
    DtUnknownCall unknown;
    DT_VEC(const DtDef *) seen; /* definitions that were evaluated */
    const DtDef *stop_at_model; /* for "predict": set to the model when its call is complete */
    bool wants_model, has_model;
    const DtDef *first_model; /* the first model that draws random numbers */
    DtVal model_results;
};

/* ---- scope.c ---- */

/* Reads the main file and its includes, fills files, items, globals and applies -D. */
void dt_scope_load(DtLower *l);
/* The library's device or stack of that name, parsed at its first use; NULL: there is none. */
const DtItem *dt_scope_block(DtLower *l, DtItemKind kind, const char *name);
/* the dim or definition of that name, or NULL */
DtGlobal *dt_scope_value(const DtLower *l, const char *name);
/* Returns what a name means at the place where it is written: in files of the library, the
 * library's own definitions take precedence. */
DtGlobal *dt_scope_meant(const DtLower *l, const DtExpr *name);
/* the dim or axis of that name, or NULL */
DtGlobal *dt_scope_axis(const DtLower *l, const char *name);
/* Returns the name of the axis that is written there. It differs from the text only in the library:
 * for an axis of the library whose name the program uses otherwise. */
const char *dt_scope_axis_meant(const DtLower *l, DtName name);
/* Returns the extent of a dim; -1 after a report, of which there is one per dim. */
int64_t dt_scope_extent(DtLower *l, DtGlobal *dim);
/* Returns the value of a constant; an error value after a report. */
DtVal dt_scope_constant(DtLower *l, DtGlobal *constant);
bool dt_scope_in_library(const DtLower *l, DtSpan span);

/* ---- lower_report.c ---- */

/* Reports an error at span. Inside of a library file the primary place is the user's call, and the
 * place in the library is a label. */
DtDiag *dt_report_error(DtLower *l, DtDiagCode code, DtSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds a label for each call, from the user's program on, that led to the definition in which span
 * is. */
void dt_report_calls(DtLower *l, DtDiag *d, DtSpan span);
/* Returns the axes of a type as text: "[batch, seq]", or "[tok = 197]" with extents (of `axis`
 * names, or of all). In the arena. */
const char *dt_report_axes(DtLower *l, const DtType *type, bool extents);
/* text of names: `a`, or `(a, b)` */
const char *dt_report_names(DtLower *l, const DtAxisNames *names);
const char *dt_report_type(DtLower *l,
                           const DtVal *val); /* text of a value's kind: "f32[batch, seq]", "a
                                               * constant integer" */
/* Returns what messages call the value of expr: `k` if it is a name, else "this value". */
const char *dt_report_subject(DtLower *l, const DtExpr *expr);
/* Labels the place where the value of expr was bound, if expr is a local name. */
void dt_report_origin(DtLower *l, DtDiag *diag, const DtExpr *expr);
/* Adds help with the nearest name, and a fix that puts it at span. */
void dt_report_nearest(DtLower *l, DtDiag *diag, DtSpan span, const char *name,
                       const char *const *names, size_t n);
const DtExpr *dt_report_bare(const DtExpr *expr); /* the expression without parentheses */
/* Adds fixes to the error of a call of another framework's function. around: the call of which it
 * is the callee, or NULL; values: of its arguments. */
void dt_report_foreign(DtLower *l, const DtUnknownCall *unknown, const DtExpr *around,
                       const DtVal *values);
/* If argument i of this call is a mask such as `mask = tril(..)`: adds a fix with an expression of
 * positions to the report. */
void dt_report_foreign_mask(DtLower *l, const DtUnknownCall *unknown, const DtExpr *call,
                            uint32_t i);
/* If argument i is `is_causal = true`, adds a fix with a mask and returns true; else returns
 * false. */
bool dt_report_foreign_causal(DtLower *l, DtDiag *d, const DtExpr *call, uint32_t i);

/* ---- lower_frame.c ---- */

DtFrame *dt_frame_new(DtLower *l, DtFrame *parent, const char *name, DtFuncKind kind, DtSpan span);
DtValue *dt_frame_arg(DtLower *l, DtFrame *frame, const DtType *type, const char *name);
/* Returns the caller's value v with all tensors in it replaced by new arguments of the frame. */
DtVal dt_frame_args(DtLower *l, DtFrame *frame, const DtVal *v, const char *name);
/* Returns the value of frame `home` as it is seen in `frame`; frames in between capture it. */
DtValue *dt_frame_import(DtLower *l, DtFrame *frame, DtValue *value, DtFrame *home);
/* Number of a parameter of frame, declared in it (owner NULL) or in an instance. Paths are
 * complete within frame. An instance that is called again gets the same parameter. In an entry
 * function this makes the store and the `param` op. -1 after an error. */
/* Counts n more ops of inlined calls in the frame; false, after a report, if there are too many. */
bool dt_frame_calls(DtLower *l, DtFrame *frame, uint64_t n, DtSpan span);
int32_t dt_frame_param(DtLower *l, DtFrame *frame, DtFormalParam formal, const DtType *type,
                       const DtInstance *owner);
/* Returns the frame's parameter or state with this path; NULL: there is none. */
const DtFrameParam *dt_frame_find(const DtFrame *frame, const char *path);
/* Reserves a label in the frame; reports a label that is in use. The kind says where the label
 * comes from: the layer's name, the program, or a loop. */
typedef enum DtLabelKind { DT_LABEL_DEFAULT, DT_LABEL_WRITTEN, DT_LABEL_LOOP } DtLabelKind;
bool dt_frame_label(DtLower *l, DtFrame *frame, const char *path, DtName label, DtLabelKind kind);
/* Records the new value that the program assigns to a state. */
void dt_frame_write(DtLower *l, DtFrame *frame, uint32_t param, DtValue *value, DtSpan span);
/* Adds an input to the frame's function; dt_frame_finish decides its position. */
DtValue *dt_frame_input(DtLower *l, DtFrame *frame, const DtType *type, const char *name);
/* Sorts the inputs of the frame's function, and appends the new values of states to its results. */
void dt_frame_finish(DtLower *l, DtFrame *frame);
const char *dt_frame_site(DtLower *l, DtFrame *frame, const char *op);

/* ---- lower_axes.c ---- */

DtAxisList *dt_axes_formal(DtLower *l,
                           const char *name); /* what an axis parameter of the present definition
                                               * stands for */
/* Append the axes that a written name, or a group in parentheses, stands for; they report unknown
 * ones and return false. */
bool dt_axes_name(DtLower *l, DtName name, DtAxisNames *ret_names);
bool dt_axes_group(DtLower *l, const DtGroup *group, DtAxisList *ret_list);
/* Reads all axis arguments in brackets; reports entries that are no axes and returns false. */
bool dt_axes_subs(DtLower *l, const DtExpr *subs, DtAxisLists *ret_lists);
bool dt_axes_distinct(DtLower *l, const DtAxisLists *lists, const char *what);
/* Returns the extent of an `axis` in the arguments of the present call; 0: they do not have it, -1:
 * they differ. */
int64_t dt_axes_local(const DtLower *l, const char *name);
/* Returns the extent that a name has without further text: that of a dim or, for an `axis`, that in
 * the arguments of the present call. -1 after a report. what: "`iota`" for the message; NULL: a
 * declared type. */
int64_t dt_axes_extent(DtLower *l, const char *name, DtSpan span, const char *what);
/* Returns the extent that is written for a name, which stands for the axes in `names`; -1 after a
 * report. */
int64_t dt_axes_written(DtLower *l, const DtAstAxis *written, const DtAxisNames *names);
/* The list of axes in a declared type. sizes: every axis must have an extent (else extent 0 =
 * any). */
typedef struct DtDeclared {
    uint32_t n;
    DtAxis axes[DT_MAX_RANK];
    DtSpan spans[DT_MAX_RANK];
    bool open;        /* has `...` */
    uint32_t written; /* number of entries, not counting `...` */
    uint16_t begins;  /* bit i: an entry of the declaration begins with axis i */
} DtDeclared;
bool dt_axes_declared(DtLower *l, const DtAstType *type, bool sizes, DtDeclared *ret_declared);
bool dt_axes_dtype(DtLower *l, const DtAstType *type,
                   DtDtype *ret_dtype); /* requires that the program has the declared axes */
/* Returns the type with these axes; NULL, with a report, if it has too many elements. */
const DtType *dt_axes_type(DtLower *l, DtSpan span, DtDtype dtype, uint32_t rank,
                           const DtAxis *axes);

/* ---- lower_value.c ---- */

static inline bool dt_val_is_constant(const DtVal *v)
{
    return v->kind == DT_VAL_INT || v->kind == DT_VAL_FLOAT || v->kind == DT_VAL_BOOL;
}
static inline bool dt_val_is_error(const DtVal *v) { return v->kind == DT_VAL_ERROR; }
DtVal dt_val_error(void);
DtVal dt_val_int(int64_t whole);
DtVal dt_val_float(double number);
DtVal dt_val_bool(bool truth);
DtVal dt_val_tuple(DtLower *l, const DtVal *items, uint32_t n);
DtVal dt_val_of(DtLower *l, DtValue *value, bool weak); /* makes a tensor value of the present
                                                         * frame */
double dt_val_number(const DtVal *v);                   /* value of a constant */
DtDtype dt_val_dtype(const DtVal *v);                   /* dtype of a value; of constants i32, f32,
                                                         * bool */
/* Returns a constant or tensor as a value of the present frame with this dtype. Constants and weak
 * values (made of literals) change their dtype, others are cast. The caller has checked that v is a
 * constant or a tensor. */
DtValue *dt_val_use(DtLower *l, const DtVal *v, DtDtype dtype);
DtValue *dt_val_tensor(DtLower *l, const DtVal *v); /* the same, in the dtype that v has */
/* Whether v is a constant or a tensor; reports any other value, except one of kind ERROR. */
bool dt_val_check(DtLower *l, const DtVal *v, const DtExpr *expr);
/* Returns the dtype in which an elementwise op combines these operands. floats: the op needs floats
 * (exp, /). ret_weak: all are made of literals. */
DtDtype dt_val_join(const DtVal *v, uint32_t n, bool floats, bool *ret_weak);
/* Appends an elementwise op on operands of one dtype, each repeated along axes that it lacks.
 * Reports extents that differ, and returns an error value. */
DtVal dt_val_map(DtLower *l, DtOpKind kind, const DtVal *v, const DtExpr *const *exprs, uint32_t n,
                 bool floats);
/* Find the union of the operands' axes; false, with a report, if extents of a shared name differ.
 * exprs may be NULL. dt_val_union also requires that the union is a type whose elements can be
 * counted. */
bool dt_val_union_axes(DtLower *l, const DtVal *v, const DtExpr *const *exprs, uint32_t n,
                       DtSpan span, uint32_t *ret_rank, DtAxis ret_axes[DT_MAX_RANK]);
bool dt_val_union(DtLower *l, const DtVal *v, const DtExpr *const *exprs, uint32_t n, DtSpan span,
                  uint32_t *ret_rank, DtAxis ret_axes[DT_MAX_RANK]);
DtVal dt_val_cast(DtLower *l, const DtVal *v, DtDtype dtype);
DtVal dt_val_expand(DtLower *l, DtVal v, uint32_t rank, const DtAxis *axes);
/* Returns a float operand of a layer or model rounded to the `compute` dtype. */
DtVal dt_val_round(DtLower *l, const DtVal *v, DtDtype dtype);

/* ---- lower_expr.c ---- */

DtVal dt_expr_eval(DtLower *l, const DtExpr *expr);
/* Read a constant integer, number or truth value; they report other values and return false. what:
 * for messages, "the number of windows". */
bool dt_expr_int(DtLower *l, const DtExpr *expr, const char *what, int64_t *ret_whole);
bool dt_expr_truth(DtLower *l, const DtExpr *expr, const char *what, bool *ret_truth);
bool dt_val_int_of(DtLower *l, const DtVal *v, const DtExpr *expr, const char *what,
                   int64_t *ret_whole);
bool dt_val_number_of(DtLower *l, const DtVal *v, const DtExpr *expr, const char *what,
                      double *ret_number);
DtBinding *dt_expr_find(const DtLower *l, const char *name);
/* lower_const.c: evaluates operators whose operands are all constants */
DtVal dt_const_unary(DtLower *l, const DtExpr *expr, DtVal a);
DtVal dt_const_binary(DtLower *l, const DtExpr *expr, DtVal a, DtVal b);
DtVal dt_expr_power(DtLower *l, const DtExpr *expr, DtVal x, DtVal n);

/* ---- lower_index.c ---- */

DtVal dt_index_eval(DtLower *l, const DtExpr *expr, DtVal x);
/* Returns x without one axis: its element `at` along the axis. */
DtValue *dt_index_select(DtLower *l, DtValue *x, const char *axis, int64_t at);

/* Whether value is mul * base + add, with base of the same type (value itself if there is no better
 * one). Sets all three. */
bool dt_index_affine(DtValue *value, DtValue **ret_base, int64_t *ret_mul, int64_t *ret_add);

/* ---- lower_sequence.c ---- */

/* Replaces x by x[axis = index], the element for one iteration of an enclosing loop, if the loop
 * can take x apart before it begins. False if x is made in the loop, or index is not affine in the
 * loop's variable. */
bool dt_sequence_element(DtLower *l, DtVal *x, const char *axis, const DtVal *index);
/* Reports a lint for an x that dt_sequence_element could not take apart, and that is computed again
 * in each iteration of the loop whose variable is the index. */
void dt_sequence_lint(DtLower *l, const DtVal *x, const DtVal *index, DtSpan span);
/* Whether the target is `y[seq = t]`, where t is the variable of a loop that is not unrolled. */
bool dt_sequence_is_target(DtLower *l, const DtTarget *target);
void dt_sequence_assign(DtLower *l, const DtTarget *target, const DtVal *val, const DtExpr *value);
/* Returns the value `name` that an enclosing loop makes element by element, and that is complete
 * only after the loop; NULL if there is none. */
const DtCollected *dt_sequence_find(const DtLower *l, const char *name);
/* Called before a loop op is made: returns the stacked operand from which iterations take an
 * element, with the loop's axis, `axis`, first. */
DtValue *dt_sequence_stack(DtLower *l, DtFrame *body, const DtElement *element, const char *axis);
/* Called after the loop op is made: binds the names of values that the loop made element by element
 * to its results. results NULL: the body had an error. */
void dt_sequence_bind(DtLower *l, const DtFrame *body, DtValue *const *results, const char *axis);

/* ---- lower_call.c ---- */

/* Evaluates expr as the function or instance that is called, with its brackets; a value of kind
 * ERROR after a report. */
DtVal dt_call_callee(DtLower *l, const DtExpr *expr);
bool dt_call_denotes(DtLower *l, const DtExpr *expr); /* whether it is a callee, not a tensor */
DtVal dt_call_eval(DtLower *l, const DtExpr *expr, const DtVal *first, const DtExpr *first_expr);
/* Returns the value of a function that is not called: `iota[a]`, `zeros`, `wq:linear[a, b]` (an
 * instance), or the function itself. */
DtVal dt_call_value(DtLower *l, DtVal callee, const DtExpr *expr);
/* Makes an instance of a layer, with parameters of its own, in the current frame. */
DtVal dt_call_instance(DtLower *l, const DtFunction *function);
/* The path by which `adapt` lines know an instance: of a copy, that of the original. */
static inline const char *dt_call_known(const DtInstance *instance)
{
    return instance->original ? instance->original->path : instance->path;
}

/* Adds a fix that leaves out argument number i of the call. */
void dt_call_fix_without(DtLower *l, DtDiag *d, const DtExpr *call, uint32_t i, const char *text);

/* One argument of a call of a definition, bound to a formal. */
typedef struct DtBound {
    DtVal val;
    const DtExpr *expr; /* as written; NULL for a default */
    bool given;
} DtBound;

/* Evaluates the call's arguments and puts each where the definition has it: by name, others in
 * order from formal `at` on. False after a report. */
bool dt_call_place(DtLower *l, const DtDef *def, const DtExpr *call, uint32_t at, DtBound *bound);

/* ---- lower_clause.c, lower_gradient.c, lower_stream.c, lower_scan.c ---- */

bool dt_clause_any(const DtStmts *body);
void dt_clause_stmt(DtLower *l, const DtStmt *stmt);
/* dt_clause_lower lowers the clauses of the function whose body was just evaluated. bound: its
 * arguments; results: values of its frame. False after a report. */
bool dt_clause_lower(DtLower *l, const DtBound *bound, DtVal *results, uint32_t n_results);
bool dt_stream_lower(DtLower *l, const DtBound *bound, const DtVal *results, uint32_t n_results,
                     const DtVal **ret_parts);
/* dt_scan_lower replaces the results by those computed in blocks (lower_scan.c); dt_gradient_lower
 * makes the function of a stated gradient (lower_gradient.c). */
bool dt_scan_lower(DtLower *l, const DtBound *bound, DtVal *results, uint32_t n_results);
bool dt_gradient_lower(DtLower *l, const DtBound *bound, const DtVal *results, uint32_t n_results,
                       const DtVal *parts);
/* Begins the evaluation of a clause in a frame of its own, which it returns; the caller restores
 * *l->now. */
DtFrame *dt_clause_enter(DtLower *l, DtFrame *parent, DtFrame *home, const DtStmt *stmt,
                         DtScope *outer);
/* Binds name i in the clause's parentheses to a value; false after a report. */
bool dt_clause_name(DtLower *l, const DtStmt *stmt, uint32_t i, DtVal val);
/* Evaluates the block of a clause, and returns its values in ret_items. wanted: number of values
 * that it must return, 0: any. each: their description, for messages. False after a report. */
bool dt_clause_run(DtLower *l, const DtStmt *stmt, const char *each, uint32_t wanted,
                   const DtVal **ret_items, uint32_t *ret_n);
/* Checks that axes which x and the type have in common have equal extents; reports it and returns
 * false if not. */
bool dt_clause_fits(DtLower *l, const char *what, const DtType *x, const DtType *type);
/* Returns the clause's returned value v as a value of this type in the frame; NULL after a
 * diagnostic. */
DtValue *dt_clause_fitted(DtLower *l, const DtStmt *stmt, DtFrame *frame, const DtVal *v,
                          const DtType *type);

/* ---- lower_unread.c: values and parameters without effect ---- */

/* Each of these records what was met: an assignment in a layer or function; several that one
 * expression binds together; a read of a binding (NULL: of none); a branch of `if` that is
 * lowered. */
void dt_unread_assign(DtLower *l, const char *name, DtSpan span);
void dt_unread_join(const DtLower *l, const DtTarget *targets, uint32_t n);
void dt_unread_read(const DtLower *l, const DtBinding *binding);
void dt_unread_take(DtLower *l, const DtStmts *branch);
void dt_unread_lint_values(DtLower *l);
/* Reports a lint for parameters that nothing reads. train NULL: a model alone. */
void dt_unread_lint_params(DtLower *l, const DtItem *train);

/* ---- lower_bind.c ---- */

/* A call's arguments and results, matched with the signature. extras: axes that `...` matched. */
typedef struct DtSignature {
    const DtFunction *function;
    const DtExpr *call;
    DtActivation *act;
    DtAxisNames extras;
    DtAxisNames loose; /* axes of arguments that have no declared type */
    bool is_layer;
} DtSignature;
/* Checks one argument against the signature, and rounds it, in the caller's frame; l->now is the
 * callee's activation. False after a report. */
bool dt_bind_argument(DtLower *l, DtSignature *s, const DtFormal *formal, DtBound *bound);
/* Checks result number i against the signature, and rounds it; l->now is the callee's activation
 * and frame. False after a report. */
bool dt_bind_result(DtLower *l, DtSignature *s, uint32_t i, DtVal *val, DtSpan span);

/* ---- lower_memo.c ---- */

/* Evaluates a call of a definition with bound arguments: as a call of an IR function (one per kind
 * of arguments), or in place. instance: the layer's instance; NULL for functions. */
DtVal dt_memo_call(DtLower *l, const DtFunction *function, DtInstance *instance, const DtExpr *call,
                   DtBound *bound);

/* After an error in a call: values of the declared result types, as far as these are known without
 * the arguments, so that later code can be checked. The module itself is discarded. */
DtVal dt_memo_recover(DtLower *l, const DtFunction *function, const DtExpr *call);
bool dt_memo_draws(const DtFunc *func); /* whether the function draws random numbers, in loops
                                         * too */

/* ---- lower_stmt.c ---- */

void dt_stmt_block(DtLower *l, const DtStmts *stmts);
void dt_stmt_assign(DtLower *l, const DtTarget *targets, uint32_t n, const DtExpr *value);
void dt_stmt_bind(DtLower *l, const char *name, DtVal val, DtSpan span, const DtExpr *made);
/* Reports a lint if a local name hides a dim, definition or built-in. */
void dt_stmt_lint_hiding(DtLower *l, const char *name, DtSpan span);
void dt_repeat_stmt(DtLower *l, const DtStmt *stmt);

/* ---- lower.c ---- */

/* Counts nesting and steps of the evaluation; false, after a report, if a limit is exceeded.
 * dt_lower_leave ends the nesting. */
bool dt_lower_enter(DtLower *l, DtSpan span);
void dt_lower_leave(DtLower *l);
DtStore *dt_lower_store(DtLower *l, const DtFormalParam *formal, const DtType *type);

/* ---- builtins.c ---- */

/* A call of a built-in: axis arguments, then arguments in the order of the row, NULL expr = not
 * given. */
typedef struct DtBuiltinCall {
    const DtBuiltin *builtin;
    const DtExpr *expr;
    DtSpan span; /* span of the name */
    DtAxisLists axes;
    uint32_t n;
    DtVal val[16];
    const DtExpr *arg[16];
    const DtExpr *call; /* the call, for rows that read named arguments themselves */
    DtName label;       /* of the instance that the call makes; text NULL: none is written */
} DtBuiltinCall;

typedef DtVal DtBuiltinRun(DtLower *l, DtBuiltinCall *c);

struct DtBuiltin {
    const char *name;
    uint8_t min_axes, max_axes; /* 255: any */
    const char *formals;        /* as in builtins.def */
    DtBuiltinRun *run;
    const char *help;
};
extern const DtBuiltin dt_builtins[];
extern const uint32_t dt_n_builtins;
/* Returns the row of this name; NULL if there is none. with_axes 1: called with brackets, 0:
 * without (max, min have both), -1: any. */
const DtBuiltin *dt_builtin_find(const char *name, int with_axes);
DtVal dt_builtin_call(DtLower *l, const DtFunction *function, const DtExpr *expr,
                      const DtVal *first, const DtExpr *first_expr);
/* Evaluates a built-in that is used without a call: `iota[a]`, `size[a]`. */
DtVal dt_builtin_value(DtLower *l, const DtFunction *function, const DtExpr *expr);
#define DT_BUILTIN(name, min, max, formals, handler, help) DtBuiltinRun dt_builtin_##handler;
#include "frontend/builtins.def"
#undef DT_BUILTIN
/* Returns all axes in all brackets as one list. */
DtAxisList dt_builtin_all_axes(DtLower *l, const DtBuiltinCall *c);
/* Checks that every axis of the list is an axis of argument `arg`; reports one that is not and
 * returns false. */
bool dt_builtin_has_axes(DtLower *l, DtBuiltinCall *c, uint32_t arg, const DtAxisList *list);
/* Returns the single axis of bracket entry i; NULL after a report. */
const char *dt_builtin_sole_axis(DtLower *l, const DtBuiltinCall *c, uint32_t i);

/* ---- lower_alone.c ---- */

/* Checks the definitions of a main file without a model, which no call has reached. */
void dt_alone_check(DtLower *l);

/* ---- names.c ---- */

/* Checks names in definitions of the main file that no call has reached. */
void dt_names_check(DtLower *l);

/* ---- lint.c ---- */

void dt_lint_unused(DtLower *l);

#endif
