"""A real controller (engine local), and the kernel installed for it where no other kernel is seen.

Needs limpet[jupyter], nbclient and jupyter_kernel_test.
"""

import pytest
from jupyter_client.connect import LocalPortCache
from jupyter_client.manager import KernelManager

from tests.support.jupyter import install_kernel, jupyter_in
from tests.support.limpetd import running
from tests.support.ports import free_port
from tests.support.preloaded import Preloaded

TIMEOUT = 60


class KeptPorts(LocalPortCache):
    """A kernel binds its ports long after they were chosen, and again when it is restarted."""

    def find_available_port(self, ip):
        while (port := free_port()) in self.currently_used_ports:
            pass
        self.currently_used_ports.add(port)
        return port


@pytest.fixture(scope="package")
def limpetd():
    with running() as controller:
        yield controller


@pytest.fixture(scope="package", autouse=True)
def jupyter(tmp_path_factory):
    KeptPorts.instance()  # from now on LocalPortCache's, too
    with jupyter_in(tmp_path_factory.mktemp("jupyter")) as home:
        yield home
    KeptPorts.clear_instance()


@pytest.fixture(scope="package")
def install(jupyter, limpetd):
    """Installs a kernel and returns its name."""

    def install(name, *options, address=limpetd.socket):
        return install_kernel(name, address, *options)

    install("limpet")
    return install


@pytest.fixture(scope="package")
def preloaded(jupyter, tmp_path_factory):
    preloaded = Preloaded(tmp_path_factory.mktemp("preloaded"), "limpet.jupyter._app", "ipykernel.zmqshell")
    yield preloaded
    preloaded.close()


class Notebook:
    """A kernel and what its cells show. With `preloaded` a copy of a process that has imported it stands for the kernel."""

    def __init__(self, name="limpet", preloaded=None):
        self.manager = KernelManager(kernel_name=name)
        self.manager.shutdown_wait_time = 2 * TIMEOUT  # until it is killed, at half of which it has a signal
        if preloaded:
            _, _, *kernel = self.manager.kernel_spec.argv  # python -m
            self.manager.kernel_spec.argv = ["setpriv", "--pdeathsig", "term", *preloaded.command(*kernel)]
        self.manager.start_kernel()
        self.begin()

    def begin(self):
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def start(self, code, **how):
        return self.client.execute(code, **how)

    def until(self, request, wanted):
        """The messages of a request up to the first one that is wanted."""
        seen = []
        while not seen or not wanted(seen[-1]):
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == request:
                seen.append(message)
        return seen

    def reply(self, request):
        while True:
            message = self.client.get_shell_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == request:
                return message["content"]

    def finish(self, request):
        messages = self.until(request, lambda message: message["content"].get("execution_state") == "idle")
        return Cell(self.reply(request), messages)

    def run(self, code, **how):
        return self.finish(self.start(code, **how))

    def ask(self, what, *arguments, **named):
        return self.reply(getattr(self.client, what)(*arguments, **named))

    def end(self, now=False):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=now)


class Cell:
    """How a cell ended, and what it showed."""

    def __init__(self, reply, messages):
        self.status, self.reply = reply["status"], reply
        self.shown = [
            (m["msg_type"], m["content"])
            for m in messages
            if m["msg_type"] not in ("status", "execute_input")
        ]

    def of(self, kind):
        return [content for shown, content in self.shown if shown == kind]

    def stream(self, name):
        return "".join(content["text"] for content in self.of("stream") if content["name"] == name)

    @property
    def stdout(self):
        return self.stream("stdout")

    @property
    def stderr(self):
        return self.stream("stderr")

    @property
    def result(self):
        results = self.of("execute_result")
        return results[0]["data"]["text/plain"] if results else None

    @property
    def traceback(self):
        return "\n".join(self.of("error")[0]["traceback"])


@pytest.fixture(scope="package")
def shared_notebook(install):
    notebook = Notebook()
    notebook.run("0")  # says once that this engine does not isolate
    yield notebook
    notebook.end()


@pytest.fixture
def notebook(shared_notebook):
    """Not restarted for each test: they use names of their own."""
    return shared_notebook


@pytest.fixture
def own_notebook(install, preloaded):
    """For tests that end it, or their session; `whole` where they do so by force."""
    notebooks = []

    def start(name="limpet", whole=False):
        notebooks.append(Notebook(name, None if whole else preloaded))
        return notebooks[-1]

    yield start
    for notebook in notebooks:
        notebook.end(now=True)
