# SPDX-License-Identifier: Apache-2.0
"""The interpreter against PyTorch: run.py ORACLE [--record] [NAME...], in the root of the source
tree.

For each case of cases.json: `oracle export` writes parameters, inputs and results of the
interpreter; the model of models.py computes predictions, loss, gradients and the optimizer's step
from the same values; every tensor must agree within 1e-9 of its own norm (a gradient: or of 1e-3 of
the norm of all gradients). Where the case computes in 16 bits, the interpreter rounds and PyTorch
still does not; then what counts is how far PyTorch in bf16 is from itself in float64, over all
gradients together. Initial values of parameters are drawn again as the language says. --record
writes what PyTorch said to recorded/NAME.json."""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77  # as meson understands it
try:
    import numpy as np
    import torch
    import xxhash  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED: {missing}; `pip install torch numpy xxhash`, or name another Python in PYTHON")
    sys.exit(SKIPPED)

import counter
import models

FOLDER = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(FOLDER, "cases.json")
TOLERANCE, PROJECTIONS = 1e-9, 3
# multiples of the roundoff that single tensors in 16 bits may differ by; as in recorded.c
UNITS = 32


def load(path):
    """Reads a safetensors file: tensors, the axes of each, metadata."""
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, row in header.items():
        begin, end = row["data_offsets"]
        assert row["dtype"] == "F64"
        tensors[name] = (
            np.frombuffer(data[8 + n + begin : 8 + n + end], dtype="<f8")
            .reshape(row["shape"])
            .copy()
        )
    return tensors, metadata


def export(oracle, name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "values")
        subprocess.run([oracle, CASES, "export", name, path], check=True, timeout=60)
        return load(path)


def check_initial(model, axes, given):
    """Checks that parameters drawn from a normal distribution equal those of the counter-based
    generator."""
    n = 0
    for path, leaf in model.leaf.items():
        std, names = model.std(path), axes["param/" + path].split()
        if std is None:
            continue
        values = given.get("master/" + path, leaf.detach().numpy())
        stacked = path.split(".")[0] in model.loops
        for i, value in enumerate(values if stacked else [values]):
            own = names[1:] if stacked else names
            want = std * counter.normal(
                counter.key(path, model.seed), counter.elements(own, value.shape), 0, i
            )
            assert np.allclose(value, want, rtol=2e-7, atol=1e-12), f"initial values of {path}"
        n += 1
    assert n > 0


def close(what, difference, norm, everything, tolerance=TOLERANCE):
    scale = max(norm, 1e-3 * everything)
    good = difference <= tolerance * scale
    if not good:
        print(
            f"BAD  {what:40} norm {norm:.6g} difference {difference:.3g} "
            f"relative {difference / scale:.3g}"
        )
    return good, difference / scale


def record(name, case, numbers, results):
    tensors = {}
    for what, g in results.items():
        flat = g.ravel()
        elements = np.arange(flat.size, dtype=np.uint64)
        tensors[what] = {
            "norm": float(np.linalg.norm(flat)),
            "projections": [
                float(flat @ (2 * counter.uniform(k, elements, 0, 0) - 1))
                for k in range(PROJECTIONS)
            ],
        }
    with open(os.path.join(FOLDER, "recorded", name + ".json"), "w") as file:
        json.dump(
            {
                "case": case,
                "torch": torch.__version__,
                **numbers,
                "tensors": tensors,
            },
            file,
            indent=1,
        )
        file.write("\n")


def predict(model, axes):
    """The model's results without dropout, by name, and the loss that they give."""
    model.training = False
    names = sorted(name[len("result/") :] for name in axes if name.startswith("result/predict/"))
    with torch.no_grad():
        results = model.results()
        loss = float(model.loss(results))
    model.training = True
    assert len(names) == len(results)
    assert all(axes["result/" + name] == order for name, (_, order) in zip(names, results))
    return {name: value.numpy() for name, (value, _) in zip(names, results)}, loss


def error_in_bf16(kind, tensors, metadata, dims, want):
    """How far all gradients together are from float64 if PyTorch computes everything in bf16."""
    torch.set_default_dtype(torch.bfloat16)
    model = models.MODELS[kind](
        tensors, metadata, dims, int(metadata["seed"]), int(metadata["step"])
    )
    loss = model.loss([(value.float(), axes) for value, axes in model.results()])
    loss.backward()
    torch.set_default_dtype(torch.float64)
    off = sum(
        np.sum((leaf.grad.double().numpy() - want["grad/" + path]) ** 2)
        for path, leaf in model.leaf.items()
    )
    return float(np.sqrt(off / sum(np.sum(want["grad/" + p] ** 2) for p in model.leaf)))


def evaluate(model, tensors, axes, lr):
    """Returns the loss, the norm of all gradients, the loss of "eval"; gradients, predictions, and
    what a step changes."""
    predicted, eval_loss = predict(model, axes)
    loss = model.loss(model.results())
    loss.backward()
    assert model.used == set(model.leaf), f"unused: {set(model.leaf) - model.used}"
    results = {"grad/" + path: leaf.grad.numpy().copy() for path, leaf in model.leaf.items()}
    norm, after = model.update(tensors, lr)
    results.update({"new_" + name: value for name, value in after.items()}, **predicted)
    return {"loss": float(loss.detach()), "norm": norm, "eval": eval_loss}, results


def check_error(kind, tensors, metadata, dims, roundoff, results, numbers):
    """Stores in `numbers` that the interpreter may be twice as far from float64 as PyTorch in 16
    bits."""
    want = {what: g for what, g in results.items() if what.startswith("grad/")}
    # plain PyTorch overflows in f16; with the same number of roundings its error would be this
    # much smaller than in bf16
    off = error_in_bf16(kind, tensors, metadata, dims, want) * roundoff / 2**-9
    numbers["error"] = off
    ours = math.sqrt(
        sum(np.sum((tensors["result/" + what] - g) ** 2) for what, g in want.items())
        / sum(np.sum(g**2) for g in want.values())
    )
    print(f"  all gradients: {ours:.3g} off, PyTorch {off:.3g}")
    return ours <= 2 * off


def run(oracle, name, case, recording):
    tensors, metadata = export(oracle, name)
    kind = case.get("model", name)
    dims = {**models.DEFAULTS.get(kind, {}), **case["dims"]}
    model = models.MODELS[kind](
        tensors, metadata, dims, int(metadata["seed"]), int(metadata["step"])
    )
    check_initial(model, metadata, tensors)
    roundoff = float(metadata["roundoff"])
    tolerance = UNITS * roundoff if roundoff else TOLERANCE
    numbers, results = evaluate(model, tensors, metadata, float(metadata["lr"]))
    checks = [
        close(what, abs(float(tensors["value/" + what]) - value), abs(value), 0, tolerance)
        for what, value in numbers.items()
    ]
    assert {"result/" + what for what in results} == {t for t in tensors if t.startswith("result/")}
    for what, g in results.items():
        difference = np.linalg.norm(tensors["result/" + what] - g)
        everything = numbers["norm"] if what.startswith("grad/") else 0
        checks.append(close(what, difference, np.linalg.norm(g), everything, tolerance))
    if roundoff:
        near = check_error(kind, tensors, metadata, dims, roundoff, results, numbers)
        checks.append((near, 0))
    good, worst = all(ok for ok, _ in checks), max(relative for _, relative in checks)
    print(f"{name}: {'good' if good else 'DIFFERS'}: {len(results)} tensors, worst {worst:.2g}")
    if recording and good:
        record(name, case, numbers, results)
    return good


def main():
    words = [w for w in sys.argv[1:] if w != "--record"]
    with open(CASES) as file:
        cases = json.load(file)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    names = words[1:] or list(cases)
    results = [run(words[0], name, cases[name], "--record" in sys.argv) for name in names]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
