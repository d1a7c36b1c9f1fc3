#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each word of reports has a definition:  words.py DTC

What is printed as text, with details, and by compare, of several layouts, is taken apart. Names of the program and plain
English are left out; `dtc explain` must know all that is left, and the names of rows as they stand there."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PROGRAM = f"""include "{EXAMPLES}/llama3_8b.dsl"
cluster two {{ nodes = 2; gpus = 8; gpu = "h100-sxm" }}
parallel flat on two {{ mesh data = 16; shard batch on data; micro batch = 16; zero 3 on data; remat h }}
parallel deep on two {{ mesh pipe = 4, tensor = 4; shard vocab, ffn, kv on tensor; pipeline h on pipe; micro batch = 16 }}
"""

# Words that mean what they mean everywhere.
PLAIN = set(
    """a again all and are as at away be beside besides between but by can could each evenly for four five free from had has
    have if in into is it its least less more most much never no not of off on one only or other others out over so that
    than the them then there they this those three times to too twice two under up was what where which while with without
    would does do done say says add as would help had may took takes take ran run runs so many many largest waits wholly ended
    product operand work known machine memory may keep keeps needs need compares computed needs part parts of the first
    kernels attention messages collectives activations average bytes file fit fits flight fused half level long matrix maximum mean
    measured model names per price priced processor products program slowed sum training""".split()
)
# Units, numbers and what they are of.
UNITS = set("b kib mib gib tib pib s ms us ns h min days k m t flop kflop mflop gflop tflop pflop eflop x f32 f16 bf16 tf32 i32".split())
# Of dtc's own options and programs, and what is quoted.
QUOTED = re.compile(r"`[^`]*`|\([^)]*--[^)]*\)|--[a-z]+|dtrun|dtc|cuDNN's")
ROWS = re.compile(r"^ {0,2}([A-Za-z][\w/ -]*?) {2,}[\d.<(]")


# A kernel is named after its ops, a product after what it does with its result.
OPS = set(re.findall(r"^DT_OP\(\w+, \"?(\w+)", (ROOT / "ir/ops.def").read_text(), re.M))
OPS |= set(re.findall(r'^DT_PLAN_EPILOGUE\(\w+, "(\w+)"', (ROOT / "plan/epilogues.def").read_text(), re.M))
OPS -= set("all_reduce all_gather reduce_scatter all_to_all shift shift_back send recv wait copy zero read".split())


def run(dtc, *options):
    done = subprocess.run([dtc, *options], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def names_of(text):
    """What stands for something of the program: places, ops of kernels."""
    places = r"[\w/.-]+\.dsl(?::\d+)?(?: [\w.]+)?|(?<= of )[\w.]+ \([\w/.-]+\.dsl:\d+\)"
    return set(re.findall(rf"cpu[-\w]*|(?m:^  h )|{places}|\w+(?:\+\w+)+", text))


def words_of(text, own):
    found = set()
    for line in text.split("\n"):
        line = QUOTED.sub(" ", line)
        for name in sorted(own, key=len, reverse=True):
            line = line.replace(name, " ")
        row = ROWS.match(line)
        if row and row[1].lower() not in PLAIN:
            found.add(row[1].strip())
        found |= {w for w in re.findall(r"[A-Za-z][A-Za-z_0-9/-]*", line) if w.lower() not in PLAIN | UNITS | OPS}
    return found


def main():
    dtc = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layouts.dsl"
        path.write_text(PROGRAM)
        texts = []
        for block in ("flat", "deep"):
            texts.append(run(dtc, path, "--parallel", block, "--report", "--details", "--tokens", "1B", "--price", "2")[1])
            run(dtc, path, "--parallel", block, "--no-kernels", "-o", Path(folder) / f"{block}.plan")
        for name in ("vit", "moe"):
            texts.append(run(dtc, EXAMPLES / f"{name}.dsl", "--parallel", "none", "--report", "--details")[1])
        texts.append(run(dtc, EXAMPLES / "shakespeare.dsl", "--report")[1])
        plans = [str(Path(folder) / f"{block}.plan") for block in ("flat", "deep")]
        texts.append(run(dtc, "compare", *plans, "--tokens", "1B", "--price", "2")[1])
        own = {folder, "layouts", "h100-sxm", "data", "pipe", "tensor", "sm_90a", "two"}
        words = set()
        for text in texts:
            words |= words_of(text, own | names_of(text))
    unknown = sorted(w for w in words if run(dtc, "explain", w)[0] != 0)
    if len(words) < 60:
        print(f"only {len(words)} words: {sorted(words)}")
    for word in unknown:
        print(f"dtc explain knows nothing of: {word}")
    failed = len(unknown) + (len(words) < 60)
    print(f"{len(words) - len(unknown)} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
