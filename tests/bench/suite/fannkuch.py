"""Permutations of a short list and how often its head must be turned over."""


def work(n=7):
    permutation, count, most, checksum, turn, r = list(range(n)), [0] * n, 0, 0, 0, n
    while True:
        while r != 1:
            count[r - 1] = r
            r -= 1
        flipped, flips = permutation[:], 0
        while k := flipped[0]:
            flipped[:k + 1] = flipped[k::-1]
            flips += 1
        most = max(most, flips)
        checksum += -flips if turn % 2 else flips
        while True:
            if r == n:
                return checksum, most
            permutation.insert(r, permutation.pop(0))
            count[r] -= 1
            if count[r] > 0:
                break
            r += 1
        turn += 1
