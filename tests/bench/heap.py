"""What a session holds while its state is measured; as a program the floor: the same heap in a process that forks.

A cell of the session imports this file. `python3 heap.py KIND BYTES` fills itself in the same way on plain pages
of 4 KiB, prints "ready", and for each line "N" on its standard input forks N times and prints how many
nanoseconds each os.fork() took in the parent.
"""
import ctypes
import os
import pickle
import sys
import time

PR_SET_THP_DISABLE = 41
CHUNK_OBJECTS = 20000
CHUNK_ARRAYS = 4
ARRAY_DOUBLES = 1 << 17  # 1 MiB


def status(field, path="/proc/self/smaps_rollup"):
    """Bytes of a field of the process's memory map."""
    with open(path) as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(field + ":"))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def objects(begin):
    return [(float(i), str(i)) for i in range(begin, begin + CHUNK_OBJECTS)]


def arrays(_):
    import numpy

    return [numpy.ones(ARRAY_DOUBLES) for _ in range(CHUNK_ARRAYS)]


def fill(kind, size):
    """Data of that kind by which the process has grown by `size` bytes."""
    if kind == "array":
        import numpy

        return numpy.ones(size // 8)
    make = {"objects": objects, "arrays": arrays}[kind]
    data, begin = make(0), resident()
    while resident() - begin < size:
        data += make(len(data))
    return data


def on_huge_pages():
    """The share of the process's memory that is on huge pages."""
    return status("AnonHugePages") / status("Anonymous")


def pickling(data):
    """Nanoseconds that pickle.dumps takes; the quicker of two, so that faults after a fork do not count."""
    times = []
    for _ in range(2):
        start = time.perf_counter_ns()
        pickle.dumps(data, pickle.HIGHEST_PROTOCOL)
        times.append(time.perf_counter_ns() - start)
    return min(times)


def touch(data):
    """Writes to the memory of every object: its count of references at least."""
    if not isinstance(data, list):
        data += 0.0
    elif not isinstance(data[0], tuple):
        for array in data:
            array += 0.0
    else:
        for _ in data:
            pass


def fork():
    start = time.perf_counter_ns()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    took = time.perf_counter_ns() - start
    os.waitpid(pid, 0)
    return took


def serve(kind, size):
    os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    data = fill(kind, size)
    if on_huge_pages() > 0.01:
        raise SystemExit("the floor is not on plain pages")
    print("ready", flush=True)
    for line in sys.stdin:
        print(*(fork() for _ in range(int(line))), flush=True)
    return data


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
