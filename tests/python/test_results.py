import copy
import dataclasses
import json
import pickle

import limpet
import pytest

from tests.support import fake

FULL = fake.record(
    execution_count=7,
    status="crashed",
    state="rolled_back",
    rolled_back_to={"checkpoint": "c1", "execution_count": 6},
    not_restored=["thread 'x'"],
    state_protection={"level": "checkpoint", "execution_count": 6, "reason": None},
    changed={
        "added": [
            {"name": "a", "type": "T", "shape": [2, 3], "dtype": "f8", "bytes": 48, "repr": None},
        ],
        "changed": [
            {"name": "x", "type": "int", "shape": None, "dtype": None, "bytes": 28, "repr": "41"},
        ],
        "deleted": ["y"],
        "more": 2,
    },
    epoch=3,
    stdout="out\n",
    stderr="err\n",
    stdout_bytes=2000000,
    truncated=True,
    stdout_file="/session/.limpet/out",
    result="'x'",
    displays=[
        {
            "data": {"image/png": b"\x89PNG", "application/json": {"a": [1]}},
            "metadata": {},
            "display_id": "d",
            "is_result": True,
        }
    ],
    error={"name": "Crashed", "message": "segmentation fault", "traceback": "Traceback"},
    signal=11,
    artifacts={"/session/artifacts/a.csv": "/host/a.csv", b"/session/artifacts/\xff": "/host/%FF"},
    artifact_info={
        "/session/artifacts/a.csv": {"size": 3, "mime_type": "text/csv", "sha256": "00"},
        b"/session/artifacts/\xff": {"size": 0, "mime_type": "application/octet-stream", "sha256": "11"},
    },
    skipped={b"/session/artifacts/\xfe": "is a symbolic link"},
    usage={"cpu": 0.5, "peak_memory": 1 << 20},
)


def test_between_two_calls():
    record = fake.record(session="a")
    assert limpet.Result.from_record(record).between is None
    assert "between" not in limpet.Result.from_record(record).to_dict()
    said = {"stdout": "late\n", "stderr": "", "dropped": 7}
    result = limpet.Result.from_record({**record, "between": said})
    assert result.between == limpet.Between("late\n", "", 7)
    assert result.to_dict()["between"] == said


def test_every_field_is_an_attribute():
    result = limpet.Result.from_record(FULL)
    assert not result.ok and result.signal == 11 and result.exit_code is None
    assert result.rolled_back_to == limpet.RolledBackTo("c1", 6)
    assert result.not_restored == ["thread 'x'"]
    assert result.state_protection == {"level": "checkpoint", "execution_count": 6, "reason": None}
    assert result.changed.added[0].name == "a" and result.changed.added[0].shape == (2, 3)
    assert result.changed.changed == [limpet.Variable("x", "int", bytes=28, repr="41")]
    assert result.changed.deleted == ["y"] and result.changed.more == 2 and result.changed
    assert result.error == limpet.ErrorInfo("Crashed", "segmentation fault", "Traceback")
    assert result.displays[0].data["image/png"] == b"\x89PNG" and result.displays[0].is_result
    assert result.artifacts["/session/artifacts/\udcff"] == "/host/%FF"
    assert result.artifact_info["/session/artifacts/a.csv"] == limpet.ArtifactInfo(3, "text/csv", "00")
    assert result.skipped == {"/session/artifacts/\udcfe": "is a symbolic link"}
    assert result.usage == limpet.Usage(0.5, 1 << 20)


def test_to_dict_is_the_json_of_the_command():
    plain = limpet.Result.from_record(FULL).to_dict()
    expected = copy.deepcopy(FULL)
    expected["displays"][0]["data"]["image/png"] = "iVBORw=="
    for name in ("artifacts", "artifact_info", "skipped"):
        expected[name] = {
            key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key: value
            for key, value in FULL[name].items()
        }
    assert plain == expected
    assert json.loads(json.dumps(plain)) == plain


def test_absent_and_nil_are_the_same():
    short = {name: value for name, value in fake.record().items() if value is not None}
    assert limpet.Result.from_record(short) == limpet.Result.from_record(fake.record())


def test_a_call_that_changes_nothing():
    result = limpet.Result.from_record(fake.record())
    assert not result.changed and result.changed == limpet.Changed([], [], [], 0)
    assert result.to_dict() == fake.record()
    unprotected = {"level": "none", "reason": "no memory for one"}
    result = limpet.Result.from_record(fake.record(state_protection=unprotected))
    assert result.state_protection == {"execution_count": None, **unprotected}
    never_ran = fake.record(state_protection=None)
    result = limpet.Result.from_record(never_ran)
    assert result.state_protection == {} and result.to_dict() == never_ran


@pytest.mark.parametrize(
    "fields, warning",
    [
        ({}, None),
        ({"session": None, "state": "lost"}, None),
        ({"state": "lost"}, "the variables of a are lost, its files are not"),
        (
            {"state": "rolled_back", "rolled_back_to": {"checkpoint": "c1", "execution_count": 6}},
            "the variables of a are as call 6 left them",
        ),
        (
            {
                "state": "rolled_back",
                "rolled_back_to": {"checkpoint": "c1", "execution_count": 0},
                "not_restored": ["thread 'x'", "a socket"],
            },
            "the variables of a are as they were before the first call; not restored: thread 'x', a socket",
        ),
    ],
)
def test_the_warning_says_what_became_of_the_variables(fields, warning):
    assert limpet.Result.from_record(fake.record(**fields)).warning == warning


def test_results_do_not_change_and_can_be_copied():
    result = limpet.Result.from_record(FULL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.status = "ok"
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result


def test_repr_is_short_and_says_what_matters():
    assert repr(limpet.Result.from_record(fake.record(result="42", stdout="hi\n"))) == (
        "<Result a [1]: ok, result='42', stdout='hi\\n'>"
    )
    text = repr(limpet.Result.from_record({**FULL, "session": None, "stdout": "x" * 1000}))
    assert text.startswith(
        "<Result in a container of its own: crashed, rolled_back to [6], Crashed: segmentation fault"
    )
    assert "2 artifacts" in text and "1 not restored" in text and len(text) < 300


@pytest.mark.parametrize(
    "change",
    [
        {"status": ...},
        {"usage": None},
        {"usage": {"cpu": 1}},
        {"error": "text"},
        {"error": {}},
        {"displays": [{}]},
        {"displays": 5},
        {"displays": [{"data": 5}]},
        {"artifacts": [1]},
        {"artifacts": {5: "x"}},
        {"artifact_info": {"x": {"size": 1}}},
        {"rolled_back_to": 3},
        {"not_restored": None},
        {"state_protection": 5},
        {"changed": 5},
        {"changed": {"added": [5]}},
        {"changed": {"added": [{"name": "x"}]}},
        {"usage": 5},
        {"artifact_info": {"x": 5}},
        {"changed": {"more": "many"}},
    ],
)
def test_what_is_no_record_is_a_mismatch(change):
    record = {name: value for name, value in {**fake.record(), **change}.items() if value is not ...}
    with pytest.raises(limpet.ProtocolMismatch):
        limpet.Result.from_record(record)


@pytest.mark.parametrize(
    "error", [limpet.NoSuchSession("m"), limpet.OptionsDiffer("m", ("a", "b")), limpet.Error("m")]
)
def test_exceptions_can_be_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.message, vars(again)) == (type(error), "m", vars(error))


@pytest.mark.parametrize("record", [FULL, fake.record()])
def test_results_can_be_in_sets(record):
    one, same = limpet.Result.from_record(record), limpet.Result.from_record(copy.deepcopy(record))
    other = limpet.Result.from_record({**record, "run_id": "f" * 32})
    assert one == same and len({one, same, other}) == 2
    assert len({one.changed, same.changed, *one.displays, *same.displays}) == 1 + len(one.displays)


def test_other_records_can_be_in_sets():
    rollback = limpet.Rollback("c1", 3, 2, "kept", ["a thread"])
    call = limpet.ToolCall("f", ([1],), {"x": {}}, fake.RUN_ID, "a")
    assert len({rollback, dataclasses.replace(rollback)}) == 1
    assert len({call, dataclasses.replace(call), call.with_arguments(2)}) == 2
