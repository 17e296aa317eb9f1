"""A short tour of the Python client, with its extension module."""

import limpet
from limpet._connection import _transport

assert _transport.NATIVE
client = limpet.Client()
with client.open("tour", checkpoint="always") as session:
    session.run("x = 41")
    assert session.run("x + 1").result == "42"
    result = session.run("import os; os._exit(3)")
    assert (result.status, result.state) == ("exited", "rolled_back")
    assert session.run("x").result == "41"
assert client.run("1 + 1").result == "2"
