"""limpet run --json: the record, field by field."""

import base64
import json

from .fake_controller import record, running


def test_json_has_every_field_as_it_came(limpet):
    fields = record(
        run_id="ab" * 16, session="a", execution_count=7, status="error", state="rolled_back",
        rolled_back_to={"checkpoint": "c", "execution_count": 6}, not_restored=["thread 'ü'"],
        state_protection={"level": "checkpoint", "execution_count": 6, "reason": None},
        changed={"added": [{"name": "x", "type": "numpy.ndarray", "shape": [], "dtype": "<f8", "bytes": 8,
                            "repr": None}],
                 "changed": [], "deleted": ["y"], "more": 1}, epoch=2, stdout="a\0\"\\\n\x1bü\U0001f600",
        stderr="\x7f", stdout_bytes=2**63, stderr_bytes=1, truncated=True, stdout_file="/session/.limpet/x",
        result="'é'", signal=-1, exit_code=3, duration=0.1, usage={"cpu": 1e-7, "peak_memory": 2**40},
        error={"name": "E", "message": "m", "traceback": "t"},
        displays=[
            {"data": {"text/plain": "x", "image/png": b"\x89PNG\0", "application/json": {"a": [1, 2.0, None, True]}},
             "metadata": {"image/png": {"width": 3}}, "display_id": "d", "is_result": True},
            {"data": {}, "metadata": {}, "display_id": None, "is_result": False},
        ],
        artifacts={"/a": "/h/a", b"/b\xff": "/h/b"}, skipped={"/s": "a FIFO"},
        artifact_info={"/a": {"size": 3, "mime_type": "text/csv", "sha256": "00"},
                       b"/b\xff": {"size": 0, "mime_type": "x/y", "sha256": "01"}},
        between={"stdout": "late\n", "stderr": "", "dropped": 7},
    )
    with running(limpet, **fields):
        result = limpet("run", "--json", "-s", "a", "-c", "1")
    expected = dict(fields)
    expected["displays"][0]["data"]["image/png"] = base64.b64encode(b"\x89PNG\0").decode()
    expected["artifacts"] = {"/a": "/h/a", "/b\udcff": "/h/b"}
    expected["artifact_info"]["/b\udcff"] = expected["artifact_info"].pop(b"/b\xff")
    assert result.out.count("\n") == 1
    assert json.loads(result.out) == expected
    assert list(json.loads(result.out)) == list(fields)
    assert type(json.loads(result.out)["displays"][0]["data"]["application/json"]["a"][1]) is float
    assert result.err == ""


def test_json_does_not_stream(limpet):
    with running(limpet) as controller:
        limpet("run", "--json", "-c", "1")
        assert controller.wait("run").body["stream"] is False


def test_json_numbers_that_json_lacks(limpet):
    display = {"data": {"application/json": [float("nan"), float("inf"), 1e300]}, "metadata": {}, "display_id": None,
               "is_result": False}
    with running(limpet, displays=[display]):
        result = limpet("run", "--json", "-c", "1")
    assert json.loads(result.out)["displays"][0]["data"]["application/json"] == [None, None, 1e300]
