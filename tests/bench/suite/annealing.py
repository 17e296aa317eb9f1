"""Draws from random and floating point maths: simulated annealing of a tour."""
import math
import random

CITIES, STEPS = 30, 4000


def length(tour, at):
    return sum(math.dist(at[a], at[b]) for a, b in zip(tour, tour[1:] + tour[:1]))


def change(tour, at, i, j):
    """How much longer the tour gets when the two cities change places with those after them."""
    a, b, c, d = at[tour[i - 1]], at[tour[i]], at[tour[j]], at[tour[(j + 1) % CITIES]]
    return math.dist(a, c) + math.dist(b, d) - math.dist(a, b) - math.dist(c, d)


def work():
    draw = random.Random(1)
    at = [(draw.random(), draw.random()) for _ in range(CITIES)]
    tour, heat = list(range(CITIES)), 1.0
    for _ in range(STEPS):
        i, j = sorted(draw.sample(range(1, CITIES), 2))
        longer = change(tour, at, i, j)
        if longer < 0 or draw.random() < math.exp(-longer / heat):
            tour[i:j + 1] = tour[i:j + 1][::-1]
        heat *= 0.999
    return round(length(tour, at), 6)
