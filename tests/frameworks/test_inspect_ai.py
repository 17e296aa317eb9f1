"""inspect_ai: its own checks of sandboxes, and tasks that run in sessions."""

import inspect_ai.util._sandbox.self_check as self_check
import limpet
import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import Generate, TaskState, solver
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentSpec, SandboxUnavailableError, SandboxUserUnsupportedError, sandbox
from inspect_ai.util._sandbox.limits import override_max_exec_output_size
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from limpet.inspect_ai import LimpetConfig, LimpetSandboxEnvironment

pytestmark = pytest.mark.anyio

# A sandbox has one user and no root, whom these want to make another user by.
UNLIKE = {"test_exec_as_user": "a sandbox has no root"}
# Without containers the code is this user's, who as root may read and write all there is.
UNLIKE_LOCAL = {"test_read_file_not_allowed": "root may read all files"}


@pytest.fixture
async def environment(standard):
    made = await LimpetSandboxEnvironment.sample_init("checks", LimpetConfig(memory="512m", disk="512m"), {})
    yield made["default"]
    await LimpetSandboxEnvironment.sample_cleanup("checks", None, made, False)


@pytest.fixture
async def sandbox_env(environment, request, limpetd):
    unlike = UNLIKE if limpetd.isolates else UNLIKE | UNLIKE_LOCAL
    if (why := unlike.get(request.node.originalname)) is not None:
        request.applymarker(pytest.mark.xfail(reason=why, strict=True))
    return environment


def test_all_of_them_are_here():
    assert len(self_check.__all__) >= 44


async def test_one_user(environment):
    assert (await environment.exec(["true"], user="user")).success
    with pytest.raises(SandboxUserUnsupportedError, match="there is no root"):
        await environment.exec(["id"], user="root")


async def test_how_a_person_gets_there(environment):
    connection = await environment.connection()
    assert connection.command == f"limpet shell {environment.session.name}"
    with pytest.raises(SandboxUserUnsupportedError):
        await environment.connection(user="root")


async def test_output_is_bounded(environment):
    with override_max_exec_output_size(1000), pytest.raises(OutputLimitExceededError) as raised:
        await environment.exec(["yes"])
    assert raised.value.truncated_output == "y\n" * 500
    assert len((await environment.exec(["head", "-c", "5000000", "/dev/zero"])).stdout) == 5000000


async def test_a_session_that_is_gone_is_said(environment):
    await environment.session.close()
    for call in (environment.exec(["true"]), environment.read_file("a"), environment.write_file("a", "b")):
        with pytest.raises(SandboxUnavailableError, match="closed"):
            await call


async def test_what_tasks_have_left_is_closed(standard, client):
    left = await LimpetSandboxEnvironment.sample_init("left", None, {})
    with client.open("other"):
        await LimpetSandboxEnvironment.cli_cleanup("nobody")
        assert left["default"].session.name in [row.session for row in client.sessions()]
        await LimpetSandboxEnvironment.cli_cleanup(None)
        assert [row.session for row in client.sessions() if row.session.startswith("inspect-")] == []
        assert "other" in [row.session for row in client.sessions()]


def test_configuration():
    assert LimpetSandboxEnvironment.config_deserialize({"memory": "1g"}) == LimpetConfig(memory="1g")
    with pytest.raises(ValueError):
        LimpetConfig(memmory="1g")


@solver
def writes():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        result = await sandbox().exec(["sh", "-c", "cat question.txt; echo $WHO"])
        live = sandbox().as_type(LimpetSandboxEnvironment).session
        await live.run("x = 41")
        state.output.completion = result.stdout + (await live.run("x + 1")).result
        return state

    return solve


@scorer(metrics=[accuracy()])
def says():
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=state.output.completion == target.text)

    return score


def test_a_task(standard, tmp_path):
    samples = [Sample(input=str(n), target=f"what is {n}?me\n42", files={"question.txt": f"what is {n}?"}) for n in range(4)]
    task = Task(dataset=samples, solver=writes(), scorer=says(), sandbox=SandboxEnvironmentSpec("limpet", LimpetConfig(env={"WHO": "me"})))
    log = eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")[0]
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1
    with limpet.Client() as client:
        assert client.sessions() == []


def test_the_example(example):
    assert "accuracy 1.0" in example("inspect_ai_task.py")
