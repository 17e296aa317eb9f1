"""Rays against spheres: small objects with operators, and a picture in a bytearray."""
import math

WIDTH, HEIGHT = 56, 40


class Vector:
    __slots__ = ("x", "y", "z")

    def __init__(self, x, y, z):
        self.x, self.y, self.z = x, y, z

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other):
        return Vector(self.x - other.x, self.y - other.y, self.z - other.z)

    def __mul__(self, factor):
        return Vector(self.x * factor, self.y * factor, self.z * factor)

    def dot(self, other):
        return self.x * other.x + self.y * other.y + self.z * other.z

    def unit(self):
        return self * (1 / math.sqrt(self.dot(self)))


class Sphere:
    def __init__(self, centre, radius, brightness):
        self.centre, self.radius, self.brightness = centre, radius, brightness

    def hit(self, origin, ray):
        """How far along the ray, or None."""
        towards = self.centre - origin
        along = towards.dot(ray)
        rest = self.radius ** 2 - towards.dot(towards) + along ** 2
        return along - math.sqrt(rest) if rest > 0 and along > 0 else None


def nearest(spheres, origin, ray):
    hits = [(distance, i) for i, sphere in enumerate(spheres) if (distance := sphere.hit(origin, ray)) is not None]
    return min(hits, default=None)


def colour(spheres, light, origin, ray, depth=2):
    found = nearest(spheres, origin, ray)
    if not found or not depth:
        return 0.1
    sphere, at = spheres[found[1]], origin + ray * found[0]
    normal = (at - sphere.centre).unit()
    reflected = ray - normal * (2 * ray.dot(normal))
    return sphere.brightness * max(normal.dot(light), 0) + 0.3 * colour(spheres, light, at, reflected, depth - 1)


def work():
    spheres = [Sphere(Vector(i * 1.5 - 3, i % 2 - 0.5, 6 + i), 1.0, 0.5 + i / 10) for i in range(5)]
    light, eye, picture = Vector(1, 2, -2).unit(), Vector(0, 0, -3), bytearray()
    for y in range(HEIGHT):
        for x in range(WIDTH):
            ray = Vector(x / WIDTH - 0.5, 0.5 - y / HEIGHT, 1).unit()
            picture.append(min(255, int(255 * colour(spheres, light, eye, ray))))
    return sum(picture)
