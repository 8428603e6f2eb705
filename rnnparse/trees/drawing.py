"""Trees as SVG and PNG. The packages svgling and CairoSVG come with the extra `draw`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from rnnparse.errors import MissingExtraError
from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.node import is_tree

if TYPE_CHECKING:
    from nltk.tree import Tree

EXTRA = "draw"
DEEPEST = 200  # levels; svgling recurses
MARK = "#b5420a"
_NO_LABEL = "()"
_GAP = 16  # pixels between drawings
_LARGEST = 32_000  # pixels; Cairo's surfaces are little larger
_MOST = 80_000_000  # pixels of a PNG; some programs refuse larger ones
_SHARPNESS = 2  # pixels of a PNG for each of the SVG
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Drawing(NamedTuple):
    """An SVG element and its size in pixels."""

    svg: str
    width: float
    height: float


def draw_tree(
    tree: Tree, marked: Collection[int] = (), *, background: str | None = "white"
) -> Drawing:
    """A drawing of a tree with unescaped words.

    Args:
        tree: the tree.
        marked: numbers of nodes in pre-order, words included, to draw in another colour.
        background: its colour; None to leave it to the page.

    Raises:
        MissingExtraError: svgling is not installed.
        ValueError: the tree has more than `DEEPEST` levels.
    """
    core = _svgling()
    options = core.TreeOptions(font_style=core.SANS, distance_to_daughter=1.4)
    layout = core.TreeLayout(_nested(tree, marked, core), options=options)
    picture = layout.svg_build_tree()
    if background is not None:
        backdrop = picture.rect(insert=(0, 0), size=("100%", "100%"), fill=background)
        picture.elements.insert(1, backdrop)  # after the definitions
    words = quoteattr(_shown(" ".join(_words(tree)) or "no words"))
    # The widths of letters are estimates; labels that are wider shall not be cut off.
    svg = picture.tostring().replace("<svg ", '<svg overflow="visible" ')
    svg = svg.replace("<svg ", f'<svg class="tree" role="img" aria-label={words} ', 1)
    return Drawing(svg, layout.width(), layout.height())


def stacked(drawings: Sequence[Drawing]) -> Drawing:
    """Several drawings, one below the other."""
    parts, y = [], 0.0
    for drawing in drawings:
        parts.append(f'<g transform="translate(0,{y:g})">{drawing.svg}</g>')
        y += drawing.height + _GAP
    width, height = max(drawing.width for drawing in drawings), y - _GAP
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'
    return Drawing(svg, width, height)


def note_drawing(text: str) -> Drawing:
    """A line of text where a tree would be."""
    width = 8 * (_columns(text) + 2)
    size = f'width="{width:g}" height="24"'
    line = (
        f'<text x="8" y="17" font-family="sans-serif" font-size="14">{escape(_shown(text))}</text>'
    )
    return Drawing(f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{line}</svg>', width, 24)


def to_png(drawing: Drawing) -> bytes:
    """A drawing as PNG.

    Raises:
        MissingExtraError: CairoSVG or the system's library Cairo is not installed.
        ValueError: the drawing is too large.
    """
    try:
        import cairosvg
    except ImportError:
        raise MissingExtraError("CairoSVG", EXTRA) from None
    except OSError:  # from its binding
        raise MissingExtraError("CairoSVG with the system library libcairo2", EXTRA) from None
    fit = sqrt(_MOST / (drawing.width * drawing.height))
    scale = min(_SHARPNESS, _LARGEST / drawing.width, _LARGEST / drawing.height, fit)
    if scale < 0.5:
        raise ValueError("the drawing is too large for a PNG; use SVG or HTML")
    png: bytes = cairosvg.svg2png(drawing.svg.encode("utf-8"), scale=scale)
    return png


def shown_svg(tree: Tree) -> str | None:
    """A drawing for a notebook; None if svgling is not installed, or the tree is too deep."""
    try:
        return draw_tree(tree).svg
    except (MissingExtraError, ValueError):
        return None


def _depth(tree: Tree) -> int:
    """The number of levels of a tree, words included."""
    deepest, pending = 1, [(tree, 1)]
    while pending:
        node, level = pending.pop()
        deepest = max(deepest, level)
        if is_tree(node):
            pending.extend((child, level + 1) for child in node)
    return deepest


def _svgling() -> Any:
    try:
        import svgling.core
    except ImportError:
        raise MissingExtraError("svgling", EXTRA) from None
    return svgling.core


def _nested(tree: Tree, marked: Collection[int], core: Any) -> tuple[Any, ...]:
    """The tree as svgling takes it: a tuple of a label and children for each node and word."""
    levels = _depth(tree)
    if levels > DEEPEST:
        raise ValueError(f"the tree has {levels} levels; a drawing shows at most {DEEPEST}")
    count = 0

    def convert(node: Any) -> tuple[Any, ...]:
        nonlocal count
        text = (node.label() or _NO_LABEL) if is_tree(node) else unescape_token(node)
        label = _label(_shown(text), count in marked, core)
        count += 1
        return (label, *(map(convert, node) if is_tree(node) else ()))

    return convert(tree)


def _label(text: str, is_marked: bool, core: Any) -> Any:
    """A label for svgling. Its own labels would be too narrow for wide characters."""
    import svgwrite

    @core.node_builder
    def build(options: Any = None) -> Any:
        style = {"fill": MARK, "font_weight": "bold"} if is_marked else {}
        holder = svgwrite.container.SVG(x=0, y=0, width="100%")
        place = ("50%", core.em(1, options))
        holder.add(svgwrite.text.Text(text, insert=place, text_anchor="middle", **style))
        width = (_columns(text) + options.leaf_padding) / options.average_glyph_width
        return core.NodePos(holder, x=50, y=0, width=width, height=1, options=options, text=text)

    return build()


def _columns(text: str) -> float:
    """The width of a text in average letters."""
    columns = 0.0
    for character in text:
        if unicodedata.east_asian_width(character) in "WF" or character in "mwMW%@—…":
            columns += 1.9
        elif not unicodedata.combining(character):
            columns += 1.4 if character.isupper() else 1.1
    return columns


def _shown(text: str) -> str:
    """A text with U+FFFD for characters that XML excludes."""
    return _NOT_IN_XML.sub("\ufffd", text)


def _words(tree: Tree) -> list[str]:
    words, pending = [], [tree]
    while pending:
        node = pending.pop()
        if is_tree(node):
            pending.extend(reversed(node))
        else:
            words.append(unescape_token(str(node)))
    return words
