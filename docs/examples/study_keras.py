"""Why does my own Keras model not converge? A study of learning rates and optimisers.

    python docs/examples/study_keras.py

The model and its training are the user's; `Study` runs them for each setting in processes of their
own, keeps every curve in the folder `moons`, and goes on there when it is started again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rnnparse import Study
from rnnparse.study.space import Space

SPACE = Space(
    {"optimizer": ["sgd", "adam"], "rate": [1e-4, 1e-2, 1.0, 1e4], "epochs": [8]},
    seeds=(0, 1),
)


def moons(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on two half circles that lie in each other, and which of the two each is on."""
    angle, label = np.pi * rng.random(count), rng.integers(0, 2, count)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle))
    y = np.where(label, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y], axis=1) + 0.1 * rng.standard_normal((count, 2))
    return points.astype(np.float32), label.astype(np.float32)


def fit(config: dict[str, Any], seed: int) -> Iterator[dict[str, float]]:
    """Train a small network; an entry of its curve for each update and each epoch."""
    import keras  # here, so that only workers load it

    keras.utils.set_random_seed(seed)
    x, y = moons(np.random.default_rng(0), 400)
    new_x, new_y = moons(np.random.default_rng(1), 400)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)]
    )
    model.compile(
        keras.optimizers.get(
            {
                "class_name": config["optimizer"],
                "config": {"learning_rate": config["rate"]},
            }
        ),
        keras.losses.BinaryCrossentropy(from_logits=True),
    )
    order = np.random.default_rng(seed)
    for epoch in range(1, config["epochs"] + 1):
        for batch in np.array_split(order.permutation(len(x)), 10):
            yield {"objective": model.train_on_batch(x[batch], y[batch])}
            model.reset_metrics()  # or it would be the mean since the start of the epoch
        right = (model.predict_on_batch(new_x)[:, 0] > 0) == new_y
        yield {"epoch": epoch, "accuracy": float(np.mean(right))}


def main() -> None:
    """Run the study, or what is left of it, and print a table."""
    study = Study(SPACE, fit, "moons", measure="accuracy", maximize=True)
    records = study.run()
    print(f"{'optimizer':<10}{'rate':>8}{'seed':>6}  {'status':<12}{'loss':>9}{'accuracy':>10}")
    for record in sorted(records, key=lambda r: (*map(str, r["config"].values()), r["seed"])):
        config, losses = record["config"], record["updates"]["objective"]
        accuracy = record["epochs"][-1]["accuracy"] if record["epochs"] else float("nan")
        last = float("nan") if losses[-1] is None else losses[-1]
        print(
            f"{config['optimizer']:<10}{config['rate']:>8g}{record['seed']:>6}"
            f"  {record['status']:<12}{last:>9.3g}{accuracy:>10.3f}"
        )


if __name__ == "__main__":
    main()
