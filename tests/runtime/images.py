#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images as a user meets them:  images.py DTC DTRUN

A small network learns from PNG files in folders of classes, with the same losses on one rank, on two, with micro-batches,
and after an interruption. The same pixels as CIFAR's records and as idx files give the same losses. Then classes and
parts, facts of checkpoints, and what is refused, with its name. Files are written with the standard library alone;
images_oracle.py compares with Pillow, torchvision's sizes and PyTorch."""
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import zlib

import families
import runs

PROGRAM = """include "std.dsl"
dim batch = 8, side = 8, colours = 3, classes = 3
model net(image[batch, height = side, width = side, chan = colours]) -> [batch, classes] {
  return image |> c:conv(8) |> relu |> out:linear[(height, width, chan), classes](std = 0.1)
}
train {
  IMAGES
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = adamw(lr = 3e-3)
  EVAL
  steps = 20
  seed = 5
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel none on pair { mesh data = 1 }
parallel two on pair { mesh data = 2; shard batch on data }
parallel parts on pair { mesh data = 2; shard batch on data; micro batch = 2 }
"""
INPUTS = "image[batch, height = side, width = side, chan = colours], i32 label[batch] = "
ONE = "image[batch, height = side, width = side, chan = colours] = "
FORM = ', pad = 1, crop = random, flip = true, mean = (0.4, 0.5, 0.6), std = (0.2, 0.3, 0.4))'


def png(pixels, side=8):
    """A PNG file of side * side colours."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(v for c in pixels[y * side:(y + 1) * side] for v in c) for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def draw(rng, label, side=8):
    """A picture whose brightest colour is that of its class."""
    return [tuple(rng.randrange(120) + (90 if c == label else 0) for c in range(3)) for _ in range(side * side)]


class Bench(runs.Bench):
    def compile(self, images, layout="none", held="", plan="p.plan", options=()):
        text = PROGRAM.replace("IMAGES", images).replace("EVAL", held)
        with open("p.dsl", "w") as file:
            file.write(text)
        code, said = self.run(self.dtc, "p.dsl", "--parallel", layout, "-o", plan, *options)
        self.check("compile " + images, code == 0, said)
        return plan

    def losses(self, plan, *options):
        shutil.rmtree("run", ignore_errors=True)
        code, said = self.run(self.dtrun, plan, "--gemm", "plain", "--save", "run", "--log", "run.jsonl", "--overwrite", *options)
        self.check("train " + plan, code == 0, said)
        if code:
            return []
        with open("run.jsonl") as file:
            return [line["loss"] for line in map(json.loads, file) if line.get("event") == "step"]

    def refused(self, name, words, images, held="", options=()):
        code, said = self.run(self.dtrun, self.compile(images, held=held), "--gemm", "plain", *options)
        self.check(name, code == 5 and words in said and "rank" not in said, (code, said))


def near(some, others):
    return len(some) == len(others) > 0 and all(abs(a - b) <= 2e-5 * max(1, abs(b)) for a, b in zip(some, others))


def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def make_files(rng):
    pictures = [(label, draw(rng, label)) for label in (0, 1, 2) for _ in range(14)]
    for number, (label, pixels) in enumerate(pictures):
        name = ("ant", "bee", "cat")[label]
        write(f"train/{name}/{number:02d}.png", png(pixels))
        if number % 14 >= 10:
            write(f"test/{name}/{number:02d}.png", png(pixels))
    write("train/ant/notes.txt", b"no image")
    return pictures


def check_layouts(bench):
    source = INPUTS + 'images("train"' + FORM
    serial = bench.losses(bench.compile(source))
    bench.check("20 losses, which fall", len(serial) == 20 and serial[-1] < 0.6 * serial[0], serial)
    for layout in ("two", "parts"):
        other = bench.losses(bench.compile(source, layout, plan=layout + ".plan"))
        bench.check("losses on " + layout, near(other, serial), (serial, other))
    plan = bench.compile(source)
    bench.run(bench.dtrun, plan, "--gemm", "plain", "--save", "half", "--steps", "9")
    shutil.rmtree("run", ignore_errors=True)
    code, said = bench.run(bench.dtrun, plan, "--gemm", "plain", "--resume", "half", "--log", "rest.jsonl")
    with open("rest.jsonl") as file:
        rest = [line["loss"] for line in map(json.loads, file) if line.get("event") == "step"]
    bench.check("losses after an interruption", code == 0 and rest == serial[9:], (said, rest, serial))
    other = bench.losses(bench.compile(INPUTS + 'images("train/*"' + FORM))
    bench.check("folders of classes", other == serial)
    other = bench.losses(bench.compile(INPUTS + 'images("train/*/*.png"' + FORM))
    bench.check("files of a pattern", other == serial)
    with open("train/bee/15.png", "rb") as file:
        kept = file.read()
    write("train/bee/15.png", png(draw(random.Random(9), 1)))
    code, said = bench.run(bench.dtrun, plan, "--gemm", "plain", "--resume", "half")
    bench.check("other contents are noticed", code == 5 and "reads other data" in said, said)
    write("train/bee/15.png", kept)


def check_packs(bench, pictures):
    """The same pixels as files of their own, and in files of many: labels in the same order."""
    side = {"side": 32}
    rng = random.Random(3)
    big = [(label, draw(rng, label, 32)) for label in (0, 1, 2) for _ in range(8)]
    records = b"".join(bytes([label]) + bytes(p[c] for c in range(3) for p in pixels) for label, pixels in big)
    write("cifar/data_batch_1.bin", records[:3073 * 11])
    write("cifar/data_batch_2.bin", records[3073 * 11:])
    write("cifar100/train.bin", b"".join(bytes([7, records[i]]) + records[i + 1:i + 3073]
                                         for i in range(0, len(records), 3073)))
    for number, (label, pixels) in enumerate(big):
        write(f"big/{label}/{number:02d}.png", png(pixels, 32))
    wide = ["-D", "side=32"]
    form = ', pad = 4, crop = random, flip = true)'
    want = bench.losses(bench.compile(INPUTS + 'images("big"' + form, options=wide))
    for name in ("cifar/*.bin", "cifar100/train.bin"):
        got = bench.losses(bench.compile(INPUTS + f'images("{name}"' + form, options=wide))
        bench.check("losses of " + name, got == want and len(want) == 20, (want, got))
    n = len(pictures)
    grey = [bytes((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16 for p in pixels) for _, pixels in pictures]
    write("mnist/train-images-idx3-ubyte", struct.pack(">4B3I", 0, 0, 8, 3, n, 8, 8) + b"".join(grey))
    write("mnist/train-labels-idx1-ubyte", struct.pack(">4BI", 0, 0, 8, 1, n) + bytes(label for label, _ in pictures))
    one = ["-D", "colours=1"]
    want = bench.losses(bench.compile(INPUTS + 'images("train", mean = 0.3, std = 0.2)', options=one))
    for name, source in (("idx", INPUTS + 'images("mnist/train-images-idx3-ubyte", mean = 0.3, std = 0.2)'),
                         ("idx and labels of their own", ONE + 'images("mnist/*images*", mean = 0.3, std = 0.2)\n'
                          '  i32 label[batch] = bin("mnist/train-labels-idx1-ubyte", u8)')):
        got = bench.losses(bench.compile(source, options=one))
        bench.check("losses of " + name, got == want and len(want) == 20, (want, got))


def check_orders(bench):
    """Colours as the first axis, and one colour without an axis: the values are the same."""
    def values(images, name):
        plan = bench.compile(INPUTS.replace("image[batch", name + "[batch") + images) if name == "image" else name
        code, said = bench.run(bench.dtrun, plan, "--show-samples", "2")
        return said
    said = values('images("train")', "image")
    bench.check("samples are shown", said.count("sample ") == 2 and "label: " in said, said)
    text = PROGRAM.replace("IMAGES", 'image[batch, chan = colours, height = side, width = side], i32 label[batch] = '
                           'images("train"' + FORM).replace("EVAL", "")
    with open("first.dsl", "w") as file:
        file.write(text.replace("model net(image[batch, height = side, width = side, chan = colours])",
                                "model net(image[batch, chan = colours, height = side, width = side])"))
    code, said = bench.run(bench.dtc, "first.dsl", "--parallel", "none", "-o", "first.plan")
    bench.check("colours first compile", code == 0, said)
    if code == 0:
        first = bench.losses("first.plan")
        bench.check("colours first", len(first) == 20 and first[-1] < 0.6 * first[0], first)


def check_classes(bench):
    """Classes of held-out data are those of the training data, and each part has all of them."""
    held = 'eval = every(20, data = images("test"))'
    source = INPUTS + 'images("train")'
    bench.losses(bench.compile(source, held=held))

    def evaluate():
        code, said = bench.run(bench.dtrun, "p.plan", "--gemm", "plain", "--resume", "run", "--eval")
        return code, said
    before = evaluate()
    shutil.move("test/ant", "ant")
    code, said = bench.run(bench.dtrun, "p.plan", "--gemm", "plain", "--resume", "run", "--eval")
    bench.check("a class is missing in the test", code == 0 and "of 3 classes" in said, said)
    shutil.move("test/bee", "test/bug")
    bench.refused("a class that training lacks", "has the class `bug`, and the training data has none", source, held,
                  ["--eval"])
    shutil.move("test/bug", "test/bee")
    shutil.move("ant", "test/ant")
    bench.check("evaluation", before[0] == 0, before)
    plan = bench.compile(INPUTS + 'images("train", to = 0.5)')
    code, said = bench.run(bench.dtrun, plan, "--gemm", "plain", "--steps", "1")
    bench.check("a part of each class", "21 images of 3 classes: `ant` is 0, `bee` is 1, `cat` is 2; 1 file is no image (the "
                "first: train/ant/notes.txt)" in said, said)


def check_refused(bench):
    source = INPUTS + 'images("train")'
    for name, data, words in (
            ("x.png", b"\x89PNG\r\n\x1a\n and more", "train/ant/x.png cannot be decoded: "),
            ("x.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF", "train/ant/x.jpg cannot be decoded: "),
            ("x.png", b"", "train/ant/x.png is no JPEG and no PNG file but empty"),
            ("x.png", png(draw(random.Random(1), 0, 9), 9), "x.png has 9 x 9 pixels, and the input takes 8 x 8: `crop"),
            ("x.png", png(draw(random.Random(1), 0, 7), 7), "x.png has 7 x 7 pixels, and the input takes 8 x 8: `resize"),
            ("x.webp", b"RIFF0000WEBPVP8", "x.webp is of a format that cannot be read")):
        write("train/ant/" + name, data)
        bench.refused(f"{name}: {words}", words, source)
        os.remove("train/ant/" + name)
    write("train/dog/1.png", png(draw(random.Random(1), 0)))
    code, said = bench.run(bench.dtrun, bench.compile(source), "--gemm", "plain", "--steps", "1")
    bench.check("too many classes", code == 0 and "1 image of class 3 (`dog`) or above is outside 0 .. 2" in said, said)
    with open("p.dsl") as file:
        text = file.read().replace("xent[classes](net(image), label)", "-net(image)[classes = label]")
    with open("p.dsl", "w") as file:
        file.write(text)
    code, said = bench.run(bench.dtc, "p.dsl", "--parallel", "none", "-o", "p.plan")
    code, said = bench.run(bench.dtrun, "p.plan", "--gemm", "plain", "--steps", "1")
    bench.check("too many classes for an index",
                code == 5 and "train/dog/1.png is of class 3 (`dog`): outside `classes` of 3, which `label`" in said, said)
    shutil.rmtree("train/dog")
    bench.refused("values of 16 bits", "`mean` and `std` make 65666.7 of some pixels, which is infinite in f16, the dtype of `image`",
                  "f16 " + INPUTS + 'images("train", mean = 0.001, std = 1e-6)')
    bench.refused("too many pixels", "has 8 x 8 pixels, more than the 63 that the source allows",
                  INPUTS + 'images("train", pixels = 63)')
    bench.refused("no folder", "cannot read", INPUTS + 'images("absent")')
    os.makedirs("empty", exist_ok=True)
    bench.refused("no images", "empty has no images", INPUTS + 'images("empty")')
    bench.refused("no file matches", "no file matches", INPUTS + 'images("absent/*.png")')
    write("table.parquet", b"PAR1 columns PAR1")
    bench.refused("another format", "is a Parquet file: for numbers numpy.save(NEW, ", INPUTS + 'images("table.parquet")')
    write("odd.bin", bytes(3073 * 2 + 1))
    bench.refused("no records", "odd.bin is no image and no file of images", INPUTS + 'images("odd.bin")')
    write("labels.bin", bytes([11]) + bytes(3072))
    bench.refused("no class of CIFAR-10", "labels.bin is no image", INPUTS + 'images("labels.bin")')
    write("digits-idx3", struct.pack(">4B3I", 0, 0, 8, 3, 2, 8, 8) + bytes(128))
    bench.refused("no labels", "digits-idx3 has no labels", INPUTS + 'images("digits-idx3")')
    write("images", struct.pack(">4B3I", 0, 0, 8, 3, 2, 8, 8) + bytes(128))
    bench.refused("no end of the name", "images has no labels", INPUTS + 'images("images")')


def check_init(bench):
    """`dtc init` of a ViT's folder: the program learns from folders of classes, with the values of preprocessor_config.json."""
    families.write("vit", "vit")
    names = sorted(f"c{k:02d}" for k in range(families.VOCAB))
    rng = random.Random(4)
    for number, name in enumerate(names):
        for k in range(10):
            write(f"mine/{name}/{k}.png", png([tuple((v + rng.randrange(9)) % 256 for v in (number * 6, number * 31 % 256, 99)) for _ in range(144)], 12))
    with open("vit/preprocessor_config.json", "w") as file:
        json.dump({"do_resize": True, "size": {"height": 8, "width": 8}, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]}, file)
    code, said = bench.run(bench.dtc, "init", "vit", "-o", "vit.dsl")
    bench.check("init of a ViT", code == 0 and "a folder for each class" in said, said)
    with open("vit.dsl") as file:
        text = file.read()
    form = 'images("mine", to = 0.9, stretch = true, mean = (0.4, 0.5, 0.6), std = (0.2, 0.3, 0.4))'
    bench.check("its source", form in text, text)
    code, said = bench.run(bench.dtc, "vit.dsl", "-o", "vit.plan")
    bench.check("init's program compiles", code == 0, said)
    code, said = bench.run(bench.dtrun, "vit.plan", "--gemm", "plain", "--import", "vit", "--set", "lr.base=1e-2", "--steps", "40", "--save", "fine",
                           "--log", "fine.jsonl")
    bench.check("init's program trains", code == 0, said)
    if code == 0:
        with open("fine.jsonl") as file:
            events = [json.loads(line) for line in file]
        losses = [line["loss"] for line in events if line.get("event") == "step"]
        bench.check("its loss falls", len(losses) == 40 and sum(losses[-5:]) < 0.93 * sum(losses[:5]), losses)
    code, said = bench.run(bench.dtrun, "vit.plan", "--gemm", "plain", "--resume", "fine", "--eval")
    bench.check("its held-out images", code == 0 and f"over {families.VOCAB} samples" in said, said)
    # the same program on the numbers that the file's description gives, made by hand
    with open("vit/preprocessor_config.json", "w") as file:
        json.dump({"do_resize": False, "do_rescale": False, "image_mean": [102, 127.5, 153], "image_std": [51, 76.5, 102]}, file)
    code, said = bench.run(bench.dtc, "init", "vit", "-o", "raw.dsl")
    with open("raw.dsl") as file:
        bench.check("values of 0 to 255", "to = 0.9, mean = (0.4, 0.5, 0.6), std = (0.2, 0.3, 0.4))" in file.read(), said)


def main(arguments):
    bench = Bench(*(os.path.abspath(path) for path in arguments[:2]))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pictures = make_files(random.Random(1))
        check_layouts(bench)
        check_packs(bench, pictures)
        check_orders(bench)
        check_classes(bench)
        check_refused(bench)
        check_init(bench)
        os.chdir("/")
    print("%d passed, %d failed, 0 skipped" % (bench.passed, bench.failed))
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
