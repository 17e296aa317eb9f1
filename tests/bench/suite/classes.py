"""Data classes, properties, enumerations and dispatch over subclasses: orders of a shop."""
import dataclasses
import enum


class Kind(enum.Enum):
    BOOK, TOY, FOOD = range(3)


@dataclasses.dataclass(order=True)
class Item:
    price: float
    name: str
    kind: Kind = Kind.BOOK
    tags: list = dataclasses.field(default_factory=list)

    @property
    def taxed(self):
        return self.price * (1.07 if self.kind is Kind.BOOK else 1.19)

    def discount(self):
        return 0.0


class Food(Item):
    def discount(self):
        return self.price * 0.1


def work():
    kinds = list(Kind)
    items = [(Food if i % 3 == 2 else Item)(i * 37 % 101 / 4, f"item {i}", kinds[i % 3]) for i in range(2500)]
    best = sorted(item for item in items if type(item) is Item)[-1]
    changed = [dataclasses.replace(item, price=item.price + 1) for item in items[::3]]
    total = sum(item.taxed - item.discount() for item in items + changed)
    return round(total, 6), best.name, len({item.name for item in items})
