#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Odd programs on real ranks: random programs under random layouts, against the serial run of the same program.

  ranks.py DTC DTRUN FIRST COUNT [--state FILE] [--layouts N]    the programs of seeds FIRST .. FIRST + COUNT - 1
  ranks.py DTC DTRUN FIRST COUNT --auto                          the same with layouts that the compiler chooses
  ranks.py DTC DTRUN SEED --show                                 one program, its layouts, and what became of each
  ranks.py DTC DTRUN SEED --minimise LAYOUT                      lines that are not needed for the failure are left out

A program is compiled serially three times: as usual, with --unfused, and by a second compiler (DT_SECOND_CC, clang by
default, else none). The second compiler must give the same bits: kernels are canonical C. Layouts, and --unfused, add
in other orders; they must agree within the tolerances below in the loss and the gradient's norm of two steps, and in
every tensor of both checkpoints. With --state (or ODD_STATE), what became of each program is appended to FILE, and
programs that are there are not run again: a long run goes on where it was.

Tolerances. Two right runs differ by rounding alone. What a step changes of a tensor is its update, u. In float32 with
unit roundoff 2^-24, sums of up to 10^3 terms pass some ten layers, each of which may double an error: 2^-24 * 2^12 =
2.4e-4 of the largest |u| of the tensor, or 4 roundoffs of the largest of all tensors where gradients cancel (a bias
before a softmax, a factor before a norm; adamw makes all large gradients one size, so there it is what it would make of
the gradient's norm were that small), and the rounding of the parameter itself, a unit of its dtype's last place
(float32: two) of the largest. In 16 bits a run is compared with the serial run of its precision, which itself differs
from float32's by e: both differ from the exact values by about as much, so 4 e is allowed, and 32 roundoffs of u (as
in tests/oracle). Where terms cancel, e is one draw of what their rounding leaves (the gradient of a factor before a
norm is nothing else, and e may happen to be small): what differs is looked at once more with e the largest of five
draws, the other four of the serial run whose data are scaled by the numbers next to 1, two below and two above it.
Some programs are badly conditioned: in float32 what the serial run changes when its data change by a millionth (16
roundoffs) is allowed too, the largest of five such changes where one is not enough. Where a decision (a maximum, a
kink) lies within rounding of its edge two right runs may take different sides. That does not come again with other
random numbers: only what differs with two of three values of the seed is wrong.

With DT_SHARE=K/N in the environment (tests/share.py) one program of N runs; so in gpus.py, crowded.py, faults.py and
proved.py."""

import concurrent.futures
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from array import array

import layouts
import programs

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

OPTIMIZERS = (
    "sgd(lr = 0.1)",
    "sgd(lr = 0.3, momentum = 0.9, clip = 1.0)",
    "adamw(lr = 0.01, eps = 1e-2, decay = 0.1, decay_if = rank > 1)",
    "adamw(lr = 0.01, eps = 1e-2, clip = 0.5)",
)
PRECISIONS = {
    "bf16": "mixed(compute = bf16, params = f32, grads = f32, reduce = f32)",
    "master": "mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)",
    "f16": "mixed(compute = f16, params = f32, grads = f32, reduce = f32, loss_scale = 256)",
}
NEXT_TO_1 = {"f32": (1e-6, 1e-6), "bf16": (2.0**-8, 2.0**-7), "master": (2.0**-8, 2.0**-7), "f16": (2.0**-11, 2.0**-10)}
ROUNDOFF = {"f32": 2.0**-24, "bf16": 2.0**-9, "master": 2.0**-9, "f16": 2.0**-12}
STEPS, SEEDS = 2, (1, 2, 3)
JOBS = int(os.environ.get("DT_ODD_JOBS", os.cpu_count() or 2))
SECOND = os.environ.get("DT_SECOND_CC", "clang")


CHOSEN = -1  # number of layouts; of those, how many the compiler chooses


class Failed(Exception):
    """Returns verdict and output"""


def execute(command, what, environment=None, seconds=300):
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, env=environment)
    except subprocess.TimeoutExpired:
        raise Failed("%s hangs" % what, " ".join(command)) from None
    said = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode:
        code = re.search(r"error\[(E\d+)\]", said)
        if what == "dtc" and done.returncode == 3 and code and "internal" not in said and "prove" not in said:
            raise Failed(code.group(1), said)
        raise Failed("%s ended with %d" % (what, done.returncode), said)
    return said


# ---- what a run leaves ----

# one unit of the last place of a saved value; for f32 two
STORED = {"F32": 2.0**-22, "BF16": 2.0**-8, "F16": 2.0**-11}


class Values(array):
    """A saved tensor as floats. unit: a unit of its dtype, relative to the largest value."""

    unit = STORED["F32"]


def widen(dtype, data):
    if dtype == "F32":
        return Values("f", data)
    if dtype == "F16":
        return Values("f", struct.unpack("<%de" % (len(data) // 2), data))
    halves = array("H", data)
    return Values("f", struct.pack("<%dI" % len(halves), *(half << 16 for half in halves)))


def read_tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if entry.get("dtype") in STORED:
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = widen(entry["dtype"], data[begin:end])
            tensors[name].unit = STORED[entry["dtype"]]
    return tensors


def numbers(event):
    """name -> value of everything that an event of the log contains, except times and rates."""
    shown = event.get("losses") or {"": event}
    found = {}
    for loss, values in shown.items():
        values = values if isinstance(values, dict) else {"loss": values}
        found.update({(loss + " " + name).strip(): values[name] for name in ("loss", "grad_norm") if name in values})
    found.update(event.get("metrics", {}))
    return {"eval " + name if event["event"] == "eval" else name: value for name, value in found.items()}


class Run:
    """steps: losses, norms, metrics and evaluations of each; norms: the largest norm of each; saved: tensors after each; bits:
    what the second compiler must give, too."""

    def __init__(self, log, folder):
        steps = {}
        with open(log) as file:
            for event in map(json.loads, file):
                if event["event"] in ("step", "eval"):
                    steps.setdefault(event["step"], {}).update(numbers(event))
        self.names = sorted({name for step in steps.values() for name in step})
        self.steps = [[step.get(name, 0.0) for name in self.names] for _, step in sorted(steps.items())]
        self.norms = [max(v for name, v in step.items() if "grad_norm" in name) for _, step in sorted(steps.items())]
        self.saved, self.bits = [], [self.steps]
        for name in sorted(name for name in os.listdir(folder) if name.startswith("step-")):
            self.saved.append(read_tensors(os.path.join(folder, name, "model.safetensors")))
            for part in ("model", "optimizer"):
                with open(os.path.join(folder, name, part + ".safetensors"), "rb") as file:
                    self.bits.append(file.read())


class Case:
    """A program with one optimizer, precision and seed in a folder of its own."""

    def __init__(self, tools, folder, text):
        self.dtc, self.dtrun = tools
        self.folder, self.text = folder, text

    def run(self, name, block="", options=(), compiler=None, flags=()):
        base = os.path.join(self.folder, name)
        environment = dict(os.environ, DT_CC=compiler) if compiler else None
        with open(base + ".dsl", "w") as file:
            file.write(self.text + block)
        parallel = ["--parallel", "odd"] if block else []
        execute([self.dtc, base + ".dsl", "-o", base + ".plan"] + parallel + list(options), "dtc", environment)
        shutil.rmtree(base + ".saved", ignore_errors=True)
        if os.path.exists(base + ".log"):
            os.remove(base + ".log")
        execute(
            [
                self.dtrun,
                base + ".plan",
                "--quiet",
                "--steps",
                str(STEPS),
                "--log",
                base + ".log",
                "--save",
                base + ".saved",
                "--set",
                "save.every=1",
                "--set",
                "save.keep=0",
                "--timeout",
                "100",
                *flags,
            ],
            "dtrun",
        )
        return Run(base + ".log", base + ".saved")


    def goes_on(self, name, saved):
        """Runs this plan from the first checkpoint of another run, whose files begin with
        `saved`."""
        base, first = os.path.join(self.folder, name), "step-%08d" % 1
        part = base + ".part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(os.path.join(saved + ".saved", first), os.path.join(part, first))
        execute(
            [self.dtrun, base + ".plan", "--quiet", "--steps", str(STEPS), "--set", "save.every=1", "--set", "save.keep=0"]
            + ["--resume", part, "--save", part, "--log", part + ".log", "--timeout", "100"],
            "dtrun",
        )
        shutil.rmtree(os.path.join(part, first))
        return Run(part + ".log", part)


# ---- comparing ----


def largest(values):
    return max(map(abs, values), default=0.0)


def difference(x, y):
    return max(
        (abs(a - b) if a == a and b == b else 0.0 if (a != a) == (b != b) else float("inf") for a, b in zip(x, y)),
        default=0.0,
    )


def unscaled(optimizer, norm):
    """The update that adamw would make if the whole gradient were small: adamw's largest update does
    not tell how small the gradient is."""
    calls = re.findall(r"adamw\(lr = ([\d.]+), eps = ([\de.-]+)([^)]*)", optimizer)
    return max((shortened(norm, rest) * float(lr) / float(eps) for lr, eps, rest in calls), default=0)


def shortened(norm, rest):
    clip = re.search(r"clip = ([\d.]+)", rest)
    return min(norm, float(clip[1])) if clip else norm


def compare(got, want, near, optimizer, precision, *nudged):
    """None, or what differs. near: the run in float32, or with nudged data, as described above;
    nudged: more such runs."""
    roundoff = ROUNDOFF[precision]
    slack, times = (2.0**12, 1) if precision == "f32" else (32, 4)
    if got.names != want.names or len(got.steps) != len(want.steps) or len(got.saved) != len(want.saved):
        return "%d steps, %d checkpoints" % (len(got.steps), len(got.saved))
    for i, (mine, serial) in enumerate(zip(got.steps, want.steps)):
        for k, (what, a, b) in enumerate(zip(want.names, mine, serial)):
            rounding = times * max(abs(b - other.steps[i][k]) for other in (near,) + nudged)
            if not abs(a - b) <= slack * roundoff * max(abs(b), 0.1) + rounding:
                return "%s of step %d is %.9g, serially %.9g" % (what, i + 1, a, b)
    for i, (mine, serial) in enumerate(zip(got.saved, want.saved)):
        if set(mine) != set(serial):
            return "tensors %s" % sorted(set(mine) ^ set(serial))
        # the change is that of two steps: its first half is about as large as the second
        before = want.saved[i - 1 if i else 1]
        update = {name: difference(serial[name], before[name]) for name in serial}
        norm = want.norms[i]
        most = max(max(update.values(), default=0.0), unscaled(optimizer, norm))
        for name in serial:
            if len(mine[name]) != len(serial[name]):
                return "extent of " + name
            rounding = times * max(difference(serial[name], other.saved[i][name]) for other in (near,) + nudged)
            allowed = (
                roundoff * max(slack * update[name], 4 * most) + serial[name].unit * largest(serial[name]) + rounding
            )
            off = difference(mine[name], serial[name])
            if not off <= allowed:
                return "%s after step %d is off by %.3g of an update of %.3g (allowed: %.3g)" % (
                    name,
                    i + 1,
                    off,
                    update[name],
                    allowed,
                )
    return None


# ---- one program ----


class Odd:
    def __init__(self, tools, seed, n_layouts):
        rng = random.Random(seed)
        self.tools, self.seed, self.runs = tools, seed, {}
        self.program = programs.make(rng)
        self.optimizer = rng.choice(OPTIMIZERS)
        self.precision = rng.choice(("f32",) * 4 + tuple(PRECISIONS)) if rng.random() < 0.5 else "f32"
        make = layouts.chosen if n_layouts == CHOSEN else layouts.make
        self.layouts = [make(rng, self.program) for _ in range(2 if n_layouts == CHOSEN else n_layouts)]
        self.calls = self.optimizer + self.program.text[self.program.text.index("train {") :]

    def text(self, seed, precision=None, factor=1):
        precision = precision or self.precision
        nudge = r"  \1 = \1 * %.9g\n" % factor if factor != 1 else ""
        text = re.sub(r"NUDGE (\w+)\n", nudge, self.program.text)
        text = text.replace("OPTIMIZER", self.optimizer).replace("SEED", str(seed))
        return (
            text.replace("  seed =", "  precision = %s\n  seed =" % PRECISIONS[precision], 1)
            if precision != "f32"
            else text
        )

    def serial(self, folder, seed):
        """The run, and another run whose distance from it measures the effect of rounding."""
        if (folder, seed) not in self.runs:
            want = Case(self.tools, folder, self.text(seed)).run("serial%d" % seed)
            factor = 1.000001 if self.precision == "f32" else 1
            self.runs[folder, seed] = want, Case(self.tools, folder, self.text(seed, "f32", factor)).run("near")
        return self.runs[folder, seed]

    def differs(self, folder, seed, run):
        """What of run(case), pairs (name, run), differs from the serial run under this seed, None: nothing; why it was
        refused is raised."""
        want, near = self.serial(folder, seed)
        wrong = []
        for what, got in run(Case(self.tools, folder, self.text(seed)), seed):
            found = compare(got, want, near, self.calls, self.precision)
            if found and not wrong:
                below, above = NEXT_TO_1[self.precision]
                nudged = [
                    Case(self.tools, folder, self.text(seed, factor=factor)).run("nudged")
                    for factor in (1 - below, 1 + above, 1 - 2 * below, 1 + 2 * above)
                ]
                found = compare(got, want, near, self.calls, self.precision, *nudged)
            wrong += [what + found] if found else []
        return "; ".join(wrong) or None

    def judge(self, folder, run):
        """Returns (verdict, output)"""
        try:
            found = [self.differs(folder, SEEDS[0], run)]
            for seed in SEEDS[1:] if found[0] else ():
                found.append(self.differs(folder, seed, run))
        except Failed as failure:
            return failure.args
        wrong = [text for text in found if text]
        return ("different", "\n".join(wrong)) if len(wrong) > 1 else ("equal", "")

    def check_serial(self, folder):
        """Verdicts on the other builds of the serial program."""
        yield "unfused", self.judge(folder, lambda case, _: [("", case.run("unfused", options=["--unfused"]))])
        if shutil.which(SECOND):
            try:
                mine, _ = self.serial(folder, SEEDS[0])
                other = Case(self.tools, folder, self.text(SEEDS[0])).run("second", compiler=SECOND)
                yield SECOND, ("equal", "") if mine.bits == other.bits else ("different", "bits of %s" % SECOND)
            except Failed as failure:
                yield SECOND, failure.args

    def laid_out(self, case, seed, block):
        """The run of the layout; the one that begins with the checkpoint which the serial program left after a step. From its
        own checkpoint it must give the same bits."""
        whole = case.run("layout", block)
        yield "", whole
        base, serial = (os.path.join(case.folder, name) for name in ("layout", "serial%d" % seed))
        if case.goes_on("layout", base).bits[1:] != whole.bits[-2:]:
            raise Failed("other bits", "after it was resumed")
        run, first = case.goes_on("layout", serial), Run(serial + ".log", serial + ".saved")
        for values in ("steps", "norms", "saved"):
            setattr(run, values, getattr(first, values)[:1] + getattr(run, values))
        yield "gone on from a serial step: ", run

    def judge_layout(self, folder, block):
        """The serial program, without a parallel block."""
        if block:
            return self.judge(folder, lambda case, seed: self.laid_out(case, seed, block))
        return self.judge(folder, lambda case, _: [("", case.run("layout"))])

    def check(self):
        """Returns [(name, verdict, output)]"""
        found = []
        with tempfile.TemporaryDirectory(prefix="odd-") as folder:
            try:
                self.serial(folder, SEEDS[0])
            except Failed as failure:
                return [("serial",) + failure.args]
            found = [(what,) + verdict for what, verdict in self.check_serial(folder)]
            for lines, ranks in self.layouts:
                block = layouts.text(lines, ranks)
                found.append(("; ".join(lines),) + self.judge_layout(folder, block))
        return found


def is_bad(what, verdict):
    """Whether the verdict is good. A layout may be refused; if the serial program is refused, the
    generator made a wrong program."""
    return verdict != "equal" and not re.fullmatch(r"E\d+", verdict)


def show(odd, what, verdict, said):
    print("---- seed %d, %s, %s: %s : %s" % (odd.seed, odd.precision, odd.optimizer, what, verdict))
    print("\n".join(line[:300] for line in said.splitlines()[-8:]))
    sys.stdout.flush()


def run_all(tools, first, count, n_layouts, state):
    done, tally, bad = set(), {}, 0
    if state and os.path.exists(state):
        with open(state) as file:
            for line in file:
                seed, found = json.loads(line)
                done.add(seed)
                for what, verdict in found:
                    tally[verdict] = tally.get(verdict, 0) + 1
                    bad += is_bad(what, verdict)
    seeds = [seed for seed in share.of(range(first, first + count)) if seed not in done]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        odds = [Odd(tools, seed, n_layouts) for seed in seeds]
        for odd, found in zip(odds, pool.map(Odd.check, odds)):
            for what, verdict, said in found:
                tally[verdict] = tally.get(verdict, 0) + 1
                if is_bad(what, verdict):
                    bad += 1
                    show(odd, what, verdict, said)
            if state:
                with open(state, "a") as file:
                    file.write(json.dumps([odd.seed, [(what, verdict) for what, verdict, _ in found]]) + "\n")
    print(", ".join("%d %s" % (n, verdict) for verdict, n in sorted(tally.items(), key=lambda item: -item[1])))
    total = sum(tally.values())
    print("%d passed, %d failed" % (total - bad, bad))
    return bad == 0


def minimise(odd, number):
    """Removes layout lines, then program lines, as long as the verdict stays of the same kind."""
    lines, ranks = odd.layouts[number]

    def verdict(text, kept):
        odd.program.text = text
        with tempfile.TemporaryDirectory(prefix="odd-") as folder:
            block = layouts.text(kept, ranks) if kept else ""
            return odd.judge_layout(folder, block)[0]

    text, goal = odd.program.text, verdict(odd.program.text, lines)
    changed = True
    while changed:
        changed = False
        for i in reversed(range(1, len(lines))):
            if verdict(text, lines[:i] + lines[i + 1 :]) == goal:
                lines, changed = lines[:i] + lines[i + 1 :], True
        rows = text.split("\n")
        for i in reversed(range(1, len(rows))):
            shorter = "\n".join(rows[:i] + rows[i + 1 :])
            name = re.match(r"\s*(\w+) = (.*)", rows[i])
            uses = re.search(r"\b[a-z]+\d+\b", name.group(2)) if name else None
            tries = [shorter] + ([re.sub(r"\b%s\b" % name.group(1), uses.group(0), shorter)] if uses else [])
            for other in tries:
                if verdict(other, lines) == goal:
                    text, changed = other, True
                    break
    odd.program.text = text
    print(goal, odd.precision)
    print(odd.text(SEEDS[0]) + (layouts.text(lines, ranks) if lines else ""))


def main(arguments):
    flags = {}
    for flag in ("--state", "--layouts", "--minimise"):
        if flag in arguments:
            at = arguments.index(flag)
            flags[flag] = arguments[at + 1]
            del arguments[at : at + 2]
    tools, n_layouts = [os.path.abspath(path) for path in arguments[:2]], int(flags.get("--layouts", 3))
    if "--auto" in arguments:
        arguments.remove("--auto")
        n_layouts = CHOSEN
    first = int(arguments[2])
    if "--minimise" in flags:
        minimise(Odd(tools, first, n_layouts), int(flags["--minimise"]))
        return 0
    if "--show" in arguments:
        odd = Odd(tools, first, n_layouts)
        print(odd.text(SEEDS[0]))
        for what, verdict, said in odd.check():
            show(odd, what, verdict, said)
        return 0
    return (
        0
        if run_all(tools, first, int(arguments[3]), n_layouts, flags.get("--state", os.environ.get("ODD_STATE")))
        else 1
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
