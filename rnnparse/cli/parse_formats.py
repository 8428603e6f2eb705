"""What `rnnparse parse` prints for each sentence, by format."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rnnparse.json_text import to_json

if TYPE_CHECKING:
    from rnnparse.pages.tree_pages import Section
    from rnnparse.parse_results import Constituent, ParseResult, ScoredTree

_EMPTY = "(())"
_TOO_DEEP = "the tree has too many levels for a drawing"


@dataclass(frozen=True)
class Answer:
    """The result for one line of input."""

    number: int
    result: ParseResult


def _penn(answer: Answer, several: bool) -> str:
    from rnnparse.trees.brackets import format_tree

    trees = [format_tree(scored.tree) for scored in answer.result.trees] or [_EMPTY]
    return "\n".join([*trees, ""] if several else trees) + "\n"


def _json(answer: Answer, several: bool) -> str:
    result = answer.result
    shown: dict[str, Any] = {
        "sentence": answer.number,
        "tokens": list(result.tokens),
        "offsets": list(result.offsets or ()),
        "glued": result.glued,
        "divided": result.divided,
        "trees": [tree_values(scored) for scored in result.trees],
    }
    if result.error is not None:
        shown["error"] = result.error
    return to_json(shown) + "\n"


def tree_values(scored: ScoredTree) -> dict[str, Any]:
    """A tree, its scores and its constituents for JSON."""
    from rnnparse.trees.brackets import format_tree

    return {
        "tree": format_tree(scored.tree),
        "score": scored.score,
        "log_probability": scored.log_probability,
        "rnn_score": scored.rnn_score,
        **({"span_score": scored.span_score} if scored.span_score else {}),
        "constituents": [_constituent_values(node) for node in scored.constituents],
    }


def _constituent_values(node: Constituent) -> dict[str, Any]:
    values = asdict(node)
    if node.posterior is None:
        del values["posterior"]
    return values


def _pretty(answer: Answer, several: bool) -> str:
    from rnnparse.trees.draw import pretty

    if not answer.result.trees:
        return _EMPTY + "\n\n"
    width = shutil.get_terminal_size().columns
    drawings = []
    if answer.result.divided:
        drawings.append(f"{answer.number}: exceeded the budget and was parsed in parts")
    for rank, scored in enumerate(answer.result.trees, start=1):
        if several:
            drawings.append(f"{answer.number}, tree {rank}: score {scored.score:.3f}")
        drawings.append(pretty(scored.tree, width) + "\n")
    return "\n".join(drawings) + "\n"


def _conll(answer: Answer, several: bool) -> str:
    from rnnparse.trees.conll import conll_lines

    trees = [conll_lines(scored.tree) for scored in answer.result.trees] or [""]
    return "".join(f"{lines}\n" for lines in trees)


def _svg(answer: Answer, several: bool) -> str:
    from rnnparse.trees.drawing import draw_tree, note_drawing, stacked

    drawings = []
    for scored in answer.result.trees:
        try:
            drawings.append(draw_tree(scored.tree))
        except ValueError:
            drawings.append(note_drawing(_TOO_DEEP))
    drawing = stacked(drawings or [note_drawing(answer.result.error or _EMPTY)])
    return " ".join(drawing.svg.split("\n")) + "\n"


def _section(answer: Answer, several: bool) -> Section:
    from rnnparse.pages.rendering import inline_tree
    from rnnparse.pages.tree_pages import Figure, Section

    result = answer.result
    notes = [result.error] if result.error else []
    if result.divided:
        notes.append("The sentence exceeded the budget and was parsed in parts.")
    elif result.glued:
        notes.append("The grammar cannot span the sentence: the root joins partial trees.")
    figures = [
        Figure(
            inline_tree(scored.tree),
            f"tree {rank}: score {scored.score:.3f}" if several else "",
        )
        for rank, scored in enumerate(result.trees, start=1)
    ]
    return Section(f"Sentence {answer.number}", " ".join(result.tokens), notes, figures)


def _page(answers: Iterator[Answer], several: bool) -> Iterator[str]:
    from rnnparse.pages.tree_pages import tree_page

    return tree_page("Trees", (_section(answer, several) for answer in answers))


def _each(show: Callable[[Answer, bool], str]) -> Callable[[Iterator[Answer], bool], Iterator[str]]:
    """A format in which every answer stands alone."""
    return lambda answers, several: (show(answer, several) for answer in answers)


FORMATS: dict[str, Callable[[Iterator[Answer], bool], Iterator[str]]] = {
    "penn": _each(_penn),
    "json": _each(_json),
    "pretty": _each(_pretty),
    "conll": _each(_conll),
    "svg": _each(_svg),
    "html": _page,
}
"""The text for a sequence of answers; the flag says whether they are n-best lists."""
