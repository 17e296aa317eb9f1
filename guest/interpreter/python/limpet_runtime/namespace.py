"""The names of cells and what is told of their values, without a call of a method that a class of the cells may have.

A cell may have replaced builtins and attributes of libraries. So builtins are taken when this module is imported, and
objects are read by getters written in C, or from their own dictionaries.
"""

from builtins import Exception, bool, bytearray, bytes, complex, dict, float, frozenset, hash, id, int, len, list, map
from builtins import range, repr, set, str, sum, tuple, type, vars, zip
from sys import byteorder

from _limpet import character_size, own_attributes

NOTE = 256  # bytes of a label: LIMIT_NOTE
NAMES = 1000  # of a listing: LIMIT_NAMESPACE
DIMENSIONS = 64  # LIMIT_DIMENSIONS
NATIVE = "<|" if byteorder == "little" else ">|"
NUMBERS = range(-(1 << 63), 1 << 63)
HEAP_TYPE = 1 << 9  # of a type's flags: a class statement may have made it

GETTER, METHOD, ATTRIBUTES = type(vars(type)["__dict__"]), type(str.upper), type(vars(type))
FLAGS, MRO, MODULE, NAME = (vars(type)[name].__get__ for name in ("__flags__", "__mro__", "__module__", "__qualname__"))
OF_TYPE = vars(type)["__dict__"].__get__


def label(text):
    """At most NOTE bytes of UTF-8, with an ellipsis where something was cut off. `text` is a plain str."""
    if len(text) <= NOTE and text.isascii():
        return text
    data = text[: NOTE + 1].encode("utf-8", "backslashreplace")
    return bytes.decode(data if len(data) <= NOTE else data[: NOTE - 3], "utf-8", "ignore") + "…" * (len(data) > NOTE)


def labels(texts):
    return [label(str.__str__(text)) for text in texts]


def find(items, name):
    """The value of an interned name. Looks at each item, since a lookup compares with keys that may not be plain."""
    for key, value in items:
        if key is name:
            return value
    return None


def module_of(kind):
    """None where it is no plain text."""
    module = find(ATTRIBUTES.items(OF_TYPE(kind)), "__module__") if FLAGS(kind) & HEAP_TYPE else MODULE(kind)
    return module if type(module) is str else None


def type_name(kind):
    """With the module, unless that is builtins."""
    module, name = module_of(kind), str.__str__(NAME(kind))
    return label(name if module == "builtins" else f"{module or '?'}.{name}")


# Objects of libraries

getters = {}  # (id of a type, name): the type, and what gets the attribute or None


def find_getter(kind, name):
    for base in MRO(kind):
        found = find(ATTRIBUTES.items(OF_TYPE(base)), name)
        if found is not None:
            return found.__get__ if type(found) is GETTER or type(found) is METHOD else None
    return None


def native(value, name):
    """An attribute that a type written in C gives the object; None where there is none."""
    kind = type(value)
    key = id(kind), name
    if key not in getters:
        getters[key] = kind, find_getter(kind, name)
    get = getters[key][1]
    return get(value) if get else None


def own(value, name):
    return find(dict.items(own_attributes(value)), name)


def attribute(value, name):
    found = native(value, name)
    return own(value, name) if found is None else found


def is_array(value):
    return find_kind(type(value))[2] is array_facts


def array_shape(array):
    return native(array, "shape")


DTYPES = {"i": "int", "u": "uint", "f": "float", "c": "complex", "b": "bool", "O": "object"}
DTYPES |= {"M": "datetime64", "m": "timedelta64"}


def dtype_name(dtype):
    """As str() has it, except of a structured one; None for other objects. From the array protocol's form, such as "<f8"."""
    form = native(dtype, "str")
    if type(form) is not str or form[:1] not in NATIVE or form[1:2] not in DTYPES:
        return form if type(form) is str else None
    name = DTYPES[form[1]]
    if form[1] in "iufc":
        return f"{name}{int(form[2:]) * 8}"
    return name + "".join(form.partition("[")[1:])


def array_facts(array):
    shape = array_shape(array)
    return list(shape) if len(shape) <= DIMENSIONS else None, dtype_name(native(array, "dtype")), native(array, "nbytes"), None


# A frame of pandas has a manager with the labels of its axes, the rows last, and with blocks: each has one array of NumPy
# for several columns, transposed so that its last dimension is the rows, or one extension array. Most extension arrays have
# an array of NumPy themselves.


def array_in(values):
    """The array of NumPy in the values of a block or of an axis, or None."""
    for array in values, attribute(values, "_ndarray"), own(values, "_data"):
        if is_array(array):
            return array
    return None


def axis_length(axis):
    labels = own(axis, "_range")
    if type(labels) is range:
        return len(labels)
    array = array_in(own(axis, "_data"))
    return array_shape(array)[0] if array is not None and len(array_shape(array)) == 1 else None


def blocks_shape(blocks):
    """Rows, None where they are not known, and columns. An extension array of one dimension is one column."""
    rows, columns = None, 0
    for block in blocks:
        array = array_in(attribute(block, "values"))
        shape = () if array is None else array_shape(array)
        columns += shape[0] if len(shape) == 2 else 1
        rows = shape[-1] if shape else rows
    return rows, columns


def pandas_parts(value):
    """The axes, rows first, and the blocks."""
    manager = own(value, "_mgr")
    axes, blocks = attribute(manager, "axes"), attribute(manager, "blocks")
    return axes[::-1] if type(axes) is list else (), blocks if type(blocks) is tuple else ()


def pandas_shape(value):
    axes, blocks = pandas_parts(value)
    shape = [axis_length(axis) for axis in axes]
    if None in shape:
        shape = [inside if known is None else known for known, inside in zip(shape, blocks_shape(blocks))]
    return tuple(shape)


def block_data(block):
    """The name of its dtype, and its bytes; each may be None."""
    values = attribute(block, "values")
    if is_array(values):
        return array_facts(values)[1:3]
    dtype = attribute(values, "_dtype")
    name, array = dtype_name(dtype), attribute(values, "_ndarray")
    if name is None:
        return "category" if NAME(type(dtype)) == "CategoricalDtype" else None, None
    return name, native(array, "nbytes") if is_array(array) else None


def pandas_facts(value):
    shape = list(pandas_shape(value))
    if not shape or None in shape:
        return NOTHING
    data = [block_data(block) for block in pandas_parts(value)[1]]
    sizes = [size for _, size in data]
    return shape, data[-1][0] if len(shape) == 1 else None, None if None in sizes else sum(sizes), None


def polars_frame_facts(value):
    data = own(value, "_df")
    return [native(data, "height")(), native(data, "width")()], None, native(data, "estimated_size")(), None


def polars_series_facts(value):
    data = own(value, "_s")
    return [native(data, "len")()], None, native(data, "estimated_size")(), None


# Facts: shape, dtype, bytes of the data without those of objects that it refers to, and repr

NOTHING = None, None, None, None
LIBRARIES = {
    ("numpy", "ndarray"): (array_facts, None),
    ("pandas", "DataFrame"): (pandas_facts, pandas_shape),
    ("pandas", "Series"): (pandas_facts, pandas_shape),
    ("polars", "DataFrame"): (polars_frame_facts, None),
    ("polars", "Series"): (polars_series_facts, None),
}


def nothing(value):
    return NOTHING


def scalar_facts(value):
    return None, None, None, repr(value)


def integer_facts(value):
    return None, None, None, repr(value) if value in NUMBERS else None


def length_facts(value):
    return [len(value)], None, None, None


def short_repr(value):
    """None where it is longer than a label."""
    text = repr(value) if len(value) <= NOTE else None
    return text if text is not None and len(str.encode(text, "utf-8", "backslashreplace")) <= NOTE else None


def text_facts(value):
    return [len(value)], None, len(value) * character_size(value), short_repr(value)


def bytes_facts(value):
    return [len(value)], None, len(value), short_repr(value) if type(value) is bytes else None


# id of a type: the type, which is kept, its name, what tells its facts, and its shape where that may change in place
known = {}
for facts, kinds in (
    (scalar_facts, (type(None), bool, float, complex)),
    (integer_facts, (int,)),
    (text_facts, (str,)),
    (bytes_facts, (bytes, bytearray)),
    (length_facts, (list, tuple, dict, set, frozenset)),
):
    known |= {id(kind): (kind, kind.__name__, facts, None) for kind in kinds}


def find_kind(kind):
    """An entry as in `known`: for types that are not there, of which only the name is told, one that is not kept."""
    if id(kind) in known:
        return known[id(kind)]
    names = (module_of(kind) or "").partition(".")[0], str.__str__(NAME(kind))
    if names not in LIBRARIES:
        return kind, type_name(kind), nothing, None
    known[id(kind)] = kind, type_name(kind), *LIBRARIES[names]
    return known[id(kind)]


def variable(name, value):
    kind = type(value)
    _, type_text, facts, _ = find_kind(kind)
    try:
        shape, dtype, size, text = facts(value)
    except Exception:  # it does not look as it should, as in a version of its library to come
        shape, dtype, size, text = NOTHING
    return {"name": label(name), "type": type_text, "shape": shape, "dtype": dtype, "bytes": size, "repr": text}


def describe(items):
    """Of pairs of a name and its value, and of names alone."""
    return [variable(*item) if type(item) is tuple else label(item) for item in items]


def listing(namespace):
    """The variables, and how many are left out."""
    listed = [pair for pair in list(dict.items(namespace)) if type(pair[0]) is str and pair[0][:1] != "_"]
    return describe(listed[:NAMES]), len(listed[NAMES:])


def identities(value):
    """Of parts of a frame of pandas: they are others where the shape is another. None where they are not known."""
    manager = own(value, "_mgr")
    blocks, axes = native(manager, "blocks"), native(manager, "axes")
    return (id(blocks), *map(id, axes)) if type(axes) is list else None


def fingerprint(value, before):
    """(identities, number): a change in place shows in the number, which is of the shape."""
    shape = find_kind(type(value))[3]
    try:
        now = identities(value) if shape else None
        if now and before and now == before[0]:
            return before
        return now, hash(shape(value)) if shape else 0
    except Exception:
        return None, 0


looked_at = {}  # id of a value: its fingerprint, when it was last looked at


def fingerprints(values):
    global looked_at
    looked_at = {id(value): fingerprint(value, looked_at.get(id(value))) for value in values}
    return [looked_at[id(value)][1] for value in values]
