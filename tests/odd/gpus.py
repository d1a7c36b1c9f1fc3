#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Odd programs (ranks.py, whose arguments and tolerances these are) compiled for GPUs and run on the libraries that stand in
for them (tests/standin, in LD_LIBRARY_PATH), by themselves and in layouts whose ranks share one, against the serial run on
the processor. With --compiled, a kernel has a fiber for each of its threads; else it is interpreted."""
import sys

import ranks

ON_GPU = {"options": ["--target=sm_90a-interpreted"], "flags": ["--share-gpu"]}


class OnGpus(ranks.Odd):
    def check_serial(self, folder):
        yield "gpu", self.judge(folder, lambda case, _: [("", case.run("gpu", **ON_GPU))])

    def judge_layout(self, folder, block):
        return self.judge(folder, lambda case, _: [("", case.run("layout", block, **ON_GPU))])


if __name__ == "__main__":
    ranks.Odd = OnGpus
    if "--compiled" in sys.argv:
        sys.argv.remove("--compiled")
        ON_GPU["options"] = ["--target=sm_90a"]
    sys.exit(ranks.main(sys.argv[1:]))
