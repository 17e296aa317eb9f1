"""Generators of generators: a tree walked in order, and chains of itertools."""
import itertools


def walk(low, high):
    """The numbers between, as a balanced tree hands them out."""
    if low < high:
        middle = (low + high) // 2
        yield from walk(low, middle)
        yield middle
        yield from walk(middle + 1, high)


def running(numbers):
    total = 0
    for number in numbers:
        total += number
        received = yield total
        total += received or 0


def work():
    in_order = list(walk(0, 15000))
    sums = sum(running(x for x in in_order if x % 2))
    pairs = itertools.islice(itertools.combinations(in_order, 2), 50000)
    grouped = [sum(b for _, b in group) for _, group in itertools.groupby(pairs, key=lambda pair: pair[1] // 100)]
    return sums, sum(grouped), len(grouped)
