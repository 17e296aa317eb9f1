"""Formulas of LaTeX as the page shows them: as MathML. Needs Node alone, and no browser."""

import json
import re
import subprocess

import pytest

from tests.support import ROOT
from tests.support.needs import need

SOURCE = ROOT / "clients" / "python" / "src" / "limpet" / "serve" / "_web" / "static" / "tex.js"
CALL = """
const { readFileSync } = await import("node:fs")
const make = (tag, attributes, children) => `<${tag}>${children.join("")}</${tag}>`
try { console.log(JSON.stringify(mathml(JSON.parse(readFileSync(0, "utf8")), make))) }
catch (error) { console.log(JSON.stringify(`${error.name}: ${error.message}`)) }
"""


def mathml(source):
    """Its elements without attributes, in short, or why there is none."""
    done = subprocess.run(
        [need("node", "network"), "--input-type=module", "--eval", SOURCE.read_text() + CALL],
        input=json.dumps(source), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return re.sub(r"</?(mi|mn|mo|math)>", "", json.loads(done.stdout))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (r"\frac12 + \frac{a}{b}", "<mrow><mfrac>12</mfrac>+<mfrac>ab</mfrac></mrow>"),
        ("x_1^{n+1}", "<msubsup>x1<mrow>n+1</mrow></msubsup>"),
        ("f''", "<msup>f<mrow>′′</mrow></msup>"),
        (r"\displaystyle \int\limits_{0}^{\infty} x\, dx", "<mrow><msubsup>∫0∞</msubsup>x<mspace></mspace>dx</mrow>"),
        (r"\sum_{i} \lim_{h \to 0}", "<mrow><munder>∑i</munder><munder>lim<mrow>h→0</mrow></munder></mrow>"),
        (r"\sqrt[3]{y} \alpha \leq \mathbb{R}", "<mrow><mroot>y3</mroot>α≤ℝ</mrow>"),
        (r"\left[\begin{matrix}1 & 2\\3 & 4\end{matrix}\right]",
         "<mrow>[<mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr><mtr><mtd>3</mtd><mtd>4</mtd></mtr></mtable>]</mrow>"),
        (r"\begin{align} a &= b \\[2pt] \end{align}", "<mtable><mtr><mtd>a</mtd><mtd><mrow>=b</mrow></mtd></mtr></mtable>"),
        (r"\begin{cases} x & \text{if } x > 0 \end{cases}",
         "<mrow>{<mtable><mtr><mtd>x</mtd><mtd><mrow><mtext>if\u00a0</mtext>x>0</mrow></mtd></mtr></mtable></mrow>"),
        (r"\hat{y} \binom{n}{k} \not=", "<mrow><mover>y^</mover><mrow>(<mfrac>nk</mfrac>)</mrow>≠</mrow>"),
        (r"50\% % a remark", "<mrow>50%</mrow>"),
    ],
)  # fmt: skip
def test_a_formula_has_its_elements(source, shown):
    assert mathml(source) == shown


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (r"\unheard{x}", r"\unheard is not known"),
        (r"\constructor", r"\constructor is not known"),
        ("x^", "an argument is missing"),
        ("x^1^2", "two ^"),
        ("{x", "the formula ends too early"),
        ("x}", "} closes nothing"),
        (r"\begin{matrix} 1 \end{array}", "the end of matrix is missing"),
        (r"\begin{toString} 1 \end{toString}", "the environment toString is not known"),
        ("{" * 5000, "the formula is too deep"),
        (r"\sqrt" * 1900, "the formula is too deep"),
        ("x" * 10_001, "the formula is too long"),
    ],
    ids=range(11),
)
def test_what_is_no_formula_is_told_from_one(source, why):
    assert mathml(source) == f"SyntaxError: {why}"
