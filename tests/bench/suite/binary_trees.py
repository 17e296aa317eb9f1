"""Trees of small tuples that are made, walked and dropped."""


def make(depth):
    return (make(depth - 1), make(depth - 1)) if depth else (None, None)


def count(tree):
    left, right = tree
    return 1 + (count(left) + count(right) if left else 0)


def work():
    kept = make(14)
    return count(kept) + sum(count(make(depth)) for depth in (4, 7, 10, 13) for _ in range(1 << (13 - depth)))
