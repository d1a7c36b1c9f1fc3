/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/same_library.h"

#include "base/hash.h"
#include "runtime/cluster.h"

#include <link.h>
#include <string.h>

/* Libraries of products (gemm_onednn.c, gemm_openblas.c), as part of their files' names. */
static const char *const libraries[] = {"libdnnl", "libopenblas"};

static bool is_library(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < DT_COUNT(libraries); i++)
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0)
            return true;
    return false;
}

/* Adds the notes of a library that is loaded to a hash. They contain the digest that the linker
 * made of it. */
static int add_notes(struct dl_phdr_info *info, size_t size, void *hash)
{
    uint64_t *ret_hash = hash;
    (void)size;
    for (int i = 0; is_library(info->dlpi_name) && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_NOTE)
            *ret_hash = dt_hash_bytes((const void *)(info->dlpi_addr + header->p_vaddr),
                                      header->p_memsz, *ret_hash);
    }
    return 0;
}

static DtStatus refuse(const DtRank *rank, uint32_t other)
{
    const DtSlot *first = dt_shared_slot(rank->plan, rank->shared, 0),
                 *odd = dt_shared_slot(rank->plan, rank->shared, other);
    return dt_status_fail(
        DT_EXIT_USAGE,
        "rank %u on host %.60s computes products with another build of the library than rank 0 on "
        "host %.60s (%016llx, there %016llx): all hosts need the same package (libdnnl, "
        "libopenblas), or --gemm plain",
        other, odd->host, first->host, (unsigned long long)atomic_load(&odd->library),
        (unsigned long long)atomic_load(&first->library));
}

DtStatus dt_samelibrary_check(DtRank *rank)
{
    uint64_t hash = 0;
    if (!rank->options || !dt_cluster_several(rank->options))
        return DT_OK;
    dl_iterate_phdr(add_notes, &hash);
    atomic_store(&rank->slot->library, hash);
    if (!rank->comm_ops->barrier(rank->comm, &rank->world))
        return dt_rank_has_failed(rank)
                   ? rank->failure
                   : dt_status_fail(DT_EXIT_RETRY, "another rank failed");
    const uint64_t first = atomic_load(&dt_shared_slot(rank->plan, rank->shared, 0)->library);
    for (uint32_t r = 1; r < rank->n_ranks; r++)
        if (atomic_load(&dt_shared_slot(rank->plan, rank->shared, r)->library) != first)
            return refuse(rank, r);
    return DT_OK;
}
