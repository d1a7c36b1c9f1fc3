#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checkpoints in the eyes of the safetensors package for Python:  safetensors.sh DTC DTRUN
# Exit code 77 (skipped) where the package is not installed; PYTHON names another interpreter.
set -eu
python=${PYTHON:-python3}
"$python" -c 'import safetensors, numpy' 2>/dev/null || {
    echo "skipped: $python has no safetensors and numpy (pip install safetensors numpy; PYTHON=/path/to/python)"
    exit 77
}
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
dtrun=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root/tests/runtime/small.dsl" "$work/small.dsl"
cd "$work"
awk 'BEGIN { for (i = 0; i < 300; i++) printf "%d squared is %d\n", i, i * i }' >numbers.txt
"$dtc" small.dsl --parallel none -o small.plan
timeout 60 "$dtrun" small.plan -q --steps 3 --set eval.every=0 --save saved
"$python" - <<'PY'
import hashlib
import json
import numpy
from safetensors import safe_open

folder = "saved/step-00000003/"
manifest = json.load(open(folder + "manifest.json"))
assert manifest["steps"] == 3 and manifest["samples"] == 24
expected = {"wte": (128, 16), "wpe": (16, 16), "h.0.attention.wq.w": (16, 2, 8), "h.1.attention.wo.w": (2, 8, 16),
            "h.0.mlp.up.w": (16, 32), "h.1.mlp.down.b0": (16,), "h.1.ln2.gain": (16,), "ln_f.shift": (16,)}
total = 0
with safe_open(folder + "model.safetensors", "numpy") as model:
    names = set(model.keys())
    for name, shape in expected.items():
        assert name in names, (name, sorted(names))
        assert model.get_tensor(name).shape == shape, (name, model.get_tensor(name).shape)
    for name in names:
        tensor = model.get_tensor(name)
        assert tensor.dtype == numpy.float32 and numpy.isfinite(tensor).all(), name
        total += tensor.size
    assert 0.01 < model.get_tensor("wte").std() < 0.04
    assert abs(model.get_tensor("h.0.ln1.gain") - 1).max() < 0.1
with safe_open(folder + "optimizer.safetensors", "numpy") as moments:
    assert set(moments.keys()) == {m + n for m in ("moment1.", "moment2.") for n in names}
    assert all((moments.get_tensor("moment2." + n) >= 0).all() for n in names)
    assert any((moments.get_tensor("moment1." + n) < 0).any() for n in names)
# digests are those of Python's hashlib: of chunks, of a file's digests, of the manifest
digest = lambda data: hashlib.blake2b(data, digest_size=32).hexdigest()
for file, said in manifest["files"].items():
    data, chunk = open(folder + file, "rb").read(), manifest["chunk"]
    assert len(data) == said["bytes"]
    assert said["chunks"] == "".join(digest(data[at:at + chunk]) for at in range(0, len(data), chunk))
    assert said["digest"] == digest(bytes.fromhex(said["chunks"]))
assert manifest.pop("digest") == digest(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())
print(len(names), "tensors,", total, "parameters")
PY
