"""Runs one line in a session of Monty's own pool of worker processes, as its page says to, and tells the times.

Argument: the line. Speaks as the programs of bench.h do.
"""
import sys
import time

from pydantic_monty import Monty


def block(run, line, count):
    """Nanoseconds of each."""
    now, times = time.perf_counter_ns, []
    for _ in range(count):
        start = now()
        run(line)
        times.append(now() - start)
    return times


def main():
    with Monty() as pool, pool.checkout() as session:
        session.feed_run("x = 0")
        print("ready", flush=True)
        for asked in sys.stdin:
            print(*block(session.feed_run, sys.argv[1], int(asked.split()[0])), flush=True)


if __name__ == "__main__":
    main()
