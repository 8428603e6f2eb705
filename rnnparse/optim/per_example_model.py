"""Keras models that are trained with per-example gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rnnparse._keras_compat import (
    Functional,
    LossFunctionWrapper,
    all_layers,
    compile_settings,
    global_seed_generator,
    keras_mask,
    takes_training,
    tensorflow_variable,
)
from rnnparse._tensorflow import keras, tf
from rnnparse.errors import ConfigError
from rnnparse.optim.batch_independence import check_examples, refuse_mixing_layers
from rnnparse.optim.freezing import refresh_training, trained_by
from rnnparse.optim.gradient_transforms import (
    GradientTransform,
    batch_weights,
    clip_each,
    cut_chain,
    drop_nonfinite,
    example_norms,
    normalize_each,
    scale_each,
    sign,
    weight_each,
)
from rnnparse.optim.per_example_gradients import (
    ExampleGradients,
    add,
    divide,
    example_gradients,
    sum_over_parts,
)
from rnnparse.optim.sparse_rows import gather_rows

__all__ = [
    "ExampleGradients",
    "GradientTransform",
    "PerExampleModel",
    "clip_each",
    "drop_nonfinite",
    "example_gradients",
    "example_norms",
    "gather_rows",
    "normalize_each",
    "per_example",
    "scale_each",
    "sign",
    "weight_each",
]

CHUNK = 8
"""Number of examples that are differentiated at once; see benchmarks/bench_per_example.py."""

_apart: ContextVar[bool] = ContextVar("apart", default=False)


@contextmanager
def _examples_apart() -> Iterator[None]:
    """A context in which losses are not reduced over the batch and exclude regularization."""
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


class _EachLoss(keras.losses.Loss):
    """A Keras loss that returns one value per example within `_examples_apart`.

    The value is the loss of a batch that has only this example: entries of further axes are
    averaged (or summed, for a loss with the reduction "sum"), without masked ones.
    """

    def __init__(self, loss: Any) -> None:
        loss = keras.losses.get(loss)
        name = getattr(loss, "name", getattr(loss, "__name__", None))
        if not isinstance(loss, keras.losses.Loss):
            loss = LossFunctionWrapper(loss)
        super().__init__(name, loss.reduction, loss.dtype)
        self._whole = loss
        # A shallow copy; `copy.copy` would go through the loss's config.
        self._single = object.__new__(type(loss))
        vars(self._single).update(vars(loss), reduction=None)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        if not _apart.get():
            return self._whole(y_true, y_pred, sample_weight)
        if self.reduction == "mean_with_sample_weight" and sample_weight is not None:
            raise ConfigError(
                f"the loss {self.name!r} divides by the weights of the whole batch "
                "(mean_with_sample_weight); use the reduction 'sum_over_batch_size'"
            )
        values = self._single(y_true, y_pred)
        if values.shape.rank == 0:
            raise ConfigError(
                f"the loss {self.name!r} returns one value for the whole batch; per-example "
                "gradients need one per example, [B] or [B, …]"
            )
        if sample_weight is not None:
            values *= _of_rank(tf.cast(sample_weight, values.dtype), values.shape.rank)
        mask = keras_mask(y_pred)
        if values.shape.rank == 1:
            return values
        axes = list(range(1, values.shape.rank))
        if self.reduction == "sum":
            return tf.reduce_sum(values, axes)
        means = tf.reduce_mean(values, axes)
        if mask is None:
            return means
        kept = tf.cast(tf.reshape(mask, [tf.shape(mask)[0], -1]), means.dtype)
        return tf.math.divide_no_nan(means, tf.reduce_mean(kept, axis=1))


@keras.saving.register_keras_serializable("rnnparse")
class PerExampleModel(keras.Model):
    """A Keras model that is trained with transformed per-example gradients.

    Subclass it, or make it from inputs and outputs, like `keras.Model`; `per_example` wraps any
    other model. In each step the gradient gᵢ of each example's loss passes through a chain of
    transforms, and the optimizer gets 1/B Σ chain(gᵢ). The gradient of regularization terms (of
    weights, and from `add_loss`) is added afterwards. Sample and class weights multiply the losses.
    With an empty chain a step equals Keras's own, except that masked losses are first averaged
    within each example.

    Each example is differentiated separately, as in a loop over the examples, so NaN or infinity in
    one does not affect the others.

    A dense weight needs `chunk` times its memory; a table of an `Embedding` layer (or one read by
    `gather_rows`) needs `chunk` times the rows that an example reads. For a batch of 32, a step
    takes 2 to 7 times as long as an ordinary one, depending on the model. XLA is not used.

    Reference:
        Abadi et al. (2016), Deep Learning with Differential Privacy, algorithm 1, without noise.

    Example:
        >>> model = PerExampleModel(inputs, outputs)
        >>> model.compile("adam", "mse", per_example=[clip_each(1.0)])
        >>> model.fit(x, y, batch_size=128)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        leaves = keras.tree.flatten((args, kwargs))
        if any(isinstance(x, keras.KerasTensor) for x in leaves):
            # Otherwise Keras would change the bases of this class for good, and subclasses with
            # their own `call` would no longer work.
            self.__class__ = _functional(type(self))
        super().__init__(*args, **kwargs)

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        *,
        per_example: Sequence[GradientTransform] = (),
        chunk: int | None = CHUNK,
        reduction: str = "mean",
        **kwargs: Any,
    ) -> None:
        """Configure training.

        Args:
            optimizer: as for any Keras model.
            loss: any Keras loss or function, or a structure of them. Without one, override
                `compute_loss` so that it returns [B] in training.
            per_example: transforms; see `rnnparse.optim.gradient_transforms`.
            chunk: number of examples to differentiate at once; None for the whole batch.
            reduction: `mean` or `sum` over the transformed gradients of the batch.
            kwargs: further arguments of `keras.Model.compile`. Here `jit_compile="auto"`, Keras's
                default, means False.

        Raises:
            ConfigError: an option is out of range, a layer mixes examples, or there are several
                replicas.
        """
        if chunk is not None and chunk < 1:
            raise ConfigError(f"chunk must be a number of examples or None, not {chunk}")
        if reduction not in ("mean", "sum"):
            raise ConfigError(f"unknown reduction {reduction!r}; known are mean, sum")
        if kwargs.get("jit_compile") not in (None, False, "auto"):
            raise ConfigError("per-example gradients do not run under XLA: omit jit_compile")
        if self.distribute_strategy.num_replicas_in_sync > 1:
            raise ConfigError("per-example gradients do not run on several replicas")
        refuse_mixing_layers(self)
        self._chain, self._chunk, self._reduction = tuple(per_example), chunk, reduction
        each = loss
        if loss is not None:
            each = keras.tree.map_structure(lambda x: None if x is None else _EachLoss(x), loss)
        super().compile(optimizer, each, **{**kwargs, "jit_compile": False})
        self._traced_for: Any = None
        saved = {"loss": loss, "per_example": list(per_example), "chunk": chunk}
        compile_settings(self).update(saved, reduction=reduction)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile from a saved configuration; `load_model` then restores the optimizer's state.

        Register your own functions with `keras.saving.register_keras_serializable`, or pass them as
        `custom_objects` to `load_model`.

        Raises:
            ConfigError: a function or an object is not registered.
        """
        try:
            known = keras.saving.deserialize_keras_object(config)
        except (TypeError, ValueError) as error:
            reason = str(error).rpartition("Exception encountered: ")[2].partition(".")[0]
            raise ConfigError(
                f"{self.name} cannot be compiled as it was saved: {reason}; name the function in "
                "load_model(…, custom_objects={…}), or load without chain and optimizer by "
                "load_model(…, compile=False)"
            ) from error
        self.compile(**known)
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def __reduce__(self) -> tuple[Any, ...]:
        """As for any Keras model, but not by the class of functional models, which has no name."""
        return PerExampleModel._unpickle_model, super().__reduce__()[1]

    def make_train_function(self, force: bool = False) -> Any:
        """As for any Keras model, but traced again if other variables are trained than before."""
        # Variables that are made in a graph have it traced twice: those of the generator from which
        # layers without a seed draw, and of the optimizer.
        global_seed_generator()
        if not self.optimizer.built and all(layer.built for layer in all_layers(self)):
            self.optimizer.build(self.trainable_variables)
        wanted = [id(v) for v in self.trainable_variables], id(self.optimizer), self.run_eagerly
        known, self._traced_for = self._traced_for, wanted
        if known not in (None, wanted) and not force:
            refresh_training(self)
            self._traced_for = (wanted[0], id(self.optimizer), wanted[2])
            return self.train_function
        return super().make_train_function(force)

    @property
    def losses(self) -> list[Any]:
        """As for any Keras model, but empty while per-example losses are computed."""
        return [] if _apart.get() else super().losses

    def check_examples(self, x: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Check on some examples that the loss of each depends only on it; call `compile` first.

        Layers known to mix examples are refused in any case; this check also finds others, such as
        your own. It tolerates dropout. It takes a few forward passes and does not change the model.

        Args:
            x, y, sample_weight: at least two different examples, as for `fit`.

        Raises:
            ConfigError: the loss of an example depends on other examples.
        """
        check_examples(lambda batch: self._forward(*batch)[0], (x, y, sample_weight), self)

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step on a batch; see the class."""
        # Now, because the loop cannot create variables of layers, metrics and optimizer.
        self._symbolic_build(data_batch=data)
        refuse_mixing_layers(self)
        batch = x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        # As in Keras, for the side effects of a forward pass: metrics, states of layers.
        losses, y_pred = self._forward(*batch)
        self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        penalty, others = self._regularization(x)
        gradients = self._over_chunks(batch, losses)
        if self._reduction == "mean":
            gradients = divide(gradients, tf.size(losses))
        gradients = [add(a, b) for a, b in zip(gradients, others, strict=True)]
        self.optimizer.apply(gradients, self.trainable_variables)
        loss = tf.reduce_mean(losses) + penalty
        self._loss_tracker.update_state(loss, sample_weight=tf.size(losses))
        return self.get_metrics_result()

    def _forward(self, x: Any, y: Any, sample_weight: Any) -> tuple[tf.Tensor, Any]:
        """The losses [B] of some examples, as in training, and the model's outputs."""
        with _examples_apart():
            y_pred = self(x, **_training(self, True))
            losses = self.compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
            )
        return losses, y_pred

    def _over_chunks(self, batch: Any, losses: tf.Tensor) -> list[Any]:
        """The sum of the transformed per-example gradients, chunk by chunk."""
        size, variables = tf.size(losses), self.trainable_variables
        weights = batch_weights(self._chain, losses)
        chunk = size if self._chunk is None else self._chunk

        def scaled(*example: Any) -> tf.Tensor:
            return self.optimizer.scale_loss(self._forward(*example)[0])

        def part(start: tf.Tensor) -> list[Any]:
            stop = start + chunk
            cut = keras.tree.map_structure(lambda t: None if t is None else t[start:stop], batch)
            gradients = example_gradients(scaled, cut, variables, self)
            chain = cut_chain(self._chain, weights, start, stop)
            return gradients.through(chain, self.optimizer).sum()

        # One graph for the first chunk and the others.
        part = part if self.run_eagerly else tf.function(part, autograph=False)
        return sum_over_parts(part, size, chunk)

    def _regularizers(self) -> list[Any]:
        return [v for v in self.trainable_variables if v.regularizer is not None]

    def _regularization(self, x: Any) -> tuple[tf.Tensor | float, list[Any]]:
        """The terms that Keras adds to the loss of a batch, and their gradient."""
        regularized, variables = self._regularizers(), self.trainable_variables
        adds_losses = len(super().losses) > len(regularized)
        if not adds_losses and not regularized:
            return 0.0, [None] * len(variables)
        with tf.GradientTape() as tape:
            if adds_losses:  # these need not be means over the examples of the batch
                self(x, **_training(self, True))
                terms = self.losses
            else:
                terms = [v.regularizer(v) for v in regularized]
            penalty = tf.add_n([tf.reduce_sum(term) for term in terms])
            scaled = self.optimizer.scale_loss(penalty)
        return penalty, tape.gradient(scaled, [tensorflow_variable(v) for v in variables])


def per_example(model: keras.Model) -> PerExampleModel:
    """Wrap a model of any class, to train it with per-example gradients.

    Args:
        model: any Keras model. The result shares its layers and weights.

    Example:
        >>> trainer = per_example(keras.Sequential([keras.layers.Dense(1)]))
        >>> trainer.compile("sgd", "mse", per_example=[sign()])
    """
    return _Trainer(model)


@keras.saving.register_keras_serializable("rnnparse")
class _Trainer(PerExampleModel):
    def __init__(self, model: keras.Model) -> None:
        super().__init__(name=model.name)
        self.model = model
        trained_by(model, self)
        if hasattr(model, "output_names"):
            self.output_names = model.output_names
        self.built = model.built

    @property
    def metrics(self) -> list[Any]:
        # Include those of the inner model's layers, which Keras omits.
        return [*super().metrics, *keras.layers.Layer.metrics.fget(self.model)]

    def get_config(self) -> dict[str, Any]:
        return {"model": keras.saving.serialize_keras_object(self.model)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> _Trainer:
        return cls(keras.saving.deserialize_keras_object(config["model"], custom_objects))

    def export(self, *args: Any, **kwargs: Any) -> Any:
        return self.model.export(*args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return self.model(inputs, **_training(self.model, training))


def _training(model: Any, value: bool | None) -> dict[str, bool | None]:
    """The argument `training`, for models that take it."""
    return {"training": value} if takes_training(model) else {}


def _of_rank(weights: tf.Tensor, rank: int) -> tf.Tensor:
    """Weights [B, …] with trailing axes of length 1 added or removed, so that they broadcast."""
    while weights.shape.rank > rank:
        weights = tf.squeeze(weights, axis=-1)
    return tf.reshape(weights, tf.concat([tf.shape(weights), [1] * (rank - weights.shape.rank)], 0))


_FUNCTIONAL: dict[type, type] = {}


def _functional(cls: type) -> type:
    """The subclass of `cls` for models made from inputs and outputs."""
    if issubclass(cls, Functional):
        return cls
    if cls not in _FUNCTIONAL:
        body = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
        made = type(cls.__name__, (cls, Functional), body)
        package, _, name = keras.saving.get_registered_name(cls).rpartition(">")
        if package:  # saved models name the class and are loaded as functional models
            keras.saving.register_keras_serializable(package, name)(made)
        _FUNCTIONAL[cls] = made
    return _FUNCTIONAL[cls]
