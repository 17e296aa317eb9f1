"""Jupyter's own test of kernels."""

import jupyter_kernel_test
import pytest

from .conftest import TIMEOUT


@pytest.fixture(scope="module", autouse=True)
def installed(install):
    jupyter_kernel_test.TIMEOUT = TIMEOUT


class TestKernel(jupyter_kernel_test.KernelTests):
    kernel_name = "limpet"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_inspect_sample = "zip"
    completion_samples = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "bytes.fromh", "matches": {"bytes.fromhex"}},
    ]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_execute_result = [
        {"code": "6*7", "result": "42"},
        {
            "code": "class A:\n  def _repr_html_(self): return '<b>a</b>'\nA()",
            "mime": "text/html",
            "result": "<b>a</b>",
        },
    ]
    code_display_data = [
        {"code": "from IPython.display import HTML; display(HTML('<b>test</b>'))", "mime": "text/html"},
        {"code": "display({'image/png': b'x'}, raw=True)", "mime": "image/png"},
    ]
    code_history_pattern = "*6*7"
    supported_history_operations = ("tail", "range", "search")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kc.execute_interactive("0", timeout=TIMEOUT)  # opens the session

    def flush_channels(self):
        """Until what came before has been answered; the library's gives the kernel a tenth of a second."""
        asked = self.kc.kernel_info()
        for messages in self.kc.shell_channel, self.kc.iopub_channel:
            while True:
                message = messages.get_msg(timeout=TIMEOUT)
                jupyter_kernel_test.validate_message(message)
                ends = message["msg_type"] == "kernel_info_reply" or message["content"].get("execution_state") == "idle"
                if ends and message["parent_header"].get("msg_id") == asked:
                    break

    def execute_helper(self, code, timeout=TIMEOUT, **how):
        """The library's gives the kernel a tenth of a second for each message."""
        asked = self.kc.execute(code=code, **how)
        reply = self.get_non_kernel_info_reply(timeout=timeout)
        jupyter_kernel_test.validate_message(reply, "execute_reply", asked)
        shown = []
        while not shown or shown[-1]["content"].get("execution_state") != "idle":
            shown.append(self.kc.iopub_channel.get_msg(timeout=timeout))
            jupyter_kernel_test.validate_message(shown[-1], shown[-1]["msg_type"], asked)
        busy, *output, idle = shown
        assert (busy["msg_type"], busy["content"]["execution_state"], idle["msg_type"]) == ("status", "busy", "status")
        assert [m["content"]["code"] for m in output if m["msg_type"] == "execute_input"] in ([], [code])
        return reply, [m for m in output if m["msg_type"] != "execute_input"]

    def test_input(self):
        asked, shown = [], []

        def answer(message):
            asked.append(message["content"]["prompt"])
            self.kc.input("typed")

        reply = self.kc.execute_interactive(
            "input('line? ')",
            allow_stdin=True,
            stdin_hook=answer,
            output_hook=lambda message: shown.append(message["content"]),
            timeout=TIMEOUT,
        )
        assert (reply["content"]["status"], asked) == ("ok", ["line? "])
        assert [content["data"]["text/plain"] for content in shown if "data" in content] == ["'typed'"]
