"""A client of a server: requests over one connection that is kept.

`python3 fetch.py HOST:PORT PATH [PROXY [tunnel]]` prints "ready", and for each line "N" on its standard input asks N times and
prints how many nanoseconds each answer took. PROXY is an address, through which a connection is made or each request is asked.
"""
import http.client
import sys
import time


def connect(address, path, proxy=None, tunnel=None):
    """The connection, and what is asked for."""
    host, port = (proxy or address).split(":")
    connection = http.client.HTTPConnection(host, int(port))
    if tunnel:
        there, its_port = address.split(":")
        connection.set_tunnel(there, int(its_port))
    return connection, path if tunnel or not proxy else f"http://{address}{path}"


def once(connection, target):
    start = time.perf_counter_ns()
    connection.request("GET", target)
    with connection.getresponse() as answer:
        body = answer.read()
        if answer.status != 200 or not body:
            raise RuntimeError(f"{answer.status}: {body[:200]!r}")
    return time.perf_counter_ns() - start


def serve(connection, target):
    print("ready", flush=True)
    for line in sys.stdin:
        print(*(once(connection, target) for _ in range(int(line))), flush=True)


if __name__ == "__main__":
    serve(*connect(*sys.argv[1:]))
