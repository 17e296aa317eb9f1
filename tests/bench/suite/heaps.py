"""heapq and bisect: shortest ways through a graph, and the smallest of what comes by."""
import bisect
import heapq


def neighbours(node, size):
    for step in (1, 7, 31):
        yield (node + step) % size, (node * step + 11) % 13 + 1


def distances(size):
    found, reached = {}, [(0, 0)]
    while reached:
        distance, node = heapq.heappop(reached)
        if node in found:
            continue
        found[node] = distance
        for other, length in neighbours(node, size):
            if other not in found:
                heapq.heappush(reached, (distance + length, other))
    return found


def work():
    numbers, kept = [i * 7919 % 10007 for i in range(6000)], []
    for number in numbers:
        bisect.insort(kept, number)
        if len(kept) > 200:
            kept.pop()
    return sum(distances(5000).values()), heapq.nsmallest(5, numbers), kept[-1]
