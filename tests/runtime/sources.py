#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sources of a program as a user meets them:  sources.py DTC DTRUN

Images and labels train together, with files as they are and as idx files; other numbers of samples
end the run before any rank starts; features in 32 and 16 bits, and arrays of NumPy of whatever
dtype, give the same losses.
"""
import os
import random
import struct
import subprocess
import sys
import tempfile

PROGRAM = """include "std.dsl"
dim batch = 20, pix = 16, hidden = 16, classes = 4, one = 1
model net(x[batch, pix]) -> [batch, classes] {
  return x |> up:linear[pix, hidden](std = 0.3) |> relu |> down:linear[hidden, classes](std = 0.3)
}
train {
  IMAGES
  LABELS
  z = net(VALUE)
  loss = mean[batch](xent[classes](z, y))
  best, guess = topk[classes, one](z)
  accuracy = mean[batch, one](f32(guess == y))
  metrics = accuracy
  optimizer = adamw(lr = 1e-2)
  eval = every(150, data = HELD)
  steps = 150
}
"""
IMAGES = 'i32 img[batch, pix] = bin("x.bin", u8)'
LABELS = 'i32 y[batch] = bin("y.bin", u8)'
HELD = '(bin("ex.bin", u8), bin("ey.bin", u8))'
ROWS, HELD_ROWS, PIX = 400, 60, 16


def draw(rows, seed):
    """Images in which one of the four quarters is bright, and the number of that quarter."""
    rng = random.Random(seed)
    labels = [rng.randrange(4) for _ in range(rows)]
    pixels = [rng.randrange(4) + (8 if p // 4 == label else 0)
              for label in labels for p in range(PIX)]
    return bytes(pixels), bytes(labels)


class Bench:
    def __init__(self, dtc, dtrun, folder):
        self.dtc, self.dtrun, self.folder = dtc, dtrun, folder
        self.passed = self.failed = 0

    def write(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)

    def check(self, name, good, shown=""):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print(f"FAIL {name}\n{shown}")

    def compile(self, images=IMAGES, labels=LABELS, value="img / 16.0", held=HELD):
        text = PROGRAM
        for word, part in (("IMAGES", images), ("LABELS", labels), ("VALUE", value), ("HELD", held)):
            text = text.replace(word, part)
        self.write("p.dsl", text.encode())
        made = subprocess.run([self.dtc, "p.dsl", "-o", "p.plan"], cwd=self.folder,
                              capture_output=True, text=True)
        return made.returncode, made.stderr

    def train(self, *options, **parts):
        code, said = self.compile(**parts)
        if code:
            return code, said
        ran = subprocess.run([self.dtrun, "p.plan", "--gemm", "plain", *options], cwd=self.folder,
                             capture_output=True, text=True)
        return ran.returncode, ran.stderr

    def accuracy(self, said):
        lines = [line for line in said.splitlines() if line.startswith("eval after")]
        return float(lines[-1].split("accuracy ")[1].split()[0]) if lines else 0

    def last_step(self, said):
        lines = [line for line in said.splitlines() if line.startswith("step 150/")]
        return lines[-1].split("  norm")[0] if lines else said


def idx(extents, data):
    return struct.pack(f">BBBB{len(extents)}I", 0, 0, 8, len(extents), *extents) + data


def pairing(bench, labels):
    code, said = bench.train()
    bench.check("paired sources learn", code == 0 and bench.accuracy(said) > 0.9, said)
    plain = bench.last_step(said)
    for more, name in ((1, "one byte too many"), (-100, "a shorter file")):
        bench.write("other.bin", labels + b"\0" if more > 0 else labels[:more])
        code, said = bench.train("--data", "y.bin=other.bin")
        both = f"other.bin has {ROWS + more} samples of 1, and x.bin has {ROWS} samples of 16"
        bench.check(name, code == 5 and both in said and "rank" not in said, said)
    code, said = bench.train("--data", "ey.bin=other.bin")
    bench.check("held-out data",
                code == 5 and "samples of 1, and ex.bin has 60 samples of 16" in said, said)
    code, said = bench.train(labels='i32 y[batch] = bin("other.bin", u8, unpaired)')
    bench.check("unpaired", code == 0 and bench.accuracy(said) < 0.6, said)
    code, said = bench.train("--data", "ex.bin=synthetic")
    bench.check("random numbers take the number", code == 0 and "over 60 samples" in said, said)
    code, said = bench.train(labels='i32 y[batch] = bin("y.bin", u8, unpaired = 1)')
    bench.check("a switch is true or false",
                code == 3 and "error[E0451]: `unpaired` takes true or false" in said, said)
    code, said = bench.train(labels='i32 y[batch] = bin("y.bin", unpaired = false, dtype = u8)')
    bench.check("a switch that is off", code == 0 and bench.last_step(said) == plain, said)
    return plain


def formats(bench, pixels, labels, plain):
    bench.write("x-idx3-ubyte", idx((ROWS, 4, 4), pixels))
    bench.write("y-idx1-ubyte", idx((ROWS,), labels))
    code, said = bench.train("--data", "x.bin=x-idx3-ubyte", "--data", "y.bin=y-idx1-ubyte")
    bench.check("idx files", code == 0 and bench.last_step(said) == plain, said)
    bench.write("x.gz", b"\x1f\x8b\x08" + pixels)
    code, said = bench.train("--data", "x.bin=x.gz")
    bench.check("gzip", code == 5 and "x.gz is compressed (gzip): unpack it first" in said, said)
    bench.write("y64.bin", struct.pack(f"<{ROWS}q", *labels))
    code, said = bench.train(labels='i32 y[batch] = bin("y64.bin", i64)')
    bench.check("i64", code == 0 and bench.last_step(said) == plain, said)
    code, said = bench.train("--steps", "1", labels='i32 y[batch] = bin("y64.bin", u32)')
    bench.check("64 bits as u32", code == 5 and "y64.bin has 800 samples" in said, said)
    bench.write("big.bin", struct.pack(f"<{ROWS}q", *labels[:-1], 1 << 40))
    code, said = bench.train(labels='i32 y[batch] = bin("big.bin", i64)')
    place = "token number 399 (byte 3192) of big.bin is 1099511627776"
    bench.check("i64 that is no i32", code == 5 and place in said, said)


def features(bench, pixels, plain):
    values = [p / 16 for p in pixels]
    bench.write("x32.bin", struct.pack(f"<{len(values)}f", *values))
    bench.write("x16.bin", struct.pack(f"<{len(values)}e", *values))
    bench.write("xb16.bin", b"".join(struct.pack("<f", v)[2:] for v in values))
    held = HELD.replace('bin("ex.bin", u8)', "synthetic(0, 1)")
    for name, dtype in (("x32.bin", "f32"), ("x16.bin", "f16"), ("xb16.bin", "bf16")):
        code, said = bench.train(images=f'img[batch, pix] = bin("{name}", {dtype})', value="img",
                                 held=held)
        bench.check(f"features in {dtype}", code == 0 and bench.last_step(said) == plain, said)
    code, said = bench.compile(images='i32 img[batch, pix] = bin("x32.bin", f32)', held=held)
    bench.check("integers of floats", code == 3 and
                "error[E0803]: `img` is i32; `bin` of f32 fills it with f32" in said, said)
    code, said = bench.compile(images='img[batch, pix] = bin("x.bin", u8)')
    bench.check("floats of integers", code == 3 and
                "error[E0803]: `img` is f32; `bin` of u8 fills it with i32" in said, said)


def npy(dtype, shape, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def arrays(bench, pixels, labels, plain):
    half = ROWS * PIX // 2
    bench.write("x1.npy", npy("|u1", (ROWS // 2, 4, 4), pixels[:half]))
    bench.write("x2.npy", npy(">i2", (ROWS // 2, 4, 4), struct.pack(f">{half}h", *pixels[half:])))
    bench.write("y.npy", npy("<i8", (ROWS,), struct.pack(f"<{ROWS}q", *labels)))
    integers = {"images": 'i32 img[batch, pix] = npy("x[12].npy")', "labels": 'i32 y[batch] = npy("y.npy")'}
    code, said = bench.train(**integers)
    bench.check("arrays", code == 0 and bench.last_step(said) == plain, said)
    bench.write("xf.npy", npy(">f8", (ROWS, PIX), struct.pack(f">{half * 2}d", *(p / 16 for p in pixels))))
    held = HELD.replace('bin("ex.bin", u8)', "synthetic(0, 1)")
    floats = {"images": 'img[batch, pix] = npy("xf.npy")', "value": "img", "held": held}
    code, said = bench.train(**floats)
    bench.check("arrays of floats", code == 0 and bench.last_step(said) == plain, said)
    code, said = bench.train("--data", "xf.npy=y.npy", **floats)
    bench.check("integers for floats", code == 5 and "rank" not in said and "p.dsl:7:3: y.npy has "
                "integers (`<i8`), and `img` is an input of floats: declare it as i32" in said, said)
    bench.write("y9.npy", npy("|i1", (ROWS,), labels[:-1] + b"\x09"))
    code, said = bench.train("--data", "y.npy=y9.npy", **integers)
    bench.check("a label that is none", code == 0 and "1 of 400 values for `y` are outside 0 .. 3" in
                said and "(the first: token 399 (byte 527) of y9.npy, 9)" in said, said)
    bench.write("y.npy", npy("<i8", (ROWS - 1,), struct.pack(f"<{ROWS - 1}q", *labels[1:])))
    code, said = bench.train(**integers)
    bench.check("arrays are paired", code == 5 and f"y.npy has {ROWS - 1} samples of 1, and x[12].npy "
                f"has {ROWS} samples of 16" in said, said)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(dtc, dtrun, folder)
        pixels, labels = draw(ROWS, 1)
        held_pixels, held_labels = draw(HELD_ROWS, 2)
        for name, data in (("x", pixels), ("y", labels), ("ex", held_pixels), ("ey", held_labels)):
            bench.write(name + ".bin", data)
        plain = pairing(bench, labels)
        formats(bench, pixels, labels, plain)
        features(bench, pixels, plain)
        arrays(bench, pixels, labels, plain)
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
