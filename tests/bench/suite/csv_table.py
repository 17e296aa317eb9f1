"""A table written as CSV, read again and summed up by group."""
import collections
import csv
import io

ROWS = 3000


def work():
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["id", "group", "value", "text"])
    writer.writerows([i, f"group {i % 17}", i * 0.25, f'a "text" of {i}, quoted'] for i in range(ROWS))
    file.seek(0)
    sums = collections.defaultdict(float)
    for row in csv.DictReader(file):
        sums[row["group"]] += float(row["value"]) + len(row["text"])
    return sorted(sums.items())[:3]
