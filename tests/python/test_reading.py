"""What a model reads, and the cells that it writes: tables of cases."""

import ast

import limpet
import pytest
from limpet._adapters import cells, reading, telling

from tests.support import fake

COUNTED = "y\n[the line above 499 more times]\n"


@pytest.mark.parametrize(
    "written, read",
    [
        ("plain\n", "plain\n"),
        ("\rstep 1\rstep 2\rstep 3", "step 3"),
        (" 50%\r100%\n\rdone\r\n", "100%\ndone\n"),
        ("busy\r\x1b[Kdone\n", "done\n"),
        ("\x1b[1;31mred\x1b[0m and \x1b]8;;http://x\x07link\x1b]8;;\x07\n", "red and link\n"),
        ("\x1b(B\x1b[?25lhidden cursor\x1b[?25h\n", "hidden cursor\n"),
        ("y\n" * 500, COUNTED),
        ("\x1b[3%dmy\n" % 2 * 500, COUNTED),
        ("a\na\na\nb\n", "a\na\na\nb\n"),
        ("a\na\na\na\na\nb\na\n", "a\n[the line above 4 more times]\nb\na\n"),
        ("Fatal\n  File \"a\", line 1 in b\n\nExtension modules: a.b, c (total: 2)\n", "Fatal\n  File \"a\", line 1 in b\n"),
        ("", ""),
    ],
)
def test_output(written, read):
    assert reading.output(written) == read


TRACEBACK = """\
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/pandas/core/indexes/base.py", line 3805, in get_loc
    return self._engine.get_loc(casted_key)
           ^^^^^^^^^^^^^^^^^^^^^^^^
  File "pandas/_libs/index.pyx", line 167, in get_loc
KeyError: 'b'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "<cell 3>", line 2, in <module>
    frame["b"]
    ~~~~~^^^^^
  File "/usr/lib/python3/dist-packages/pandas/core/frame.py", line 4102, in __getitem__
    indexer = self.columns.get_loc(key)
  File "/usr/lib/python3.13/functools.py", line 12, in inner
    return f()
  [Previous line repeated 12 more times]
  File "/session/mine.py", line 7, in helper
    raise KeyError(key) from err
KeyError: 'b'
"""
READ = """\
Traceback (most recent call last):
  [... 1 frame in pandas ...]
  File "pandas/_libs/index.pyx", line 167, in get_loc
KeyError: 'b'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "<cell 3>", line 2, in <module>
    frame["b"]
    ~~~~~^^^^^
  [... 2 frames in pandas, Python's library ...]
  File "/session/mine.py", line 7, in helper
    raise KeyError(key) from err
KeyError: 'b'
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "<cell 1>", line 1, in <module>
  |     run()
  |   File "/usr/lib/python3.13/asyncio/taskgroups.py", line 71, in __aexit__
  |     return await self._aexit(et, exc)
  | ExceptionGroup: two (1 sub-exception)
"""
OF_LIBRARIES = """\
Traceback (most recent call last):
  File "/usr/lib/python3.13/threading.py", line 1043, in _bootstrap_inner
    self.run()
OSError: gone
"""


@pytest.mark.parametrize(
    "told, read",
    [
        (TRACEBACK, READ),
        (
            GROUP,
            GROUP.replace(
                '  |   File "/usr/lib/python3.13/asyncio/taskgroups.py", line 71, in __aexit__\n'
                "  |     return await self._aexit(et, exc)\n",
                "  |   [... 1 frame in Python's library ...]\n",
            ),
        ),
        (OF_LIBRARIES, OF_LIBRARIES),
        ("SyntaxError: invalid syntax", "SyntaxError: invalid syntax"),
        (
            "  File \"<cell 1>\", line 1, in <module>\n    __import__('limpet_magics').shell.run_line_magic('cd', 'nowhere')\nOSError: no",
            '  File "<cell 1>", line 1, in <module>\n    %cd nowhere\nOSError: no',
        ),
    ],
    ids=["chain", "group", "no frame of the user's", "no traceback", "magic"],
)
def test_tracebacks(told, read):
    assert reading.traceback(told) == read


MAGICS = "__import__('limpet_magics').shell"
BROKEN = "page = '''\n```python\nx = 1\n```\n'''\nprint(page"


@pytest.mark.parametrize(
    "written, runs",
    [
        ("x = 1", "x = 1"),
        ("```python\nprint(6 * 7)\n```", "print(6 * 7)"),
        ("\n  ```py\nx = 1\n\ny = 2\n  ```  \n", "x = 1\n\ny = 2"),
        ("```\nx\n```\n", "x"),
        ("````python title=a.py\nx = '''\n```\n'''\n````", "x = '''\n```\n'''"),
        ("```python\nx = 1", "x = 1"),
        ("```python\n```", ""),
        ("```bash\nls -l\n```", f"{MAGICS}.run_cell_magic('bash', '', 'ls -l')"),
        ("```python\n!ls\n```", f"{MAGICS}.system('ls')"),
        ("x = '''\n```\n'''", "x = '''\n```\n'''"),
        ("!pip install x\nimport x", f"{MAGICS}.system('pip install x')\nimport x"),
        ("%pip install x", f"{MAGICS}.run_line_magic('pip', 'install x')"),
        ("if 1:\n    !ls {here}", f"if 1:\n    {MAGICS}.system('ls {{here}}')"),
        ("files = !ls", f"files = {MAGICS}.getoutput('ls')"),
        ("t = %time 6 * 7", f"t = {MAGICS}.run_line_magic('time', '6 * 7')"),
        ("%matplotlib inline\nx = 1", f"{MAGICS}.run_line_magic('matplotlib', 'inline')\nx = 1"),
        ("%%bash\necho $HOME", f"{MAGICS}.run_cell_magic('bash', '', 'echo $HOME')"),
        ("%%time\n!ls", f"""{MAGICS}.run_cell_magic('time', '', "{MAGICS}.system('ls')")"""),
        ("!ls\npage = '''\n%pwd\n!no\n'''", f"{MAGICS}.system('ls')\npage = '''\n%pwd\n!no\n'''"),
        ("~~~python\nx = 1\n~~~", "x = 1"),
        ("  ```python\n  if x:\n    y\n  ```", "if x:\n  y"),
        ("Here is the code:\n```python\nx = 1\n```\nIt sets x.", "x = 1"),
        ("```python\nx = 1\n```\n```text\n2\n```\n```sh\nls\n```", f"x = 1\n{MAGICS}.run_cell_magic('bash', '', 'ls')"),
        (BROKEN, BROKEN),
        ("~~~5", "~~~5"),
        ("    x = 1\n    if x:\n        y", "x = 1\nif x:\n    y"),
        (">>> x = 1\n>>> if x:\n...     x\n...\n1", "x = 1\nif x:\n    x\n"),
        ("pip install -q x\nimport x", f"{MAGICS}.run_line_magic('pip', 'install -q x')\nimport x"),
        ("7 %x", "7 %x"),
        ("%nosuch 1", f"{MAGICS}.run_line_magic('nosuch', '1')"),
        ("%%perl -w\nprint", f"{MAGICS}.run_cell_magic('perl', '-w', 'print')"),
    ],
)
def test_cells(written, runs):
    assert cells.of_model(written) == runs


@pytest.mark.parametrize(
    "text, is_prose",
    [
        ("I will now load the data and compute the mean.", True),
        ("Let's look at the data first, and don't forget the index.\n\nThen we can plot the result.", True),
        ("- First load the file\n- Then compute the mean of it", True),
        ("我将加载数据，然后计算平均值。", True),
        ("SELECT name FROM people WHERE age > 3", True),
        ("conda install pandas polars pyarrow", True),
        ("for x in range(3) print(x)", False),
        ("def f(self, first, second, third)\n    return first", False),
        ("print 'one two three four five'", False),
        ("x = 1  # a remark of many plain words here\ny = = 2", False),
        ("import numpy as np\nfrom a import b as c\nx = (1", False),
        ("print(1，2)", False),
        ("if not a and b is not c or d in e", False),
        ("a b", False),
        ("", False),
    ],
)
def test_prose(text, is_prose):
    assert cells.is_prose(text) == is_prose
    if is_prose:
        with pytest.raises(SyntaxError):
            ast.parse(text)


def test_the_names_that_hold_memory():
    held = [{"name": "frame", "type": "pandas.DataFrame", "bytes": 312_400_000}, {"name": "rows", "type": "list", "bytes": 9_000_000}]
    full = limpet.Result.from_record(fake.record(memory=held))
    text, _ = telling.of_result(full, telling.Limits(1000, 0), {})
    assert text.endswith("Most of the memory is held by: frame (pandas.DataFrame, 312 MB), rows (list, 9 MB).")
    killed = limpet.Result.from_record(fake.record(status="oom", memory=held))
    assert "Before this call most of the memory was held by: frame" in telling.of_result(killed, telling.Limits(1000, 0), {})[0]
    assert "memory" not in telling.of_result(limpet.Result.from_record(fake.record()), telling.Limits(1000, 0), {})[0]
