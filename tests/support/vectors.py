"""The examples of messages in proto/vectors, by their names."""

import json

from tests.support import ROOT

VECTORS = {
    vector["name"]: vector
    for path in sorted((ROOT / "proto" / "vectors").glob("*.json"))
    for vector in json.loads(path.read_text("utf-8"))
}
