/* SPDX-License-Identifier: Apache-2.0 */
/* The least time that a training step could take: runs only the matrix products of a plan's step,
 * with the plan's descriptors, addresses and order, by the library that the runtime uses.
 * Everything else in the plan is skipped. So products of causal tiles run as often as in the
 * step.
 *
 *   gemm_floor PLAN [STEPS] [PROCESSES]   prints the median milliseconds of a step
 *
 * With several processes each runs the products of one rank at the same time; the slowest
 * counts. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* A copy of the plan, in which all instructions other than matrix products do nothing. */
static DtPlan only_products(const DtPlan *plan)
{
    DtPlan copy = *plan;
    DtPlanInst *insts = calloc(plan->n_insts + 1u, sizeof *insts);
    memcpy(insts, plan->insts, plan->n_insts * sizeof *insts);
    for (uint32_t i = 0; i < plan->n_insts; i++)
        if (insts[i].kind != DT_INST_GEMM) {
            insts[i].kind = DT_INST_ZERO;
            insts[i].count = 0;
        }
    copy.insts = insts;
    return copy;
}

static void fill(const DtRank *rank)
{
    for (uint32_t a = 0; a < rank->plan->n_arenas; a++) {
        float *at = (float *)(uintptr_t)rank->arenas[a].at; // NOLINT(performance-no-int-to-ptr)
        const bool is_there =
            at && dt_plan_is_usual(rank->plan->arenas[a].kind); /* entry `predict` is not run */
        for (int64_t i = 0; is_there && i < rank->plan->arenas[a].bytes / 4; i++)
            at[i] = (float)(i % 17) * 1e-3f;
    }
}

static int run(const char *path, int steps, uint32_t number, int fd, double *ret_ms)
{
    DtPlanFile file;
    DtRank rank = {0};
    DtRunOptions options = {.plan_path = path, .steps = -1, .device = "cpu", .comm = "shm"};
    DtStatus status = dt_read_file(path, &file);
    if (dt_status_ok(&status)) {
        DtPlan plan = only_products(&file.plan);
        status = dt_load_rank(&options, &plan, number, fd, &rank);
        double *times = calloc((size_t)steps + 1, sizeof *times);
        if (dt_status_ok(&status))
            fill(&rank);
        for (int i = -2; dt_status_ok(&status) && i < steps; i++) {
            uint64_t begin = dt_now_ns();
            if (!dt_exec_entry(&rank, "step"))
                status = rank.failure;
            if (i >= 0)
                times[i] = (double)(dt_now_ns() - begin) * 1e-6;
        }
        qsort(times, (size_t)steps, sizeof *times, ascending);
        *ret_ms = times[steps / 2];
    }
    if (!dt_status_ok(&status))
        fprintf(stderr, "gemm_floor: %s\n", status.message);
    return status.code;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: gemm_floor PLAN [STEPS] [PROCESSES]\n", stderr);
        return DT_EXIT_USAGE;
    }
    int steps = argc > 2 ? atoi(argv[2]) : 10, processes = argc > 3 ? atoi(argv[3]) : 1, code = 0,
        pipes[2], fd;
    DtPlanFile file;
    DtStatus status = dt_read_file(argv[1], &file);
    if (dt_status_ok(&status))
        status = dt_shared_create(&file.plan, 0, &fd);
    if (!dt_status_ok(&status) || pipe(pipes) != 0) {
        fprintf(stderr, "gemm_floor: %s\n", status.message);
        return DT_EXIT_IO;
    }
    for (int p = 0; p < processes; p++)
        if (fork() == 0) {
            double ms = 0;
            code = run(argv[1], steps, (uint32_t)p, fd, &ms);
            if (code == 0 && write(pipes[1], &ms, sizeof ms) != sizeof ms)
                code = DT_EXIT_IO;
            _exit(code);
        }
    close(pipes[1]);
    double ms, slowest = 0;
    while (read(pipes[0], &ms, sizeof ms) == sizeof ms)
        slowest = ms > slowest ? ms : slowest;
    for (int state; wait(&state) > 0;)
        code |= !WIFEXITED(state) || WEXITSTATUS(state) != 0;
    if (code == 0)
        printf("%.1f\n", slowest);
    return code;
}
