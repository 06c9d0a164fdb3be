"""Formulas become MathML while the site is built: browsers show it without a script, a font or a network."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

LOG = logging.getLogger(__name__)


NAMES = "exp|log|ln|max|min|cos|sin|cosh|sinh|tanh|coth|sup|det|Pr|clip|asinh|sign|ceil|round|argmin"
BEFORE_SIGN = r"\[|&#x0005B;|&#x00028;|&#x0002C;|&#x0003D;|&#x0003B;|&#x02264;|&#x02265;"  # [ ( , = ; <= >=
FINER = {  # what the package writes, and what browsers space as TeX would
    r"\\_": "_",
    r"<mo>&#x0007C;</mo>": '<mo stretchy="false" lspace="0" rspace="0">|</mo>',
    r"<mo>&#x02016;</mo>": '<mo stretchy="false" lspace="0" rspace="0">&#x02016;</mo>',
    r"<mo>&#x0002F;</mo>": '<mo lspace="0.06em" rspace="0.06em">/</mo>',
    rf"((?:{BEFORE_SIGN})</mo>)<mo>(&#x02212;|&#x0002B;)</mo>": r'\1<mo form="prefix" lspace="0" rspace="0">\2</mo>',
    rf"<m([io])>({NAMES})</m\1>": r"<mi>\2</mi>",
    rf"(</mi>|</mn>|</msup>|</msub>|</msqrt>)(<mi>(?:{NAMES})</mi>)": r'\1<mspace width="0.17em"/>\2',
}


def mathml(formula: str, display: str, node: nodes.Element) -> str:
    """A formula as MathML; one that cannot be read is shown as it was written, with a warning."""
    try:
        text = str(convert(formula, display=display))
        for pattern, better in FINER.items():
            text = re.sub(pattern, better, text)
        return text
    except Exception as wrong:  # the package has dozens of kinds
        LOG.warning("formula %r: %s", formula, type(wrong).__name__, location=node)
        return f"<code>{escape(formula)}</code>"


def inline(writer: Any, node: nodes.math) -> None:
    """A formula within a sentence."""
    writer.body.append(mathml(node.astext(), "inline", node))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """A formula in a line of its own, which scrolls by itself where a screen is narrower."""
    lines = re.sub(r"\\(begin|end)\{gathered\}", "", node.astext()).split("\\\\\n")
    shown = "".join(mathml(line, "block", node) for line in lines)
    writer.body.append(f'<div class="formula">{shown}</div>')
    raise nodes.SkipNode


def glue(app: Any, tree: nodes.document, name: str) -> None:
    """Keep the comma or point behind a formula in the same line."""
    for node in list(tree.findall(nodes.math)):
        after = node.next_node(siblings=True, descend=False)
        if isinstance(after, nodes.Text) and (mark := re.match(r"[.,;:)]+|-\w+", after)):
            whole = nodes.inline("", "", node.deepcopy(), nodes.Text(mark[0]), classes=["glued"])
            after.parent.replace(after, nodes.Text(after[mark.end() :]))
            node.parent.replace(node, whole)


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer `mathml` (html_math_renderer)."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    app.connect("doctree-resolved", glue)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
