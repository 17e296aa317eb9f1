"""Queens on a board, by permutations and sets."""
import itertools


def work(size=8):
    columns = range(size)
    return [order for order in itertools.permutations(columns)
            if size == len({order[i] + i for i in columns}) == len({order[i] - i for i in columns})][-1]
