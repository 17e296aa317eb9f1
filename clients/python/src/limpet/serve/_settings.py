"""What can be set: each an option, a key of the configuration file and an environment variable."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._adapters.arguments import WrongOption
from ._reach import is_rule

OF_CONTAINERS = ("session_memory", "session_cpus", "session_disk", "session_pids")
"""Settings that a gateway to pods does not have."""

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Settings:
    """The gateway's, with their defaults. 0 is no limit."""

    host: str = "127.0.0.1"
    port: int = 8000
    address: str | None = None
    fleet: str | None = None
    state_dir: str = ""
    keys: str = ""
    certificate: str | None = None
    certificate_key: str | None = None
    audit_log: str | None = None
    otlp_endpoint: str | None = None
    max_sessions: int = 20
    session_memory: int = 0
    session_cpus: float = 0.0
    session_disk: int = 0
    session_pids: int = 0
    session_timeout: float = 0.0
    session_max_bytes: int = 5 << 20
    max_input_chars: int = 256 << 10
    rate_limit_window_ms: int = 60_000
    rate_limit_max: int = 3000
    session_ttl_s: float = 600.0
    sandboxes: bool = True
    sandbox_timeout_s: float = 86_400.0
    sandbox_saved_bytes: int = 10 << 30
    sandbox_network: tuple[str, ...] = ()
    sandbox_ports: str = "private"
    chat_url: str | None = None
    chat_model: str | None = None
    chat_key: str | None = None
    mcp_tools: str | None = None
    mcp_allow: str = ""


@dataclass(frozen=True)
class Setting:
    """One of them: its name in Settings and in the configuration file, its variable, and how its text is read."""

    name: str
    variable: str
    read: Callable[[str], Any]
    shown: str
    help: str

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


def _size(text: str) -> int:
    digits = text.strip().lower().rstrip("bkmgt")
    unit = text.strip().lower()[len(digits) :]
    if not digits.isdigit() or unit not in _UNITS:
        raise ValueError("it must be a number of bytes, such as 5242880 or 5m")
    return int(digits) * _UNITS[unit]


def _count(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError("it must be a number that is not negative")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 1e6:
        raise ValueError("it must be a number that is not negative, such as 1.5")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 1e9:
        raise ValueError("it must be a number of seconds")
    return seconds


def _port(text: str) -> int:
    if not text.strip().isdigit() or int(text) > 65535:
        raise ValueError("it must be a port, 0 to 65535")
    return int(text)


def _rules(text: str) -> tuple[str, ...]:
    rules = tuple(text.replace(",", " ").split())
    for rule in rules:
        if not is_rule(rule):
            raise ValueError(f"{rule} is no rule of a network, such as *.example.org:443")
    return rules


def _fleet(text: str) -> str:
    scheme, _, namespace = text.strip().partition("://")
    if scheme != "kubernetes" or not namespace:
        raise ValueError("it must be kubernetes://[CONTEXT/]NAMESPACE")
    return namespace


def _access(text: str) -> str:
    if text.strip() not in ("private", "public"):
        raise ValueError("it must be private or public")
    return text.strip()


def _is_so(text: str) -> bool:
    if text.strip() not in ("yes", "no"):
        raise ValueError("it must be yes or no")
    return text.strip() == "yes"


def _url(text: str) -> str:
    if not text.strip().startswith(("http://", "https://")):
        raise ValueError("it must be a URL that begins with http:// or https://")
    return text.strip()


SETTINGS = (
    Setting(
        "host", "LIMPET_SERVE_HOST", str, "ADDRESS", "address to listen on; any but loopback needs a key"
    ),
    Setting("port", "LIMPET_SERVE_PORT", _port, "PORT", "port to listen on; 0 is any free port"),
    Setting("address", "LIMPET_SOCKET", str, "PATH", "socket of the controller"),
    Setting(
        "fleet",
        "LIMPET_SERVE_FLEET",
        _fleet,
        "ADDRESS",
        "sessions in pods instead, of kubernetes://[CONTEXT/]NAMESPACE; any number of gateways may serve them",
    ),
    Setting(
        "state_dir", "LIMPET_SERVE_STATE_DIR", str, "DIR", "keys, and files that were uploaded for /data"
    ),
    Setting("keys", "LIMPET_SERVE_KEYS", str, "FILE", "the keys; by default `keys` in the state directory"),
    Setting(
        "certificate", "LIMPET_SERVE_CERTIFICATE", str, "FILE", "PEM file: speak TLS with this certificate"
    ),
    Setting(
        "certificate_key", "LIMPET_SERVE_CERTIFICATE_KEY", str, "FILE", "PEM file with the certificate's key"
    ),
    Setting(
        "audit_log",
        "LIMPET_SERVE_AUDIT_LOG",
        str,
        "FILE",
        "a line for each operation; by default standard error",
    ),
    Setting(
        "otlp_endpoint",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        _url,
        "URL",
        "send traces to this collector of OpenTelemetry: http://…:4318",
    ),
    Setting("max_sessions", "MAX_SESSIONS", _count, "N", "sessions of one key at a time"),
    Setting(
        "session_memory",
        "SESSION_MEMORY",
        _size,
        "BYTES",
        "memory of a session, and the most that one may ask for; 0: as the controller has it",
    ),
    Setting("session_cpus", "SESSION_CPUS", _number, "N", "processors of a session, likewise"),
    Setting("session_disk", "SESSION_DISK", _size, "BYTES", "disk of a session, likewise"),
    Setting("session_pids", "SESSION_PIDS", _count, "N", "processes of a session, likewise"),
    Setting(
        "session_timeout",
        "SESSION_TIMEOUT",
        _seconds,
        "SECONDS",
        "time limit of a call, and the most that one may ask for; 0: as the controller has it",
    ),
    Setting(
        "session_max_bytes", "SESSION_MAX_BYTES", _size, "BYTES", "files uploaded into one session's /data"
    ),
    Setting(
        "max_input_chars", "MAX_INPUT_CHARS", _count, "N", "characters of code, or of a command, in one call"
    ),
    Setting(
        "rate_limit_window_ms", "RATE_LIMIT_WINDOW_MS", _count, "MS", "time in which requests are counted"
    ),
    Setting("rate_limit_max", "RATE_LIMIT_MAX", _count, "N", "requests of one key in that time"),
    Setting("session_ttl_s", "SESSION_TTL_S", _seconds, "SECONDS", "idle time after which a session ends"),
    Setting(
        "sandboxes",
        "LIMPET_SERVE_SANDBOXES",
        _is_so,
        "ANSWER",
        "whether E2B's clients are served: yes, or no, which is the default with --fleet",
    ),
    Setting("sandbox_timeout_s", "SANDBOX_TIMEOUT_S", _seconds, "SECONDS", "longest time of an E2B sandbox"),
    Setting(
        "sandbox_saved_bytes",
        "SANDBOX_SAVED_BYTES",
        _size,
        "BYTES",
        "paused E2B sandboxes and snapshots of one key on disk",
    ),
    Setting(
        "sandbox_network",
        "SANDBOX_NETWORK",
        _rules,
        "RULES",
        "destinations that sessions, also those of E2B, may be allowed to reach",
    ),
    Setting(
        "sandbox_ports",
        "SANDBOX_PORTS",
        _access,
        "ACCESS",
        "who may use the ports of an E2B sandbox that does not say: private, with a token, or public, everybody",
    ),
    Setting(
        "chat_url",
        "LIMPET_CHAT_URL",
        str,
        "URL",
        "a model like OpenAI's for the chat of the web page: https://…/v1",
    ),
    Setting("chat_model", "LIMPET_CHAT_MODEL", str, "NAME", "name of the model at that service"),
    Setting(
        "chat_key",
        "LIMPET_CHAT_KEY",
        str,
        "KEY",
        "its key; better in the file or the variable, where nobody sees it",
    ),
    Setting(
        "mcp_tools",
        "LIMPET_MCP_TOOLS",
        str,
        "FILE",
        "a Python file; code of MCP clients may call its functions here, with the user's approval",
    ),
    Setting(
        "mcp_allow", "LIMPET_MCP_ALLOW", str, "NAMES", "functions that need no approval, separated by commas"
    ),
)


def add(parser: argparse.ArgumentParser, names: tuple[str, ...] = ()) -> None:
    """An option for each of these, by default for all."""
    defaults = Settings()
    for setting in SETTINGS:
        if names and setting.name not in names:
            continue
        default = getattr(defaults, setting.name)
        said = f"{setting.help} (${setting.variable})"
        if default not in (None, "", ()):
            said += f"; by default {default:g}" if isinstance(default, float) else f"; by default {default}"
        parser.add_argument(setting.option, metavar=setting.shown, help=said)
    parser.add_argument("--config", metavar="FILE", help="file with lines `name = value`; by default limpet/serve.conf "
                        "in /etc for root, in the XDG configuration directory for others")  # fmt: skip


def of(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Settings:
    """An option wins over the variable, which wins over the file. Raises WrongOption."""
    texts = {
        name: (text, f"{name} in the configuration file") for name, text in _file(options.config).items()
    }
    for setting in SETTINGS:
        if environment.get(setting.variable):
            texts[setting.name] = environment[setting.variable], f"${setting.variable}"
        given = getattr(options, setting.name, None)
        if given is not None:
            texts[setting.name] = given, f"argument {setting.option}"
    known = {setting.name: setting for setting in SETTINGS}
    values = {}
    for name, (text, where) in texts.items():
        try:
            values[name] = known[name].read(text)
        except ValueError as error:
            raise WrongOption(f"{where}: {text!r}: {error}") from None
    settings = Settings(**values)
    if settings.fleet:
        for name in OF_CONTAINERS:
            if getattr(settings, name):
                raise WrongOption(
                    f"{texts[name][1]}: PodOptions say what pods are like, such as $LIMPET_POD_MEMORY"
                )
    state_dir = os.path.abspath(settings.state_dir or _standard_state_dir())
    keys = os.path.abspath(settings.keys or os.path.join(state_dir, "keys"))
    sandboxes = values.get("sandboxes", settings.fleet is None)
    return dataclasses.replace(settings, state_dir=state_dir, keys=keys, sandboxes=sandboxes)


def _file(given: str | None) -> dict[str, str]:
    path = given or _standard_file()
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        if given is None:
            return {}
        raise WrongOption(f"argument --config: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise WrongOption(f"argument --config: {path} cannot be read: {error}") from None
    names = {setting.name for setting in SETTINGS}
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or name not in names:
            raise WrongOption(f"{path}:{number}: '{name}' is no setting; they are {', '.join(sorted(names))}")
        found[name] = value
    return found


def _standard_file() -> str:
    if os.geteuid() == 0:
        return "/etc/limpet/serve.conf"
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "limpet", "serve.conf")


def _standard_state_dir() -> str:
    if os.geteuid() == 0:
        return "/var/lib/limpet-serve"
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "limpet", "serve")
