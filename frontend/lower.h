/* SPDX-License-Identifier: Apache-2.0 */
/* From syntax trees to IR and configuration: names, axes, dtypes, instances. One evaluator walks
 * the definitions as called (checking each distinct combination of constants and argument types
 * once) and builds the IR as it goes. */
#ifndef DT_FRONTEND_LOWER_H
#define DT_FRONTEND_LOWER_H

#include "frontend/ast.h"
#include "ir/config.h"

typedef struct DtOption { const char *name, *value; } DtOption;

/* A file that lowering read, or that it reads from memory. path: where it is, as an include would
 * find it. name: what messages and plans call it; of a file of the library, its name in that. */
typedef struct DtSourceText {
    const char *path, *name, *text;
    size_t len;
    bool is_library;
} DtSourceText;
typedef DT_VEC(DtSourceText) DtSourceTexts;

/* Another number of ranks for the chosen layout (frontend/config_resize.c). The blocks are named by
 * interned names; every mesh axis has a size. */
typedef struct DtResize {
    const char *parallel, *cluster;
    const char *mesh[16]; int64_t size[16]; uint32_t n_mesh;
    int64_t nodes, gpus; /* their product is that of the sizes */
    const char *samples; /* the axis of samples */
    int64_t micro;       /* micro-batches */
    bool pads;           /* lines that split the axis of samples pad it */
} DtResize;

typedef struct DtLowerOptions {
    const char *path;                      /* the .dsl file */
    const char *library;                   /* folder with std.dsl */
    const DtOption *dims; uint32_t n_dims; /* -D name=value */
    const DtOption *sets; uint32_t n_sets; /* --set block.key=value */
    const char *const *lines; uint32_t n_lines; /* --add LINE: of the parallel block */
    /* NULL, or the text of a parallel block that replaces the chosen one; then `lines`, and `sets`
     * for a parallel block, are ignored */
    const char *block;
    const char *train, *parallel, *cluster;/* names of the chosen blocks; NULL: the only one.
                                            * parallel "none": one rank */
    bool synthetic;                        /* --data=synthetic */
    bool smaller;                          /* dims that --verify has made smaller */
    bool rebatched;                        /* with another batch (lower_ramp.c) */
    /* interned axes of products that stream whatever their size, as if the layout had a `stream`
     * line: a smaller version of a program (--verify) streams what the program itself does */
    const char *const *streams; uint32_t n_streams;
    /* NULL, or the path of a file (main or included) in whose place `text` is read; it need not
     * exist */
    const char *replaced;
    const char *text;
    size_t text_len;
    /* NULL: files are read from the disk; else only these can be read */
    const DtSourceTexts *sources;
    DtSourceTexts *ret_sources;            /* if not NULL: receives the files that were read */
    const DtResize *resize;                /* NULL, or the layout's new size */
    DtAst **ret_ast;                       /* if not NULL: receives the tree of the main file */
} DtLowerOptions;

/* Reads the file and its includes, checks everything, and returns the program, or NULL after errors
 * in diags. A file without train block gives a module with the functions only; a model whose inputs
 * are all typed is lowered as entry "predict". */
DtProgram *dt_lower(DtArena *arena, DtDiags *diags, const DtLowerOptions *options);

#endif
