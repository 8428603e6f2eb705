"""The report of a training run: scores, sizes and times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class TrainingReport:
    """The results of a training run.

    Scores are in per cent, by EVALB's rules on dev, or summed over the folds.

    Attributes:
        model: the model folder.
        sentences, dev_sentences: sizes of the training and development parts.
        base_f1, cvg_f1, oracle_f1: scores of the PCFG alone, of the trained parser, and of the best
            candidate of each list.
        beta: the selected weight of log P.
        epochs, best_epoch: how many epochs were trained, and which one was selected.
        diverged: the epoch in which training diverged, or None; the history ends before it.
        glued, dev_glued: for how many sentences the trees join partial trees, because the grammar
            does not span them or because they were divided; `dev_glued` is summed over the folds.
        divided, dev_divided: how many of these exceeded the budget of `rnnparse.Search`.
        seconds: wall time by stage.
        history: one entry per epoch of the network in the model.
    """

    model: str
    sentences: int
    dev_sentences: int
    base_f1: float = 0.0
    cvg_f1: float = 0.0
    oracle_f1: float = 0.0
    beta: float = 0.0
    epochs: int = 0
    best_epoch: int = 0
    diverged: int | None = None
    glued: int = 0
    dev_glued: int = 0
    divided: int = 0
    dev_divided: int = 0
    seconds: dict[str, float] = field(default_factory=dict, repr=False)
    history: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return dict(vars(self))

    def format_table(self) -> str:
        """The closing table of `rnnparse train`."""
        rows = [
            ("base PCFG F1", f"{self.base_f1:.2f}"),
            ("CVG F1", f"{self.cvg_f1:.2f}"),
            ("oracle F1 of the k-best lists", f"{self.oracle_f1:.2f}"),
            ("weight of log P (beta)", f"{self.beta:g}"),
            ("epochs (best)", f"{self.epochs} ({self.best_epoch})"),
            *([] if self.diverged is None else [("diverged in epoch", str(self.diverged))]),
            ("sentences, train / dev", f"{self.sentences} / {self.dev_sentences}"),
            ("glued lists, train / dev", f"{self.glued} / {self.dev_glued}"),
            ("divided sentences, train / dev", f"{self.divided} / {self.dev_divided}"),
            *((f"seconds, {stage}", f"{s:.1f}") for stage, s in self.seconds.items()),
            ("seconds in all", f"{sum(self.seconds.values()):.1f}"),
            ("model", self.model),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
