"""Bodies that attract each other, in lists of floating point numbers."""

BODIES = [([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 39.5), ([4.8, -1.2, -0.1], [0.6, 2.8, -0.02], 0.038),
          ([8.3, 4.1, -0.4], [-1.0, 1.8, 0.008], 0.011), ([12.9, -15.1, -0.2], [1.1, 0.9, -0.01], 0.0017),
          ([15.4, -25.9, 0.2], [1.0, 0.6, -0.03], 0.002)]


def advance(pairs, bodies, step):
    for ((x1, y1, z1), v1, m1), ((x2, y2, z2), v2, m2) in pairs:
        dx, dy, dz = x1 - x2, y1 - y2, z1 - z2
        pull = step * (dx * dx + dy * dy + dz * dz) ** -1.5
        v1[0] -= dx * m2 * pull
        v1[1] -= dy * m2 * pull
        v1[2] -= dz * m2 * pull
        v2[0] += dx * m1 * pull
        v2[1] += dy * m1 * pull
        v2[2] += dz * m1 * pull
    for at, velocity, _ in bodies:
        for i in range(3):
            at[i] += step * velocity[i]


def work():
    bodies = [(list(at), list(velocity), mass) for at, velocity, mass in BODIES]
    pairs = [(a, b) for i, a in enumerate(bodies) for b in bodies[i + 1:]]
    for _ in range(1500):
        advance(pairs, bodies, 0.001)
    return round(sum(sum(at) for at, _, _ in bodies), 9)
