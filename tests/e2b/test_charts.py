"""Figures and tables as E2B's clients read them."""

import matplotlib
import pandas
import pytest
from e2b_code_interpreter.charts import BarChart, BoxAndWhiskerChart, LineChart, PieChart, ScatterChart, SuperChart
from e2b_code_interpreter.charts import _deserialize_chart as read

from limpet.serve.e2b import _prepare


@pytest.fixture
def axes():
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.set_title("Title")
    yield axes
    pyplot.close(figure)


def told(axes):
    return read(_prepare.chart(axes.figure))


def test_lines(axes):
    axes.plot([1, 2, 3], [4, 5, 6.5], label="first")
    axes.plot([1, 2], [0, 1])
    axes.set_xlabel("Time (s)")
    axes.set_ylabel("Speed")
    axes.set_yscale("symlog")
    chart = told(axes)
    assert isinstance(chart, LineChart) and chart.title == "Title"
    assert (chart.x_label, chart.x_unit, chart.y_label, chart.y_unit) == ("Time (s)", "s", "Speed", None)
    assert (chart.x_scale.value, chart.y_scale.value) == ("linear", "symlog")
    assert [(line.label, line.points) for line in chart.elements] == [
        ("first", [(1, 4), (2, 5), (3, 6.5)]), ("", [(1, 0), (2, 1)]),
    ]  # fmt: skip


def test_dates(axes):
    import datetime

    axes.plot([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], [1, 2])
    chart = told(axes)
    assert chart.x_scale.value == "datetime"
    assert chart.elements[0].points == [("2026-01-01", 1), ("2026-01-02", 2)]
    assert datetime.datetime.fromisoformat(chart.x_ticks[0]).year in (2025, 2026)


def test_texts_on_an_axis(axes):
    axes.plot([1, 2], ["a", "b"])
    chart = told(axes)
    assert (chart.x_scale.value, chart.y_scale.value) == ("linear", "categorical")
    assert chart.elements[0].points == [(1, "a"), (2, "b")]


def test_scatter(axes):
    axes.scatter([1, 2], [3, 4], label="dots")
    chart = told(axes)
    assert isinstance(chart, ScatterChart)
    assert [(each.label, each.points) for each in chart.elements] == [("dots", [(1, 3), (2, 4)])]


@pytest.mark.parametrize("lying", [False, True])
def test_bars(axes, lying):
    (axes.barh if lying else axes.bar)(["a", "b"], [3, 4], label="group")
    chart = told(axes)
    assert isinstance(chart, BarChart)
    assert [(bar.label, bar.group, bar.value) for bar in chart.elements] == [("a", "group", 3), ("b", "group", 4)]


def test_pie(axes):
    axes.pie([1, 3], labels=["one", "three"])
    chart = told(axes)
    assert isinstance(chart, PieChart)
    assert [(each.label, round(each.angle)) for each in chart.elements] == [("one", 90), ("three", 270)]


def test_boxes(axes):
    axes.boxplot([[1, 2, 3, 4, 5], [2, 4, 6, 8, 30]])
    chart = told(axes)
    assert isinstance(chart, BoxAndWhiskerChart)
    first, second = chart.elements
    assert (first.min, first.first_quartile, first.median, first.third_quartile, first.max) == (1, 2, 3, 4, 5)
    assert (second.median, second.outliers) == (6, [30])


def test_several_in_a_figure():
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2)
    left.plot([1], [1])
    right.pie([1])
    figure.suptitle("Both")
    chart = read(_prepare.chart(figure))
    pyplot.close(figure)
    assert isinstance(chart, SuperChart) and chart.title == "Both"
    assert [type(each) for each in chart.elements] == [LineChart, PieChart]


def test_what_is_no_chart_is_unknown(axes):
    axes.imshow([[1, 2]])
    assert told(axes).type.value == "unknown"


def test_tables():
    frame = pandas.DataFrame({"n": [1, None], "t": ["a", "b"], "d": pandas.to_datetime(["2026-01-01", "2026-01-02"])})
    assert _prepare.table(frame) == {
        "n": [1.0, None], "t": ["a", "b"], "d": ["2026-01-01T00:00:00", "2026-01-02T00:00:00"],
    }  # fmt: skip


@pytest.mark.engine
def test_figures_and_tables_of_a_sandbox(shared, isolates):
    if not isolates:
        pytest.skip("the engine local has what the machine has")
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.title('A')\nplt.show()"
    result = shared.run_code(code).results[0]
    assert result.png and isinstance(result.chart, LineChart) and result.chart.title == "A"
    assert shared.run_code("plt.bar(['a'], [1]);").results[0].chart.type.value == "bar"
    picture = shared.run_code("from PIL import Image\nImage.new('RGB', (4, 4)).save('p.png')").results[0]
    assert picture.png and shared.files.exists("p.png")
    execution = shared.run_code("import pandas\npandas.DataFrame({'a': [1, 2]})")
    assert execution.results[0].data == {"a": [1, 2]} and "<table" in execution.results[0].html
