# SPDX-License-Identifier: Apache-2.0
"""How the stand-in of NCCL treats windows: windows.py FOLDER OF STANDINS

Two processes are the members of a communicator. Each case is what both do with it: right, or with
one mistake, which the stand-in has to notice. So runs of dtrun --windows on it (nccl.py) say
something."""

import ctypes
import os
import signal
import sys

OK, INVALID, USAGE, PROGRESS = 0, 4, 5, 7
BYTES, BLOCK, UNDEFINED = 1 << 16, 256, -2 ** 31
SYMMETRIC = 1


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint)] + \
        [(name, ctypes.c_int) for name in ("blocking", "cga", "min", "max")] + [("net", ctypes.c_char_p)] + \
        [(name, ctypes.c_int) for name in ("share", "traffic")] + [("name", ctypes.c_char_p)] + \
        [(name, ctypes.c_int) for name in ("collnet", "policy", "shrink", "nvls", "channels", "nvlink")]


def config(version=22800, size=ctypes.sizeof(Config), policy=0):
    rest = {name: UNDEFINED for name, kind in Config._fields_ if kind == ctypes.c_int}
    return Config(**{**rest, "size": size, "magic": 0xcafebeef, "version": version, "blocking": 0, "policy": policy})


class Member:
    """One member: its calls return their final result, or PROGRESS if that never comes."""

    def __init__(self, cuda, nccl, unique, me, told):
        self.cuda, self.nccl, self.me = cuda, nccl, me
        context = ctypes.c_void_p()
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), me)
        cuda.cuCtxSetCurrent(context)
        self.stream, self.comm = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuStreamCreate(ctypes.byref(self.stream), 1)
        self.joined = self.settle(nccl.ncclCommInitRankConfig(ctypes.byref(self.comm), 2, unique, me, ctypes.byref(told)))

    def settle(self, result):
        state = ctypes.c_int(result)
        for _ in range(200000):
            if state.value != PROGRESS:
                break
            self.nccl.ncclCommGetAsyncError(self.comm, ctypes.byref(state))
        return state.value

    def memory(self, by="ncclMemAlloc"):
        at = ctypes.c_uint64()
        made = self.nccl.ncclMemAlloc(ctypes.byref(at), ctypes.c_size_t(BYTES)) if by == "ncclMemAlloc" else \
            self.cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(BYTES))
        assert made == 0
        return at.value

    def window(self, at, size=BYTES, flags=SYMMETRIC):
        window = ctypes.c_void_p()
        return self.settle(self.nccl.ncclCommWindowRegister(self.comm, ctypes.c_uint64(at), ctypes.c_size_t(size),
                                                            ctypes.byref(window), flags)), window

    def drop(self, window):
        return self.settle(self.nccl.ncclCommWindowDeregister(self.comm, window))

    def gather(self, source, to):
        result = self.settle(self.nccl.ncclAllGather(ctypes.c_uint64(source), ctypes.c_uint64(to), ctypes.c_size_t(BLOCK), 1,
                                                     self.comm, self.stream))
        state = ctypes.c_int()
        for _ in range(200000):
            self.nccl.ncclCommGetAsyncError(self.comm, ctypes.byref(state))
            if result != OK or state.value != OK or self.cuda.cuStreamQuery(self.stream) == 0:
                break
        return result or state.value

    def end(self):
        over = self.settle(self.nccl.ncclCommFinalize(self.comm))
        return over or self.nccl.ncclCommDestroy(self.comm)


def right(m):
    at = m.memory()
    made, window = m.window(at)
    moved = m.gather(at, at + 4096)
    return made or moved or m.drop(window) or m.end() or m.nccl.ncclMemFree(ctypes.c_uint64(at))


def unequal(m, flags):
    """The second member gathers to a different place."""
    at = m.memory()
    made, window = m.window(at, flags=flags)
    return made or m.gather(at, at + 4096 * (1 + m.me)) or m.drop(window) or m.end()


def twice(m):
    _, window = m.window(m.memory())
    return m.drop(window) or m.drop(window)


def freed(m):
    at = m.memory()
    m.window(at)
    return m.nccl.ncclMemFree(ctypes.c_uint64(at))


def alone(m):
    """Only one side of a collective's memory is in a window."""
    at, other = m.memory(), m.memory()
    return m.window(at)[0] or m.gather(at, other)


def partly(m):
    at = m.memory()
    return m.window(at, 4096)[0] or m.gather(at, at + 4096 - BLOCK)


CASES = [  # what both members do; how both end; words for the stand-in; the config
    ("all is right", right, OK),
    ("copy engines", right, OK, "", config(policy=2)),
    ("an old config", right, OK, "nccl=22705", config(21800, Config.name.offset)),
    ("other sizes", lambda m: m.window(m.memory(), BYTES >> m.me)[0], USAGE),
    ("other flags", lambda m: m.window(m.memory(), flags=m.me)[0], USAGE),
    ("other memory", lambda m: m.window(m.memory("cuMemAlloc"))[0], USAGE),
    ("an address that is no page", lambda m: m.window(m.memory() + 64, 4096)[0], USAGE),
    ("more than there is", lambda m: m.window(m.memory(), BYTES * 2)[0], USAGE),
    ("other offsets", lambda m: unequal(m, SYMMETRIC), USAGE),
    ("other offsets, which nothing forbids", lambda m: unequal(m, 0), OK),
    ("one side in no window", alone, USAGE),
    ("partly in a window", partly, USAGE),
    ("given back twice", twice, USAGE),
    ("never given back", lambda m: m.window(m.memory())[0] or m.end(), -signal.SIGABRT),
    ("memory that has a window", freed, -signal.SIGABRT),
    ("a config of another size", lambda m: m.joined, INVALID, "", config(size=Config.name.offset)),
    ("a config that the library does not know", lambda m: m.joined, INVALID, "nccl=22705", config()),
    ("a policy that there is not", lambda m: m.joined, INVALID, "", config(policy=4)),
]


def ends(cuda, nccl, does, told):
    """For both members: what the case returns, or the negative number of a signal."""
    unique = Id()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == OK
    children = []
    for me in range(2):
        children.append(os.fork())
        if children[me] == 0:
            os._exit(does(Member(cuda, nccl, unique, me, told)))
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def main():
    cuda, nccl = (ctypes.CDLL(os.path.join(sys.argv[1], name), mode=ctypes.RTLD_GLOBAL) for name in ("libcuda.so.1", "libnccl.so.2"))
    for name, does, wanted, *rest in CASES:
        words, told = rest or ("", config())
        os.environ["DT_STANDIN"] = "gpus=2 " + words
        got = ends(cuda, nccl, does, told)
        assert got == [wanted, wanted], "%s: ends with %s instead of %d" % (name, got, wanted)
        print("ok", name, flush=True)
    print("%d passed, 0 failed" % len(CASES))


if __name__ == "__main__":
    main()
