"""A study for TensorBoard: its curves, and its configurations in the HParams dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rnnparse.errors import MissingExtraError, StudyError
from rnnparse.folders import foreign_file, replacement
from rnnparse.study.diagnosis.statistics import bin_edges, downsample
from rnnparse.study.report.formatting import value_text
from rnnparse.study.report.results import Results, Source, load_results
from rnnparse.study.report.settings import Axis

HPARAMS = "hparams"
_MOST_POINTS = 1000
_EVENTS = "events.out.tfevents.0.study"
_DIAGNOSIS = "diagnosis"

Step = tuple[int, Any]
"""A step and a summary of TensorBoard."""


def write_hparams(study: Source) -> Path:
    """Write a study's trials as runs for TensorBoard: `tensorboard --logdir FOLDER/hparams`.

    Each trial is a run with the curves `update/…` and `epoch/…`, and its metrics as `final/…`.
    Curves of more than a thousand values are binned. The seed and the diagnosis are among the
    hyperparameters, so that the dashboard can filter by them. An earlier folder is replaced.

    Args:
        study: its folder, or its results.

    Returns:
        The folder of the runs.

    Raises:
        MissingExtraError: TensorBoard is not installed.
        StudyError: there is no study, it is damaged, or the folder holds other files.
    """
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise MissingExtraError("tensorboard", "tensorboard") from None
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
    """Whether `write_hparams` writes a file of that name in the folder."""
    return name.rpartition("/")[2] == _EVENTS


def _write_events(folder: Path, time: float, steps: Sequence[Step] | Iterator[Step]) -> None:
    """Write summaries as a file of events, without TensorFlow."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / _EVENTS, "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=time, file_version="brain.Event:2").SerializeToString())
        for step, summary in steps:
            writer.write(Event(wall_time=time, step=step, summary=summary).SerializeToString())


def _experiment(results: Results) -> Any:
    """Which hyperparameters and metrics the dashboard shows."""
    from tensorboard.plugins.hparams import summary_v2 as hp

    axes = [axis for axis in results.axes if axis.values]  # none before a trial has ended
    domains = {axis.name: dict.fromkeys(_value(axis, x) for x in axis.values) for axis in axes}
    domains["seed"] = dict.fromkeys(sorted({r["seed"] for r in results.records}) or [0])
    domains[_DIAGNOSIS] = dict.fromkeys(sorted({d.label for d in results.diagnoses}) or [""])
    hparams = [hp.HParam(name, hp.Discrete([*values])) for name, values in domains.items()]
    metrics = [hp.Metric(f"final/{m.name}", display_name=m.title) for m in results.metrics]
    return hp.hparams_config_pb(hparams, metrics, time_created_secs=0)


def _value(axis: Axis, value: Any) -> Any:
    """A value of the one type that the dashboard expects of an axis."""
    return float(value) if axis.numeric else value_text(value)


def _run(results: Results, trial: int, began: float) -> Iterator[Step]:
    """The summaries of a trial."""
    from tensorboard.plugins.hparams import summary_v2 as hp

    record = results.records[trial]
    values = {axis.name: _value(axis, record["config"].get(axis.name)) for axis in results.axes}
    values |= {"seed": record["seed"], _DIAGNOSIS: results.diagnoses[trial].label}
    yield 0, hp.hparams_pb(values, trial_id=record["id"], start_time_secs=began)
    yield from _curves("update", record["updates"])
    for place, epoch in enumerate(record["epochs"], 1):
        scalars = {name: value for name, value in epoch.items() if name != "epoch"}
        number = epoch["epoch"]  # for half epochs, say, the dashboard needs the place
        yield number if isinstance(number, int) else place, _scalars("epoch", scalars)
    final = {metric.name: results.value(trial, metric.name) for metric in results.metrics}
    yield 0, _scalars("final", final)
    yield 0, _end(record["status"] == "finished", began + record["seconds"])


def _curves(kind: str, series: Mapping[str, Sequence[float | None]]) -> Iterator[Step]:
    length = max(map(len, series.values()), default=0)
    edges = bin_edges(length, _MOST_POINTS)
    drawn = {name: downsample(values, edges) for name, values in series.items()}
    means = {name: x["mean"] if isinstance(x, dict) else x for name, x in drawn.items()}
    for i, edge in enumerate(edges[1:]):
        values = {name: curve[i] for name, curve in means.items() if i < len(curve)}
        yield edge, _scalars(kind, values)


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
