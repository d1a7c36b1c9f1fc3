/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tryread.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

/* The call of dt_tryread that this thread executes. */
typedef struct Trial {
    sigjmp_buf back;
    const uint8_t *from, *to; /* addresses at which pages may be missing */
    const uint8_t *volatile missing;
} Trial;

static _Thread_local Trial *volatile trial;
static struct sigaction before; /* the earlier handler of SIGBUS */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* SIGBUS comes from the access itself, in its thread, so leaving by a jump interrupts nothing but
 * read(). An access elsewhere is done again, with the former handler: the process ends as it
 * would. */
static void on_bus(int number, siginfo_t *info, void *context)
{
    Trial *t = trial;
    const uint8_t *at = info->si_addr;
    (void)context;
    if (t && at >= t->from && at < t->to) {
        t->missing = at;
        siglongjmp(t->back, 1);
    }
    sigaction(number, &before, NULL);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

const uint8_t *dt_tryread(const DtFileView *view, void (*read)(void *), void *context)
{
    Trial mine = {.from = view->at, .to = view->at + view->len};
    Trial *const outer = trial;
    pthread_once(&once, install);
    if (sigsetjmp(mine.back, 0) == 0) {
        trial = &mine;
        read(context);
    }
    trial = outer;
    return mine.missing;
}

typedef struct Copy {
    void *to;
    const uint8_t *from;
    size_t len;
} Copy;

static void run_copy(void *context)
{
    const Copy *copy = context;
    memcpy(copy->to, copy->from, copy->len);
}

const uint8_t *dt_tryread_copy(const DtFileView *view, void *to, const uint8_t *from, size_t len)
{
    return dt_tryread(view, run_copy, &(Copy){to, from, len});
}
