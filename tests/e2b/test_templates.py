"""Templates by their names, with E2B's own client."""

import pytest
from e2b import BuildException, Template
from e2b_code_interpreter import Sandbox

from .conftest import made


@pytest.fixture
def rates(limpetd):
    with limpetd.client() as client:
        client.template("rates", setup="rates = {'EUR': 1.0}", env={"CURRENCY": "EUR"})
        yield
        client.remove_template("rates")


def test_a_template_is_what_a_sandbox_begins_from(where, rates):
    with made(Sandbox, where, template="rates", envs={"OWN": "1"}) as sandbox:
        run = sandbox.run_code("import os; rates, os.environ['CURRENCY'], os.environ['OWN']")
        assert (run.text, run.execution_count) == ("({'EUR': 1.0}, 'EUR', '1')", 1)
        assert sandbox.get_info().template_id == "rates"
        snapshot = sandbox.create_snapshot()
        with made(Sandbox, where, template=snapshot.snapshot_id, envs={"OWN": "2"}) as again:
            assert again.run_code("os.environ['CURRENCY'], os.environ['OWN']").text == "('EUR', '2')"
        Sandbox.delete_snapshot(snapshot.snapshot_id, **where)
        sandbox.pause()
        assert sandbox.connect(**where).run_code("rates, os.environ['CURRENCY']").text == "({'EUR': 1.0}, 'EUR')"


def test_the_default_can_be_a_template(where, limpetd):
    with limpetd.client() as client:
        client.template("code-interpreter-v1", setup="ready = True")
        try:
            with made(Sandbox, where) as sandbox:
                assert sandbox.run_code("ready").text == "True"
        finally:
            client.remove_template("code-interpreter-v1")


def test_templates_are_listed(gateway, where, rates):
    only = {name: where[name] for name in ("api_key", "api_url")}
    assert Template.exists("rates", **only) and Template.exists("base", **only)
    assert not Template.exists("no-such-template", **only)
    with gateway.client(gateway.ada) as client:
        names = [row["names"] for row in client.get("/v2/templates").json()]
    assert names == [["base"], ["code-interpreter-v1"], ["rates"]]


def test_a_build_is_refused_in_a_sentence(where):
    only = {name: where[name] for name in ("api_key", "api_url")}
    with pytest.raises(BuildException, match="limpet template create"):
        Template.build(Template().from_python_image("3"), "mine", **only)
