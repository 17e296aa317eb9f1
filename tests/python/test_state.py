"""Checkpoints, rollback, branches, try_each() and namespace(), with both clients."""

import asyncio
import os
import signal

import limpet
import pytest

from tests.support import fake

from . import both

TARGET = {"session": "a", "instance": "i1"}


@pytest.fixture(params=both.KINDS)
def client(request, controller):
    with both.client(request.param, controller.path, reconnect_timeout=5) as client:
        yield client


def test_a_session_knows_its_instance(session):
    assert session.instance == "i1"


@pytest.mark.parametrize("arguments, body", [((), {}), (("n", True), {"name": "n", "files": True})])
def test_checkpoint(session, controller, arguments, body):
    taken = session.checkpoint(*arguments)
    assert controller.bodies("checkpoint") == [{**TARGET, **body}]
    assert isinstance(taken, limpet.Checkpoint)
    assert (taken.id, taken.name, taken.files, taken.dropped) == (
        "c1", body.get("name"), body.get("files", False), (),
    )  # fmt: skip


def test_a_checkpoint_says_what_had_to_go_for_it(session, controller):
    wire = fake.checkpoint(name=None, parent="c0")
    controller.on(
        "checkpoint", lambda request: request.reply(checkpoint=wire, dropped=["c-2", "c-1"])
    ).on("checkpoints", lambda request: request.reply(checkpoints=[fake.checkpoint(id="c0"), wire]))
    taken = session.checkpoint()
    assert taken.dropped == ("c-2", "c-1")
    first, second = session.checkpoints()
    assert first.id == "c0" and second == taken and second.dropped == ()
    assert (taken.session, taken.execution_count, taken.created, taken.automatic) == ("a", 3, 1.5, False)
    assert (taken.private_bytes, taken.parent) == (4096, "c0")


def test_absent_and_nil_are_the_same(session, controller):
    wire = {name: value for name, value in fake.checkpoint().items() if value is not None}
    controller.on("checkpoints", lambda request: request.reply(checkpoints=[wire]))
    assert session.checkpoints() == [limpet.Checkpoint(**fake.checkpoint())]


def test_no_checkpoint_could_be_taken(session, controller):
    controller.on("checkpoint", lambda r: r.fail(1108, "CheckpointFailed", "no memory for it"))
    with pytest.raises(limpet.CheckpointFailed, match="no memory"):
        session.checkpoint()


def test_rollback_and_drop_take_a_checkpoint_its_id_or_its_name(session, controller):
    controller.on(
        "rollback",
        lambda request: request.reply(
            checkpoint="c1", execution_count=3, epoch=2, files="restored", not_restored=["thread 'x'"]
        ),
    )
    taken = session.checkpoint("n")
    for which in (taken, "c1", "n"):
        assert session.rollback(which) == limpet.Rollback("c1", 3, 2, "restored", ["thread 'x'"])
        assert session.drop(which) is None
    expected = [{**TARGET, "checkpoint": which} for which in ("c1", "c1", "n")]
    assert controller.bodies("rollback") == controller.bodies("drop") == expected
    controller.on("rollback", lambda request: request.fail(1106, "NoSuchCheckpoint"))
    with pytest.raises(limpet.NoSuchCheckpoint):
        session.rollback("c9")


def test_a_branch_is_a_session(session, controller):
    taken = session.checkpoint()
    branch = session.branch("try-a", at=taken)
    assert (branch.name, branch.instance) == ("a/try-a", "i-try-a")
    session.branch("try-b", at="n")
    session.branch("try-c")
    assert controller.bodies("branch") == [
        {**TARGET, "name": "try-a", "checkpoint": "c1"},
        {**TARGET, "name": "try-b", "checkpoint": "n"},
        {**TARGET, "name": "try-c"},
    ]
    assert branch.run("1", on_error="rollback").session == "a/try-a"
    run = controller.bodies("run")[0]
    assert (run["session"], run["instance"], run["on_error"]) == ("a/try-a", "i-try-a", "rollback")
    branch.close()
    assert controller.bodies("close") == [{"session": "a/try-a", "instance": "i-try-a"}]
    controller.on("branch", lambda request: request.fail(1109, "BranchExists"))
    with pytest.raises(limpet.BranchExists):
        session.branch("try-b")


def test_commit_takes_a_session_or_a_name(session, controller):
    branch = session.branch("try-a")
    assert session.commit(branch) == limpet.Committed(execution_count=4, epoch=2)
    with pytest.raises(limpet.SessionClosed):
        branch.run("1")
    session.commit("try-b")
    assert controller.bodies("commit") == [
        {**TARGET, "branch": "a/try-a"},
        {**TARGET, "branch": "try-b"},
    ]
    controller.on("commit", lambda request: request.fail(1101, "NoSuchSession"))
    branch = session.branch("try-c")
    with pytest.raises(limpet.NoSuchSession):
        session.commit(branch)
    assert branch.run("1").ok


def test_namespace(session, controller):
    array = {"name": "a", "type": "numpy.ndarray", "shape": [2, 3], "dtype": "f8", "bytes": 48, "repr": None}
    controller.on(
        "namespace",
        lambda request: request.reply(names=[array, {"name": "x", "type": "int", "repr": "41"}], more=7),
    )
    names = session.namespace()
    assert names == [
        limpet.Variable("a", "numpy.ndarray", (2, 3), "f8", 48),
        limpet.Variable("x", "int", repr="41"),
    ]
    assert names.more == 7 and controller.bodies("namespace") == [TARGET]
    assert [repr(name) for name in names] == ["<Variable a numpy.ndarray 2x3 f8>", "<Variable x int = 41>"]


@pytest.mark.parametrize(
    "kind, reply, ask",
    [
        ("checkpoint", {}, lambda session: session.checkpoint()),
        ("checkpoint", {"checkpoint": 5}, lambda session: session.checkpoint()),
        ("checkpoint", {"checkpoint": {"id": "c1"}}, lambda session: session.checkpoint()),
        ("checkpoints", {"checkpoints": [{b"id": 1}]}, lambda session: session.checkpoints()),
        ("rollback", {"surprise": 1}, lambda session: session.rollback("c1")),
        ("branch", {"session": "a/b"}, lambda session: session.branch("b")),
        ("commit", {}, lambda session: session.commit("b")),
        ("namespace", {}, lambda session: session.namespace()),
        ("namespace", {"names": 5}, lambda session: session.namespace()),
        ("namespace", {"names": [5]}, lambda session: session.namespace()),
        ("namespace", {"names": [{"name": "x"}]}, lambda session: session.namespace()),
        ("namespace", {"names": [{"name": "x", "type": "t", "shape": 5}]}, lambda s: s.namespace()),
    ],
)
def test_malformed_replies_are_a_mismatch(session, controller, kind, reply, ask):
    controller.on(kind, lambda request: request.reply(**reply))
    with pytest.raises(limpet.ProtocolMismatch):
        ask(session)


def test_a_closed_session_has_no_state(session):
    session.close()
    for ask in (
        lambda: session.checkpoint(), lambda: session.checkpoints(), lambda: session.rollback("c1"),
        lambda: session.drop("c1"), lambda: session.branch("b"), lambda: session.commit("b"),
        lambda: session.commit(None), lambda: session.namespace(), lambda: session.try_each(["1"]),
    ):  # fmt: skip
        with pytest.raises(limpet.SessionClosed):
            ask()


class Branches:
    """What a controller has open, and the checkpoints it keeps."""

    def __init__(self, controller):
        self.open, self.kept, self.committed = [], [], []
        keys = ("branch", "checkpoint")
        self._branch, self._checkpoint = (controller.handlers[key] for key in keys)
        controller.on("branch", self.branch).on("close", self.close).on("commit", self.commit)
        controller.on("checkpoint", self.checkpoint).on("drop", self.drop)

    def branch(self, request):
        assert request.body["checkpoint"] in self.kept
        self.open.append(f"{request.body['session']}/{request.body['name']}")
        self._branch(request)

    def close(self, request):
        if request.body["session"] in self.open:
            self.open.remove(request.body["session"])
            request.reply()
        else:
            request.fail(1101, "NoSuchSession")

    def commit(self, request):
        self.open.remove(request.body["branch"])
        self.committed.append(request.body["branch"])
        request.reply(execution_count=4, epoch=2)

    def checkpoint(self, request):
        self.kept.append(request.body["name"])
        self._checkpoint(request)

    def drop(self, request):
        if request.body["checkpoint"] in self.kept:
            self.kept.remove(request.body["checkpoint"])
            request.reply()
        else:
            request.fail(1106, "NoSuchCheckpoint")


@pytest.fixture
def branches(controller):
    return Branches(controller)


def test_each_candidate_runs_in_a_branch_of_one_checkpoint(session, controller, branches):
    results = session.try_each(iter(["x = 1", "x = 2"]), timeout=3, on_error="rollback")
    assert [result.result for result in results] == ["x = 1", "x = 2"]
    runs = controller.bodies("run")
    assert [(run["timeout"], run["on_error"]) for run in runs] == [(3, "rollback")] * 2
    assert [run["session"] for run in runs] == branches.open == [result.session for result in results]
    assert len(controller.bodies("checkpoint")) == 1 and branches.kept == []


def test_a_candidate_may_be_named(session, branches):
    results = session.try_each(["1", "2"])
    session.commit(results[1].session)
    assert branches.committed == [results[1].session] and branches.open == []


def test_another_branch_may_be_committed_in_between(session, controller, branches):
    session.try_each(["1", "2"])
    branches.open.append("a/mine")
    session.commit("a/mine")
    assert len(branches.open) == 2
    session.commit(1)
    assert branches.open == []


@pytest.mark.parametrize("number", [-1, 2])
def test_there_is_no_such_candidate(session, branches, number):
    session.try_each(["1", "2"])
    with pytest.raises(limpet.BadRequest, match=f"no candidate {number}"):
        session.commit(number)
    assert len(branches.open) == 2


def test_candidates_stay_when_the_commit_fails(session, controller, branches):
    session.try_each(["1", "2"])
    controller.on("commit", lambda request: request.fail(1108, "CheckpointFailed"))
    with pytest.raises(limpet.CheckpointFailed):
        session.commit(0)
    controller.on("commit", branches.commit)
    session.commit(1)
    assert branches.open == [] and len(branches.committed) == 1


def test_the_next_try_each_ends_the_candidates_of_the_one_before(session, branches):
    session.try_each(["1", "2"])
    results = session.try_each(["3"])
    assert branches.open == [results[0].session]
    assert session.try_each([]) == [] and branches.open == []


def test_names_do_not_collide(session, client, branches):
    session.try_each(["1", "2"])
    client.open("a").try_each(["1", "2"])
    assert len(set(branches.open)) == 4


def test_one_text_is_a_mistake(session, branches):
    with pytest.raises(TypeError, match="list"):
        session.try_each("x = 1")


def test_codes_that_raise_while_they_are_listed_change_nothing(session, branches):
    session.try_each(["1"])
    with pytest.raises(ZeroDivisionError):
        session.try_each(1 / 0 for _ in "x")
    session.commit(0)


@pytest.mark.parametrize("failing", ["checkpoint", "branch", "run"])
def test_nothing_is_left_when_it_fails(session, controller, branches, failing):
    handler, times = controller.handlers[failing], []

    def second_fails(request):
        times.append(request)
        if failing == "checkpoint" or len(times) == 2:
            request.fail(1104, "Busy", "the queue is full")
        else:
            handler(request)

    controller.on(failing, second_fails)
    with pytest.raises(limpet.Busy):
        session.try_each(["1", "2", "3"])
    assert branches.open == branches.kept == []
    with pytest.raises(limpet.BadRequest):
        session.commit(0)


def test_nothing_is_left_when_nobody_knows_whether_a_branch_was_made(session, controller, branches):
    """The reply never came: it is closed by its name."""

    def lost(request):
        branches.open.append(f"a/{request.body['name']}")
        request.raw(b"\xc1 garbage: the connection is given up")

    controller.on("branch", lost)
    with pytest.raises(limpet.ProtocolMismatch):
        session.try_each(["1", "2"])
    assert branches.open == branches.kept == []


def test_what_cannot_be_cleaned_up_does_not_hide_the_error(session, controller, branches):
    controller.on("run", lambda request: request.fail(1104, "Busy"))
    for kind in ("close", "drop"):
        controller.on(kind, lambda request: request.fail(1204, "Internal"))
    with pytest.raises(limpet.Busy):
        session.try_each(["1"])
    controller.on("run", lambda request: request.record())
    assert session.try_each(["1"])[0].ok


def test_try_each_cleans_up_after_ctrl_c(controller, branches):
    """What a signal handler raises reaches the blocking client in the middle of a candidate."""

    def run(request):
        if request.body["code"] == "loop":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            request.record()

    controller.on("run", run)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))
    with limpet.Client(controller.path) as client:
        session = client.open("a")
        with pytest.raises(KeyboardInterrupt):
            session.try_each(["1", "loop", "3"])
    assert branches.open == branches.kept == []


def test_try_each_cleans_up_after_a_cancellation(controller, branches):
    def run(request):
        if request.body["code"] == "1":
            request.record()

    controller.on("run", run)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))

    async def main():
        async with limpet.AsyncClient(controller.path) as client:
            session = await client.open("a")
            task = asyncio.ensure_future(session.try_each(["1", "loop"]))
            await asyncio.to_thread(controller.wait, "run")
            await asyncio.to_thread(controller.wait, "run")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert branches.open == branches.kept == []
