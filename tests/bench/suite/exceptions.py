"""Exceptions that are raised through several frames, caught, chained and cleaned up after."""
import contextlib


class Refused(ValueError):
    def __init__(self, number):
        super().__init__(f"{number} is refused")
        self.number = number


@contextlib.contextmanager
def counted(counts):
    try:
        yield
    except Refused as error:
        counts["refused"] += error.number
    finally:
        counts["all"] += 1


def check(number, depth):
    if depth:
        return check(number, depth - 1)
    if number % 3 == 0:
        raise Refused(number)
    return int("x" if number % 7 == 0 else "1")


def convert(number):
    try:
        return check(number, 4)
    except Refused:
        raise
    except ValueError as error:
        raise KeyError(number) from error


def work():
    counts = {"refused": 0, "all": 0, "keys": 0}
    for number in range(4000):
        try:
            with counted(counts):
                convert(number)
        except KeyError:
            counts["keys"] += 1
    return counts
