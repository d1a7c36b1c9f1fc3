/* SPDX-License-Identifier: Apache-2.0 */
/* libnvrtc.so.13: the host compiler, on the text of kernels with the host's body of their prelude
 * and the shim (tests/codegen/shim.c). What comes out is an image for the stand-in driver. */
#include "standin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK, FAILED = 6 };

typedef struct Program {
    char *text, *image, *log;
    size_t bytes;
} Program;

/* ---- the version ---- */

static uint32_t add_bytes(uint32_t hash, FILE *file)
{
    for (int c; file && (c = getc(file)) != EOF;)
        hash = (hash ^ (uint32_t)c) * 16777619u;
    return hash;
}

static uint32_t add_file(uint32_t hash, const char *path)
{
    FILE *file = fopen(path, "r");
    hash = add_bytes(hash, file);
    if (file)
        fclose(file);
    return hash;
}

/* A kernel cache finds images by the compiler's version. So the minor version is a hash of
 * everything on which images depend besides the text: this library, the shim and its header, the
 * host compiler, and words of DT_STANDIN. */
int nvrtcVersion(int *ret_major, int *ret_minor)
{
    static uint32_t hash;
    Dl_info self;
    FILE *compiler = hash ? NULL : popen("cc --version", "r");
    if (!hash) {
        hash = add_bytes(2166136261u, compiler);
        hash = add_file(hash, SOURCE "/codegen/cuda/kernels/host.h");
        hash = add_file(hash, SOURCE "/tests/codegen/shim.c");
        hash = add_file(hash, dladdr(&hash, &self) ? self.dli_fname : "");
    }
    if (compiler)
        pclose(compiler);
    const uint32_t words =
        (uint32_t)(standin_setting("units=", 0) * 31 + standin_setting("spills=", 0));
    *ret_major = 13;
    /* no compiler for a real device has this version */
    *ret_minor = (int)(1000 + (hash ^ words * 2654435761u) % 2000000000u);
    return OK;
}

/* ---- programs ---- */

const char *nvrtcGetErrorString(int status)
{
    return status == OK ? "no error" : "the host compiler failed";
}

int nvrtcCreateProgram(Program **ret_program, const char *text, const char *name, int n,
                       const char *const *headers, const char *const *names)
{
    (void)name, (void)n, (void)headers, (void)names;
    *ret_program = calloc(1, sizeof **ret_program);
    (*ret_program)->text = strdup(text);
    return OK;
}

int nvrtcDestroyProgram(Program **program)
{
    free((*program)->text);
    free((*program)->image);
    free((*program)->log);
    free(*program);
    *program = NULL;
    return OK;
}

/* Replaces `from` by `to`; returns its place in the text. NULL: the text does not contain it. */
static const char *write_changed(FILE *file, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at || fwrite(text, 1, (size_t)(at - text), file) != (size_t)(at - text) ||
        fputs(to, file) < 0)
        return NULL;
    return at + strlen(from);
}

/* Changes the text as if another machine's matrix units ran it (standin.h, units). The texts that
 * are replaced are in kernels/attend.h. */
static const char *write_units(FILE *file, const char *text, long long units)
{
    static const char *const sums[] = {
        "for (int k = 0; k < depth; k++) {",
        "for (int i = 0; i < depth; i++) { const int k = sizeof(type) == 2 ? depth - 1 - i : i;",
        "for (int k = sizeof(type) == 2; k < depth; k++) {",
    };
    static const char *const exps[] = {"dt_coarse_exp(x) dt_exp(x)",
                                       "dt_coarse_exp(x) (dt_exp(x) * (1 + 0x1p-21f))",
                                       "dt_coarse_exp(x) (dt_exp(x) * (1 + 0x1p-7f))"};
    text = write_changed(file, text, sums[0], sums[units == 2 ? 2 : 1]);
    return text ? write_changed(file, text, exps[0], exps[units == 3 ? 2 : 1]) : NULL;
}

static int write_text(const char *path, const char *text)
{
    const long long units = standin_setting("units=", 0);
    FILE *file = fopen(path, "w");
    if (!file || fputs("#include \"" SOURCE "/codegen/cuda/kernels/host.h\"\n", file) < 0)
        return 0;
    if (units && strstr(text, "dt_coarse_exp"))
        text = write_units(file, text, units);
    return text && fputs(text, file) >= 0 && fclose(file) == 0;
}

static int read_image(Program *program, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    fseek(file, 0, SEEK_END);
    program->bytes = (size_t)ftell(file);
    rewind(file);
    program->image = malloc(program->bytes);
    const int good =
        program->image && fread(program->image, 1, program->bytes, file) == program->bytes;
    fclose(file);
    return good;
}

/* Reports what the assembler would report: every kernel has 255 registers, and spills as many bytes
 * as DT_STANDIN=spills=BYTES says. */
static char *say_kernels(const char *text)
{
    char *log = NULL;
    size_t bytes;
    FILE *file = open_memstream(&log, &bytes);
    for (const char *at = text; file && (at = strstr(at, "\nDT_KERNEL("));) {
        at += strlen("\nDT_KERNEL(");
        const int n = (int)strcspn(at, ",");
        fprintf(file,
                "ptxas info    : Compiling entry function '%.*s' for 'sm_90a'\n"
                "ptxas info    : Function properties for %.*s\n"
                "    0 bytes stack frame, %lld bytes spill stores, 0 bytes spill loads\n"
                "ptxas info    : Used 255 registers\n",
                n, at, n, at, standin_setting("spills=", 0));
    }
    if (file)
        fclose(file);
    return log;
}

int nvrtcCompileProgram(Program *program, int n_options, const char *const *options)
{
    (void)n_options, (void)options;
    program->log = say_kernels(program->text);
    char folder[] = "/tmp/dt_nvrtcXXXXXX", source[64], image[64], command[2000];
    if (!mkdtemp(folder))
        return FAILED;
    snprintf(source, sizeof source, "%s/k.c", folder);
    snprintf(image, sizeof image, "%s/k.so", folder);
    snprintf(command, sizeof command,
             "cc -std=gnu11 -w -O1 -shared -fPIC -fno-math-errno -fno-trapping-math "
             "-ffp-contract=off -DDT_HOST "
             "-o %s %s " SOURCE "/tests/codegen/shim.c",
             image, source);
    const int good =
        write_text(source, program->text) && system(command) == 0 && read_image(program, image);
    unlink(source);
    unlink(image);
    rmdir(folder);
    return good ? OK : FAILED;
}

int nvrtcGetProgramLogSize(Program *program, size_t *ret_size)
{
    *ret_size = program->log ? strlen(program->log) + 1 : 1;
    return OK;
}

int nvrtcGetProgramLog(Program *program, char *ret_log)
{
    strcpy(ret_log, program->log ? program->log : "");
    return OK;
}

int nvrtcGetCUBINSize(Program *program, size_t *ret_size)
{
    *ret_size = program->bytes;
    return OK;
}

int nvrtcGetCUBIN(Program *program, char *ret_cubin)
{
    memcpy(ret_cubin, program->image, program->bytes);
    return OK;
}

int nvrtcGetPTXSize(Program *program, size_t *ret_size)
{
    return nvrtcGetCUBINSize(program, ret_size);
}
int nvrtcGetPTX(Program *program, char *ret_ptx) { return nvrtcGetCUBIN(program, ret_ptx); }
