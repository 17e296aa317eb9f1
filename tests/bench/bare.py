"""A floor of a cell: compile() and exec() of it in a plain Python process, in the container of a session.

`python3 bare.py` reads the cell from bare_cell.py, prints "ready", and for each line "N" on its standard input runs
it N times and prints how many nanoseconds each took.
"""
import sys
import time


def once(source, names):
    start = time.perf_counter_ns()
    exec(compile(source, "<cell>", "exec"), names)
    return time.perf_counter_ns() - start


def serve():
    with open("bare_cell.py") as file:
        source = file.read()
    names = {"__name__": "__main__"}
    print("ready", flush=True)
    for line in sys.stdin:
        print(*(once(source, names) for _ in range(int(line))), flush=True)


if __name__ == "__main__":
    serve()
