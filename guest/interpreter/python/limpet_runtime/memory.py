"""Which names hold most of the memory, without a call of a method that a class of the cells may have."""

import gc
import itertools
import sys

from limpet_runtime import namespace

MOST = 5  # names that are told: LIMIT_HOLDERS
OBJECTS = 20000  # that are looked at for all names
SAMPLE = 200  # items of a container that stand for all of them

OWN_SIZE = {
    kind: kind.__sizeof__ for kind in (str, bytes, bytearray, int, float, complex, list, tuple, dict, set, frozenset)
}
BASIC_SIZE = vars(type)["__basicsize__"]
GETTER = type(vars(type)["__dict__"])  # of C alone
APART = (type(sys), type, type(len), type(lambda: None))  # belong to no name alone


def array_size(kind):
    """What tells the bytes of an array's data, where this is NumPy's type of them or a class of that."""
    numpy = sys.modules.get("numpy")
    array = vars(numpy).get("ndarray") if type(numpy) is type(sys) else None
    if type(array) is not type or not issubclass(kind, array):
        return None
    size = vars(array).get("nbytes")
    return size.__get__ if type(size) is GETTER else None


def own_size(value):
    kind = type(value)
    size = OWN_SIZE.get(kind) or array_size(kind)
    return size(value) if size else BASIC_SIZE.__get__(kind)


def parts(value):
    """What it refers to, and how many times that is to be counted."""
    kind = type(value)
    if kind is dict:
        pairs = list(itertools.islice(dict.items(value), SAMPLE))
        return [part for pair in pairs for part in pair], dict.__len__(value) / max(len(pairs), 1)
    if kind in (list, tuple, set, frozenset):
        some = list(itertools.islice(kind.__iter__(value), SAMPLE))
        return some, kind.__len__(value) / max(len(some), 1)
    return gc.get_referents(value), 1


def held(value, apart, most):
    """Bytes of all that can be reached from it, about: of so many objects at most."""
    seen, total = {id(value)}, 0
    todo = [(value, 1.0)]
    while todo and len(seen) < most:
        value, times = todo.pop(0)
        total += own_size(value) * times
        inside, more = parts(value)
        for part in inside:
            if id(part) not in seen and id(part) not in apart and not issubclass(type(part), APART):
                seen.add(id(part))
                todo.append((part, times * more))
    return int(total)


def holders(variables):
    """The names that hold most, the largest first, with the types of their values and bytes."""
    apart = {id(variables), id(None), id(True), id(False), id(sys.modules)}
    values = {
        name: value
        for name, value in list(dict.items(variables))
        if type(name) is str and name[:2] != "__" and not issubclass(type(value), APART)
    }
    most = max(OBJECTS // max(len(values), 1), 2)
    sizes = sorted(((held(value, apart, most), name) for name, value in values.items()), reverse=True)
    return [
        {"name": namespace.label(name), "type": namespace.type_name(type(values[name])), "bytes": size}
        for size, name in sizes[:MOST]
    ]
