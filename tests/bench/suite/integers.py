"""Large integers: digits of pi, factorials, powers to a modulus."""
import math


def digits_of_pi(count):
    """A spigot: linear transformations composed in integers."""
    digits, q, r, t, k = [], 1, 0, 1, 1
    while len(digits) < count:
        q, r, t, k = q * k, (2 * q + r) * (2 * k + 1), t * (2 * k + 1), k + 1
        while q <= r and (digit := (3 * q + r) // t) == (4 * q + r) // t:
            digits.append(digit)
            q, r = 10 * q, 10 * (r - digit * t)
    return digits


def work():
    power = pow(3, math.factorial(300), 2 ** 521 - 1)
    return sum(digits_of_pi(500)), power % 10 ** 9, len(str(math.factorial(1500)))
