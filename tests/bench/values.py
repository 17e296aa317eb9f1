"""What it costs to hand a session a large value, and to get one."""
from adapters import Driver
from figures import Row, percentile, value_at_most
from runner import Group

GROUP = Group("values", __doc__)
PACKAGES = ("msgpack", "numpy")


@GROUP.case(
    Row("values.set", "A NumPy array of 100 MB from this process into a variable of a session. An absolute time: well "
        "under a second.", value_at_most(0.5)),
    Row("values.value", "A variable that is a NumPy array of 100 MB from a session into this process. An absolute time: "
        "well under a second.", value_at_most(0.5)),
)
def arrays(bench):
    with Driver(bench, "values", PACKAGES) as driver:
        times = {which: [percentile(driver.seconds(which, bench.every), 0.5) for _ in range(bench.costly_rounds)]
                 for which in ("set", "value")}
    return {f"values.{which}": [(took, None) for took in taken] for which, taken in times.items()}
