# SPDX-License-Identifier: Apache-2.0
"""The same as reduce.c by Open MPI, whose library needs no header here: mpirun -n 2 python3 peer_mpi.py BYTES.."""
import ctypes
import os
import sys
import time

ROUNDS = 7
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)


def known(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


world, f32, largest = known("ompi_mpi_comm_world"), known("ompi_mpi_float"), known("ompi_mpi_op_max")
in_place = ctypes.c_void_p(1)
mpi.MPI_Init(None, None)
for size in map(int, sys.argv[1:]):
    at, n, took = ctypes.create_string_buffer(size), 20000000 // (size + 20000) + 2, []
    where, count = ctypes.cast(at, ctypes.c_void_p), ctypes.c_int(size // 4)
    for turn in range(-1, ROUNDS):
        used = time.process_time() if turn <= 0 else used
        began = time.perf_counter()
        for _ in range(n):
            mpi.MPI_Allreduce(in_place, where, count, f32, largest, world)
        if turn >= 0:
            took.append((time.perf_counter() - began) * 1e6 / n)
    line = "%d %.2f %.2f\n" % (size, sorted(took)[ROUNDS // 2], (time.process_time() - used) * 1e6 / (n * ROUNDS))
    os.write(1, line.encode())  # at once, so that lines of several ranks stay whole
mpi.MPI_Finalize()
