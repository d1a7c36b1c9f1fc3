/* SPDX-License-Identifier: Apache-2.0 */
/* The mapping that all ranks of one machine and their supervisor share (shared.c, shared_slot.c):
 * words on which all agree, a slot in which each rank says what it is doing, the area of the
 * communicator, and the arenas that other ranks may access. */
#ifndef DT_RUNTIME_SHARED_H
#define DT_RUNTIME_SHARED_H

#include "base/status.h"
#include "plan/plan.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum DtPhase {
    DT_PHASE_NONE,
    DT_PHASE_LOADING,
    DT_PHASE_RUNNING,
    DT_PHASE_WAITING /* for other ranks */,
    DT_PHASE_EVAL,
    DT_PHASE_SAVING,
    DT_PHASE_DONE,
    DT_PHASE_FAILED
} DtPhase;

/* A counter that only grows, and the number of ranks that sleep until it does. It has a cache line
 * of its own. */
typedef struct DtSyncWord {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} DtSyncWord;

enum { DT_REPLICA_SETS = 8 };

/* Data that one rank publishes for the others, in cache lines of its own. Only that rank writes
 * them. */
typedef struct DtSlot {
    _Alignas(128) _Atomic uint32_t phase; /* DtPhase */
    _Atomic int32_t pid;
    _Atomic int64_t step;  /* number of the entry that is running */
    _Atomic uint32_t inst; /* number of the instruction being run (plan->insts); UINT32_MAX: none */
    /* The next three are set by dt_shared_wait and dt_shared_go_on. */
    _Atomic uint32_t waits_for; /* a rank for which this one waits, if known; else UINT32_MAX */
    _Atomic uint64_t wait_began_ns;  /* dt_now_ns() when it began to wait for others; 0: not */
    _Atomic uint64_t wait_looked_ns; /* when it last looked and found that it must still wait */
    /* a thread of the rank on which the rank's main thread waits, and which waits for no rank; 0:
     * there is none (hosts_thread.c) */
    _Atomic int32_t worker;
    _Atomic uint64_t progress;  /* grows with every instruction */
    _Atomic uint64_t began_ns;  /* dt_now_ns() when inst began */
    _Atomic uint64_t usual_ns;  /* usual duration of inst so far; 0: not known */
    /* how long this rank had no processor when its waits for others were over (straggler.c) */
    _Atomic uint64_t woken_ns;
    /* The members from here to message are equal on all nodes after every meeting (cluster.c). */
    _Atomic uint64_t memory;    /* bytes of arenas and libraries' workspaces */
    _Atomic int32_t exit_code;  /* once phase is DONE or FAILED */
    /* once phase is FAILED: 1 if the content of a file is the cause, and not the rank itself */
    _Atomic uint32_t by_data;
    /* hash of its device's kind: ranks with equal ones use the same algorithms */
    _Atomic uint64_t kind;
    char host[64]; /* name of its machine, written when it is loaded */
    /* with several nodes: hash of the library that computes products (same_library.c) */
    _Atomic uint64_t library;
    _Atomic uint64_t attention; /* hash of DtRank.attention and of the kernels that the library
                                 * computes */
    /* 1 + the number of the step whose loss or norm is not finite on this rank; 0: none is */
    _Atomic int64_t spoilt;
    /* DtFirstBad of the rank, once its loss or norm is not finite */
    _Atomic uint64_t first_bad_ns;
    _Atomic uint32_t first_bad_inst;
    /* digests of what the rank holds; see replicas.c */
    _Atomic uint64_t replicas[DT_REPLICA_SETS];
    _Atomic int32_t load_code;  /* result of the attempt to load the chosen checkpoint */
    /* results of its parts, of which ranks tell each other one after the other, in turns
     * (checkpoint_shares.c) */
    _Atomic int32_t part_code[2];
    _Atomic uint64_t wire[3];   /* where it listens for ranks of other hosts (wire_meet.c) */
    /* written before phase FAILED, or load_code, is stored with release */
    char message[500];
    /* DT_MARK_..: progress words that the device writes (position.h); 0: it has not written any */
    _Alignas(128) _Atomic uint32_t marks[2];
} DtSlot;

/* Start of the mapping. */
typedef struct DtShared {
    char magic[8];   /* "DTSHARED" */
    uint64_t digest; /* of the plan; ranks compare it */
    uint64_t bytes;
    uint32_t n_ranks, attempt; /* number of the attempt: 0 first, then 1 .. after restarts */
    int32_t supervisor;        /* the process that made the mapping and starts the ranks */
    /* With several nodes: the socket on which the first rank of this node waits for those of its
     * children in the tree, which must know the key; -1: there are none. And where it finds that of
     * the parent. The key is another one in each attempt. */
    int32_t meet_fd;
    uint32_t meet_port;
    char meet_host[256];
    uint8_t meet_key[32];
    /* goodput: dt_now_ns() when the first attempt began; time of steps before the checkpoint with
     * which this attempt begins, taken in earlier attempts; the same for the newest checkpoint */
    uint64_t first_ns, useful_ns;
    _Atomic uint64_t saved_useful_ns;
    uint64_t saving_useful_ns; /* the same for the checkpoint that is being saved */
    /* Rank 0 sets these and saved_useful_ns as soon as a checkpoint is in its place, in the middle
     * of a step. Supervisors read them and, when an attempt begins, all ranks. */
    _Atomic int64_t saved_step; /* steps done in the last complete checkpoint; -1: none */
    _Atomic uint32_t has_saved; /* whether this run has saved a checkpoint, in this attempt or an
                                 * earlier one */
    /* number of steps for which ranks of this node know whether they are the last */
    DtSyncWord decided;
    /* Not 0: all ranks stop; every wait checks it. 1: set by the supervisor, else 2 + the rank
     * that failed first. */
    _Alignas(64) _Atomic uint32_t abort;
    /* Set on Ctrl-C: finish the step, save and end. */
    _Alignas(64) _Atomic uint32_t stop;
    /* Set where rank 0 is: end after the next save, since other hosts can take part then. */
    _Atomic uint32_t regroup;
    /* All following members are equal on all nodes after every meeting of all ranks (cluster.c). */
    /* set by rank 0 before it begins that step; INT64_MAX: none; -1 - step: other hosts take part
     * after it, if its save succeeds */
    _Atomic int64_t last_step;
    _Atomic int32_t save_code;  /* status of the last save, for the other ranks */
    /* The checkpoint that all ranks load (resume.c); -1: none. */
    _Atomic int64_t chosen_serial;
    char chosen[3200];
    /* buffer through which one rank sends data to all, part by part (algorithms.c) */
    char told[4096];
    char nccl_id[128];
} DtShared;

/* Offsets in the mapping, all multiples of the page size from comm on. */
typedef struct DtSharedLayout {
    uint64_t slots, comm, comm_bytes, arenas, rank_bytes, total;
    uint64_t arena[256]; /* offset of each shared arena inside a rank's part */
} DtSharedLayout;

void dt_shared_layout(const DtPlan *plan, DtSharedLayout *ret_layout);
/* Makes an anonymous memory file of that size with DtShared filled in. It is close-on-exec unless
 * the caller clears that. */
DtStatus dt_shared_create(const DtPlan *plan, uint32_t attempt, int *ret_fd);
/* Maps header, slots and communicator area. The arenas are mapped by load.c. */
DtStatus dt_shared_map(const DtPlan *plan, int fd, DtShared **ret_shared);
void dt_shared_unmap(const DtPlan *plan, DtShared *shared);
uint64_t dt_shared_slots(void); /* offset of the slots: the first whole page after the start */
DtSlot *dt_shared_slot(const DtPlan *plan, DtShared *shared, uint32_t rank);
char *dt_shared_comm(const DtPlan *plan, DtShared *shared);
/* Sets the abort word, unless it is set already. by: the rank that failed first, or
 * DT_BY_SUPERVISOR. Ranks that wait look at the word regularly; they need not be woken. */
enum { DT_BY_SUPERVISOR = -1 };
void dt_shared_abort(DtShared *shared, int64_t by);
/* The rank that set the word; DT_BY_SUPERVISOR if it is not set or no rank set it. */
int64_t dt_shared_aborter(DtShared *shared);
/* Records in the slot that this rank waits for rank `who` (UINT32_MAX: not known which), and that
 * it looked at now_ns and must still wait. It is called once per look. The first call begins the
 * wait; dt_shared_go_on ends it. */
void dt_shared_wait(DtSlot *slot, uint32_t who, uint64_t now_ns);
void dt_shared_go_on(DtSlot *slot);
bool dt_shared_waits(const DtSlot *slot);

#endif
