"""Libraries that keep threads of their own: each is used before a crash, a rollback, a branch, attempts, a save and a
sleep, and right after it, while nothing runs and while a thread uses it. They are those of the environment `threads`."""

import os
import sysconfig
import tempfile
import time

import pytest

pytest.importorskip("polars", reason="they are in an environment of their own")
pytestmark = pytest.mark.long

ROUNDS = int(os.environ.get("LIMPET_TEST_ROUNDS", "2"))
# Where more of them are, as torch of Debian, and what these load.
MORE, LOADED = os.environ.get("LIMPET_TEST_LIBRARIES"), os.environ.get("LIMPET_TEST_LOADS")

# How each is used: a function that gives the same each time.
LIBRARIES = {
    "polars": """
import polars
table = polars.DataFrame({"key": [1, 2] * 20000, "value": range(40000)})
def use(): return table.lazy().group_by("key").agg(polars.col("value").sum()).sort("key").collect().rows()
""",
    "duckdb": """
import duckdb
database = duckdb.connect(config={"threads": 2})
database.execute("create table numbers as select range % 7 as key, range as value from range(300000)")
def use():
    with database.cursor() as cursor:
        return cursor.execute("select key, sum(value) from numbers group by key order by key").fetchall()
""",
    "pyarrow": """
import pyarrow
table = pyarrow.table({"key": [1, 2] * 50000, "value": range(100000)})
def use(): return table.group_by("key", use_threads=True).aggregate([("value", "sum")]).sort_by("key").to_pylist()
""",
    "numba": """
import sys
sys.modules["coverage"] = None  # that of the machine, which numba would subclass, may be too old
import numba, numpy
numbers = numpy.arange(100000.0)
@numba.njit(parallel=True)
def total(numbers):
    sum = 0.0
    for i in numba.prange(len(numbers)): sum += numbers[i]
    return sum
def use(): return total(numbers)
""",
    "lightgbm": """
import lightgbm, numpy
points = numpy.random.default_rng(1).random((2000, 8))
booster = lightgbm.train({"verbose": -1, "objective": "regression"}, lightgbm.Dataset(points, points.sum(1)), 5)
def use(): return round(float(booster.predict(points).sum()), 6)
""",
    "grpc": """
import grpc, concurrent.futures
class Handler(grpc.GenericRpcHandler):
    def service(self, details): return grpc.unary_unary_rpc_method_handler(lambda request, context: request * 2)
def use():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1), handlers=[Handler()])
    try:
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            return channel.unary_unary("/a/b")(b"x", timeout=10)
    except (grpc.RpcError, RuntimeError):
        return b"xx"  # neither a connection comes along, nor a socket that is about to be bound
    finally:
        server.stop(None).wait()
""",
    "tokenizers": """
import tokenizers
tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
def use(): return sum(sum(one.ids) for one in tokenizer.encode_batch(["a b c"] * 500))
""",
    "torch": """
import torch
matrix = torch.ones(300, 300)
def use(): return float((matrix @ matrix).sum())
""",
    "numpy": """
import numpy
matrix = numpy.ones((300, 300))
def use(): return float((matrix @ matrix).sum())
""",
    "executor": """
import concurrent.futures
pool = concurrent.futures.ThreadPoolExecutor(3)
def use(): return list(pool.map(abs, range(-20, 0)))
""",
    "asyncio": """
import asyncio, threading
async def ask(): return await asyncio.gather(*[asyncio.to_thread(abs, -n) for n in range(8)])
def use(): return asyncio.run_coroutine_threadsafe(ask(), loop).result()
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
""",
}

WORK = """
import threading
count, works = [0], True
def work():
    while works:
        use()
        count[0] += 1
worker = threading.Thread(target=work, daemon=True)
worker.start()
"""

GOES_ON = """
import time
before = count[0]
while count[0] < before + 2: time.sleep(0.001)
"""


def crash(session, check):
    crashed = session.run("import os; os._exit(3)")
    assert crashed.state == "rolled_back", crashed
    return crashed.not_restored


def rollback(session, check):
    checkpoint = session.checkpoint()
    missing = session.rollback(checkpoint).not_restored
    session.drop(checkpoint)
    return missing


def branch(session, check):
    with session.branch("other") as other:
        check(other)
    return ()


def attempts(session, check):
    for tried in session.try_each(["use() == expected"] * 2, timeout=60):
        assert tried.result == "True", tried
    session.commit(None)
    return ()


def save(session, check):
    with tempfile.TemporaryDirectory() as directory:
        session.save(os.path.join(directory, "saved.limpet"))
    return ()


def sleep(session, check):
    """With its memory, where pickles would lack the threads."""
    missing = None
    while missing is None:  # it goes on where its container is not gone yet
        session.sleep()
        time.sleep(0.5)
        missing = session.run("'awake'").restored
    return missing


def expected(note):
    return "connection" in note or "listening socket" in note


@pytest.mark.timeout(0)
@pytest.mark.parametrize("at_work", [False, True], ids=["idle", "at-work"])
@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("library", LIBRARIES)
def test_they_go_on(client, name, library, cpus, at_work):
    env = {"PYTHONPATH": ":".join(filter(None, [sysconfig.get_path("purelib"), MORE])), "LD_LIBRARY_PATH": LOADED or ""}
    with client.open(name, cpus=cpus, memory="2g", env=env, checkpoint="always", timeout=120) as session:
        begun = session.run(LIBRARIES[library] + "expected = use()")
        if begun.error and begun.error.name in ("ModuleNotFoundError", "ImportError"):
            pytest.skip(begun.error.message)
        assert begun.error is None, begun
        if at_work:
            assert session.run(WORK).error is None

        def check(session):
            used = session.run("assert use() == expected" + (GOES_ON if at_work else ""), timeout=60)
            assert (used.status, used.state) == ("ok", "kept"), used

        for _ in range(ROUNDS):
            for event in crash, rollback, branch, attempts, save, sleep:
                assert [note for note in event(session, check) if not expected(note)] == []
                check(session)
