/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of `dtc init`: cmd_init.c (the command), init_library.c (which program of the
 * library has the model, and with which numbers), init_program.c (the text of the new program),
 * init_samplers.c (its data, if that is made of text), init_images.c (if it is images),
 * init_arrays.c (its data otherwise). */
#ifndef DT_CLI_INIT_H
#define DT_CLI_INIT_H

#include "cli/cli.h"
#include "frontend/ast.h"

#include <jansson.h>

/* A dim or constant of the library's program, and what config.json says that it is. */
typedef struct DtInitValue {
    const char *name; /* interned */
    bool is_constant;
    const char *text; /* as the language writes it: 151_936, 1e-6, true */
    const char *keys; /* of config.json; NULL: the choice that config.json contradicts least */
} DtInitValue;
typedef DT_VEC(DtInitValue) DtInitValues;

/* The data of the program: arrays of NumPy, files of images, or samples of a token stream. */
typedef enum DtInitData {
    DT_INIT_ARRAYS,
    DT_INIT_IMAGES, /* images */
    DT_INIT_NEXT,   /* next_token */
    DT_INIT_MASKED, /* mlm */
    DT_INIT_SPANS   /* span_corruption */
} DtInitData;

typedef struct DtInitCommand {
    DtCli *cli;
    const char *folder;  /* of the model, as the command line names it */
    const char *library; /* the folder of std.dsl */
    const char *output;  /* path of the new program, also where it is printed instead */
    const char *config_path;
    json_t *config;
    /* set by dt_initlibrary_choose */
    const char *type;     /* "qwen3": what config.json calls the kind of model */
    const char *file;     /* "models/qwen3.dsl": for an include */
    const char *model;    /* the name of the model in it */
    const DtDef *def;     /* its definition */
    DtInitValues values;  /* in the order of the library's names block */
    DtProgram *program;   /* the model with these values, without a train block */
    double parameters;
    /* set by dt_initsamplers_choose */
    DtInitData data;
    int64_t token;       /* the mask token of MASKED, the first sentinel of SPANS */
    bool lacks_token;    /* ARRAYS, since tokenizer.json has no such token */
    const char *special; /* "0, 100, 101": other special tokens, if they are few; or "" */
    /* set by dt_initimages_read */
    const char *images; /* ", stretch = true, mean = 0.5, std = 0.5": of the source */
    const char *note;   /* a line about it; NULL: there is nothing to say */
    /* set by dt_initprogram_write */
    const char *layouts; /* "one, two, eight" */
    const char *lacks;   /* layouts that need more memory than their devices have; "": none */
} DtInitCommand;

/* Finds the program of the library whose names block fits config.json. Returns DT_EXIT_OK, or the
 * exit code after a message. */
int dt_initlibrary_choose(DtInitCommand *init);

/* Appends the lines that give the dims and constants these values. */
void dt_initlibrary_lines(DtArena *arena, const DtInitValues *values, DtText *ret_text);

/* Writes the program that trains the model. Returns an exit code, after a message if it fails. */
int dt_initprogram_write(DtInitCommand *init, DtText *ret_text);

/* Returns the number of positions that config.json gives the model, at most most; 0: it gives
 * none. */
int64_t dt_initprogram_positions(const DtInitCommand *init, int64_t most);

/* Finds which data suits the model and the tokens of tokenizer.json. */
void dt_initsamplers_choose(DtInitCommand *init);

/* Returns the call of the sampler on a source of tokens. is_text: whose tokenizer knows the special
 * tokens. */
const char *dt_initsamplers_call(const DtInitCommand *init, const char *source, bool is_text);

/* Returns the lines of the `train` block for that call: the samples and the loss. */
const char *dt_initsamplers_train(const DtInitCommand *init, const char *call);

/* Returns the positions that the target of a source has, for SPANS; 0: it has none of its own. */
int64_t dt_initsamplers_target(const DtInitCommand *init, int64_t source);

/* Whether the model classifies images: its one input is an image of floats. */
bool dt_initimages_fit(const DtInitCommand *init);

/* Reads preprocessor_config.json. Returns DT_EXIT_OK, or the exit code after a message. */
int dt_initimages_read(DtInitCommand *init);

/* Returns the lines of the `train` block that read images and their classes, up to the part `to`,
 * and compute the loss. */
const char *dt_initimages_train(const DtInitCommand *init, double to);

/* Returns the source of a part of the images; side: "from" or "to". */
const char *dt_initimages_source(const DtInitCommand *init, const char *side, double part);

/* Returns the pattern of the files, for messages. */
const char *dt_initimages_files(void);

/* Returns the type of the argument, as the program gives it; NULL: the model does not read it. */
const DtType *dt_initarrays_type(const DtInitCommand *init, const char *name);

/* Returns the declaration of the argument: "x[batch, height = 224]". */
const char *dt_initarrays_input(const DtInitCommand *init, const DtFormal *formal);

/* Checks that arrays can be written for the model's arguments. Returns DT_EXIT_OK, or the exit code
 * after a message. */
int dt_initarrays_check(const DtInitCommand *init);

/* Returns the lines of the `train` block that read each argument and the labels, up to the part
 * `to`, and compute the loss. */
const char *dt_initarrays_train(const DtInitCommand *init, double to);

/* Returns the same sources from the part `from` on, as held-out data. */
const char *dt_initarrays_held(const DtInitCommand *init, double from);

/* Returns the names of the files: "mine/image.npy, mine/labels.npy". */
const char *dt_initarrays_files(const DtInitCommand *init);

/* Lowers a text as if it stood in the file of the new program. parallel: the layout; NULL: none is
 * named. Returns NULL after errors in diags. */
DtProgram *dt_initprogram_lower(const DtInitCommand *init, DtArena *arena, DtDiags *diags,
                                const char *text, const char *parallel);

#endif
