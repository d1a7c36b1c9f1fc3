#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images against Pillow, and training on them against PyTorch:  images_oracle.py DTC DTRUN [SEEDS]

The values that `images` makes of PNG and JPEG files of many kinds are those of Pillow: decoded, turned, in grey or colour, scaled
with the shorter side or to a size, the middle of them, in either order of the axes. Then examples/digits.dsl learns
scikit-learn's digits from PNG files, and PyTorch the same model from the same files, with the same optimizer and number of
steps: over SEEDS seeds (2) both know at least 95 % of the test images, and the means differ by at most 2 points. At last the
example programs of ViT, VGG and ResNet train from JPEG files at small sizes.
Skipped (77) without Pillow, NumPy, PyTorch and scikit-learn; images.py needs nothing."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import runs

sys.path.pop(0)  # PyTorch wants Python's own profile, not profile.py of this folder
try:
    import numpy
    import torch
    from PIL import Image, ImageOps
    import sklearn.datasets  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COPY = """include "std.dsl"
dim batch = 4, high = %d, wide = %d, colours = %d
model echo(image[%s]) -> [%s] { param one[colours] = ones; return image * one }
train {
  image[%s] = images("files"%s)
  loss = mean[batch, high, wide, colours](echo(image))
  optimizer = sgd(lr = 0.0)
  steps = 1
}
"""
LAST, FIRST = "batch, high, wide, colours", "batch, colours, high, wide"


# ---- values ----

def write_files(rng):
    """Images of every mode and many sizes, and their files."""
    os.makedirs("files", exist_ok=True)
    sizes = [(40, 31), (31, 40), (64, 64), (33, 97), (120, 45)]
    for number, mode in enumerate(("RGB", "L", "P", "RGBA", "LA", "1", "RGB", "L", "RGB", "RGB")):
        width, height = sizes[number % len(sizes)]
        smooth = Image.fromarray(rng.integers(0, 256, (7, 9, 3), dtype="u1")).resize((width, height), Image.BICUBIC)
        image = smooth.convert(mode)
        if number < 6:
            image.save(f"files/{number}_{mode}.png")
        else:
            image.save(f"files/{number}_{mode}.jpg", quality=60 + 10 * (number - 6), progressive=number == 8,
                       subsampling=0 if number == 9 else 2)
    for turn in range(1, 9):  # as cameras write them
        exif = Image.Exif()
        exif[0x010F], exif[0x0112], exif[0x8769] = "maker", turn, {0x9003: "2020:01:01 00:00:00"}
        smooth = Image.fromarray(rng.integers(0, 256, (7, 9, 3), dtype="u1")).resize((70, 44), Image.BICUBIC)
        smooth.convert("L" if turn == 7 else "RGB").save(f"files/turn{turn}.jpg", exif=exif)


def scaled(image, width, height):
    """Along one axis after the other: which is the first differs between versions of Pillow, where both are scaled."""
    return image.resize((width, image.height), Image.BILINEAR).resize((width, height), Image.BILINEAR)


def expected(path, mode, resize, stretch, size):
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    if mode == "L":  # the grey of a file is that of its colours
        image = image.convert("L")
    if stretch:
        image = scaled(image, size[1], size[0])
    elif resize:
        w, h = image.size
        side = (resize, int(resize * h / w)) if w <= h else (int(resize * w / h), resize)
        image = scaled(image, *side)
    w, h = image.size
    left, top = int(round((w - size[1]) / 2)), int(round((h - size[0]) / 2))
    values = numpy.asarray(image.crop((left, top, left + size[1], top + size[0])), dtype="f8")
    return values.reshape(size[0], size[1], -1) / 255


def check_values(bench):
    write_files(numpy.random.default_rng(2))
    names = sorted(os.listdir("files"))
    for options, resize, stretch, size in ((", crop = centre", 0, False, (30, 29)),
                                           (", resize = 24, crop = centre", 24, False, (24, 24)),
                                           (", resize = 50, crop = centre", 50, False, (50, 41)),
                                           (", stretch", 0, True, (16, 50)), (", stretch", 0, True, (200, 9))):
        for colours in (3, 1):
            for order in (LAST, FIRST):
                with open("copy.dsl", "w") as file:
                    file.write(COPY % (*size, colours, order, order, order, options))
                code, said = bench.run(bench.dtc, "copy.dsl", "-o", "copy.plan")
                if code == 0:
                    shutil.rmtree("one", ignore_errors=True)
                    code, said = bench.run(bench.dtrun, "copy.plan", "--save", "one")
                if code == 0:
                    code, said = bench.run(bench.dtrun, "copy.plan", "--resume", "one", "--predict", "files", "--out",
                                           "v.npy")
                bench.check(f"{options} {colours} {order}", code == 0, said)
                if code:
                    continue
                got = numpy.load("v.npy")
                got = got if order == LAST else numpy.moveaxis(got, 1, 3)
                want = numpy.stack([expected("files/" + name, "RGB" if colours == 3 else "L", resize, stretch, size)
                                    for name in names])
                off = numpy.abs(got - want).max(axis=(1, 2, 3))
                bench.check(f"values{options} {colours} {order}", got.shape == want.shape and off.max() < 1e-6,
                            dict(zip(names, off)))


# ---- digits ----

def load(part):
    paths = [(int(label), f"digits/{part}/{label}/{name}") for label in sorted(os.listdir("digits/" + part))
             for name in sorted(os.listdir(f"digits/{part}/{label}"))]
    images = numpy.stack([numpy.asarray(Image.open(path), dtype="f4") for _, path in paths])
    return torch.tensor((images[:, None] / 255 - 0.3) / 0.35), torch.tensor([label for label, _ in paths])


def torch_accuracy(seed, steps=400, warmup=20, rate=3e-3, batch=64):
    """The model of digits.dsl, with the distributions of its parameters."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                              torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(512, 10))
    for layer, deviation in ((0, (2 / (9 * 16)) ** 0.5), (3, (2 / (9 * 32)) ** 0.5), (6, 0.02)):
        torch.nn.init.normal_(net[layer].weight, std=deviation)
        torch.nn.init.zeros_(net[layer].bias)
    adam = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.01)
    images, labels = load("train")
    order, at = torch.randperm(len(labels)), 0
    for step in range(1, steps + 1):
        if at + batch > len(order):
            order, at = torch.cat([order[at:], torch.randperm(len(labels))]), 0
        chosen = order[at:at + batch]
        at += batch
        part = (step - warmup) / (steps - warmup)
        adam.param_groups[0]["lr"] = rate * (step / warmup if step < warmup else
                                             0.5 * (1 + numpy.cos(numpy.pi * part)))
        adam.zero_grad()
        torch.nn.functional.cross_entropy(net(images[chosen]), labels[chosen]).backward()
        adam.step()
    images, labels = load("test")
    with torch.no_grad():
        return float((net(images).argmax(1) == labels).double().mean())


def our_accuracies(bench, seed):
    """The accuracy that the run shows of the test images, and that of the predictions of them."""
    with open(os.path.join(ROOT, "examples/digits.dsl")) as file:
        text = file.read().replace("  steps = 400", f"  steps = 400\n  seed = {seed}")
    with open("digits.dsl", "w") as file:
        file.write(text)
    shutil.rmtree("run", ignore_errors=True)
    code, said = bench.run(bench.dtc, "digits.dsl", "--parallel", "none", "-o", "digits.plan")
    if code == 0:
        code, said = bench.run(bench.dtrun, "digits.plan", "--save", "run", "--log", "run.jsonl", "--overwrite")
    bench.check(f"digits, seed {seed}", code == 0, said)
    if code:
        return 0, 0
    with open("run.jsonl") as file:
        lines = [json.loads(line) for line in file]
    shown = [line["metrics"]["accuracy"] for line in lines if line.get("event") == "eval"][-1]
    code, said = bench.run(bench.dtrun, "digits.plan", "--resume", "run", "--predict", "digits/test", "--out", "z.npy")
    bench.check(f"predictions, seed {seed}", code == 0, said)
    _, labels = load("test")
    return shown, float((numpy.load("z.npy").argmax(1) == labels.numpy()).mean()) if code == 0 else 0


def check_digits(bench, seeds):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "examples/digits.py"), "digits"], check=False)
    bench.check("digits.py", done.returncode == 0)
    torch.set_num_threads(1)
    ours, theirs = [], []
    for seed in range(1, seeds + 1):
        shown, predicted = our_accuracies(bench, seed)
        bench.check(f"accuracy shown and predicted, seed {seed}", abs(shown - predicted) < 1e-6, (shown, predicted))
        ours.append(shown)
        theirs.append(torch_accuracy(seed))
        print(f"seed {seed}: {100 * ours[-1]:.2f} % here, {100 * theirs[-1]:.2f} % with PyTorch")
    mean, other = sum(ours) / seeds, sum(theirs) / seeds
    print(f"mean of {seeds}: {100 * mean:.2f} % here, {100 * other:.2f} % with PyTorch")
    bench.check("at least 95 %", min(ours) >= 0.95 and min(theirs) >= 0.95, (ours, theirs))
    bench.check("within 2 points", abs(mean - other) <= 0.02, (ours, theirs))


# ---- examples ----

def write_photos(rng):
    """JPEG files of 40 x 32 to 60 x 48 pixels: stripes whose direction is that of the class."""
    for label in range(4):
        os.makedirs(f"imagenet/train/{label}", exist_ok=True)
        for number in range(16):
            height, width = (int(n) for n in rng.integers(32, 60, 2))
            y, x = numpy.mgrid[:height, :width]
            angle = label * numpy.pi / 4
            wave = numpy.sin((x * numpy.cos(angle) + y * numpy.sin(angle)) / 3 + rng.uniform(0, 6))
            pixels = 128 + 90 * wave[..., None] * rng.uniform(0.5, 1, 3) + rng.normal(0, 8, (height, width, 3))
            Image.fromarray(pixels.clip(0, 255).astype("u1")).save(f"imagenet/train/{label}/{number}.jpg", quality=90)


EXAMPLES = (
    ("vit", ["batch=8", "gh=4", "gw=4", "ph=8", "pw=8", "classes=4", "layers=2", "embed=48", "heads=4", "head=12", "ffn=96"],
     [("3e-3, warmup = 10_000", "3e-3, warmup = 10"), ("steps = 93_000", "steps = 60")]),
    ("vgg16", ["batch=16", "side=32", "c0=8", "classes=4", "fc=64"],
     [("resize = 256", "resize = 36"), ("steps = 90 * 5004", "steps = 60"), ("dropout(0.5)", "dropout(0)"),
      ("std = 0.01", "std = 0.1"),
      ("sgd(lr = step_decay(0.01, every = 30 * 5004, factor = 0.1), momentum = 0.9, decay = 5e-4)", "adamw(lr = 1e-3)")]),
    ("resnet", ["batch=16", "side=32", "classes=4", "c0=8"],
     [("i32 label[batch] = synthetic(0, classes)", "image[batch, height = side, width = side, chan = rgb], "
       'i32 label[batch] = images("imagenet/train", stretch, flip = true, mean = 0.5, std = 0.25)'),
      ("resnet(stripes(label))", "resnet(image)"), ("steps = 80", "steps = 40")]),
)


def check_examples(bench):
    write_photos(numpy.random.default_rng(3))
    for name, dims, changes in EXAMPLES:
        with open(os.path.join(ROOT, f"examples/{name}.dsl")) as file:
            text = file.read()
        for old, new in changes:
            bench.check(f"{name}: {old}", old in text)
            text = text.replace(old, new)
        with open(name + ".dsl", "w") as file:
            file.write(text)
        shutil.rmtree("run", ignore_errors=True)
        code, said = bench.run(bench.dtc, name + ".dsl", "--parallel", "none", "--target=cpu", "-o", name + ".plan",
                               *(part for dim in dims for part in ("-D", dim)))
        if code == 0:
            code, said = bench.run(bench.dtrun, name + ".plan", "--save", "run", "--log", "run.jsonl", "--overwrite")
        bench.check(name + " trains", code == 0, said)
        if code:
            continue
        with open("run.jsonl") as file:
            losses = [line["loss"] for line in map(json.loads, file) if line.get("event") == "step"]
        first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
        print(f"{name}: loss {first:.3f} to {last:.3f} in {len(losses)} steps")
        bench.check(name + " learns", last < 0.8 * first, losses)


def main(arguments):
    bench = runs.Bench(*(os.path.abspath(path) for path in arguments[:2]))
    bench.limit = 250
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_values(bench)
        check_digits(bench, int(arguments[2]) if len(arguments) > 2 else 2)
        check_examples(bench)
        os.chdir("/")
    print("%d passed, %d failed, 0 skipped" % (bench.passed, bench.failed))
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
