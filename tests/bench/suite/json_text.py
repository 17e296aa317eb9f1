"""JSON written and read: small records, and numbers."""
import json


def work():
    records = [{"id": i, "name": f"user {i}", "tags": ["a", "b", None], "score": i / 7, "nested": {"ok": i % 2 == 0}}
               for i in range(800)]
    total = 0
    for _ in range(5):
        text = json.dumps(records)
        total += len(text) + len(json.loads(text))
    pretty = json.dumps(records[:60], indent=2, sort_keys=True)
    return total, len(pretty)
