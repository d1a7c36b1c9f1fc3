/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hostfile.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static DtArena *memory;

static void begin(void) { memory = dt_arena_new(); }

static void end(void) { dt_arena_free(memory); }

TestSuite(hostfile, .init = begin, .fini = end);

static void expect(const char *text, int64_t ranks, uint32_t n, int64_t slots, const char *last)
{
    DtHostFile hosts;
    const DtStatus status = dt_hostfile_parse(memory, text, "f", ranks, 0, &hosts);
    cr_assert(dt_status_ok(&status), "%s: %s", text, status.message);
    cr_expect(hosts.n == n && hosts.slots == slots, "%s: %u, %lld", text, hosts.n,
              (long long)hosts.slots);
    cr_expect_str_eq(hosts.names[n - 1], last);
}

static void refuse(const char *text, int64_t ranks, const char *why)
{
    DtHostFile hosts;
    const DtStatus status = dt_hostfile_parse(memory, text, "f", ranks, 0, &hosts);
    cr_expect_eq(status.code, DT_EXIT_USAGE, "%s", text);
    cr_expect(strstr(status.message, why), "%s: %s", text, status.message);
}

Test(hostfile, forms)
{
    expect("a\nb", 8, 2, 4, "b");
    expect("# all\na slots=4\n\n  b slots=4 max_slots=8 # two\n", 8, 2, 4, "b");
    expect("a:4\r\nme@b:4\r\n", 8, 2, 4, "me@b");
    expect("fe80::1 slots=2\nfe80::2 slots=2", 4, 2, 2, "fe80::2");
    expect("fe80::1\n", 4, 1, 4, "fe80::1");
}

Test(hostfile, contradictions)
{
    refuse("", 4, "lists no host");
    refuse("# a\n", 4, "lists no host");
    refuse("a\nb\nc", 4, "not the same number on each of the 3 hosts");
    refuse("a slots=2\nb slots=3", 5, "line 2: hosts have different numbers of slots");
    refuse("a slots=2\nb", 4, "line 2: hosts have different");
    refuse("a slots=2\nb slots=2", 8, "8 ranks, and the 2 hosts in f have 2 slots each");
    refuse("a\na", 4, "lists a twice, in line 2");
    refuse("a slots=x", 4, "line 1, is no host");
    refuse("a slots=0", 4, "line 1, is no host");
    refuse("a slots=-4", 4, "line 1, is no host");
    refuse("a slots=99999999999999999999", 4, "line 1, is no host");
    refuse("a b", 4, "line 1, is no host");
    refuse("a:b", 4, "line 1, is no host");
    refuse("-oProxyCommand=x", 4, "line 1, is no host"); /* no option of ssh */
    refuse("a;reboot", 4, "line 1, is no host");
    refuse("$(reboot)", 4, "line 1, is no host");
}

Test(hostfile, any_bytes)
{
    uint64_t state = 3;
    for (int i = 0; i < 20000; i++) {
        char text[40];
        static const char some[] = "ab:=# \n\tslots48-@%.\x01\xff";
        DtHostFile hosts;
        for (size_t k = 0; k < sizeof text; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            text[k] = some[(state >> 40) % (sizeof some - 1)];
        }
        text[(state >> 20) % sizeof text] = '\0';
        text[sizeof text - 1] = '\0';
        const DtStatus status = dt_hostfile_parse(memory, text, "f", 4, 0, &hosts);
        cr_expect(status.code == DT_EXIT_OK || status.code == DT_EXIT_USAGE);
    }
}
