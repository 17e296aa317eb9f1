"""Packages in a session that runs, from an index on loopback."""
from figures import Row, at_most, seconds
from runner import Group
from tests.support import index as indexes

GROUP = Group("packages", __doc__)


def install(controller, number, name):
    with controller.session(f"bench-install-{number}") as session:
        return seconds(session.install, [name])


@GROUP.case(
    Row("packages.cached", "`install` of what another session has installed to the `install` of that session, from an "
        "index on this machine.", at_most(1 / 200)),
)
def cached(bench):
    pairs = []
    with indexes.serving() as index, bench.controller(LIMPET_PACKAGE_INDEX=f"{index.url}/simple") as controller:
        for number in range(bench.costly_rounds):
            name = f"measured{number}"
            index.add(name)
            first = install(controller, number, name)
            pairs.append((install(controller, number, name), first))
    return {"packages.cached": pairs}
