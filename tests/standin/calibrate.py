# SPDX-License-Identifier: Apache-2.0
"""dtc calibrate --device cuda on stand-ins of CUDA's libraries:  calibrate.py DTC DTRUN

The device is the processor, so its constants say nothing of a GPU; that known ones come back from times is for
tests/cost/test_calibrate.c. Its kernels are interpreted, and each takes a millisecond more, so that
only the smallest sizes are measured. Here: it goes through from compiling to the block, which reads back as the numbers that it has, prices
programs, and stands beside what dtrun measures. Without a GPU it says what it looked for.

With DT_SHARE=K/N in the environment (tests/share.py) the device is measured if the turn has place 3; what is refused is always
looked at."""

import json
import os
import re
import subprocess
import sys
import tempfile

from training import INTERPRETED, ROOT, share

# sizes: two that are only measured as steps, two to which constants are fitted, one with which they
# are compared
MEASURED = 5
SMALL = ["-D", "batch=2", "-D", "seq=16", "-D", "vocab=32", "-D", "embed=64", "-D", "heads=1", "-D", "layers=1"]
UNITS = {"GFLOP/s": 1e9, "GB/s": 1e9, "B": 1, "us": 1e-6, "": 1}
DATA = {"capacity", "bandwidth", "cache", "units", "peak_f32", "peak_f16"}


def run(*command, wants=0, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env={**os.environ, **more})
    assert done.returncode == wants, "%s: exit code %d\n%s%s" % (" ".join(command), done.returncode, done.stdout[-800:], done.stderr[-1500:])
    return done.stdout, done.stderr


def numbers_of(block):
    """The numbers of the block by name: value in SI units."""
    found = {}
    for name, value, unit in re.findall(r"^  (\w+) = (?:about\()?([0-9.e+-]+)([A-Za-z/]*)", block, re.M):
        found[name] = float(value) * UNITS[unit]
    return found


def check_block(block, said):
    found = numbers_of(block)
    assert block.startswith('device "mine" {') and "gpu = true" in block and 'description = "stand-in 0"' in block, block
    assert DATA <= set(found) and found["units"] == 4 and found["capacity"] == 2 ** 32 and found["cache"] == 2 ** 20, found
    fitted = {"launch", "product", "memory", "attention_forward", "attention_backward"}
    assert len(fitted & set(found)) >= 4 and "attention_forward" in found, "fitted are %s" % sorted(found)
    assert all(found.get(name, 1) <= 1 for name in fitted - {"launch"}), found
    assert said.count("dtc: measuring ") == MEASURED, said
    for what in ("GPU 0 is stand-in 0, whose data sheet is not known", "attention kernels, off by", "by events", "not fitted on bf16"):
        assert what in said, (what, said)
    return found


def check_use(dtc, dtrun, block, found):
    """A plan that is priced with the block contains its numbers, to the last digit, and a run shows
    them."""
    with open(os.path.join(ROOT, "lib", "calibrate.dsl")) as file, open("program.dsl", "w") as to:
        to.write(file.read() + block)
    how = ["program.dsl", "--library", os.path.join(ROOT, "lib"), "--parallel", "one", "--set", 'cluster.gpu="mine"', *SMALL]
    run(dtc, *how, "--target=" + INTERPRETED, "-o", "priced.plan")
    records = dict(re.findall(r'^DEVC name="(\w+)".*? value=([0-9.e+-]+)', run(dtc, "dump", "priced.plan")[0], re.M))
    for name, value in found.items():
        assert name == "node" or abs(float(records[name]) / value - 1) < 1e-12, (name, value, records.get(name))
    report = json.loads(run(dtc, *how, "--report=json")[0])
    again = json.loads(run(dtc, "report", "priced.plan", "--report=json")[0])
    assert report["device"] == "mine" and report["memory"]["device"] == 2 ** 32 and report["time"]["step"] == again["time"]["step"]
    kernels = sum(i["runs"] for e in report["entries"] if e["name"] in ("step", "update") for i in e["instructions"]
                  if i["kind"] in ("kernel", "gemm"))
    assert report["time"]["step"] > kernels * found["launch"] > 0, (report["time"]["step"], kernels, found["launch"])
    shown = run(dtrun, "priced.plan", "--steps", "1", "--trace", "trace.json")
    assert "predicted" in "".join(shown), shown
    with open("trace.json") as file:
        assert "predicted for mine: compute" in file.read()


def check_refused(dtc):
    nowhere = {"LD_LIBRARY_PATH": "", "DT_CUDA_LIBRARIES": "/nowhere"}
    said = run(dtc, "calibrate", "--device", "cuda", wants=1, **nowhere)[1]
    assert re.search(r"no libcuda\.so\.1 in the folders of DT_CUDA_LIBRARIES, `/nowhere`", said), said
    said = run(dtc, "calibrate", "--device", "cuda", wants=1, DT_STANDIN="gpus=0")[1]
    assert "the driver of the GPU does not begin: no CUDA-capable device" in said, said
    said = run(dtc, "calibrate", "--device", "tpu", wants=2)[1]
    assert "cpu or cuda, not `tpu`" in said, said
    said = run(dtc, "calibrate", "--device", "cuda", "--target=sm_80", wants=2)[1]
    assert "no --target" in said, said
    said = run(dtc, os.path.join(ROOT, "examples/quickstart.dsl"), "--device", "cuda", "--check", wants=2)[1]
    assert "--device belongs to `dtc calibrate`" in said, said


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.mkdir("temporary")
        os.environ.update(TMPDIR=os.path.join(folder, "temporary"))
        check_refused(dtc)
        if not share.mine(3):
            print("skipped: the device is measured in the turn of another commit (DT_SHARE=%s)" % os.environ["DT_SHARE"])
            print("1 passed, 0 failed, 1 skipped")
            return
        block, said = run(dtc, "calibrate", "mine", "--device", "cuda", "--target=" + INTERPRETED, DT_STANDIN="sleeps=1")
        found = check_block(block, said)
        check_use(dtc, dtrun, block, found)
        assert not [name for name in os.listdir("temporary") if name.startswith("dtc-")], os.listdir("temporary")
    print("3 passed, 0 failed")


if __name__ == "__main__":
    main()
