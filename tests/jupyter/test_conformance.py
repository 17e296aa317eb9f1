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
