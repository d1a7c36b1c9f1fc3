/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether the thread sanitizer can distinguish more fibers than it has slots for threads. It
 * runs fibers of several launches, ordered as the shim orders them (shim.c), with a race in the
 * last launch, which must be reported. The sanitizer of clang 14 does not report it. */
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *at);
void __tsan_release(void *at);

enum { NO_SYNC = 1, FIBERS = 800, READERS = 16, LAUNCHES = 4 };

static char began, ended;
static volatile int place;

int main(void)
{
    static void *fibers[FIBERS];
    void *const home = __tsan_get_current_fiber();
    for (int i = 0; i < FIBERS; i++)
        fibers[i] = __tsan_create_fiber(0);
    for (int launch = 1; launch <= LAUNCHES; launch++) {
        __tsan_release(&began);
        for (int i = 0; i < FIBERS; i++) {
            __tsan_switch_to_fiber(fibers[i], NO_SYNC);
            __tsan_acquire(&began);
            if (i < READERS)
                (void)place;
        }
        __tsan_switch_to_fiber(fibers[0], NO_SYNC);
        if (launch == LAUNCHES)
            place = 1;
        for (int i = 0; i < FIBERS; i++) {
            __tsan_switch_to_fiber(fibers[i], NO_SYNC);
            __tsan_release(&ended);
        }
        __tsan_switch_to_fiber(home, NO_SYNC);
        __tsan_acquire(&ended);
    }
    return 0;
}
