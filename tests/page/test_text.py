"""The text of a program's output as the page shows it. Needs Node alone, and no browser."""

import json
import subprocess

import pytest

from tests.support import ROOT
from tests.support.needs import need

SOURCE = ROOT / "clients" / "python" / "src" / "limpet" / "serve" / "_web" / "static" / "ansi.js"
CALL = """
const { readFileSync } = await import("node:fs")
console.log(JSON.stringify(settled(JSON.parse(readFileSync(0, "utf8")))))
"""


def settled(text):
    program = SOURCE.read_text() + CALL
    done = subprocess.run(
        [need("node", "network"), "--input-type=module", "--eval", program],
        input=json.dumps(text), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one word\n", "one word\n"),
        ("hello\r\nworld\r\n", "hello\nworld\n"),
        ("first line\n  0%|     |\r 50%|##   |\r100%|#####|\nlast line", "first line\n100%|#####|\nlast line"),
        ("abcdef\rxy", "xycdef"),
        ("abc\b\bX", "aXc"),
        ("\b\bab \b\n", "ab \n"),
        ("| \b\b/ \b\b- done", "- done"),
        ("Downloading 9 MB\r\x1b[Kdone", "done"),
        ("Downloading 9 MB\x1b[2K\rdone", "done"),
        ("\x1b[32m50%\x1b[0m\r\x1b[32m100%\x1b[0m\n", "\x1b[0m\x1b[32m100%\n\x1b[0m"),
        ("outer 0%\ninner 0%\x1b[A\router 50%\ninner 100%\n", "outer 50%\ninner 100%\n"),
        ("a\nb\nc\x1b[2A\x1b[2K\rdone\x1b[J", "done"),
        ("\x1b[31mred\x1b[0m\nplain\x1b[1F\x1b[32mg", "\x1b[0m\x1b[32mg\x1b[0m\x1b[31med\n\x1b[0mplain\x1b[0m\x1b[32m"),
        ("gone\n\x1b[H\x1b[2Jnew\x1b[4Cfar", "new    far"),
        ("é😀\rA\b", "A😀"),
    ],
)
def test_a_line_is_what_a_terminal_would_show(text, shown):
    assert settled(text) == shown


@pytest.mark.parametrize("end", [("\r", 1), ("\b", 1), ("\rx", 100_000), ("\b", 200_000)], ids=ascii)
def test_a_long_word_does_not_stop_the_page(end):
    text, times = end
    word = "a" * 400_000
    assert len(settled(word + text * times)) == len(word)
