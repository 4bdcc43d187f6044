"""Prometheus metrics: counters kept here, and gauges read from the service at each scrape."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, Protocol, cast

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from riata.base.errors import RiataError
from riata.base.log_lines import FIELDS
from riata.predict.name_book import NameBook
from riata.predict.posterior import PosteriorModel
from riata.run.health import Health, Sharing
from riata.run.outcome import Observed
from riata.run.service import Service
from riata.run.writer.published import Published
from riata.watch.progressive import RECENT
from riata.watch.warnings import CODES, refused_warning
from riata.web.api.refused_rows import RecentFamilies, RefusedRows, recent_figures

log = logging.getLogger("riata.access")
PROMETHEUS_TEXT: Final = b"text/plain; version=0.0.4; charset=utf-8"

Gauges = dict[str, GaugeMetricFamily]

MODEL_GAUGES: Final = {
    "log_seq": "Last event in the durable log.",
    "applied_seq": "Last event the served model includes.",
    "lag_events": "Events in the log that the served model does not include yet.",
    "learning_step_seconds": "For how long the learner has been busy with one step of the model; 0 between two steps.",
    "learning_wait_seconds": "For how long events of the model have waited to be learnt, the step under way included.",
    "non_zeros": "Non-zero weights of the served model.",
    "snapshot_age_seconds": "Seconds since the served model was published.",
    "staleness_seconds": "Seconds since the served model was last known to be the newest.",
    "skipped_events": "Events that were not learnt: refused by the learner, or excluded by a skip event.",
    "lost_events": "Acknowledged events that the store has lost, accepted or not; kept across restarts.",
    "effective_sample_size": "Effective number of draws from the posterior; only of models whose learner keeps a posterior.",
    "rejuvenations": "How often these draws were moved.",
    "tempered_events": "Events that were learnt in parts, because few draws would have been left.",
    "progressive_log_loss": "Test-then-train log loss over all events.",
    "base_log_loss": "The same for a predictor that knows only the base rate.",
    "faded_loss": "Test-then-train loss, exponentially faded: log loss, squared error or hinge loss.",
    "faded_base_loss": "The same for a predictor that knows only the base rate.",
    "window_loss": "Test-then-train loss over the last events, those of the window.",
    "calibration_error": "Expected calibration error of the window, in 20 cells of equal width.",
    "faded_normalised_entropy": "Faded log loss over that of the base rate.",
    "faded_calibration_ratio": "Mean predicted probability over mean observed label, faded.",
    "faded_label_rate": "Share of positive labels, faded.",
}

# By gauge, where its figure is among those of the progressive validation.
FIGURE_GAUGES: Final = {
    "progressive_log_loss": ("cumulative", "log_loss"),
    "base_log_loss": ("cumulative", "base_log_loss"),
    "faded_loss": ("faded", "loss"),
    "faded_base_loss": ("faded", "base_loss"),
    "window_loss": ("window", "loss"),
    "calibration_error": ("window", "calibration_error"),
    "faded_normalised_entropy": ("faded", "normalised_entropy"),
    "faded_calibration_ratio": ("faded", "calibration_ratio"),
    "faded_label_rate": ("faded", "base_rate"),
}

# By figure of a slice: name and text of its gauge.
SLICE_GAUGES: Final = {
    "loss": ("loss", "Test-then-train loss"),
    "normalised_entropy": ("normalised_entropy", "Log loss over that of the slice's own base rate"),
    "calibration_ratio": ("calibration_ratio", "Mean predicted probability over mean observed label"),
    "base_rate": ("label_rate", "Share of positive labels"),
}

SHARING_COUNTS: Final = {
    "elections": "How often this process acquired the lease.",
    "fenced": "How often this process found that another one owned the store.",
    "log_forks": "Logs found not to continue what was learnt: forked, truncated or rolled back.",
    "recovery_retries": "Recoveries restarted because the store did not answer.",
    "editions_published": "Models published for followers.",
    "editions_followed": "Published models loaded by this follower.",
    "editions_corrupt": "Published models, or copies of them, that failed verification and were not loaded.",
    "rollbacks_seen": "How often a log was found to end before an event known to be in it.",
    "stores_exchanged": "How often the store was found to be emptied or replaced by another one.",
}

Sees = Callable[[str], bool]

# From a prediction of one row (below 1 ms) to an import of hundreds of MB.
DURATION_BUCKETS_S: Final = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_LIMITS: Final = (*map(floatToGoString, DURATION_BUCKETS_S), "+Inf")


class Meters:
    """Counters and histograms of one application. There is no global registry."""

    def __init__(self, service: Service, unix_ms: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._unix_ms = unix_ms
        self._tally = RequestCounters()
        self.registry.register(self._tally)
        self._rows = RowTally()
        self.registry.register(self._rows)
        self.refused = RefusedRows()
        self.registry.register(self.refused)
        self.registry.register(ServiceCollector(service, self.figures))
        ProcessCollector(registry=self.registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request, and log it at level DEBUG. `route` is a path template, so the number of series is bounded."""
        if log.isEnabledFor(logging.DEBUG):
            ms = round(seconds * 1000, 3)
            fields = {"method": method, "route": route, "status": status, "ms": ms}
            log.debug("method=%s route=%s status=%d ms=%.3f", method, route, status, ms, extra={FIELDS: fields})
        self._tally.add(method, route, status, seconds)

    def rows(self, model: str, observed: Observed) -> None:
        """Count the outcomes of the rows of one request. `model` exists, so the number of series is bounded."""
        if observed.accepted:
            self._rows.add(model, "accepted", observed.accepted)
        if observed.duplicate:
            self._rows.add(model, "duplicate", observed.duplicate)
        if observed.rejected:
            self._rows.add(model, "rejected", observed.rejected)
            self.refused.note(model, observed.errors, self._unix_ms(), self._rows.count(model, "accepted"))

    def figures(self, published: Published) -> dict[str, Any]:
        """Return the figures of a model as they are now."""
        model, now_ms = published.model.origin.name, self._unix_ms()
        refused = self.refused.recent(model, now_ms, self._rows.count(model, "accepted"))
        warnings = [*self._mostly_refused(model), *published.figures.get("warnings", [])]
        return {**recent_figures(published, now_ms, refused), "warnings": warnings}

    def warnings(self, published: Published, names: NameBook) -> list[dict[str, Any]]:
        """Return the warnings about a model, and whether this process refuses more rows of it than it accepts."""
        return [*self._mostly_refused(published.model.origin.name), *published.warnings(names)]

    def _mostly_refused(self, model: str) -> list[dict[str, Any]]:
        accepted = self._rows.count(model, "accepted")
        refused, _ = self.refused.recent(model, self._unix_ms(), accepted)
        found = refused_warning(refused, min(accepted, RECENT))
        return [] if found is None else [found]

    def text(self, sees: Sees = lambda _model: True, sees_key: Sees = lambda _key: True) -> bytes:
        """Return all metrics in the text format of Prometheus, without samples of models and keys that the caller may not see."""
        return generate_latest(cast(CollectorRegistry, Seen(self.registry, {"model": sees, "key": sees_key})))


@dataclass(frozen=True, slots=True)
class Seen:
    """A view of a registry that drops the samples of what is hidden. sees : by label, whether a value of it is seen"""

    registry: CollectorRegistry
    sees: Mapping[str, Sees]

    def collect(self) -> Iterator[Metric]:
        """Yield every metric. The collectors create new ones for each call, so they may be changed here."""
        for metric in self.registry.collect():
            for label, sees in self.sees.items():
                metric.samples = [one for one in metric.samples if label not in one.labels or sees(one.labels[label])]
            yield metric


class ServiceCollector(Collector):
    """Collects the gauges of the service at each scrape."""

    def __init__(self, service: Service, figures: Callable[[Published], Mapping[str, Any]]) -> None:
        self.service, self.figures = service, figures

    def describe(self) -> list[Metric]:
        """Return nothing: the names are fixed, and at registration it is too early to query the service."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield one family for each gauge."""
        health = self.service.health()
        for name, value, text in (
            ("alive", health.alive, "0 if only a restart can help, otherwise 1."),
            ("ready", health.ready, "1 while events and predictions are accepted."),
            ("started", health.started, "1 once every model has been looked at."),
        ):
            yield GaugeMetricFamily(f"riata_{name}", text, value=float(value))
        gauges = {name: GaugeMetricFamily(f"riata_{name}", text, labels=("model",)) for name, text in MODEL_GAUGES.items()}
        drift, slices, recent = DriftFamilies(), SliceFamilies(), RecentFamilies()
        warning = GaugeMetricFamily("riata_model_warning", "1 while the model has the warning.", labels=("model", "code"))
        for model, at in health.models.items():
            gauges["log_seq"].add_metric((model,), at.seq_logged)
            gauges["applied_seq"].add_metric((model,), at.seq_applied)
            gauges["lag_events"].add_metric((model,), at.seq_logged - at.seq_applied)
            gauges["learning_step_seconds"].add_metric((model,), at.busy_s)
            gauges["learning_wait_seconds"].add_metric((model,), at.waiting_s)
            gauges["non_zeros"].add_metric((model,), at.non_zeros)
            gauges["snapshot_age_seconds"].add_metric((model,), at.age_s)
            gauges["staleness_seconds"].add_metric((model,), at.stale_s)
            self._add_figures(model, gauges, warning, (drift, slices, recent))
        for model in health.models.keys() | health.lost.keys():
            gauges["lost_events"].add_metric((model,), health.lost.get(model, 0))
        left = "Events that were logged before the start and are not learnt yet."
        behind = GaugeMetricFamily("riata_replay_left_events", left, labels=("model",))
        for model in sorted(health.models.keys() | health.replaying.keys()):
            applied, of = health.replaying.get(model, (0, 0))
            behind.add_metric((model,), of - applied)
        yield behind
        yield from memory_metrics(health.memory)
        yield from gauges.values()
        yield warning
        yield from (drift.alarms, drift.statistic, slices.examples, *slices.gauges.values(), *recent.gauges.values())
        yield from damage_metrics(health)
        yield from checkpoint_metrics(health.checkpoints)
        yield from sharing_metrics(health.sharing)

    def _add_figures(self, model: str, gauges: Gauges, warning: GaugeMetricFamily, optional: Sequence[OptionalFamilies]) -> None:
        try:
            published = self.service.served(model)
        except RiataError:
            return  # just dropped, or nothing is served yet
        gauges["skipped_events"].add_metric((model,), published.skipped)
        if isinstance(published.model, PosteriorModel):
            draws = published.model.posterior.figures.tolist()
            for gauge, value in zip(("effective_sample_size", "rejuvenations", "tempered_events"), draws, strict=True):
                gauges[gauge].add_metric((model,), value)
        for gauge, (horizon, figure) in FIGURE_GAUGES.items():
            value = published.figures[horizon].get(figure)
            if value is not None:
                gauges[gauge].add_metric((model,), value)
        figures = self.figures(published)
        for families in optional:
            families.add(model, figures)
        codes = {one["code"] for one in figures["warnings"]}
        for code in CODES:
            warning.add_metric((model, code), float(code in codes))


class OptionalFamilies(Protocol):
    """Metrics of models that have some setting."""

    def add(self, model: str, figures: Mapping[str, Any]) -> None:
        """Add those of a model with these published figures, if it has them."""


class DriftFamilies:
    """The metrics of drift detectors, of models that have one."""

    def __init__(self) -> None:
        labels = ("model", "signal")
        self.alarms = CounterMetricFamily("riata_drift_alarms", "Alarms of the drift detector, by signal.", labels=labels)
        text = "How far a signal has departed from its reference: 1 raises an alarm."
        self.statistic = GaugeMetricFamily("riata_drift_statistic", text, labels=labels)

    def add(self, model: str, figures: Mapping[str, Any]) -> None:
        """Add a model's figures, if it has a detector."""
        if (drift := figures.get("drift")) is None:
            return
        for signal, at in drift["signals"].items():
            self.alarms.add_metric((model, signal), at["alarms"])
            self.statistic.add_metric((model, signal), at["statistic"] / drift["bound"])


class SliceFamilies:
    """The metrics of slices, of models with the setting `slices`."""

    def __init__(self) -> None:
        labels = ("model", "field", "value")
        self.examples = CounterMetricFamily(
            "riata_slice_examples", "Labelled events with this value of the field.", labels=labels
        )
        self.gauges = {
            figure: GaugeMetricFamily(f"riata_slice_faded_{name}", f"{text}, of faded events of the slice.", labels=labels)
            for figure, (name, text) in SLICE_GAUGES.items()
        }

    def add(self, model: str, figures: Mapping[str, Any]) -> None:
        """Add a model's figures, if it has slices."""
        for one in figures.get("slices", []):
            labels = (model, one["field"], one["value"])
            self.examples.add_metric(labels, one["examples"])
            for figure, family in self.gauges.items():
                if one["faded"][figure] is not None:
                    family.add_metric(labels, one["faded"][figure])


def memory_metrics(memory: tuple[int, int]) -> Iterator[Metric]:
    """Yield the memory of all models and its bound."""
    yield GaugeMetricFamily("riata_models_memory_bytes", "Memory of all models.", value=memory[0])
    text = "Setting memory_bytes_max: from there on events and new models are refused; 0 for no bound."
    yield GaugeMetricFamily("riata_models_memory_bytes_max", text, value=memory[1])


def sharing_metrics(sharing: Sharing) -> Iterator[Metric]:
    """Yield the role, the lease and the counts of this process among those that share its store."""
    role = GaugeMetricFamily("riata_role", "1 for the role of this process.", labels=("role",))
    role.add_metric((sharing.role,), 1.0)
    yield role
    yield GaugeMetricFamily("riata_lease_held", "1 if this process owns the store and learns.", value=float(sharing.leads))
    text = "0 if events are refused for every model, otherwise 1; riata_store_refuses has the reason."
    yield GaugeMetricFamily("riata_accepting", text, value=float(sharing.accepting is None))
    yield from refusal_metrics(sharing)
    if sharing.role == "all" and not sharing.counts:
        return  # the only process on its store
    yield GaugeMetricFamily("riata_epoch", "Epoch of this process's lease; 0 if it has none.", value=sharing.epoch)
    if sharing.renewed_s is not None:
        yield GaugeMetricFamily(
            "riata_lease_renewed_seconds", "Seconds since the lease was last renewed.", value=sharing.renewed_s
        )
    if sharing.recovery_s is not None:
        text = "Estimated seconds until another process would have taken over if this one died now."
        yield GaugeMetricFamily("riata_recovery_estimate_seconds", text, value=sharing.recovery_s)
    for name, text in SHARING_COUNTS.items():
        if name in sharing.counts:
            yield CounterMetricFamily(f"riata_{name}", text, value=sharing.counts[name])


def refusal_metrics(sharing: Sharing) -> Iterator[Metric]:
    """Yield the current reason for refusing events, and how often the store began to refuse them."""
    refusals = CounterMetricFamily("riata_store_refusals", "How often the store began to refuse events.", labels=("code",))
    for code, count in sharing.refusals.items():
        refusals.add_metric((code,), count)
    yield refusals
    now = GaugeMetricFamily("riata_store_refuses", "1 while events are refused, by the code of the refusal.", labels=("code",))
    if sharing.accepting is not None:
        now.add_metric((sharing.accepting[0],), 1.0)
    yield now


def damage_metrics(health: Health) -> Iterator[Metric]:
    """Yield which models are damaged, and how many bytes of the log were compared with their digests."""
    text = "1 if a model is neither served nor learnt because its stored data is damaged."
    damaged = GaugeMetricFamily("riata_model_damaged", text, labels=("model",))
    text = "1 if the log has a damaged record that the model no longer needs."
    in_log = GaugeMetricFamily("riata_log_damaged", text, labels=("model",))
    for model in health.models:
        damaged.add_metric((model,), 0.0)
        in_log.add_metric((model,), float(model in health.log_damaged))
    for model in health.damaged:
        damaged.add_metric((model,), 1.0)
    yield damaged
    yield in_log
    text = "Payload bytes of the log that were read again and compared with their digests."
    yield CounterMetricFamily("riata_log_scrubbed_bytes", text, value=health.log_scrubbed_bytes)


def checkpoint_metrics(checkpoints: dict[str, int]) -> Iterator[Metric]:
    """Yield the checkpoint metrics, summed over all models."""
    outcomes = CounterMetricFamily("riata_checkpoints", "Snapshots since the start, by outcome.", labels=("outcome",))
    for outcome in ("ok", "failed", "corrupt"):
        outcomes.add_metric((outcome,), checkpoints.get(outcome, 0))
    yield outcomes
    duration = checkpoints.get("last_ms", 0) / 1000
    yield GaugeMetricFamily("riata_checkpoint_duration_seconds", "Seconds that the last snapshot took.", value=duration)


# Lock-free counters of requests, request durations and rows, at a fifth of the cost of `prometheus_client`'s own.
#
# Those take a lock for every update, so that any thread may count. Here only the event loop counts. A scrape in another thread
# may
# miss the request that is being counted.


@dataclass(slots=True)
class _Count:
    """A count, and the time of its creation."""

    number: int = 0
    since: float = field(default_factory=time.time)


@dataclass(slots=True)
class _Durations:
    """A histogram of durations, seconds: `within` has one count for each bucket limit, of durations above the limit before."""

    within: list[int] = field(default_factory=lambda: [0] * len(_LIMITS))
    seconds: float = 0.0
    since: float = field(default_factory=time.time)


class RequestCounters(Collector):
    """Counts requests; collected by Prometheus."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], _Count] = {}
        self._durations: dict[str, _Durations] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. Belongs to the event loop's thread."""
        key = (method, route, status)
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = _Count()
        count.number += 1
        durations = self._durations.get(route)
        if durations is None:
            durations = self._durations[route] = _Durations()
        durations.within[bisect_left(DURATION_BUCKETS_S, seconds)] += 1
        durations.seconds += seconds

    def describe(self) -> list[Metric]:
        """Return the names."""
        return [*self._families()]

    def collect(self) -> Iterator[Metric]:
        """Yield the counts and the durations."""
        requests, took = self._families()
        for (method, route, status), count in list(self._counts.items()):
            requests.add_metric((method, route, str(status)), count.number, created=count.since)
        for route, durations in list(self._durations.items()):
            reached = [*accumulate(durations.within)]
            took.add_metric((route,), [*zip(_LIMITS, reached, strict=True)], durations.seconds)
            took.add_sample(f"{took.name}_created", {"route": route}, durations.since)
        yield requests
        yield took

    def _families(self) -> tuple[CounterMetricFamily, HistogramMetricFamily]:
        requests = CounterMetricFamily("riata_requests", "Requests answered.", labels=("method", "route", "code"))
        text = "Seconds from the head of the request to the end of the answer."
        return requests, HistogramMetricFamily("riata_request_duration_seconds", text, labels=("route",))


class RowTally(Collector):
    """Counts rows by model and outcome; collected by Prometheus."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], _Count] = {}

    def add(self, model: str, outcome: str, number: int) -> None:
        """Count rows of one request. Belongs to the event loop's thread."""
        count = self._counts.get((model, outcome))
        if count is None:
            count = self._counts[model, outcome] = _Count()
        count.number += number

    def count(self, model: str, outcome: str) -> int:
        """Return the number of rows so far."""
        found = self._counts.get((model, outcome))
        return 0 if found is None else int(found.number)

    def describe(self) -> list[Metric]:
        """Return the name."""
        return [self._family()]

    def collect(self) -> Iterator[Metric]:
        """Yield the counts."""
        rows = self._family()
        for labels, count in list(self._counts.items()):
            rows.add_metric(labels, count.number, created=count.since)
        yield rows

    def _family(self) -> CounterMetricFamily:
        return CounterMetricFamily("riata_rows", "Rows sent to observe.", labels=("model", "outcome"))
