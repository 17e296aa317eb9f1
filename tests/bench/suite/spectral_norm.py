"""A matrix that is a function, multiplied with a vector."""
import math

SIZE = 60


def element(i, j):
    return 1.0 / ((i + j) * (i + j + 1) // 2 + i + 1)


def times(vector):
    return [sum(element(i, j) * x for j, x in enumerate(vector)) for i in range(SIZE)]


def times_transposed(vector):
    return [sum(element(j, i) * x for j, x in enumerate(vector)) for i in range(SIZE)]


def work():
    u = [1.0] * SIZE
    for _ in range(6):
        v = times_transposed(times(u))
        u = times_transposed(times(v))
    return round(math.sqrt(sum(a * b for a, b in zip(u, v)) / sum(b * b for b in v)), 9)
