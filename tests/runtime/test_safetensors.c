/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors from an untrusted source: whatever their bytes are, opening either gives tensors
 * inside of the file or an error, and never reads outside of it. */
#include "runtime/safetensors.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static DtArena *arena;

static void setup(void)
{
    strcpy(path, "/tmp/dt_tensorsXXXXXX");
    close(mkstemp(path));
    arena = dt_arena_new();
}

static void teardown(void)
{
    unlink(path);
    dt_arena_free(arena);
}

TestSuite(safetensors, .init = setup, .fini = teardown);

/* Overwrites the file and cuts it to `len` bytes. It does not empty the file first: ext4 writes a
 * file that was emptied to the disk when it is closed, which took most of these tests' time. */
static void write_bytes(const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && ftruncate(fd, (off_t)len) == 0);
    close(fd);
}

static void write_file(uint64_t header_len, const char *header, size_t n_header, size_t data)
{
    char bytes[4096] = {0};
    cr_assert_lt(8 + n_header + data, sizeof bytes);
    memcpy(bytes, &header_len, 8);
    memcpy(bytes + 8, header, n_header);
    write_bytes(bytes, 8 + n_header + data);
}

static DtStatus open_file(DtTensorFile *ret_file)
{
    return dt_safetensors_open(arena, path, ret_file);
}

static void expect_refused(const char *said)
{
    DtTensorFile file;
    DtStatus status = open_file(&file);
    cr_assert_eq(status.code, DT_EXIT_IO);
    cr_assert(strstr(status.message, said), "said: %s\nexpected: %s", status.message, said);
}

static void refuse_header(const char *header, size_t data, const char *said)
{
    write_file(strlen(header), header, strlen(header), data);
    expect_refused(said);
}

Test(safetensors, reads_a_file_of_others)
{
    static const char header[] =
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[4,20]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
        "\"empty\":{\"dtype\":\"F64\",\"shape\":[0,7],\"data_offsets\":[20,20]},"
        "\"one\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[20,22]}}  ";
    DtTensorFile file;
    write_file(sizeof header - 1, header, sizeof header - 1, 22);
    DtStatus status = open_file(&file);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(file.n, 4);
    const DtTensor *b = dt_safetensors_find(&file, "b");
    cr_assert_eq(b->at - file.view.at, 8 + (long)sizeof header - 1 + 4);
    cr_assert_eq(dt_safetensors_find(&file, "one")->bytes, 2);
    cr_assert_null(dt_safetensors_find(&file, "c"));
    dt_safetensors_close(&file);
}

Test(safetensors, lengths_are_bounded)
{
    write_bytes("", 0);
    expect_refused("no safetensors file");
    write_bytes("1234567", 7);
    expect_refused("no safetensors file");
    static const uint64_t lengths[] = {3, 1000, 1ull << 32, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < DT_COUNT(lengths); i++) {
        write_file(lengths[i], "{}", 2, 0);
        expect_refused("no safetensors file");
    }
}

Test(safetensors, headers_are_objects_of_tensors)
{
    static const struct {
        const char *header, *said;
    } cases[] = {
        {"", "no JSON object"},
        {"[]", "no JSON object"},
        {"{", "no JSON object"},
        {"{} x", "no JSON object"},
        {"{\"a\":1,\"a\":1}", "no JSON object"},
        {"\xff\xfe", "no JSON object"},
        {"{\"\xff\":{}}", "no JSON object"},
        {"{\"a\\u0000b\":{}}", "no JSON object"},
        {"{\"a\":3}", "`a` is no description"},
        {"{\"a\":{}}", "`a` has a dtype"},
        {"{\"a\":{\"dtype\":\"F31\"}}", "`a` has a dtype"},
        {"{\"a\":{\"dtype\":5}}", "`a` has a dtype"},
        {"{\"a\":{\"dtype\":\"F32\"}}", "`a` has a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":4}}", "`a` has a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1]}}", "`a` has a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5]}}", "`a` has a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"]}}", "`a` has a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296]}}", "`a` has a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999]}}", "no JSON object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}",
         "`a` has a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "`a` has no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
         "`a` has no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}}",
         "`a` has no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "`a` lies outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "`a` lies outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", "`a` lies outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775803,"
         "9223372036854775807]}}",
         "`a` lies outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",
         "`a` has another number of bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", "`a` follows a hole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         "bytes after its last tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
         "overlaps with another"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        refuse_header(cases[i].header, 8, cases[i].said);
}

Test(safetensors, deep_nesting_is_an_error)
{
    char deep[3500];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    write_file(sizeof deep, deep, sizeof deep, 0);
    expect_refused("no JSON object");
}

static const void *give(void *context, uint32_t i, int64_t first, int64_t n, DtStatus *ret_status)
{
    cr_assert(first >= 0 && n > 0);
    if (i == 3)
        *ret_status = dt_status_fail(DT_EXIT_FAILED, "no third tensor");
    return (const char *)context + i + first;
}

/* Replaces each byte of a small file by every other value: the result is an error, or tensors that
 * can be read. */
Test(safetensors, every_changed_byte_is_safe)
{
    DtTensor tensors[2] = {
        {.name = "x", .dtype = DT_PLAN_U16, .n_axes = 2, .extents = {2, 3}, .bytes = 12},
        {.name = "y\"\\", .dtype = DT_PLAN_F64, .n_axes = 1, .extents = {1}, .bytes = 8}};
    DtTensorsId id;
    static const char data[] = "some twenty-odd bytes";
    DtStatus status = dt_safetensors_write(path, tensors, 2, 8, give, (void *)(uintptr_t)data, &id);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    char *bytes;
    size_t len;
    status = dt_file_read(arena, path, 4096, &bytes, &len);
    cr_assert(dt_status_ok(&status) && (int64_t)len == id.bytes);
    uint32_t opened = 0, sum = 0;
    for (size_t at = 0; at < len; at++)
        for (int value = 0; value < 256; value += at < 8 ? 1 : 5) {
            DtTensorFile file;
            char keep = bytes[at];
            bytes[at] = (char)value;
            write_bytes(bytes, len);
            bytes[at] = keep;
            status = open_file(&file);
            if (!dt_status_ok(&status))
                continue;
            opened++;
            for (uint32_t i = 0; i < file.n; i++)
                for (int64_t k = 0; k < file.tensors[i].bytes; k++)
                    sum += file.tensors[i].at[k];
            dt_safetensors_close(&file);
        }
    cr_assert_gt(opened, 20 * 51); /* at least the changes in the data must be accepted */
    cr_assert_gt(sum, 0);
}

Test(safetensors, a_source_that_fails_leaves_no_file)
{
    DtTensor tensors[4];
    DtTensorsId id;
    for (int i = 0; i < 4; i++)
        tensors[i] = (DtTensor){
            .name = &"abcd\0"[i], .dtype = DT_PLAN_U8, .n_axes = 1, .extents = {1}, .bytes = 1};
    unlink(path);
    DtStatus status =
        dt_safetensors_write(path, tensors, 4, 8, give, (void *)(uintptr_t) "bytes", &id);
    cr_assert_str_eq(status.message, "no third tensor");
    cr_assert_neq(access(path, F_OK), 0);
}
