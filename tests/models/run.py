#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Known models, written from their papers, against PyTorch.

  run.py DTC DTRUN [NAME...]            trains each for 20 steps, serially and under its layouts
  run.py DTC DTRUN --record [NAME...]   writes what PyTorch says to recorded/NAME.json; needs torch, numpy and xxhash

A model is NAME.dsl at its published size, an entry of models.json, and NAME.py, which computes its loss in PyTorch.
The entry has `parameters`, the published number; `dims`, a small size for the test; `layouts`, parallel blocks that
give the same; perhaps `lr`, where training goes apart from rounding alone (batch norm of few elements); perhaps
`model`, where another entry has the program, too. `turns` says which losses are minimised in turn: the name of the
entry in the train block, `loss`, `params`, `every`; NAME.py then has a function for each loss.

PyTorch computes in float64 from the parameters that dtrun drew and the numbers that `synthetic` draws (written here
again from docs/language.md). Recorded are the loss of 20 steps of adamw, and of each parameter the gradient of the
first step and the change that the 20 steps made, as a norm and three random projections; states likewise. The
gradient is read from the first moment, which after one step is (1 - beta1) times it.

Tolerances. dtrun computes in float32, with unit roundoff 2^-24; sums of up to 10^3 terms pass some ten layers, each
of which may double an error: 2^-24 * 2^12 = 2.4e-4 of a gradient's norm (of a thousandth of the norm of all gradients
where one cancels). adamw turns an error of g into one of g / (sqrt(v) + eps), for which eps = 1e-3 is far above the
errors; 20 steps let it grow. The change of the parameters may be 1 % off, the loss of any step 1e-4.

With DT_SHARE=K/N in the environment (tests/share.py) the test trains one of N of the models and layouts, and looks at the
number of parameters of all models. Kernels of layouts are interpreted, but for the models of COMPILED, whose images would
take longer than compiling the kernels."""

import array
import importlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from fnmatch import fnmatch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BETAS, LR, EPS, CLIP = 20, (0.9, 0.95), 3e-3, 1e-3, 1.0
OF_GRADIENT, OF_LOSS, OF_CHANGE = 2.0**-12, 1e-4, 1e-2
PROJECTIONS = 3
COMPILED = ("coatnet", "convnext", "resnet50", "swin", "unet")


# ---- runs ----


def execute(command):
    done = subprocess.run(command, capture_output=True, timeout=300)
    if done.returncode:
        raise AssertionError(
            "%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr.decode(errors="replace")[-2000:])
        )
    return done.stdout.decode()


def tensors_of(path):
    with open(path, "rb") as file:
        data = file.read()
    size, found = struct.unpack("<Q", data[:8])[0], {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32", name
            begin, end = entry["data_offsets"]
            found[name] = entry["shape"], array.array("f", data[8 + size + begin : 8 + size + end])
    return found


def saved(folder, part):
    with open(os.path.join(folder, "latest")) as file:
        return tensors_of(os.path.join(folder, file.read().strip(), part + ".safetensors"))


def turns(entry):
    return entry.get("turns", [{"name": "optimizer", "loss": "loss", "params": "*", "every": 1}])


def optimizers(entry):
    """The options of dtc that set these dims."""
    call = "adamw(lr = %g, betas = (%g, %g), eps = %g, decay = 0, clip = %g" % (entry.get("lr", LR), *BETAS, EPS, CLIP)
    rest = ', params = "%(params)s", loss = %(loss)s, every = %(every)d' if "turns" in entry else ""
    for turn in turns(entry):
        yield "--set"
        yield "train.%s=%s%s)" % (turn["name"], call, rest % turn if rest else "")


def compile_plan(tools, folder, name, entry, layout):
    """The text of the model at its small size."""
    source, plan = os.path.join(folder, "model.dsl"), os.path.join(folder, "plan")
    ranks = 1
    for size in re.findall(r"= (\d+)", layout.split(";")[0]) if layout else ():
        ranks *= int(size)
    with open(source, "w") as file:
        file.write('include "%s/%s.dsl"\n' % (HERE, entry.get("model", name)))
        if layout:
            file.write(
                'cluster test_machine { gpus = %d; gpu = "cpu" }\nparallel test on test_machine { %s }\n'
                % (ranks, layout)
            )
    dims = [word for dim in entry["dims"].split() for word in ("-D", dim)]
    execute(
        [
            tools[0],
            source,
            "-o",
            plan,
            "--parallel",
            "test" if layout else "none",
            "--data=synthetic",
            *optimizers(entry),
        ]
        + (["--target=interpreted"] if layout and name not in COMPILED else [])
        + dims
    )
    return plan


class Trained:
    """What was recorded. begin: parameters and states at first; moments: after one step; end, losses:
    after all."""

    def __init__(self, tools, name, entry, layout):
        with tempfile.TemporaryDirectory() as folder:
            plan = compile_plan(tools, folder, name, entry, layout)
            zero, first, last, log = (os.path.join(folder, part) for part in ("zero", "first", "last", "log"))
            execute([tools[1], plan, "--quiet", "--steps", "0", "--save", zero])
            execute([tools[1], plan, "--quiet", "--steps", "1", "--save", first])
            execute(
                [tools[1], plan, "--quiet", "--steps", str(STEPS), "--log", log, "--save", last, "--timeout", "100"]
            )
            self.begin, self.end = saved(zero, "model"), saved(last, "model")
            self.moments = saved(first, "optimizer")
            with open(log) as file:
                self.events = [json.loads(line) for line in file]
            steps = [event.get("losses") or {"loss": event} for event in self.events if event["event"] == "step"]
            self.losses = [numbers["loss"] for losses in steps for numbers in losses.values()]
            self.norms = {loss: numbers["grad_norm"] for loss, numbers in steps[0].items()}
            self.seed = self.events[0]["seed"]

    def gradients(self, entry):
        """The gradients of the first step by path, for those losses that the first step takes. They
        come from the moments of clipped gradients."""
        found = {}
        for turn in turns(entry):
            for name, (_, values) in self.moments.items():
                path = name[len("moment1.") :]
                if turn["every"] > 1 or not name.startswith("moment1.") or not fnmatch(path, turn["params"]):
                    continue
                scale = max(1.0, self.norms[turn["loss"]] / CLIP) / (1 - BETAS[0])
                found[path] = [x * scale for x in values]
        return found

    def changes(self, frozen):
        return {
            name: [b - a for a, b in zip(self.begin[name][1], values)]
            for name, (_, values) in self.end.items()
            if name not in frozen
        }


# ---- tensors as a few numbers ----


def signs(n, k):
    """The factors of projection k: the top bits of a linear congruential generator (Knuth's
    MMIX)."""
    state, found = 2 * k + 1, []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        found.append(1.0 if state >> 63 else -1.0)
    return found


def summary(values):
    """[norm of the tensor, projections ...]"""
    return [sum(x * x for x in values) ** 0.5] + [
        sum(x * s for x, s in zip(values, signs(len(values), k))) for k in range(PROJECTIONS)
    ]


def compare(what, got, want, tolerance):
    """Lines for what is not within tolerance of the norm. A projection of n numbers that are off by d in norm is off by d
    times about 1, at most a few."""
    wrong = ["%s: %s" % (what, name) for name in sorted(set(got) ^ set(want))]
    everything = sum(numbers[0] ** 2 for numbers in want.values()) ** 0.5
    for name in sorted(set(got) & set(want)):
        scale = max(want[name][0], 1e-3 * everything)
        mine = summary(got[name])
        for kind, a, b in zip(("norm", "projection", "projection", "projection"), mine, want[name]):
            if not abs(a - b) <= (1 if kind == "norm" else 4) * tolerance * scale:
                wrong.append("%s of %s: %s %.9g, PyTorch says %.9g (norm %.3g)" % (what, name, kind, a, b, scale))
                break
    return wrong


# ---- the test ----


def check_parameters(tools, name, entry):
    program = os.path.join(HERE, entry.get("model", name) + ".dsl")
    table = json.loads(execute([tools[0], program, "--params", "--json"]))
    total = table["total"]
    return [] if total == entry["parameters"] else ["%d parameters, published are %d" % (total, entry["parameters"])]


def check(tools, name, entry, layout, want):
    run = Trained(tools, name, entry, layout)
    wrong = [
        "loss number %d: %.9g, PyTorch says %.9g" % (i + 1, a, b)
        for i, (a, b) in enumerate(zip(run.losses, want["losses"]))
        if not abs(a - b) <= OF_LOSS * max(abs(b), 0.1)
    ]
    wrong += ["%d losses" % len(run.losses)] if len(run.losses) != len(want["losses"]) else []
    wrong += compare("gradient", run.gradients(entry), want["gradients"], OF_GRADIENT)
    wrong += compare("change", run.changes(want["frozen"]), want["changes"], OF_CHANGE)
    return wrong


def test(tools, names, table):
    passed = failed = 0
    layouts = [(name, layout) for name in names for layout in table[name].get("layouts", [])]
    mine = set(share.of([(name, None) for name in names] + layouts))
    assert mine, "no model to train"
    for name in names:
        entry = table[name]
        with open(os.path.join(HERE, "recorded", name + ".json")) as file:
            want = json.load(file)
        wrong = check_parameters(tools, name, entry)
        for layout in [None] + entry.get("layouts", []):
            if (name, layout) not in mine:
                continue
            try:
                lines = check(tools, name, entry, layout, want)
            except AssertionError as failure:
                lines = [str(failure)]
            wrong += ["%s: %s" % (layout or "serial", line) for line in lines]
        for line in wrong[:8]:
            print("%s: %s" % (name, line))
        passed, failed = passed + (not wrong), failed + bool(wrong)
        sys.stdout.flush()
    print("%d passed, %d failed" % (passed, failed))
    return failed == 0


# ---- recording ----


def record(tools, name, entry):
    import torch

    sys.path[:0] = [HERE, os.path.join(HERE, os.pardir, "oracle")]
    import counter
    import numpy as np

    torch.set_default_dtype(torch.float64)
    model = importlib.import_module(entry.get("model", name))
    run = Trained(tools, name, entry, None)
    dims = {key: int(value) for key, value in (dim.split("=") for dim in entry["dims"].split())}
    values = {
        path: torch.tensor(numbers, dtype=torch.float64).reshape(shape) for path, (shape, numbers) in run.begin.items()
    }
    begin = {path: value.clone() for path, value in values.items()}
    trained = {moment[len("moment1.") :] for moment in run.moments if moment.startswith("moment1.")}
    for path in trained:
        values[path].requires_grad_(True)

    def synthetic(step, name, shape, lo, hi):
        """What `synthetic(lo, hi)` draws for this input in this step: integers if lo and hi are."""
        site = counter.key("data." + name, run.seed)
        rows = []
        for row in range(shape[0]):
            sample = step * shape[0] + row
            words = counter.words(
                site, np.arange(int(np.prod(shape[1:])), dtype=np.uint64), sample & 0xFFFFFFFF, sample >> 32
            )
            if isinstance(lo, int) and isinstance(hi, int):
                bits = [(int(a) << 32 | int(b)) for a, b in zip(words[0], words[1])]
                rows.append(np.array([lo + b % (hi - lo) for b in bits]).reshape(shape[1:]))
            else:
                real = lo + (hi - lo) * (words[0] >> np.uint64(8)).astype(np.float64) * 2.0**-24
                rows.append(real.astype(np.float32).astype(np.float64).reshape(shape[1:]))
        return torch.tensor(np.stack(rows))

    moments = {path: (torch.zeros_like(values[path]), torch.zeros_like(values[path])) for path in trained}
    losses, gradients, updates = [], {}, {}

    def take(step, turn):
        for path in trained:
            values[path].grad = None
        new_states = {}
        draw = lambda *words: synthetic(step, *words)
        loss = getattr(model, turn["loss"])(values, draw, dims, new_states)
        loss.backward()
        losses.append(loss.item())
        grads = {
            path: values[path].grad if values[path].grad is not None else torch.zeros_like(values[path])
            for path in trained
            if fnmatch(path, turn["params"])
        }
        if step == 0:
            gradients.update({path: summary(grad.flatten().tolist()) for path, grad in grads.items()})
        norm = sum(float((grad**2).sum()) for grad in grads.values()) ** 0.5
        scale = min(1.0, CLIP / norm)
        n = updates[turn["name"]] = updates.get(turn["name"], 0) + 1
        with torch.no_grad():
            for path, grad in grads.items():
                m, v = moments[path]
                m.mul_(BETAS[0]).add_((1 - BETAS[0]) * scale * grad)
                v.mul_(BETAS[1]).add_((1 - BETAS[1]) * (scale * grad) ** 2)
                c1, c2 = 1 / (1 - BETAS[0] ** n), 1 / (1 - BETAS[1] ** n)
                values[path] -= entry.get("lr", LR) * m * c1 / ((v * c2).sqrt() + EPS)
            for path, value in new_states.items():
                values[path] = value.detach().clone()

    for step in range(STEPS):
        for turn in turns(entry):
            if (step + 1) % turn["every"] == 0:
                take(step, turn)
    frozen = sorted(path for path in values if path not in trained and torch.equal(values[path], begin[path]))
    changes = {
        path: summary((values[path].detach() - begin[path]).flatten().tolist()) for path in values if path not in frozen
    }
    with open(os.path.join(HERE, "recorded", name + ".json"), "w") as file:
        json.dump(
            {
                "torch": torch.__version__,
                "losses": losses,
                "frozen": frozen,
                "gradients": gradients,
                "changes": changes,
            },
            file,
            indent=0,
        )
        file.write("\n")


def main(arguments):
    with open(os.path.join(HERE, "models.json")) as file:
        table = json.load(file)
    tools, names = [os.path.abspath(path) for path in arguments[:2]], [
        a for a in arguments[2:] if not a.startswith("--")
    ]
    if "--record" in arguments:
        for name in names or sorted(table):
            record(tools, name, table[name])
    return 0 if test(tools, names or sorted(table), table) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
