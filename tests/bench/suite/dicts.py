"""Dicts and sets that grow, are counted in, merged and emptied."""
import collections


def work():
    counts, seen, groups = {}, set(), collections.defaultdict(list)
    for i in range(20000):
        key = i * 2654435761 % 4099
        counts[key] = counts.get(key, 0) + 1
        if key not in seen:
            seen.add(key)
            groups[key % 64].append(str(key))
    merged = {**counts, **{f"text {key}": value for key, value in counts.items()}}
    for key in list(merged)[::2]:
        del merged[key]
    common = collections.Counter(counts.values()).most_common(2)
    return len(merged), len(groups), common, len(seen & set(range(2000)))
