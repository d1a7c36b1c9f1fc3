# SPDX-License-Identifier: Apache-2.0
"""A gradient that is not a number, on one rank, in a layout with `compress`:  compress_nan.py DTC DTRUN

Every method must let all ranks see it, so that the step is repeated and the run ends with 1. The parameter is split over tensor
parallelism too: the scale of `int8` and `fp8` is then a maximum over ranks, and NCCL's drops a NaN (tests/standin/nccl.c does so if it
comes from another member than the first one). Each element of the parameter is the bad one once, so each rank has it. The same plans run
on processors, through `shm`."""

import array
import os
import struct
import subprocess
import sys
import tempfile

METHODS = ("int8", "fp8", "one_bit", "one_bit_twice", "top_k", "random_k")
HIDDEN, BATCH = 4, 4
PROGRAM = """include "std.dsl"
dim batch = %d, hidden = %d
model net(y[batch, hidden]) -> [batch, hidden] {
  param b[hidden] = zeros
  return y - b
}
train {
  y[batch, hidden] = npy("y.npy")
  d = net(y)
  loss = mean[batch, hidden](sqrt(d * d))
  optimizer = sgd(lr = 0.01)
  steps = 1
}
cluster four { gpus = 4; gpu = "cpu" }
""" % (BATCH, HIDDEN)
LAYOUT = "parallel %s on four { mesh data = 2, tensor = 2; shard batch on data; shard hidden on tensor; compress %s on data }\n"


def write_data(bad):
    """All elements differ from the parameter, which is 0, but for element `bad` of the first sample: there the slope is 0 / 0."""
    rows = array.array("f", [0.0 if i == bad else 1.0 + i for i in range(BATCH * HIDDEN)])
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (BATCH, HIDDEN)
    header = (header + " " * (117 - len(header)) + "\n").encode()
    with open("y.npy", "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + rows.tobytes())


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def main(dtc, dtrun):
    failed = passed = 0
    os.environ["DT_STANDIN"] = "gpus=4"
    with open("p.dsl", "w") as file:
        file.write(PROGRAM + "".join(LAYOUT % (method, method) for method in METHODS))
    for method in METHODS:
        for target, options in (("interpreted", ["--comm", "shm"]), ("sm_90a-interpreted", ["--comm", "nccl"])):
            write_data(None)
            code, said = run(dtc, "p.dsl", "--parallel", method, "--target=" + target, "-o", "p.plan")
            assert code == 0, said
            for bad in [None] + list(range(HIDDEN)):
                write_data(bad)
                code, said = run(dtrun, "p.plan", "--quiet", *options)
                good = code == (0 if bad is None else 1) and (bad is None or "not a number" in said)
                passed, failed = passed + good, failed + (not good)
                if not good:
                    print("%s on %s, element %s: exit code %d, not seen\n%s" % (method, target, bad, code, said[-600:]))
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    tools = [os.path.abspath(path) for path in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.exit(main(*tools))
