"""pickle of plain data and of objects, there and back."""
import pickle


class Record:
    def __init__(self, i):
        self.id, self.name, self.values = i, f"record {i}", (i, i / 3, [i] * 3)

    def __reduce__(self):
        return dict, ((("id", self.id), ("name", self.name), ("values", self.values)),)


def work():
    plain = [{"id": i, "name": str(i), "values": [i, i / 2, None]} for i in range(3000)]
    records = [Record(i) for i in range(1200)]
    total = 0
    for protocol in (2, 5):
        for data in (plain, records):
            text = pickle.dumps(data, protocol)
            total += len(text) + len(pickle.loads(text))
    return total
