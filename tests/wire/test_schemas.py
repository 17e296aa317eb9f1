"""The schemas, PROTOCOL.md and the Python client name the same fields."""

import dataclasses
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Optional, Union, get_type_hints

import pytest

from tests.support import ROOT

from . import schemas

DOC = (ROOT / "proto/PROTOCOL.md").read_text("utf-8")
SCHEMAS = schemas.read()
STRUCTS = {schema.struct: schema for schema in SCHEMAS.values()}

# The types of a table of PROTOCOL.md, by that of the schema.
TYPES = {
    "TEXT": {"text"}, "WORD": {"text"}, "UINT": {"uint"}, "BOOL": {"bool"}, "INT": {"int"},
    "DOUBLE": {"float", "seconds", "number"}, "SIZE": {"bytes"}, "MAP": {"map"}, "DICT": {"map"}, "PART": {"map"},
    "ROWS": {"array"}, "TEXTS": {"array"}, "NAMES": {"array"}, "UINTS": {"array"},
}  # fmt: skip

# The schemas of each message of the table, in the order of its semicolons.
BODIES = {
    "hello": ["hello"],
    "error": ["error"],
    "run": ["run"],
    "interrupt": ["interrupt", "nothing"],
    "reset": ["target", "reset-guest"],
    "close": ["target", "namespace-guest"],
    "sessions": ["nothing"],
    "result": ["result"],
    "put": ["put"],
    "artifact": ["artifact"],
    "get": ["get"],
    "shutdown": ["shutdown"],
    "checkpoint": ["checkpoint", "checkpoint-guest", "checkpoint-interpreter"],
    "checkpoints": ["target", "nothing"],
    "rollback": ["rollback", "rollback-guest"],
    "drop": ["rollback", "drop-guest"],
    "branch": ["branch", "branch-guest"],
    "context": ["context", "context-guest"],
    "sleep": ["target"],
    "fork": ["fork"],
    "commit": ["commit", "commit-guest"],
    "namespace": ["target", "namespace-guest", "nothing", "namespace-reply"],
    "files": ["files", "file-ask"],
    "file_failed": ["file_failed"],
    "exec": ["exec", "exec-guest"],
    "start": ["start"],
    "processes": ["target", "nothing"],
    "process": ["process", "process-ask"],
    "connect": ["connect", "connect-guest"],
    "template": ["template"],
    "templates": ["nothing"],
    "remove_template": ["remove_template"],
    "install": ["install", "install-inside", "install-told"],
    "set_network": ["set_network", "nothing"],
    "output": ["output"],
    "display": ["display"],
    "credit": ["credit"],
    "ask": ["ask"],
    "answer": ["answer"],
    "save": ["save", "save-guest", "save-interpreter", "save-interpreter-reply"],
    "export": ["export"],
    "load": ["load", "nothing"],
    "guest_hello": ["guest-hello"],
    "guest_welcome": ["guest-welcome"],
    "execute": ["execute", "execute-interpreter"],
    "stop": ["nothing"],
    "ready": ["ready"],
    "checkpointed": ["checkpointed"],
    "frozen": ["nothing"],
    "restore": ["restore"],
    "claim": ["claim"],
    "prepare": ["prepare"],
    "prepared": ["prepared"],
    "settled": ["nothing"],
}
# Those whose body is told elsewhere on the page.
ELSEWHERE = {"reply", "open", "executed"}


def table(heading):
    """The rows of the first table behind a heading or a sentence."""
    text = DOC.split(heading, 1)[1]
    rows = re.findall(r"^\|(.+)\|$", text[: text.index("\n\n", text.index("\n|") + 1)], re.M)
    return [[cell.strip() for cell in row.split("|")] for row in rows[2:]]


def names(text):
    return re.findall(r"`(\w+)`", text)


MESSAGES = {row[1]: row[3] for row in table("## Messages")}


def test_every_message_is_compared():
    assert set(MESSAGES) == set(BODIES) | ELSEWHERE


@pytest.mark.parametrize("message", BODIES)
def test_bodies(message):
    parts = MESSAGES[message].split(";")
    assert len(parts) == len(BODIES[message])
    for part, schema in zip(parts, BODIES[message]):
        # "... with `OptionsDiffer`", "`session`, `instance`, or `run_id`": what is no field has capitals.
        assert [name for name in names(part) if name.islower()] == SCHEMAS[schema].names


@pytest.mark.parametrize(
    "heading, schema",
    [
        ("and any of the options:", "options"),
        ("### The record", "record"),
        ("`checkpoints` replies with `checkpoints`", "checkpoint-row"),
        ("Reply: `template`, a row of", "template-row"),
        ("A variable is a map of", "variable"),
        ("### processes", "process-row"),
    ],
)
def test_tables(heading, schema):
    told = []
    for field, kind, *_ in table(heading):
        told += [(name, kind) for name in names(field)]
    fields = {field.name: field for field in SCHEMAS[schema].fields}
    assert [name for name, _ in told] == list(fields)
    for name, kind in told:
        if kind and "`" not in kind:
            assert set(re.findall(r"\w+", kind)) & TYPES[fields[name].type], (name, kind)
            if schema != "options":
                assert ("or nil" in kind) == (fields[name].need == "NIL"), (name, kind)


@pytest.mark.parametrize(
    "sentence, schema",
    [
        (r"Reply: (`protocol`.+?)\(array of text, see", "hello-reply"),
        (r"Reply: (`session`, `instance`.+?) \(all options", "open-reply"),
        (r"and replies\nwith (`epoch`)\.", "reset-reply"),
        (r"replies at once with (`interrupted`)", "interrupt-reply"),
        (r"Reply: (`checkpoint`, the map below, and `dropped`)", "checkpoint-reply"),
        (r"Reply: (`checkpoint` \(its id\).+?`not_restored`)\.", "rollback-reply"),
        (r"session itself; the branch ends\. Reply: (.+?)\.", "commit-reply"),
        (r"Reply: (`names`, an array.+?`more`)", "namespace-reply"),
        (r"`controller` \{(.+?)\} and `sessions`", "controller"),
        (r"and `sessions`, an array of \{(.+?)\}", "session-row"),
        (r"Reply: (`run_id` and\n`record`)", "result-reply"),
        (r"Reply: (`size`) so far", "put-reply"),
        (r"`get` replies with (`data`.+?`size`) of the whole", "get-reply"),
        (r"An entry is a map of (.+?); what does", "file-entry"),
        (r"An event is a map of (.+?)\. What", "file-event"),
        (r"`file_failed`, which has (.+?)\.\n", "file_failed"),
        (r"`branches` is an array of maps \{(.+?)\}", "guest-branch-row"),
        (r"`running` is nil, or \{(.+?)\}", "guest-running"),
        (r"Its `executed` has (.+?)\. The supervisor", "executed"),
        (r"`executed` from the interpreter has (.+?)\.\n", "executed-interpreter"),
        (r"\| `rollback` \| (.+?) \|\n\| `branch`", "rollback-guest-reply"),
        (r"\n\| `branch` \| (.+?) \|\n\| `commit`", "branch-guest-reply"),
        (r"\| `artifact_info` \| map \| path in the container to (.+?) \|", "artifact_info"),
        (r"\| `rolled_back_to` \| map or nil \| (.+?): the last", "rolled_back_to"),
        (r"\| `state_protection` \| map \| the protection of this call: (.+?), see", "state_protection"),
        (r"changed its length or shape: (.+?), see below", "changed"),
        (r"\| `error` \| map or nil \| (.+?) \(text; empty", "call-error"),
        (r"\| `usage` \| map \| (.+?) bytes \|", "usage"),
        (r"\| `displays` \| array of maps \| (.+?) \|", "display-row"),
    ],
)
def test_sentences(sentence, schema):
    told = names(re.search(sentence, DOC, re.S)[1])
    fields = SCHEMAS[schema].names
    # Words that a field may be, and its other names, stand among them.
    assert [name for name in dict.fromkeys(told) if name in fields] == sorted(fields, key=told.index)


def test_words_are_on_the_page():
    for schema in SCHEMAS.values():
        for field in schema.fields:
            for word in (field.words or "").split("|"):
                assert not word or f"`{word}`" in DOC, (schema.name, word)


def test_names_and_parts():
    assert len(STRUCTS) == len(SCHEMAS)
    for schema in SCHEMAS.values():
        assert len(set(schema.names)) == len(schema.fields)
        for field in schema.fields:
            assert field.need in ("REQUIRED", "NIL", "OMIT") and field.meaning
            assert field.of is None or field.of in STRUCTS


# ---- the options of a session ----

OPTIONS = {option.name: option for option in schemas.session_options()}
# What the types of LimpetOptions are, by KIND.
MEMBERS = {
    "SECONDS": "double", "NUMBER": "double", "COUNT": "uint64_t", "SIZE": "const char *", "CHOICE": "const char *",
    "TEXT": "const char *", "DIRECTORY": "const char *", "PAIRS": "const char *const *",
    "LIST": "const char *const *", "BINDINGS": "const struct LimpetBinding *",
}  # fmt: skip


def test_every_option_is_read():
    entries = re.findall(r"^SESSION_OPTION\w*\(", (ROOT / "proto/session_options.def").read_text(), re.M)
    assert len(OPTIONS) == len(entries) > 0


def test_the_defaults_on_the_page():
    for name, _, default, _ in table("and any of the options:"):
        option = OPTIONS[name.strip("`")]
        told = default.strip("`")
        if option.kind == "NUMBER":
            assert float(told) == float(option.default)
        elif option.default:
            assert told == option.default
        else:
            assert told in ("none", "empty", "the default image")


def test_the_options_of_the_c_client():
    header = (ROOT / "clients/c/limpet.h").read_text()
    inside = re.search(r"typedef struct LimpetOptions \{\n(.*?)\n\} LimpetOptions;", header, re.S)[1]
    inside = re.sub(r"#ifdef __cplusplus\n.*?#else\n(.*?)\n#endif", r"\1", inside, flags=re.S)
    members = re.findall(r"^    (\S.*?) ?(\w+);", inside, re.M)
    assert [(kind.replace("* ", "*"), name) for kind, name in members] == [
        (MEMBERS[option.kind], name) for name, option in OPTIONS.items()
    ]


@pytest.mark.parametrize("client", ["Client", "AsyncClient"])
def test_the_options_of_the_python_client(client):
    import limpet

    def hint(option):
        if option.name in own:
            return own[option.name]
        if option.name == "network":  # with `allow`
            return limpet.Network
        if option.kind == "CHOICE":
            return Literal[tuple(option.argument.split("|"))]
        return hints.get(option.kind, str)

    own = {"packages": Union[Iterable[str], str, os.PathLike[str]], "pip": Union[Literal["refuse", "allow"], Sequence[str]]}
    hints = {
        "SECONDS": float, "NUMBER": float, "COUNT": int, "SIZE": Union[int, str], "PAIRS": Mapping[str, str],
        "DIRECTORY": Union[str, os.PathLike[str]], "BINDINGS": Mapping[str, limpet.Binding],
    }  # fmt: skip
    assert get_type_hints(limpet.SessionOptions) == {
        name: Optional[hint(option)] for name, option in OPTIONS.items() if name != "allow"
    }
    assert limpet.ContainerOptions.__optional_keys__ == OPTIONS.keys() - {"allow", "timeout", "ttl", "ttl_action", "checkpoint", "pip"}
    cls = getattr(limpet, client)
    assert cls.open.__annotations__["options"] == "Unpack[SessionOptions]"
    assert cls.run.__annotations__["options"] == "Unpack[ContainerOptions]"


# ---- the Python client ----


@pytest.mark.parametrize(
    "module, cls, schema, besides",
    [
        ("results", "Result", "record", set()),
        ("results", "ErrorInfo", "call-error", set()),
        ("results", "Display", "display", set()),
        ("results", "ArtifactInfo", "artifact_info", set()),
        ("results", "Usage", "usage", set()),
        ("results", "RolledBackTo", "rolled_back_to", set()),
        ("results", "Between", "between", set()),
        ("results", "Holder", "memory-row", set()),
        ("results", "SessionInfo", "session-row", set()),
        ("processes", "Output", "process-output-reply", {"dropped"}),
        ("packages", "Installed", "install-reply", set()),
        ("state", "Variable", "variable", set()),
        ("state", "Changed", "changed", set()),
        ("state", "Checkpoint", "checkpoint-row", {"dropped"}),
        ("state", "Rollback", "rollback-reply", set()),
        ("state", "Committed", "commit-reply", set()),
        ("templates", "Template", "template-row", set()),
    ],
)
def test_what_the_python_client_reads(module, cls, schema, besides):
    __import__("limpet")
    found = getattr(sys.modules[f"limpet.{module}"], cls)
    assert {field.name for field in dataclasses.fields(found)} == set(SCHEMAS[schema].names) | besides


# A row of the table of `files`, and its reply.
FILE_OPS = re.findall(r"^FILE_OP\((\w+), \w+, (\w+)\)", (ROOT / "proto/file_ops.def").read_text(), re.M)


def test_the_table_of_files():
    told = {names(ask)[0]: (names(fields), names(reply)) for ask, fields, reply in table("asked for in pieces.")}
    assert list(told) == [op for op, _ in FILE_OPS] == SCHEMAS["file-ask"].names
    for op, reply in FILE_OPS:
        fields, answered = told[op]
        assert set(fields) - {"upload", "next"} <= set(SCHEMAS[f"file-{op}"].names) | {"path"}
        assert set(SCHEMAS[f"file-{op}"].names) <= set(fields)
        assert set(STRUCTS[reply].names) <= set(answered)


def requests():
    from limpet._calls._stream import Stream
    from limpet._protocol import _file_requests as f
    from limpet._protocol import _network as network
    from limpet._protocol import _options
    from limpet._protocol import _requests as r
    from limpet._protocol import _template_requests as t
    from limpet._protocol._programs import program

    given = {
        "timeout": 1.0, "memory": "1g", "cpus": 1.0, "pids": 1, "disk": "1g", "files": 1, "data": "/", "env": {},
        "ttl": 1.0, "ttl_action": "save", "network": {"allow": ["h"]}, "bindings": {}, "image": "i", "checkpoint": "off", "packages": ["p"], "pip": "allow",
        "build": "allow", "template": "t",
    }  # fmt: skip
    chosen = _options.chosen(given, _options.SESSION_OPTIONS)
    at = {"session": "a", "instance": "i"}
    streaming = Stream(lambda text: None, None, None)
    command = {**program("x", "d", {}, b""), **program(["x"], None, None, None)}
    run = r.run(at, "1", 1.0, r.new_run_id(), streaming, "rollback", "pause").body
    return {
        "hello": r.HELLO,
        "open": {**r.open_session("a", chosen).body, **r.attach("a").body, **r.restore_session("a", chosen).body},
        "options": chosen,
        "run": {**run, "options": chosen},
        "exec": r.exec_(at, command, 1.0, r.new_run_id(), streaming).body,
        "result": r.result("0" * 32, 1.0).body,
        "install": r.install("p", 1.0, True).of(at).body,
        "interrupt": r.interrupt("0" * 32).of(at).body,
        "put": {**r.put("p", 0, b"", True).of(at).body, **r.put_through("p").body},
        "artifact": r.artifact("0" * 32, "p", 0).body,
        "get": {**r.get("p", 0).of(at).body, **r.get_through("p").body},
        "checkpoint": r.checkpoint("n", True).of(at).body,
        "rollback": r.rollback("c1").of(at).body,
        "branch": r.branch("b", "c1").of(at).body,
        "context": r.context("b", "js", "d").of(at).body,
        "fork": r.fork(["b"], "close", ["/d"]).of(at).body,
        "commit": r.commit("b").of(at).body,
        "set_network": network.change("none", {}).of(at).body,
        "target": r.namespace().of(at).body,
        "template": t.template("n", at, "i", {}, "1", True).body,
        "remove_template": t.remove_template("n").body,
        "files": f.stat("p").of(at).body,
        **{f"file-{name}": body for name, body in file_requests(f).items()},
    }


def file_requests(f):
    """All fields of each question that is asked in one way; of others those of both."""
    asked = [
        f.stat("p"), f.list_page("p", 1, None), f.list_page("p", 1, 1), f.read("p", 0, 1, 1), f.write("p", b"", True, 0, True, 1.5),
        f.write_more(1, 1, b"", True), f.mkdir("p", True), f.move("p", "q"), f.remove("p", True), f.watch("p", True),
        f.events(1, 1.0), f.unwatch(1),
    ]  # fmt: skip
    found = {}
    for request in asked:
        for name, body in request.body["ask"].items():
            found[name] = {**found.get(name, {}), **body}
    return found


@pytest.mark.parametrize("schema", requests())
def test_what_the_python_client_says(schema):
    """All there is to say, and nothing else."""
    assert set(requests()[schema]) == set(SCHEMAS[schema].names)
