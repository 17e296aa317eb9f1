"""Sorting with keys, of numbers, texts and tuples."""
import functools
import operator


def work():
    numbers = [i * 7919 % 100003 for i in range(8000)]
    texts = [f"{number % 997}-{number}" for number in numbers]
    pairs = list(zip(texts, numbers))
    by_digits = sorted(numbers, key=lambda number: (number % 10, -number))
    by_text = sorted(pairs, key=operator.itemgetter(0), reverse=True)
    compared = sorted(numbers[:1500], key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b)))
    return by_digits[5], by_text[5], compared[5], sorted(texts, key=len)[5]
