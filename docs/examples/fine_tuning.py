"""Fine-tune a Keras model on few examples: freeze its lower layers, then unfreeze them from above.

    python docs/examples/fine_tuning.py

Two tasks look at the same hidden features of their input, which a fixed random network computes.
The first task has ten classes and many examples, the second four classes and few. A model that
has learned the first is fine-tuned on the second in three ways; each takes as many steps as the
others, and all are measured on the same new examples.

Reference:
    Howard and Ruder (2018), Universal Language Model Fine-tuning for Text Classification, section
    3.3: gradual unfreezing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from rnnparse.optim import freeze, unfreeze, variable_slots

INPUTS, FEATURES = 30, 8
FIRST_CLASSES, SECOND_CLASSES = 10, 4
MANY, FEW, NEW = 20_000, 60, 5_000
HIDDEN = ["lower", "middle", "upper"]
PASSES, DRAWS = 15, 3


class World:
    """Inputs, and the hidden features that both tasks are about."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.lower = rng.standard_normal((INPUTS, 24)) * 1.5 / np.sqrt(INPUTS)
        self.upper = rng.standard_normal((24, FEATURES)) * 1.5 / np.sqrt(24)
        self.classes = {
            count: rng.standard_normal((FEATURES, count))
            for count in (FIRST_CLASSES, SECOND_CLASSES)
        }

    def draw(self, examples: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs [examples, INPUTS] and their classes."""
        x = self.rng.standard_normal((examples, INPUTS))
        features = np.tanh(np.tanh(x @ self.lower) @ self.upper)
        return x.astype(np.float32), np.argmax(features @ self.classes[classes], axis=1)


def new_model(classes: int, seed: int) -> Any:
    """Three hidden layers and a head."""
    keras.utils.set_random_seed(seed)
    hidden = [keras.layers.Dense(64, activation="relu", name=name) for name in HIDDEN]
    model = keras.Sequential(
        [keras.Input((INPUTS,)), *hidden, keras.layers.Dense(classes, name="head")]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def fine_tuned_copy(learned: Any, seed: int) -> Any:
    """The hidden layers of a model, and a head for the second task."""
    model = new_model(SECOND_CLASSES, seed)
    for name in HIDDEN:
        model.get_layer(name).set_weights(learned.get_layer(name).get_weights())
    return model


def accuracy(model: Any, data: tuple[np.ndarray, np.ndarray]) -> float:
    """Part of the examples whose class is found."""
    x, y = data
    return float(np.mean(np.argmax(model(x), axis=1) == y))


def train(model: Any, data: tuple[np.ndarray, np.ndarray], passes: int) -> None:
    """So many passes over few examples, as one epoch."""
    x, y = data
    model.fit(np.tile(x, (passes, 1)), np.tile(y, passes), batch_size=20, verbose=0)


def everything(model: Any, data: tuple[np.ndarray, np.ndarray]) -> None:
    """All layers at once."""
    train(model, data, 3 * PASSES)


def head_alone(model: Any, data: tuple[np.ndarray, np.ndarray]) -> None:
    """Nothing below the head."""
    freeze(model, HIDDEN)
    train(model, data, 3 * PASSES)


def from_above(model: Any, data: tuple[np.ndarray, np.ndarray]) -> None:
    """First the head alone, then one layer more a stage; the lowest stays as it was learned.

    `freeze` and `unfreeze` rebuild the optimiser, so that layers already in training keep Adam's
    moments.
    """
    freeze(model, HIDDEN)
    train(model, data, PASSES)
    for name in ("upper", "middle"):
        unfreeze(model, [name])
        train(model, data, PASSES)


def state(model: Any) -> dict[str, list[bytes]]:
    """What the optimiser keeps, by the paths of the variables that it trains."""
    return {
        variable.path.split("/", 1)[1]: [
            slot.numpy().tobytes() for slot in variable_slots(model.optimizer, variable).values()
        ]
        for variable in model.trainable_variables
    }


def show_what_is_kept(model: Any, data: tuple[np.ndarray, np.ndarray]) -> None:
    """Weights under freezing, and Adam's moments when a layer comes in."""
    frozen = freeze(model, HIDDEN)
    before = {variable.path: variable.numpy().tobytes() for variable in model.weights}
    train(model, data, PASSES)
    same = [v.path for v in model.weights if before[v.path] == v.numpy().tobytes()]
    assert same == frozen
    print("frozen:", ", ".join(path.split("/", 1)[1] for path in frozen))
    print("These alone are the same to the byte after training.")
    held, steps = state(model), int(model.optimizer.iterations)
    unfreeze(model, ["upper"])
    now = state(model)
    print(f"unfrozen: upper, after {steps} steps; {int(model.optimizer.iterations)} stay counted")
    print("moments kept: ", ", ".join(path for path in now if now[path] == held.get(path)))
    print("moments fresh:", ", ".join(path for path in now if path not in held))


def main() -> None:
    """Learn the first task, fine-tune on the second, print accuracies."""
    world = World(np.random.default_rng(0))
    learned = new_model(FIRST_CLASSES, seed=0)
    x, y = world.draw(MANY, FIRST_CLASSES)
    learned.fit(x, y, batch_size=100, epochs=3, verbose=0)
    print(f"first task: accuracy {accuracy(learned, world.draw(NEW, FIRST_CLASSES)):.2f}")
    show_what_is_kept(fine_tuned_copy(learned, seed=0), world.draw(FEW, SECOND_CLASSES))
    new = world.draw(NEW, SECOND_CLASSES)
    few = [world.draw(FEW, SECOND_CLASSES) for _ in range(DRAWS)]
    print(f"second task, {FEW} examples: accuracy over {DRAWS} draws of them, and its mean")
    ways: dict[str, Callable[[int], Any]] = {
        "from scratch": lambda seed: new_model(SECOND_CLASSES, seed),
        "fine-tuned, all layers": lambda seed: fine_tuned_copy(learned, seed),
        "fine-tuned, head alone": lambda seed: fine_tuned_copy(learned, seed),
        "fine-tuned, from above": lambda seed: fine_tuned_copy(learned, seed),
    }
    trainers = (everything, everything, head_alone, from_above)
    for (name, make), fine_tune in zip(ways.items(), trainers, strict=True):
        found = []
        for seed, data in enumerate(few):
            model = make(seed)
            fine_tune(model, data)
            found.append(accuracy(model, new))
        print(f"  {name:<24}" + "".join(f"{x:6.2f}" for x in [*found, np.mean(found)]))


if __name__ == "__main__":
    main()
