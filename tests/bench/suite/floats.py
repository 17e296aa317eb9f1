"""Floating point numbers in attributes and lists: nearest points, and an integral."""
import math


class Point:
    __slots__ = ("x", "y", "z")

    def __init__(self, i):
        self.x, self.y, self.z = math.sin(i), math.cos(i) * 3, math.sin(i) ** 2 / 2

    def normalized(self):
        norm = math.sqrt(self.x ** 2 + self.y ** 2 + self.z ** 2)
        self.x, self.y, self.z = self.x / norm, self.y / norm, self.z / norm
        return self


def integral(steps):
    width = math.pi / steps
    return sum(math.exp(-x * x) * math.log1p(x) for x in (i * width for i in range(steps))) * width


def work():
    points = [Point(i).normalized() for i in range(6000)]
    largest = points[0]
    for point in points:
        largest = max(largest, point, key=lambda p: p.x + p.y + p.z)
    return round(largest.x + largest.y + largest.z, 9), round(integral(20000), 9)
