/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of tensors that another program wrote (`dtrun --import DIR`): foreign.c reads it,
 * import_names.c compares it with the names blocks of the plan, import.c copies its elements. */
#ifndef DT_RUNTIME_FOREIGN_H
#define DT_RUNTIME_FOREIGN_H

#include "runtime/safetensors.h"

#include "base/arena.h"
#include "base/text.h"

#include <jansson.h>

typedef struct DtForeignTensor {
    const DtTensor *tensor;
    uint32_t file;
} DtForeignTensor;

typedef struct DtForeign {
    const char *folder;
    DtTensorFile *files;
    const char **paths; /* of the files */
    uint32_t n_files;
    DtForeignTensor *tensors; /* of all files, in byte order of their names */
    uint32_t n;
    json_t *config; /* config.json, or adapter_config.json; NULL: there is none */
} DtForeign;

/* Maps model.safetensors, or the files that model.safetensors.index.json names, or the only
 * .safetensors file of the folder; also a path of such a file. Every header is checked before
 * anything of it is used, and no number of a file is trusted. Other formats and quantised weights
 * are refused with the command that converts them. */
DtStatus dt_foreign_open(DtArena *memory, const char *folder, DtForeign *ret_foreign);
/* The same of a folder that peft wrote: adapter_model.safetensors and adapter_config.json. */
DtStatus dt_foreign_open_adapters(DtArena *memory, const char *folder, DtForeign *ret_foreign);
void dt_foreign_close(DtForeign *foreign);
/* NULL: there is none of that name. */
const DtForeignTensor *dt_foreign_find(const DtForeign *foreign, const char *name);
/* Whether the folder holds such files. */
bool dt_foreign_is(const char *folder);

/* The tensors of the folder as the records of a names block want them. */
typedef struct DtImport {
    DtForeign foreign;
    bool adapters; /* the folder has adapters alone, in peft's files */
    const char *label; /* of the instance of a model whose parameters are read; "": it has none */
    const DtPlanNames *names;
    /* of each FTEN record of the block: the tensors of its names, in the order of the indices;
     * NULL: the file has none of them */
    const DtForeignTensor ***of;
} DtImport;

/* The names block that fits the folder. name: of the block, or NULL for any. ret_list: one line for
 * each tensor, rule or value that does not fit, if none does. */
DtStatus dt_importnames_choose(DtArena *memory, const DtPlan *plan, const char *name,
                               DtImport *import, DtText *ret_list);

/* The tensors that a record of a names block stands for: their number, and the name of one. */
int64_t dt_importnames_count(const DtPlanFileTensor *tensor);
const char *dt_importnames_name(DtArena *memory, const DtPlan *plan, const DtPlanFileTensor *tensor,
                                int64_t number);
/* The block of the adapters of a names block, as peft's files have them; base NULL: any. Fails if a
 * parameter of an adapter has no tensor in it. what: the option that wants it. */
DtStatus dt_importnames_adapters(const DtPlan *plan, const DtPlanNames *base, const char *what,
                                 const DtPlanNames **ret_names);
/* The dtype of the parameter or state of which the part is. */
uint32_t dt_importnames_dtype(const DtPlan *plan, const DtPlanFilePart *part);

#endif
