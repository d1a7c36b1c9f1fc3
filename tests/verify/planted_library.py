# SPDX-License-Identifier: Apache-2.0
"""Bugs of the library, and of what the language does in evaluation, for planted.py: rows as in
planted_runtime.py.

Both sides of `--verify` come from the library, so only a test with its own formulas finds these.
"""

BUGS = [
    # ---- schedules ----
    ("the cosine's warm-up begins at 0", "lib/training.dsl",
     "base * (step + 1) / warmup\n         else floor + (base - floor) * 0.5 *",
     "base * step / warmup\n         else floor + (base - floor) * 0.5 *", "runtime_formulas"),
    ("a line to the floor is a step late", "lib/training.dsl", "base + (floor - base) * part",
     "base + (floor - base) * max(part - 1 / (total - warmup), 0)", "runtime_formulas"),
    ("a rate falls a step before its time", "lib/training.dsl", "factor ** floor(step / every)",
     "factor ** floor((step + 1) / every)", "runtime_formulas"),
    ("a rate of 1 / sqrt is that of the step before", "lib/training.dsl",
     "max(step + 1, warmup)) }", "max(step, warmup)) }", "runtime_formulas"),
    ("a stable rate decays a step late", "lib/training.dsl", "(total - step) / decay",
     "(total - step + 1) / decay", "runtime_formulas"),
    ("a cycle's peak is a step late", "lib/training.dsl", "peak = rise * total - 1",
     "peak = rise * total", "runtime_formulas"),
    # ---- optimizers ----
    ("clipping makes short gradients longer", "lib/training.dsl",
     "g * min(most / (grad_norm + 1e-6), 1)", "g * (most / (grad_norm + 1e-6))",
     "runtime_formulas"),
    ("Adam's second moment is corrected like the first", "lib/training.dsl",
     "(1 - beta2 ** updates)\n  change = m * bias1 / (sqrt(v * bias2) + small)\n  return",
     "(1 - beta1 ** updates)\n  change = m * bias1 / (sqrt(v * bias2) + small)\n  return",
     "runtime_formulas"),
    ("Nesterov's step takes all of the velocity", "lib/training.dsl",
     "if nesterov then d + factor * v", "if nesterov then d + v", "runtime_formulas"),
    ("Lion keeps what the step took", "lib/training.dsl",
     "moment1 = beta2 * moment1 + (1 - beta2) * d\n  way", "moment1 = u\n  way",
     "runtime_formulas"),
    ("LAMB's trust is turned over", "lib/training.dsl", "long / far, 1)", "far / long, 1)",
     "runtime_formulas"),
    ("Adafactor's columns have the mean of rows", "lib/training.dsl", "/ size[rows] - col)",
     "/ size[cols] - col)", "runtime_formulas"),
    ("Muon does not look ahead", "lib/training.dsl", "factor * m + (1 - factor) * d else m",
     "m else m", "runtime_formulas"),
    # ---- evaluation ----
    ("an evaluation normalises by its batch", "lib/std.dsl",
     "m = if training then mean[over](x) else mu\n  u = x - m\n"
     "  v = if training then mean[over](u * u) else var\n  mu = (1",
     "m = mean[over](x)\n  u = x - m\n  v = mean[over](u * u)\n  mu = (1", "runtime_formulas"),
    ("a running variance is that of the batch", "lib/std.dsl",
     "rate * v * (size[over] / max(size[over] - 1, 1))", "rate * v", "runtime_formulas"),
    ("an evaluation drops elements", "frontend/builtins_random.c",
     "if (!l->training || p == 0)", "if (p == 0)", "runtime_formulas"),
]
