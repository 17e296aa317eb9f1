#!/usr/bin/env python3
"""An agent with more data than it should copy: a Parquet file of 300 MB in a session of 2 GB, and a crash in between.

usage: examples/langgraph_parquet.py [--megabytes N] [--image NAME | --install]

The table is joined by DuckDB where the sandbox has it, and otherwise by pandas: `limpet image build --with data --name data`
makes an image with it for --image, and --install adds it to the session. The first call makes the file. The model is
scripted, as in langgraph_agent.py; what is claimed at the end was checked.
"""

import argparse
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_scripted import Scripted

import limpet
from limpet.langgraph import code_sandbox

# 24 bytes a row, of which random digits leave nothing to compress.
MAKE = """
import os
import numpy as np, pyarrow as pa, pyarrow.parquet as pq

def trips(rows, random=np.random.default_rng(7)):
    city, km = random.integers(6, size=rows, dtype="int32"), random.gamma(2.0, 4.0, rows)
    minutes = (km * random.uniform(1.5, 4.0, rows)).astype("float32")
    return pa.table({{"city": city, "km": km, "fare": 3 + 1.4 * km + 0.2 * minutes, "minutes": minutes}})

with pq.ParquetWriter("trips.parquet", trips(1).schema, compression="none", use_dictionary=False) as file:
    for _ in range({megabytes}):
        file.write_table(trips(10**6 // 24))
os.path.getsize("trips.parquet") // 10**6
"""
LOAD = """
import pandas as pd
trips = pd.read_parquet("trips.parquet")
cities = pd.DataFrame({"city": range(6), "name": ["東京", "大阪", "上海", "北京", "서울", "부산"]})
f"{len(trips)} trips, {trips.memory_usage().sum() / 1e6:.0f} MB"
"""
CRASH = """
fares = trips.groupby("city").fare.mean()
import ctypes; ctypes.string_at(0)  # a bug in a library that is written in C
"""
JOIN = """
try:
    import duckdb
    means = duckdb.sql("SELECT name, avg(fare) AS fare FROM trips JOIN cities USING (city) GROUP BY name ORDER BY name").df()
    by = "DuckDB"
except ImportError:
    means = trips.merge(cities, on="city").groupby("name", as_index=False).fare.mean()
    by = "pandas"
by, len(means)
"""
FIT = """
import numpy as np
from joblib import Parallel, delayed

features = trips[["km", "minutes"]].to_numpy()  # so large that joblib shares it through a file
fare, city = trips.fare.to_numpy(), trips.city.to_numpy()

def fit(features, fare, city, number):
    from sklearn.linear_model import LinearRegression
    return LinearRegression().fit(features[city == number], fare[city == number]).coef_

weights = np.array(Parallel(n_jobs=2)(delayed(fit)(features, fare, city, number) for number in range(6)))
weights.round(3).tolist()[0]
"""
DRAW = """
import matplotlib.pyplot as plt
plt.bar(means.name, means.fare)
plt.title("平均料金 · 平均车费 · 평균 요금")
plt.show()
"""


def agent_of(sandbox, megabytes):
    steps = [MAKE.format(megabytes=megabytes), LOAD, CRASH, JOIN, FIT, DRAW]
    turns = [*([step] for step in steps), "A fare is 1.4 for each km and 0.2 for each minute, in every city."]
    return create_agent(Scripted(turns=lambda question: turns), [sandbox], checkpointer=InMemorySaver())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--image")
    parser.add_argument("--install", action="store_true")
    given = parser.parse_args()

    client = limpet.Client()
    options = {"packages": ["duckdb"]} if given.install else {"image": given.image} if given.image else {}
    sandbox = code_sandbox(client, name="code_sandbox", memory="2g", cpus=2, disk="2g", timeout=120, max_timeout=300, **options)
    agent = agent_of(sandbox, given.megabytes)
    thread = {"configurable": {"thread_id": "trips"}}
    try:
        messages = agent.invoke({"messages": [("human", "What does a trip cost, and why?")]}, thread)["messages"]
    finally:
        client.close_session("trips")
    told = [message for message in messages if isinstance(message, ToolMessage)]
    for message in told:
        print(message.text, end="\n\n")

    made, loaded, crashed, joined, fitted, drawn = (message.artifact for message in told)
    assert abs(int(made["result"]) - given.megabytes) <= given.megabytes // 20 + 1
    assert (crashed["status"], crashed["state"]) == ("crashed", "rolled_back")
    assert joined["status"] == "ok", "the table was still in memory"
    assert fitted["result"] == "[1.4, 0.2]"
    assert drawn["displays"] and not drawn["stderr"], "a glyph is missing from the fonts"
    print(f"{messages[-1].text} The file was read once, joined by {joined['result'][2:8]}, and outlived a crash.")


main()
