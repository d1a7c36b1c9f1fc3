#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each word of reports has a definition:  words.py DTC

The words in the text of reports, of reports with details, of comparisons and of `auto`, for several
layouts, are collected. Names from the program and plain English words are left out; `dtc explain`
must know all others, and the names of rows as they are printed. It must also know the keys of
JSON."""

import json
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
parallel deep on two {{
  mesh pipe = 4, tensor = 4; shard vocab, ffn, kv on tensor; pipeline h on pipe; micro batch = 16
}}
parallel small on two {{
  mesh pipe = 4, tensor = 4; shard vocab, ffn, kv on tensor; pipeline h on pipe; micro batch = 64
}}
parallel open on two {{ auto }}
parallel least on two {{ auto (minimise = memory) }}
parallel sizes on two {{ auto (gpus = (8, 32), minimise = device_hours) }}
"""

# Words that have their usual meaning.
PLAIN = set(
    """a again all and are as at away be beside besides between but by can could each evenly for four five free from had has
    have if in into is it its least less more most much never no not of off on one only or other others out over so that
    than the them then there they this those three times to too twice two under up was what where which while saves with without
    would does do done say says add as would help had may took takes take ran run runs so many many largest waits wholly ended
    product operand work known machine memory may keep keeps needs need compares computed needs part parts of the first
    kernels attention messages collectives activations average bytes file fit fits flight fused half level long matrix maximum mean
    compiled faster line longer said slow taken these
    measured model names per price priced processor products program slowed sum training""".split()
)
# Keys that always say the same about the object that contains them.
KEYS = set("name file line path bytes seconds kind m n k report compare plans".split())
# Units, numbers, and words for what they count.
UNITS = set("b kib mib gib tib pib s ms us ns h min days k m t flop kflop mflop gflop tflop pflop eflop x f32 f16 bf16 tf32 i32".split())
# Options and programs of dtc itself, and quoted text.
QUOTED = re.compile(r"`[^`]*`|\([^)]*--[^)]*\)|--[a-z]+|dtrun|dtc|cuDNN's")
ROWS = re.compile(r"^ {0,2}([A-Za-z][\w/ -]*?) {2,}[\d.<(]")


# A kernel is named after its ops, and a product after what it does with its result.
OPS = set(re.findall(r"^DT_OP\(\w+, \"?(\w+)", (ROOT / "ir/ops.def").read_text(), re.M))
OPS |= set(re.findall(r'^DT_PLAN_EPILOGUE\(\w+, "(\w+)"', (ROOT / "plan/epilogues.def").read_text(), re.M))
OPS -= set("all_reduce all_gather reduce_scatter all_to_all shift shift_back send recv wait copy zero read".split())


def run(dtc, *options):
    done = subprocess.run([dtc, *options], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def chosen(dtc, *options):
    """What `auto` prints on stderr, without the block that it chose, which is program text."""
    said = subprocess.run([dtc, *options], capture_output=True, text=True, check=False).stderr
    return re.sub(r"(?ms)^parallel .*?^}$", "", said)


def keys_of(value):
    """The keys of objects in a JSON value, except objects whose keys are names from the program."""
    if isinstance(value, list):
        return {key for one in value for key in keys_of(one)}
    if not isinstance(value, dict):
        return set()
    return {key for name, one in value.items() for key in {name} | (set() if name == "mesh" else keys_of(one))}


def plans_of(path):
    """The words about two layouts that fit."""
    return [path.with_name(f"{block}.plan") for block in ("flat", "small")]


def json_keys(dtc, path):
    """The words of reports, of a comparison of two, and of the line that `auto` prints."""
    run_of = ("--report=json", "--tokens", "1B", "--price", "2")
    found = set()
    for block in ("flat", "deep"):
        found |= keys_of(json.loads(run(dtc, path, "--parallel", block, *run_of)[1]))
    found |= keys_of(json.loads(run(dtc, "compare", *plans_of(path), "--json")[1]))
    said = [json.loads(line) for line in chosen(dtc, path, "--parallel", "open", "--json", "--report").splitlines()]
    found |= {key for line in said if "auto" in line for key in keys_of(line)}
    return found - KEYS


def names_of(text):
    """A placeholder for names from the program: places, ops of kernels."""
    places = r"[\w/.-]+\.dsl(?::\d+)?(?: [\w.]+)?|(?<= of )[\w.]+ \([\w/.-]+\.dsl:\d+\)"
    return set(re.findall(rf"cpu[-\w]*|(?m:^  h )|{places}|\w+(?:\+\w+)+", text))


def words_of(text, own):
    found = set()
    for line in text.split("\n"):
        line = QUOTED.sub(" ", line)
        for name in sorted(own, key=len, reverse=True):
            line = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", line)
        row = ROWS.match(line)
        if row and row[1].lower() not in PLAIN:
            found.add(row[1].strip())
        found |= {w for w in re.findall(r"\b(?:1f1b|[A-Za-z][A-Za-z_0-9/-]*)", line) if w.lower() not in PLAIN | UNITS | OPS}
    return found


def main():
    dtc = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layouts.dsl"
        path.write_text(PROGRAM)
        texts = []
        for block in ("flat", "deep"):
            texts.append(run(dtc, path, "--parallel", block, "--report", "--details", "--tokens", "1B", "--price", "2")[1])
        for name in ("vit", "moe"):
            texts.append(run(dtc, EXAMPLES / f"{name}.dsl", "--parallel", "none", "--report", "--details")[1])
        texts.append(run(dtc, EXAMPLES / "shakespeare.dsl", "--report")[1])
        for plan in plans_of(path):
            if run(dtc, path, "--parallel", plan.stem, "--no-kernels", "-o", plan)[0]:
                sys.exit(f"no plan of {plan.stem}")
        texts.append(run(dtc, "compare", *plans_of(path), "--tokens", "1B", "--price", "2")[1])
        texts.append(chosen(dtc, path, "--parallel", "open", "--report"))
        texts.append(chosen(dtc, path, "--parallel", "least", "--report"))
        texts.append(chosen(dtc, path, "--parallel", "sizes", "--report"))
        own = {folder, "layouts", "h100-sxm", "data", "pipe", "tensor", "sm_90a", "two", "flat", "sizes", "open", "llama"}
        own |= set("attend down gate up wq wk wv wo seq ffn kv vocab".split())
        words = set()
        for text in texts:
            words |= words_of(text, own | names_of(text))
        words |= json_keys(dtc, path)
    unknown = sorted(w for w in words if run(dtc, "explain", w)[0] != 0)
    if len(words) < 60:
        print(f"only {len(words)} words: {sorted(words)}")
    for word in unknown:
        print(f"dtc explain knows nothing of: {word}")
    failed = len(unknown) + (len(words) < 60)
    print(f"{len(words) - len(unknown)} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
