# mypy: ignore-errors
"""Runs in the sandbox, as the module limpet_e2b: E2B's working directory, and its forms of figures and tables."""

import datetime
import os
import sys

MOST_CELLS = 1_000_000  # of a table that is told as data
before = {}  # variables of the environment, as they were


def begin(directory, home):
    """Where it is then: there, unless that is not to be had, as without a container.

    Without a directory it stays where it is, and returns its home, which without a container is a new one.
    """
    try:
        os.chdir(directory or ".")
    except OSError:
        directory = home = os.getcwd()
    if not directory:
        directory = home = home or os.environ["HOME"]
    os.environ["HOME"] = home
    if directory not in sys.path:
        sys.path.insert(0, directory)
    show_more()
    return directory


def set_environment(values):
    restore_environment()
    for name, value in values.items():
        before[name] = os.environ.get(name)
        os.environ[name] = value


def restore_environment():
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    before.clear()


def show_more():
    try:
        from limpet_runtime import display, hooks
    except ImportError:
        return
    forms = display.rich_forms

    def rich_forms(value, include=None, exclude=None):
        data, metadata = forms(value, include, exclude)
        try:
            if display.is_figure(value):
                data["e2b/chart"] = chart(value)
            elif is_table(value) and value.size <= MOST_CELLS:
                data["e2b/data"] = table(value)
        except Exception:
            pass  # what cannot be told is shown all the same
        return data, metadata

    display.rich_forms = rich_forms
    if "PIL.Image" in sys.modules:
        show_saved(sys.modules["PIL.Image"])
    else:
        hooks.ADAPT["PIL.Image"] = (None, show_saved)


def show_saved(module):
    """Pictures are displayed when they are saved under a name, and where a viewer would be opened."""
    from limpet_runtime import display

    save = module.Image.save

    def saved(image, target, *args, **kwargs):
        if isinstance(target, str):
            display.display(image)
        return save(image, target, *args, **kwargs)

    module.Image.save = saved
    module.Image.show = lambda image, *args, **kwargs: display.display(image)


def is_table(value):
    return type(value).__name__ == "DataFrame" and type(value).__module__.startswith("pandas")


def table(frame):
    """Columns as lists."""
    return {str(name): [plain(value) for value in frame[name]] for name in frame.columns}


def plain(value):
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return str(value)


def chart(figure):
    charts = [axes_chart(axes) for axes in figure.axes]
    if not charts:
        return {"type": "unknown", "title": None, "elements": []}
    if len(charts) == 1:
        return charts[0]
    return {
        "type": "superchart",
        "title": figure._suptitle.get_text() if figure._suptitle else None,
        "elements": charts,
    }


def axes_chart(axes):
    title = axes.get_title() or None
    for kind, elements in (
        ("pie", pie(axes)),
        ("box_and_whisker", boxes(axes)),
        ("bar", bars(axes)),
        ("scatter", scatter(axes)),
        ("line", lines(axes)),
    ):
        if elements:
            return {
                "type": kind,
                "title": title,
                "elements": elements,
                **({} if kind == "pie" else plane(axes, kind)),
            }
    return {"type": "unknown", "title": title, "elements": []}


def plane(axes, kind):
    said = {
        "x_label": axes.get_xlabel() or None,
        "y_label": axes.get_ylabel() or None,
        "x_unit": unit(axes.get_xlabel()),
        "y_unit": unit(axes.get_ylabel()),
    }
    if kind in ("line", "scatter"):
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
            scale, ticks = scale_of(axis), [float(tick) for tick in axis.get_ticklocs()]
            said[f"{name}_scale"] = scale
            said[f"{name}_ticks"] = list(map(moment, ticks)) if scale == "datetime" else ticks
            said[f"{name}_tick_labels"] = [label.get_text() for label in axis.get_ticklabels()]
    return said


def scale_of(axis):
    """Dates and texts are put on linear scales by matplotlib."""
    converter = type(axis.get_converter() if hasattr(axis, "get_converter") else axis.converter).__name__
    if "Date" in converter:
        return "datetime"
    return "categorical" if "Category" in converter else axis.get_scale()


def moment(tick):
    from matplotlib import dates

    return dates.num2date(tick).isoformat()


def unit(label):
    """What stands in brackets at the end of a label."""
    label = (label or "").strip()
    for opening, closing in ("()", "[]"):
        if label.endswith(closing) and opening in label:
            return label[label.rindex(opening) + 1 : -1].strip() or None
    return None


def label_of(artist):
    text = str(artist.get_label() or "")
    return "" if text.startswith("_") else text


def lines(axes):
    found = []
    for line in axes.get_lines():
        xs, ys = line.get_xdata(orig=True), line.get_ydata(orig=True)
        found.append(
            {"label": label_of(line), "points": [[plain(x), plain(y)] for x, y in zip(xs, ys, strict=False)]}
        )
    return found


def scatter(axes):
    found = []
    for collection in axes.collections:
        if type(collection).__name__ == "PathCollection":
            points = [[plain(x), plain(y)] for x, y in collection.get_offsets()]
            found.append({"label": label_of(collection), "points": points})
    return found


def bars(axes):
    found = []
    for container in axes.containers:
        if type(container).__name__ != "BarContainer":
            continue
        lying = container.orientation == "horizontal"
        axis = axes.yaxis if lying else axes.xaxis
        names = {
            float(at): text.get_text()
            for at, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
        }
        for bar in container:
            middle = bar.get_y() + bar.get_height() / 2 if lying else bar.get_x() + bar.get_width() / 2
            nearest = min(names, key=lambda at: abs(at - middle), default=None)
            name = names[nearest] if nearest is not None and abs(nearest - middle) < 0.5 else ""
            value = bar.get_width() if lying else bar.get_height()
            found.append(
                {"label": name or f"{middle:g}", "group": label_of(container), "value": plain(value)}
            )
    return found


def pie(axes):
    wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    return [
        {"label": label_of(wedge), "angle": float(wedge.theta2 - wedge.theta1), "radius": float(wedge.r)}
        for wedge in wedges
    ]


def boxes(axes):
    """A box is five lines, or a patch among four: matplotlib's boxplot() draws them in this order for each."""
    if axes.patches and all(type(patch).__name__ == "PathPatch" for patch in axes.patches):
        outlines = [patch.get_path().vertices[:5] for patch in axes.patches]
        rest, each = list(axes.get_lines()), 6
    else:
        outlines, rest, each = [], list(axes.get_lines()), 7
    if not rest or len(rest) % each or (each == 7 and any(len(line.get_xdata()) != 5 for line in rest[::7])):
        return []
    if not outlines:
        outlines = [list(zip(line.get_xdata(), line.get_ydata(), strict=False)) for line in rest[::7]]
        rest = [line for index, line in enumerate(rest) if index % 7]
    if len(outlines) * 6 != len(rest):
        return []
    names = [text.get_text() for text in axes.get_xticklabels()]
    found = []
    for index, outline in enumerate(outlines):
        low, high, _, _, median, outliers = rest[index * 6 : index * 6 + 6]
        ys = sorted(float(y) for _, y in outline)
        found.append(
            {
                "label": names[index] if index < len(names) else str(index + 1),
                "min": float(min(low.get_ydata())),
                "first_quartile": ys[0],
                "median": float(median.get_ydata()[0]),
                "third_quartile": ys[-1],
                "max": float(max(high.get_ydata())),
                "outliers": [float(y) for y in outliers.get_ydata()],
            }
        )
    return found
