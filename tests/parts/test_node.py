"""Node, whose `fetch` reaches the network that a session has, in cells and in programs."""

import json

import pytest

from tests.support.ports import free_port
from tests.support.web import make_certificate, serving

FETCH = """
process.env.no_proxy = '';  // the server is on a loopback, too
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
process.removeAllListeners('warning');
const get = async (url, how) => {
  try {
    const answer = await fetch(url, how);
    return [answer.status, await answer.text()];
  } catch (error) {
    return [0, `${error.message}: ${error.cause?.message}`];
  }
};
"""


@pytest.fixture(params=["cell", "program"])
def get(request, client, name):
    """get(options, *arguments of fetch): its status and text, by Node in a session with these options."""
    made = []

    def get(options, *arguments):
        with client.open(f"{name}-{len(made)}", **options) as session:
            made.append(session)
            code = f"{FETCH}\nconsole.log(JSON.stringify(await get(...{json.dumps(arguments)})))"
            if request.param == "cell":
                done = session.run(code, language="javascript")
            else:
                session.files.write("fetch.mjs", code)
                done = session.exec("node fetch.mjs")
            return json.loads(done.check().stdout)

    return get


def test_what_a_rule_names_and_nothing_else(get):
    other = free_port()
    with serving() as server:
        options = {"network": {"allow": [server.address]}}
        status, text = get(options, f"http://{server.address}/a?b=c", {"method": "POST", "body": "data"})
        said = json.loads(text)
        assert (status, said["path"], said["method"], said["size"]) == (200, "/a?b=c", "POST", 4)
        assert said["headers"]["host"] == server.address
        status, text = get(options, f"http://127.0.0.1:{other}/")
        assert status == 403 and "is not allowed in this session" in text
        assert server.requests == ["/a?b=c"]


def test_by_tls(get, tmp_path):
    with serving(certificate=make_certificate(tmp_path)) as server:
        status, text = get({"network": {"allow": [server.address]}}, f"https://{server.address}/secure")
        assert (status, json.loads(text)["path"]) == (200, "/secure"), text
        status, text = get({"network": {"allow": ["example.org"]}}, f"https://{server.address}/other")
        assert status == 0 and server.requests == ["/secure"]


def test_a_binding(get):
    with serving() as server:
        bindings = {"api": {"url": f"http://{server.address}/v1", "headers": {"Authorization": "Bearer key"}}}
        status, text = get({"bindings": bindings}, "http://api.limpet/models")
        said = json.loads(text)
        assert (status, said["path"], said["headers"]["authorization"]) == (200, "/v1/models", "Bearer key")


def test_without_a_network_node_is_as_it_is(client, name):
    with client.open(name) as session:
        assert session.exec("node -p 'process.env.NODE_OPTIONS'").stdout == "undefined\n"


def test_a_node_with_fewer_rights_still_starts(client, name):
    """As that of Pyodide's cells."""
    with client.open(name, network={"allow": ["example.org"]}) as session:
        rights = "--experimental-permission --allow-fs-read=/usr --allow-fs-read=/session"
        assert session.exec(f"node {rights} -p 6*7").stdout == "42\n"
