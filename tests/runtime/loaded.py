#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No false alarm on a busy machine:  loaded.py DTC DTRUN SECONDS

Eight ranks on four hosts (network namespaces) train for so long, while other processes compute, sleep, and write files, more of them than
there are processors. No rank and no host is named, and at the end the run stops as it should."""

import os
import signal
import subprocess
import sys
import tempfile
import time

from hosts import compile_plan, hosts, losses, wait_for
from lost import NODES, said_by, start
from runs import check, failures, write_tokens

LOADS = ("while True: pass", "import time\nwhile True:\n  time.sleep(0.01)\n  sum(range(300000))",
         "import os\nwhile True:\n  with open('load', 'wb') as f:\n    f.write(bytes(1 << 24))\n    os.fsync(f.fileno())",
         "import random, time\nwhile True:\n  until = time.time() + random.random() * 4\n  while time.time() < until: pass\n  time.sleep(random.random() * 4)")


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    seconds, began = float(sys.argv[3]), time.time()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        compile_plan(dtc, "zero3")
        with hosts(NODES) as (names, address):
            started = start(dtrun, names, address, "run", "zero3.plan", {})
            wait_for("run.log", 2)
            loads = [subprocess.Popen([sys.executable, "-c", text]) for text in LOADS * (1 + len(os.sched_getaffinity(0)) // 2)]
            try:
                while time.time() - began < seconds and all(process.poll() is None for process in started):
                    time.sleep(1)
                texts = [said_by(i) for i in range(NODES)]
                check(all(text == "" for text in texts), "after %.0f s: %s" % (time.time() - began, texts))
                started[1].send_signal(signal.SIGTERM)
                codes = [process.wait(timeout=100) for process in started]
                check(codes == [130] * NODES, "exit codes %s" % codes)
            finally:
                for process in started + loads:
                    process.kill()
                    process.wait()
            print("%d steps in %.0f s" % (len(losses("run.log")), time.time() - began))
    print("loaded: %d failed" % len(failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
