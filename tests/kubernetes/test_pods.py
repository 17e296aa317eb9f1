"""Sessions in pods. With an API server that is a stand-in, and containers that are processes, unless there is a cluster."""

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest
import yaml

import limpet
from limpet.kubernetes import AsyncPods, PodOptions, _api, _pod
from limpet.kubernetes._pod import object_name
from tests.support import CLIENT

from .standin import PATIENCE, container_status, refusal


def test_a_session_has_a_pod_that_goes_with_it(fleet, cluster):
    pods = fleet()
    with pods.open("conv-1") as session:
        assert session.run("x = 41; x + 1").result == "42"
        result = session.run("open('artifacts/a.txt', 'w').write('hello')")
        assert [open(path).read() for path in result.artifacts.values()] == ["hello"]
        assert pods.names() == ["conv-1"]
        assert [(row.session, row.execution_count) for row in pods.sessions()] == [("conv-1", 2)]
        assert cluster.names() == ["limpet-conv-1"]
        assert {"pids", "disk", "files"} <= set(session.not_enforced)
    cluster.until_gone()
    with pytest.raises(limpet.NoSuchSession, match="conv-1"):
        pods.attach("conv-1")


def test_who_comes_second_attaches(fleet):
    first, second = fleet(), fleet()
    ours = first.open("shared")
    ours.run("x = 1")
    theirs = second.open("shared")
    assert (theirs.run("x").result, theirs.created) == ("1", False)
    assert second.attach("shared").run("x").result == "1"
    with pytest.raises(limpet.OptionsDiffer):
        second.open("shared", timeout=7)
    assert ours.run("x").result == "1"


def test_two_who_open_a_name_at_once_get_one_session(fleet):
    found = []

    def come():
        found.append(fleet().open("race").run("import os; os.getpid()").result)

    threads = [threading.Thread(target=come) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and len(set(found)) == 1


def test_a_call_without_a_session_has_a_pod_of_its_own(fleet, cluster):
    assert fleet().run("6 * 7").result == "42"
    cluster.until_gone()


def test_a_crash_of_the_controller_is_not_noticed(fleet, cluster):
    session = fleet().open("adopted")
    session.run("x = 41")
    cluster.kill("limpet-adopted", "controller")
    result = session.run("x + 1")
    assert (result.result, result.state, result.epoch) == ("42", "kept", 1)


def test_a_guest_that_dies_takes_the_session_along(fleet, cluster):
    session = fleet().open("gone")
    session.run("x = 1")
    cluster.kill("limpet-gone", "guest")
    with pytest.raises((limpet.NoSuchSession, limpet.SessionClosed)):
        for _ in range(1000):
            session.run("x")


def test_a_guest_that_starts_as_its_pod_ends_is_ended_by_nobody(fleet, standin):
    """It is process 1 of its container, and is not told to end before it listens for that."""
    fleet().open("ended").close()
    pod = standin.running["limpet-ended"]
    standin.until_over("limpet-ended")
    guest = pod._start_guest()
    try:
        assert guest.wait(PATIENCE) == 0
    finally:
        guest.kill()


def test_without_a_claim_a_drain_is_told(fleet, cluster):
    session = fleet().open("drained")
    session.run("x = 1")
    cluster.delete("limpet-drained")
    cluster.until_gone()
    with pytest.raises((limpet.NoSuchSession, limpet.SessionClosed)):
        session.run("x")


def test_with_a_claim_the_next_pod_wakes_the_session(fleet, cluster):
    session = fleet(volume="1Gi").open("saved")
    session.run("x = [1]; open('f.txt', 'w').write('kept')")
    cluster.delete("limpet-saved")
    cluster.until_over("limpet-saved")
    result = session.run("x, open('f.txt').read()")
    assert (result.result, result.state, result.restored) == ("([1], 'kept')", "kept", [])
    assert fleet(volume="1Gi").open("saved").run("x").result == "[1]"
    session.close()
    cluster.until_gone()
    assert cluster.names("persistentvolumeclaims") == []


def test_a_call_may_end_before_its_pod_goes(fleet, cluster):
    session = fleet(volume="1Gi").open("busy")
    session.run("x = 1")
    heard = threading.Event()
    ending = threading.Thread(target=lambda: (heard.wait(60), cluster.delete("limpet-busy")))
    ending.start()
    code = "import time\nprint('begun', flush=True)\ntime.sleep(2)\nx += 1"
    result = session.run(code, on_stdout=lambda text: heard.set())
    ending.join()
    assert (result.status, result.state) == ("ok", "kept")
    assert session.run("x").result == "2"
    session.close()


@pytest.mark.parametrize("options", [{}, {"ttl_action": "close"}], ids=["without", "with a claim"])
def test_what_is_left_of_idle_sessions_is_swept(fleet, cluster, options):
    pods = fleet(volume="1Gi" if options else None)
    pods.open("idle", ttl=0.5, **options)
    pods.open("kept").run("x = 1")
    cluster.until_over("limpet-idle")
    pods.sweep()
    assert "limpet-idle" in cluster.names() and pods.names() == ["kept"]
    while "limpet-idle" in cluster.names() + cluster.names("persistentvolumeclaims"):
        pods.sweep(after=0)
    assert pods.attach("kept").run("x").result == "1"


def test_what_looks_for_all_sessions_has_their_metadata_sent(fleet, standin):
    """A whole pod is ten times that."""
    pods = fleet(volume="1Gi")
    pods.open("one")
    before = standin.whole
    pods.sweep()
    assert (pods.names(), standin.whole) == (["one"], before)
    assert [row.session for row in pods.sessions()] == ["one"] and standin.whole == before + 1


def test_the_official_client_s_functions_are_not_loaded(standin):
    """They take as much memory as hundreds of sessions."""
    code = "import sys; from limpet.kubernetes._api import Cluster; Cluster('there', 'here'); print('kubernetes.client.api.core_v1_api' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(CLIENT), "KUBECONFIG": str(standin.kubeconfig)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False"], done.stderr


def test_a_session_that_is_saved_is_not_swept(fleet, cluster):
    pods = fleet(volume="1Gi")
    pods.open("asleep", ttl=0.5).run("x = 1")
    cluster.until_over("limpet-asleep")
    while "limpet-asleep" in cluster.names():
        pods.sweep(after=0)
    assert pods.names() == ["asleep"] and pods.sessions() == []
    assert fleet(volume="1Gi").attach("asleep").run("x").result == "1"


def test_nothing_is_saved_where_it_would_be_lost(fleet, cluster):
    pods = fleet()
    with pytest.raises(limpet.BadRequest, match="volume"):
        pods.open("fleeting", ttl_action="save")
    assert cluster.names() == []
    session = pods.open("fleeting")
    with pytest.raises(limpet.BadRequest, match="volume"):
        session.sleep()
    assert session.run("1").result == "1"


def test_a_session_sleeps_in_its_claim(fleet, cluster):
    session = fleet(volume="1Gi").open("asleep")
    session.run("x = 1")
    session.sleep()
    cluster.until_over("limpet-asleep")
    assert session.run("x").result == "1"
    session.close()


def test_a_pod_that_nobody_uses_ends(fleet, standin, monkeypatch):
    """Whoever made it has died before it could open the session."""
    pods = fleet()
    with monkeypatch.context() as soon:
        soon.setitem(standin.settings, "LIMPET_CLAIM_TIMEOUT", "0.5")
        pods._reserve("unused", time.monotonic() + PATIENCE, True)
    standin.until_over("limpet-unused")
    assert pods.open("unused").run("1").result == "1"


@pytest.mark.proves("engine: single")
def test_a_pod_has_one_session(fleet):
    pods = fleet()
    session = pods.open("alone")
    controller = pods._clients["alone"]
    for opening in (lambda: controller.open("another"), lambda: controller.run("1")):
        with pytest.raises(limpet.LimitReached, match="use another pod"):
            opening()
    with pytest.raises(limpet.Error, match="use another pod"):
        session.fork("alone-2")
    with pytest.raises(limpet.BadRequest, match="no /data"):
        session.put(b"", "/data/f")
    assert session.run("1").result == "1"


@pytest.fixture
def pool(fleet):
    """A client with a pool of pods."""
    pods = fleet(warm=1)
    pods.sweep()
    return pods


def uids(pods):
    return [found["metadata"]["uid"] for found in (*pods._cluster.pods(), *pods._cluster.free())]


def until_warm(cluster, pods, but=()):
    """Returns the pod of the pool that is ready, and none of those."""

    def ready():
        found = [each for each in pods._cluster.free() if _api.is_running(each) and each["metadata"]["name"] not in but]
        return found and found[0]["metadata"]["name"]

    return cluster.until(ready, "the pool has a pod that runs")


def test_a_session_takes_a_pod_of_the_pool(pool, fleet, cluster):
    first = until_warm(cluster, pool)
    session = pool.open("warm", env={"GREETING": "hello"})
    assert session.run("import os; os.environ['GREETING']").result == "'hello'"
    next_one = until_warm(cluster, pool, but=[first])
    assert set(cluster.names()) == {first, next_one}
    assert fleet().attach("warm").run("1").result == "1"
    assert fleet(warm=1).open("warm").created is False
    assert pool.names() == ["warm"]
    session.close()
    cluster.until(lambda: first not in cluster.names() and pool._cluster.holders() == [], "its pod and its name are gone")
    with pytest.raises(limpet.NoSuchSession):
        pool.attach("warm")
    assert pool.open("warm").created is True


def test_two_who_open_a_name_at_once_take_one_pod(pool, fleet, cluster):
    until_warm(cluster, pool)
    found = []
    openers = [fleet(warm=1), fleet(warm=1), fleet()]
    threads = [threading.Thread(target=lambda each=each: found.append(each.open("race").run("import os; os.getpid(), id(os)").result)) for each in openers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and len(set(found)) == 1
    assert pool.names() == ["race"]


def test_whoever_dies_while_taking_a_pod_leaves_nothing(pool, fleet, cluster):
    """Before the pod's session has its name, and before the session is opened."""
    for stop in ("create", "_asked"):
        first = pool._cluster.pod(until_warm(cluster, pool))["metadata"]["uid"]
        pods = fleet(warm=1)

        def die(*arguments, **named):
            raise SystemExit

        target = pods._cluster if stop == "create" else pods
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target, stop, die)
            patch.setattr(pods._cluster, "delete", lambda *arguments: None)
            with pytest.raises(SystemExit):
                pods.open("half")
        while first in uids(pool) or pool._cluster.holders():
            pool.sweep(after=0)
    assert pool.open("half").run("1").result == "1"


def test_tasks_have_sessions_in_pods(fleet, cluster):
    fleet()  # which removes what is left

    async def work():
        async with fleet(AsyncPods) as pods:

            async def one(name):
                async with pods.open(name) as session:
                    return (await session.run("x = 20; x + 1")).result, [row.session for row in await pods.sessions()]

            return await asyncio.gather(one("task-1"), one("task-2"))

    for result, rows in asyncio.run(work()):
        assert result == "21"
        assert set(rows) <= {"task-1", "task-2"}
    cluster.until_gone()


@pytest.mark.parametrize("invoke", [lambda tool, *call: tool.invoke(*call), lambda tool, *call: asyncio.run(tool.ainvoke(*call))], ids=["thread", "loop"])
def test_an_adapter_takes_them_as_a_client(fleet, invoke):
    from limpet.langgraph import code_sandbox

    pods = fleet()
    tool = code_sandbox(pods, list_packages=False)
    thread = {"configurable": {"thread_id": "agent"}}
    for id, code, says in (("1", "x = 41", ""), ("2", "print(x + 1)", "42")):
        call = {"type": "tool_call", "id": id, "name": tool.name, "args": {"code": code}}
        assert says in invoke(tool, call, thread).content
    assert pods.names() == ["agent"]
    assert pods.sessions()[0].execution_count == 2


def test_a_copy_of_a_client_finds_its_sessions(fleet):
    session = fleet().open("copied")
    session.run("x = 1")
    assert pickle.loads(pickle.dumps(session)).run("x").result == "1"


def test_a_call_is_found_by_its_id(fleet):
    first, second = fleet(), fleet()
    run_id = first.open("known").run("6 * 7").run_id
    assert second.result(run_id).result == "42"
    assert first.interrupt(run_id) is False
    with pytest.raises(limpet.NoSuchRun):
        second.result("0" * 32)
    for missing in (second.info, second.templates):
        with pytest.raises(limpet.BadRequest, match="no controller in common"):
            missing()


@pytest.mark.parametrize("option", ["memory", "cpus", "image", "data", "packages", "network"])
def test_options_that_pods_settle_are_refused(fleet, cluster, option):
    with pytest.raises(limpet.BadRequest, match=option):
        fleet().open("refused", **{option: "1"})
    assert cluster.names() == []


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (refusal(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1'), limpet.LimitReached, "exceeded quota: q"),
        (refusal(403, "Forbidden", 'pods "x" is forbidden: violates PodSecurity "restricted:latest"'), limpet.EngineError, "violates PodSecurity"),
        (refusal(403, "Forbidden", 'pods is forbidden: User "u" cannot create resource "pods"'), limpet.Denied, "cannot create resource"),
        (refusal(404, "NotFound", 'namespaces "sandboxes" not found'), limpet.EngineError, 'namespaces "sandboxes" not found'),
        (refusal(429, "TooManyRequests", "slow down"), limpet.Unavailable, "slow down"),
        (refusal(500, "InternalError", "etcd is away"), limpet.Unavailable, "etcd is away"),
    ],
)  # fmt: skip
def test_what_the_api_server_refuses_is_told(fleet, standin, answer, error, says):
    standin.answers.append(answer)
    with pytest.raises(error, match=says):
        fleet().open("refused")
    assert standin.names() == []


def waiting(container, reason, message="", last=None):
    state = container_status(container, {"waiting": {"reason": reason, "message": message}}, last)
    return {"phase": "Pending", "initContainerStatuses": [state]}


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (waiting("guest", "ErrImagePull", "no such manifest"), limpet.ImageMissing, "the-image.*no such manifest.*docs/everywhere.md"),
        (waiting("controller", "CrashLoopBackOff", last={"terminated": {"exitCode": 1, "message": "limpetd: no key"}}), limpet.EngineError, "limpetd: no key"),
        (waiting("controller", "CreateContainerConfigError", 'secret "limpet-controller" not found'), limpet.EngineError, "limpet-controller"),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]}, limpet.EngineError, "0/1 nodes"),
        ({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}, limpet.EngineError, "Evicted: The node was low"),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_start_is_told_and_removed(fleet, standin, monkeypatch, status, error, says):
    monkeypatch.setattr(_api, "_PLACING", 0.0)
    monkeypatch.setitem(standin.statuses, "limpet-amiss", status)
    with pytest.raises(error, match=says):
        fleet().open("amiss")
    assert standin.names() == []


def test_an_api_server_that_is_down_is_told_and_open_sessions_go_on(fleet, standin, monkeypatch):
    pods = fleet()
    session = pods.open("going-on")
    with monkeypatch.context() as away:
        away.setattr(standin, "away", True)
        with pytest.raises(limpet.Unavailable, match="http://127.0.0.1:.* does not answer"):
            pods.open("new")
        assert session.run("1").result == "1"


def test_wrong_contexts_are_told(fleet):
    fleet()
    with pytest.raises(limpet.BadRequest, match="kubectl config get-contexts"):
        limpet.kubernetes.Pods("elsewhere/sandboxes", limpet.kubernetes.PodOptions("a", "b"))


def test_every_name_has_an_object_of_its_own():
    names = ["a", "A", "a.b", "a_b", "a-b", "-a", "a-", "x" * 64, "x" * 63, "X" * 64, "...", "a" * 48]
    objects = [object_name(name) for name in names]
    assert len(set(objects)) == len(names)
    assert all(len(found) <= 63 and found.strip("-") == found for found in objects)
    for wrong in ("", "x" * 65, "a/b", "ä"):
        with pytest.raises(limpet.BadRequest):
            object_name(wrong)


def test_what_pods_take_is_said_where_a_quota_wants_to_know():
    options = PodOptions("sandbox", "controller")
    made = [_pod.pod("a", options, True), _pod.warm_pod(0, options)]
    made.append(_pod.holder("a", {"metadata": {"name": "warm", "uid": "1"}}, options, True))
    containers = [part for body in made for kind in ("initContainers", "containers") for part in body["spec"].get(kind, [])]
    assert len(containers) == 5
    for each in containers:
        assert {"memory"} <= each["resources"]["limits"].keys() and {"memory", "cpu"} <= each["resources"]["requests"].keys()


IMAGES = ["--image", "r/sandbox", "--controller-image", "r/controller"]


def printed(capsys, monkeypatch, *options):
    from limpet.kubernetes import __main__

    monkeypatch.setattr("sys.argv", ["limpet", "manifest", "--namespace", "agents", *options])
    status = __main__.main()
    text = capsys.readouterr().out
    assert status == 0
    return text, {(found["kind"], found["metadata"]["name"]): found for found in yaml.safe_load_all(text)}


def test_the_manifest_gives_no_rights_to_look_inside(capsys, monkeypatch):
    _, objects = printed(capsys, monkeypatch)
    rules = objects["Role", "limpet-client"]["rules"]
    assert {resource for rule in rules for resource in rule["resources"]} == {"pods", "persistentvolumeclaims"}
    policy = objects["NetworkPolicy", "limpet-sessions"]["spec"]
    assert policy["egress"] == [] and "Egress" in policy["policyTypes"]
    assert {found["metadata"].get("namespace", "agents") for found in objects.values()} == {"agents"}


def test_the_manifest_says_what_pods_and_gateways_are_like(capsys, monkeypatch):
    text, objects = printed(
        capsys, monkeypatch, *IMAGES, "--cpus", "2", "--host-users", "false", "--gateway-image", "r/gateway", "--gateways", "3"
    )
    assert text.count("\n") <= 250
    pods = PodOptions.from_environment(objects["ConfigMap", "limpet-pods"]["data"])
    assert pods == PodOptions("r/sandbox", "r/controller", cpus=2.0, host_users=False)
    deployment = objects["Deployment", "limpet-gateway"]["spec"]
    selected = objects["Service", "limpet-gateway"]["spec"]["selector"]
    assert deployment["replicas"] == 3
    assert selected.items() <= deployment["template"]["metadata"]["labels"].items()
    allowed = objects["NetworkPolicy", "limpet-sessions"]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert allowed.items() <= deployment["template"]["metadata"]["labels"].items()


def test_the_manifest_lets_sessions_reach_limpet_egress_alone(capsys, monkeypatch):
    text, objects = printed(capsys, monkeypatch, *IMAGES, "--egress", "2", "--gateway-image", "r/gateway", "--warm", "2")
    assert text.count("\n") <= 250
    deployment = objects["Deployment", "limpet-egress"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    (way,) = objects["NetworkPolicy", "limpet-sessions"]["spec"]["egress"]
    assert [peer["podSelector"]["matchLabels"] for peer in way["to"]] == [labels]
    assert way["ports"] == objects["Service", "limpet-egress"]["spec"]["ports"] == [{"port": 7311}]
    assert deployment["replicas"] == 2 and deployment["selector"]["matchLabels"] == labels
    (rule,) = [each for each in objects["Role", "limpet-client"]["rules"] if each["resources"] == ["services"]]
    assert (rule["resourceNames"], rule["verbs"]) == (["limpet-egress"], ["get"])
    gateway = objects["Deployment", "limpet-gateway"]["spec"]["template"]["spec"]
    place = {each["name"]: each.get("value") for each in gateway["containers"][0]["env"]}["LIMPET_EGRESS_KEY"]
    mounted = {each["mountPath"]: each["name"] for each in gateway["containers"][0]["volumeMounts"]}[place.removesuffix("/key")]
    assert {each["name"]: each.get("secret", {}).get("secretName") for each in gateway["volumes"]}[mounted] == "limpet-egress"
    assert "key" in objects["Secret", "limpet-egress"]["stringData"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gateway-image", "g"], "LIMPET_POD_IMAGE"),
        (["--egress", "1"], "LIMPET_POD_IMAGE"),
        (["--image", "a", "--controller-image", "b", "--cpus", "many"], "LIMPET_POD_CPUS"),
        (["--image", 'a"b'], "quotes"),
    ],
)
def test_the_manifest_refuses_what_makes_no_pods(capsys, monkeypatch, options, says):
    with pytest.raises(SystemExit):
        printed(capsys, monkeypatch, *options)
    assert says in capsys.readouterr().err
