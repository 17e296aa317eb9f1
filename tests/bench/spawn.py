"""A floor of a command: /bin/true started and waited for by a plain Python process, in the container of a session.

`python3 spawn.py` prints "ready", and for each line "N" on its standard input does so N times and prints how many
nanoseconds each took.
"""
import os
import sys
import time

TRUE = "/bin/true"


def once():
    start = time.perf_counter_ns()
    os.waitpid(os.posix_spawn(TRUE, [TRUE], {}), 0)
    return time.perf_counter_ns() - start


def serve():
    print("ready", flush=True)
    for line in sys.stdin:
        print(*(once() for _ in range(int(line))), flush=True)


if __name__ == "__main__":
    serve()
