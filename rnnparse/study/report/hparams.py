"""A study for TensorBoard: its curves, and its settings in the HParams dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from rnnparse.errors import MissingExtraError, StudyError
from rnnparse.folders import foreign_file, replacement
from rnnparse.study.diagnosis.statistics import bin_edges, downsample
from rnnparse.study.records import canonical
from rnnparse.study.report.results import Axis, Results, Source, load_results, text, title

HPARAMS = "hparams"
_MOST_POINTS = 1000
_EVENTS = "events.out.tfevents.0.study"
_DIAGNOSIS = "diagnosis"


def write_hparams(study: Source) -> Path:
    """Write a study's trials as runs for TensorBoard: `tensorboard --logdir FOLDER/hparams`.

    Each trial is a run with the curves `update/…` and `epoch/…`, and what it ended with as
    `final/…`; curves of more than a thousand values are drawn together. Among its hyperparameters
    are the seed and the diagnosis, so that the dashboard can filter by them. What was there before
    is replaced.

    Args:
        study: its folder, or its results.

    Returns:
        The folder of the runs.

    Raises:
        MissingExtraError: TensorBoard is not installed.
        StudyError: there is no study, it is damaged, or the folder holds a file that is not ours.
    """
    _require_tensorboard()
    results = load_results(study)
    target = results.folder / HPARAMS
    foreign = foreign_file(target, _is_ours) if target.is_dir() else None
    if foreign is not None:
        raise StudyError(
            f"{target}: cannot be replaced: {foreign.relative_to(target)} is not part of it; move "
            "it to another place"
        )
    began = datetime.fromisoformat(results.about["created"]).timestamp()
    with replacement(target, _is_ours) as new:
        _write_events(new, began, [(0, _experiment(results))])
        for trial, record in enumerate(results.records):
            _write_events(new / record["id"], began, _run(results, trial, began))
    return target


def _is_ours(name: str) -> bool:
    """Whether a file in the folder is one that `write_hparams` writes there."""
    return name.rpartition("/")[2] == _EVENTS


def _require_tensorboard() -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise MissingExtraError("tensorboard", "tensorboard") from None


def _write_events(folder: Path, time: float, summaries: Any) -> None:
    """Write (step, summary) pairs as a file of events; TensorFlow is not needed for that."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(parents=True, exist_ok=True)
    file: IO[bytes]
    with open(folder / _EVENTS, "wb") as file:
        writer = RecordWriter(file)
        first = Event(wall_time=time, file_version="brain.Event:2")
        writer.write(first.SerializeToString())
        for step, summary in summaries:
            event = Event(wall_time=time, step=step, summary=summary)
            writer.write(event.SerializeToString())


def _experiment(results: Results) -> Any:
    """Which hyperparameters and metrics the dashboard shows."""
    from tensorboard.plugins.hparams import summary_v2 as hp

    axes = [axis for axis in results.axes if axis.values]  # none before a trial has ended
    parts = [hp.HParam(axis.name, hp.Discrete(_domain(axis))) for axis in axes]
    parts.append(
        hp.HParam("seed", hp.Discrete(sorted({r["seed"] for r in results.records}) or [0]))
    )
    labels = sorted({found.label for found in results.diagnoses}) or [""]
    parts.append(hp.HParam(_DIAGNOSIS, hp.Discrete(labels)))
    metrics = [
        hp.Metric(f"final/{metric.name}", display_name=title(metric.name))
        for metric in results.metrics
    ]
    return hp.hparams_config_pb(parts, metrics, time_created_secs=0)


def _domain(axis: Axis) -> list[Any]:
    """Values of one type, as the dashboard wants them."""
    if axis.numeric:
        return [float(value) for value in axis.values]
    return list(dict.fromkeys(_text(value) for value in axis.values))


def _text(value: Any) -> str:
    return text(value) if isinstance(value, str) else canonical(value)


def _run(results: Results, trial: int, began: float) -> Iterator[tuple[int, Any]]:
    """The summaries of a trial."""
    from tensorboard.plugins.hparams import summary_v2 as hp

    record = results.records[trial]
    values = {
        axis.name: float(value) if axis.numeric else _text(value)
        for axis in results.axes
        for value in (record["config"].get(axis.name),)
    }
    values |= {"seed": record["seed"], _DIAGNOSIS: results.diagnoses[trial].label}
    yield 0, hp.hparams_pb(values, trial_id=record["id"], start_time_secs=began)
    yield from _curves("update", record["updates"])
    for place, epoch in enumerate(record["epochs"], 1):
        found = {name: value for name, value in epoch.items() if name != "epoch"}
        number = epoch["epoch"]  # of half epochs, say, the dashboard wants the place
        yield number if isinstance(number, int) else place, _scalars("epoch", found)
    final = {metric.name: results.value(trial, metric.name) for metric in results.metrics}
    yield 0, _scalars("final", final)
    yield 0, _end(record["status"] == "finished", began + record["seconds"])


def _curves(kind: str, series: Mapping[str, Sequence[float | None]]) -> Iterator[tuple[int, Any]]:
    length = max(map(len, series.values()), default=0)
    edges = bin_edges(length, _MOST_POINTS)
    drawn = {name: downsample(values, edges) for name, values in series.items()}
    means = {
        name: found["mean"] if isinstance(found, dict) else found for name, found in drawn.items()
    }
    for i, edge in enumerate(edges[1:]):
        found = {name: values[i] for name, values in means.items() if i < len(values)}
        yield edge, _scalars(kind, found)


def _scalars(kind: str, values: Mapping[str, Any]) -> Any:
    """A summary of the values that are numbers."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(
        value=[
            Summary.Value(tag=f"{kind}/{name}", simple_value=value)
            for name, value in values.items()
            if isinstance(value, (int, float))
        ]
    )


def _end(finished: bool, time: float) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    status = api_pb2.STATUS_SUCCESS if finished else api_pb2.STATUS_FAILURE
    ended = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time)
    about = metadata.create_summary_metadata(
        plugin_data_pb2.HParamsPluginData(session_end_info=ended)
    )
    tag = metadata.SESSION_END_INFO_TAG
    return Summary(value=[Summary.Value(tag=tag, metadata=about, tensor=metadata.NULL_TENSOR)])
