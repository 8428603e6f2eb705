"""Why does my own Keras model not converge? A study of learning rates and optimizers.

    python docs/examples/study_keras.py

The model and its training loop are your own. `Study` runs them for each setting in separate
processes, keeps every curve in the folder `moons`, and resumes there when you start it again.
docs/studies.md explains the names of axes and series, and the diagnoses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rnnparse import Study
from rnnparse.study import Space
from rnnparse.study.diagnosis import diagnose_all

FOLDER = "moons"
SPACE = Space(
    {"optimizer": ["sgd", "adam"], "learning_rate": [1e-4, 1e-2, 1.0, 1e4], "epochs": [15]},
    seeds=(0, 1),
)


def moons(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on two interleaved half circles, and the half circle that each belongs to."""
    angle, label = np.pi * rng.random(count), rng.integers(0, 2, count)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle))
    y = np.where(label, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y], axis=1) + 0.1 * rng.standard_normal((count, 2))
    return points.astype(np.float32), label.astype(np.float32)


def fit(config: dict[str, Any], seed: int) -> Iterator[dict[str, float]]:
    """Train a small network and yield its curve, update by update and epoch by epoch."""
    import keras  # here, so that only workers load it

    keras.utils.set_random_seed(seed)
    x, y = moons(np.random.default_rng(0), 400)
    new_x, new_y = moons(np.random.default_rng(1), 400)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)]
    )
    optimizer = keras.optimizers.get(config["optimizer"])
    optimizer.learning_rate = config["learning_rate"]
    model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True))
    order = np.random.default_rng(seed)
    for epoch in range(1, config["epochs"] + 1):
        for batch in np.array_split(order.permutation(len(x)), 10):
            before = weights(model)
            loss = model.train_on_batch(x[batch], y[batch])
            model.reset_metrics()  # or it would be the mean since the start of the epoch
            moved = np.linalg.norm(weights(model) - before) / np.linalg.norm(before)
            yield {"objective": loss, "update_ratio": moved}
        right = (model.predict_on_batch(new_x)[:, 0] > 0) == new_y
        yield {"epoch": epoch, "accuracy": float(np.mean(right))}


def weights(model: Any) -> np.ndarray:
    """All weights of a model in one vector."""
    return np.concatenate([array.ravel() for array in model.get_weights()])


def main() -> None:
    """Run the study, or resume it; print the diagnosis of each trial and the advice."""
    study = Study(SPACE, fit, FOLDER, metric="accuracy", maximize=True)
    records = study.run()
    pairs = sorted(
        zip(records, diagnose_all(records), strict=True),
        key=lambda pair: (*map(str, pair[0]["config"].values()), pair[0]["seed"]),
    )
    print(f"{'optimizer':<10}{'rate':>8}{'seed':>6}{'loss':>9}{'accuracy':>10}  diagnosis")
    for record, found in pairs:
        config, loss, accuracy = record["config"], float("nan"), float("nan")
        if record["status"] == "finished":
            loss, accuracy = found.evidence["end"], record["epochs"][-1]["accuracy"]
        print(
            f"{config['optimizer']:<10}{config['learning_rate']:>8g}{record['seed']:>6}"
            f"{loss:>9.3g}{accuracy:>10.3f}  {found.label}"
        )
    print()
    for record, found in pairs:
        if record["seed"] == 0:
            config = record["config"]
            print(f"{config['optimizer']}, {config['learning_rate']:g}: {found.advice}")
    print(f"\nrnnparse study show {FOLDER}      all this and the best configuration, as text")
    print(f"rnnparse study report {FOLDER}    curves and a map of the configurations")


if __name__ == "__main__":
    main()
