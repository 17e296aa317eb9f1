"""A floor of work in cells: a plain Python process that runs the same texts in its own __main__.

`python3 outside.py` prints "ready"; each line on its standard input is a text in JSON, which it runs as a cell is run:
the last line is an expression, whose repr() it prints.
"""
import __main__
import json
import sys


def run(text):
    body, _, last = text.rpartition("\n")
    exec(compile(body, "<text>", "exec"), vars(__main__))
    return eval(last, vars(__main__))


def serve():
    print("ready", flush=True)
    for line in sys.stdin:
        print(repr(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    serve()
