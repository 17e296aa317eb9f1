"""What a sandbox does is seen by those who look at its session elsewhere, as on the web page."""

import pytest

from tests.support.gateway import events


def follow(http, session, work):
    """The events of the session from when somebody looks until the result of what `work` runs there."""
    with http.stream("GET", f"/v1/sessions/{session}/events") as stream:
        work()
        for _, kind, data in events(stream):
            yield kind, data
            if kind in ("result", "problem"):
                return


@pytest.mark.parametrize("language", ["python", "bash"])
def test_code_is_seen_with_its_output(gateway, sandbox, language):
    code = {"python": "print('from inside')", "bash": "echo from inside"}[language]
    with gateway.client(gateway.ada) as http:
        sessions = [row["session"] for row in http.get("/v1/sessions").json()["sessions"]]
        (session,) = {name.partition("/")[0] for name in sessions if sandbox.sandbox_id in name}
        heard = list(follow(http, session, lambda: sandbox.run_code(code, language=language)))
    assert list(dict.fromkeys(kind for kind, _ in heard)) == ["run", "output", "result"]
    assert (heard[0][1]["kind"], heard[0][1]["code"]) == (language, code)
    output = "".join(data["text"] for kind, data in heard if kind == "output")
    assert heard[-1][1]["stdout"] == output == "from inside\n"
