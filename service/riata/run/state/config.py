"""The configuration document of a model: the content of the first event of its log, and which settings can change later."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, MaxLen

from riata.base.document import Exclusion, read_document, refuse, write_document
from riata.base.errors import BadInput, Conflict, Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import LABEL_ABS_MAX, NAME_BYTES_MAX
from riata.base.request_trace import ACTOR
from riata.learn.kinds import KINDS
from riata.learn.registry import SPECS, LearnerConfig, default_learner, spec_of
from riata.run.state.decision import Decision, LabelWeight, answers_probability, is_logistic, margin_shift
from riata.store import records
from riata.watch.drift import DriftConfig, check_keep
from riata.watch.slices import FIELDS_MAX, VALUES_MAX
from riata.watch.weight_history import FOLLOWED_MAX, POINTS_MAX
from riata.wire.classes import ClassesConfig
from riata.wire.encoder import FIRST_RULE, Curves, CurveTree, EncoderConfig
from riata.wire.fields import NO_FIELDS

Labels = Literal["0/1", "-1/+1", "real", "classes"]
DefaultLabel = Annotated[float, Ge(-LABEL_ABS_MAX), Le(LABEL_ABS_MAX)] | None
_CLASSES: Final[Mapping[Labels, tuple[float, float]]] = {"0/1": (0.0, 1.0), "-1/+1": (-1.0, 1.0)}

AFTER: Final = "after"  # keys beside the settings in the payload of a config event
FORGET: Final = "forget"
ALARM: Final = "alarm"
NAMES: Final = "names"
FOLLOW: Final = "follow"
CHALLENGERS: Final = "challengers"
FOLLOWED_NAME_MAX: Final = 3 * (2 * NAME_BYTES_MAX + 4)  # of a cross of three fields
# Settings that came later, and where they have no effect.
_LATER: Final = {
    "decision": Decision(),
    "negatives_kept": 1.0,
    "label_weight": LabelWeight(),
    "drift": DriftConfig(),
    "slices": (),
    "weights_followed": (),
    "unknown_rows": "predict",
}


def _has_two_classes(config: ModelConfig) -> bool:
    return config.labels in _CLASSES


def _has_probability(config: ModelConfig) -> bool:
    return answers_probability(config.learner) and _has_two_classes(config)


def _has_log_odds(config: ModelConfig) -> bool:
    return is_logistic(config.learner) and _has_two_classes(config)


def _undone_scale(config: ModelConfig) -> str:
    return config.learner.undoes_scale()


def _learners_of_numbers() -> str:
    """Name the learners that take any number as a label, each with the settings that this needs."""
    return " or ".join(
        f"the learner {kind} with " + " and ".join(f"{name} {json.dumps(value)}" for name, value in spec.real_labels.items())
        for kind, spec in SPECS.items()
        if spec.real_labels
    )


def _strange_default(config: ModelConfig) -> str:
    one, other = _CLASSES[config.labels]
    return f'default_label: the model\'s labels are "{config.labels}": expected {one:g}, {other:g} or null'


EXCLUSIONS: Final[Sequence[Exclusion[ModelConfig]]] = (
    Exclusion(
        "`classes`",
        '`labels` other than "classes"',
        lambda config: config.classes != ClassesConfig() and not config.has_classes,
        'classes: needs labels "classes"',
    ),
    Exclusion(
        '`labels` "classes"',
        "a learner whose answers are no probabilities",
        lambda config: config.has_classes and not answers_probability(config.learner),
        'labels: "classes" needs probabilities of each class; choose a learner with the logistic loss',
    ),
    Exclusion(
        "`default_label`",
        '`labels` "classes"',
        lambda config: config.has_classes and config.default_label is not None,
        "default_label: a model of several classes has none; leave it out",
    ),
    Exclusion(
        '`drift.action` other than "off"',
        '`labels` "classes"',
        lambda config: config.has_classes and config.drift.action != "off",
        'drift.action: changes of several classes are not detected; choose "off"',
    ),
    Exclusion(
        "`slices`",
        '`labels` "classes"',
        lambda config: config.has_classes and bool(config.slices),
        "slices: figures by value are those of two classes or of numbers; leave it out",
    ),
    Exclusion(
        "`weights_followed`",
        '`labels` "classes"',
        lambda config: config.has_classes and bool(config.weights_followed),
        "weights_followed: a feature has a weight for each class; leave it out",
    ),
    Exclusion(
        "`learner.missing`",
        '`encoder.normalise` "l2"',
        lambda config: config.encoder.normalise == "l2" and config.learner.sets_apart(),
        'learner.missing: rows of length 1 do not have the values that were sent; set encoder.normalise to "none"',
    ),
    Exclusion(
        "`encoder.cross_scale`",
        "a learner that divides features by their size",
        lambda config: config.encoder.cross_scale != 1.0 and bool(_undone_scale(config)),
        lambda config: f"encoder.cross_scale: not with these settings of {config.learner.kind}; {_undone_scale(config)}",
    ),
    Exclusion(
        '`drift.action` "forget"',
        "a learner whose step sizes have no memory of the past",
        lambda config: config.drift.action == "forget" and not config.learner.can_forget(),
        lambda config: (
            f"the learner {config.learner.kind} with these settings has no memory of the past in its step sizes, so "
            'it cannot forget: choose the drift action "note", or another learner'
        ),
    ),
    Exclusion(
        '`drift.action` "refit"',
        "labels or a learner without probabilities of two classes",
        lambda config: config.drift.action == "refit" and not _has_probability(config),
        'drift.action: a refit needs probabilities of two classes; choose "note" or "forget", or another loss',
    ),
    Exclusion(
        "`decision`",
        "labels or a learner without probabilities of two classes",
        lambda config: config.decision.is_wanted and not _has_probability(config),
        "decision: needs probabilities of two classes; choose another loss, and labels of two",
        "out_of_range",
    ),
    Exclusion(
        "`negatives_kept`",
        "labels or a learner without log-odds of two classes",
        lambda config: config.negatives_kept != 1.0 and not _has_log_odds(config),
        "negatives_kept: the correction is exact for logistic models of two classes only",
        "out_of_range",
    ),
    Exclusion(
        "`label_weight`",
        "labels or a learner without log-odds of two classes",
        lambda config: config.label_weight.is_wanted and not _has_log_odds(config),
        "label_weight: the correction of probabilities is exact for logistic models of two classes only; leave it "
        "out, and send rows with a weight",
    ),
    Exclusion(
        '`labels` "real"',
        "a learner of two classes only",
        lambda config: config.labels == "real" and not spec_of(config.learner).takes_real_labels(config.learner),
        lambda _config: f'labels: "real" needs {_learners_of_numbers()}; for two classes use "0/1" or "-1/+1"',
        "out_of_range",
    ),
    Exclusion(
        "`default_label`",
        "`labels` that do not have it",
        lambda config: _has_two_classes(config) and config.default_label not in (None, *_CLASSES[config.labels]),
        _strange_default,
        "out_of_range",
    ),
)


@frozen_dataclass(frozen=True, slots=True)
class ModelConfig:
    """Everything that determines how a model learns from its events, and how often it is published and saved."""

    learner: LearnerConfig = field(default_factory=default_learner)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    labels: Annotated[Labels, "the form of labels; other labels are refused"] = "0/1"
    publish_every_ms: Annotated[
        int,
        Ge(1),
        Le(60_000),
        "longest time until the served model includes a learnt event, milliseconds; longer if a publication takes over a tenth",
    ] = 200
    checkpoint_every_s: Annotated[
        int,
        Ge(1),
        Le(86_400),
        "longest time between two snapshots, seconds, if those of all models take at most a twentieth of a processor; a restart "
        "replays the events since the last one",
    ] = 10
    checkpoint_every_events: Annotated[int, Ge(1), Le(10**9), "most events between two snapshots"] = 1_000_000
    label_ttl_s: Annotated[int, Ge(1), Le(90 * 86_400), "how long a remembered prediction waits for its label, seconds"] = (
        7 * 86_400
    )
    default_label: Annotated[
        DefaultLabel,
        "label given to a remembered prediction after label_ttl_s, in the form set by `labels`; null: it is discarded",
    ] = None

    decision: Annotated[
        Decision,
        "costs of errors: predictions then have a `decision`, the class of the lower expected cost, and the metrics its cost",
    ] = field(default_factory=Decision)
    negatives_kept: Annotated[
        float,
        Gt(0.0),
        Le(1.0),
        "share of the negative rows that are sent; log(negatives_kept) is added to every margin that is served, so that"
        " probabilities are those of all rows. Metrics are those of the rows that are sent, except costs",
    ] = 1.0
    label_weight: Annotated[
        LabelWeight,
        "factors of the weights of positive and negative rows when they are learnt; log(negative / positive) is added to every"
        " margin, so that probabilities and metrics are those of the rows as sent",
    ] = field(default_factory=LabelWeight)

    unknown_rows: Annotated[
        Literal["predict", "refuse"],
        "whether a row of which the model knows no field is predicted as one without features, or refused (`unknown_row`)",
    ] = "predict"
    drift: Annotated[
        DriftConfig,
        "detection of changes of the loss, of the label rate and of the share of unknown features, and what follows an alarm",
    ] = field(default_factory=DriftConfig)
    slices: Annotated[
        tuple[Annotated[str, MaxLen(NAME_BYTES_MAX)], ...],
        MaxLen(FIELDS_MAX),
        f"fields with a text, as country: losses and calibration are kept for each of up to {VALUES_MAX} values",
    ] = ()
    weights_followed: Annotated[
        tuple[Annotated[str, MaxLen(FOLLOWED_NAME_MAX)], ...],
        MaxLen(FOLLOWED_MAX),
        f"names of features, such as country=de: their weights are kept at up to {POINTS_MAX} moments",
    ] = ()

    classes: Annotated[
        ClassesConfig,
        'the classes, if labels are "classes"; a class is added when its first row comes',
    ] = field(default_factory=ClassesConfig)

    exclusions = EXCLUSIONS

    def __post_init__(self) -> None:
        if "" in self.slices or len(set(self.slices)) < len(self.slices):
            raise BadInput("slices: expected different names of fields, as country", "out_of_range")
        if "" in self.weights_followed or len(set(self.weights_followed)) < len(self.weights_followed):
            raise BadInput("weights_followed: expected different names of features, such as country=de", "out_of_range")
        refuse(self, self.exclusions)

    @property
    def has_classes(self) -> bool:
        """Whether labels are names of classes, and there is a learner for each."""
        return self.labels == "classes"

    @property
    def served_shift(self) -> float:
        """What is added to the learner's margins when they are served."""
        return margin_shift(self.negatives_kept) + self.label_weight.shift

    @property
    def default_target(self) -> float | None:
        """The default label in the form that a batch uses; None if there is none."""
        if self.default_label is None or self.labels not in _CLASSES:
            return self.default_label
        return float(_CLASSES[self.labels].index(self.default_label))


def require_one_margin(config: ModelConfig, what: str) -> None:
    """Raise `Conflict` (code `not_for_classes`) if the model has several classes. what : as "a regularisation path"."""
    if config.has_classes:
        raise Conflict(f"{what} needs two classes or a number as the label; this model has several classes", "not_for_classes")


def read_config(document: object, known: Iterable[Curves] = ()) -> ModelConfig:
    """Read a configuration document. Raises `BadInput` naming the key, what was expected and the nearest known key.

    known : where trees of curves that are given by their digests may be
    """
    return read_document(ModelConfig, with_trees(_renamed(document), known))


def _renamed(document: object) -> object:
    """Return a document in which each setting of the learner has its present name. Raises `BadInput` if it has both names."""
    learner = document.get("learner") if isinstance(document, Mapping) else None
    kind = learner.get("kind", KINDS[0]) if isinstance(learner, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(learner, Mapping) or kind not in KINDS:
        return document
    for name, former in SPECS[kind].formerly.items():
        if former in learner and name in learner:
            raise BadInput(f"learner.{former}: the former name of {name}; set {name} instead", "conflicting_settings")
        learner = {name if key == former else key: value for key, value in learner.items()}
    return {**document, "learner": learner}


def read_stored(document: object) -> ModelConfig:
    """`read_config` for a configuration that was written to a log or a checkpoint, perhaps by an older version.

    An encoder without `words` was written before there was a second rule of words, and keeps the first; one without `fields` has
    none; several classes without `limited` have values as they were sent. A learner without settings that are newer than the
    document does what it did without them; one without a kind was written when there was one.
    """
    encoder = document.get("encoder") if isinstance(document, Mapping) else None
    if isinstance(document, Mapping) and isinstance(encoder, Mapping):
        document = {**document, "encoder": {"words": FIRST_RULE, "fields": NO_FIELDS, **encoder}}
    if isinstance(document, Mapping) and document.get("labels") == "classes":
        classes = document.get("classes", {})
        document = {**document, "classes": {"limited": False, **classes} if isinstance(classes, Mapping) else classes}
    document = _renamed(document)
    learner = document.get("learner", {}) if isinstance(document, Mapping) else None
    if isinstance(document, Mapping) and isinstance(learner, Mapping) and (kind := learner.get("kind", KINDS[0])) in SPECS:
        document = {**document, "learner": {**SPECS[kind].older, **learner}}
    return read_config(document)


def stored_document(config: ModelConfig) -> dict[str, Any]:
    """Write a configuration for a log, a checkpoint or an edition. Settings with the values of older versions are left out, as
    they were there, and settings have their former names, so that the digests of such models stay the same."""
    document: dict[str, Any] = write_document(config)
    if config.encoder.words == FIRST_RULE:
        del document["encoder"]["words"]
    if not config.encoder.fields:
        del document["encoder"]["fields"]
    spec = spec_of(config.learner)
    document["learner"] = {
        spec.formerly.get(name, name): value
        for name, value in document["learner"].items()
        if name not in spec.older or value != spec.older[name]
    }
    if not config.encoder.crosses:
        del document["encoder"]["crosses"]
    if config.encoder.cross_scale == 1.0:
        del document["encoder"]["cross_scale"]
    document["encoder"]["curves"] = config.encoder.curves.texts()
    if not config.encoder.curves:
        del document["encoder"]["curves"]
    if not config.classes.limited:
        del document["classes"]["limited"]
    for name, idle in (_LATER | {"classes": ClassesConfig(limited=not config.has_classes)}).items():
        if getattr(config, name) == idle:
            del document[name]
    return document


@frozen_dataclass(frozen=True, slots=True)
class Change:
    """The content of a config event: a configuration, and which configuration it was derived from.

    after : the event that set the configuration it was derived from, 0 for none. The change applies only if that configuration
            is still in force. None: it always applies
    actor : id of the key of the request that asked for it; empty if there was none. Learning must not read it
    forget : share of the past that the learner keeps; None: it forgets nothing
    alarm : of the drift detector, which the event answers, as `Alarm.document`; None if it answers none
    names : features that were found by name, for `slices` and `weights_followed`: their hashes; None if the event is about none
    follow : the model whose events are learnt from here on; None if the event does not say
    challengers : all models that learn the events of this one from here on; None if the event does not say
    """

    config: ModelConfig
    after: int | None = None
    actor: str = ""
    forget: float | None = None
    alarm: dict[str, Any] | None = None
    names: dict[str, int] | None = None
    follow: str | None = None
    challengers: tuple[str, ...] | None = None

    def payload(self) -> bytes:
        """Return the payload of the event."""
        beside = {
            AFTER: self.after,
            ACTOR: self.actor or None,
            FORGET: self.forget,
            ALARM: self.alarm,
            NAMES: self.names,
            FOLLOW: self.follow,
            CHALLENGERS: None if self.challengers is None else list(self.challengers),
        }
        told = {key: value for key, value in beside.items() if value is not None}
        return records.encode_document({**stored_document(self.config), **told})


def change_from_payload(payload: bytes) -> Change:
    """Read what `Change.payload` wrote. Raises `Corrupt`."""
    document = records.decode_document(payload)
    after, actor = document.pop(AFTER, None), document.pop(ACTOR, "")
    keep, alarm, names, follow, several = (document.pop(key, None) for key in (FORGET, ALARM, NAMES, FOLLOW, CHALLENGERS))
    if not isinstance(actor, str):
        raise Corrupt("the configuration in the log names an actor that is not a text")
    if after is not None and (type(after) is not int or after < 0):
        raise Corrupt(f"the configuration in the log names an earlier event {after!r}, which is not valid")
    if alarm is not None and (type(alarm) is not dict or type(alarm.get("seq")) is not int or alarm["seq"] < 0):
        raise Corrupt(f"the configuration in the log names an alarm {alarm!r}, which is not valid")
    if names is not None and not (type(names) is dict and all(type(one) is int and 0 <= one < 2**32 for one in names.values())):
        raise Corrupt("the configuration in the log names features with hashes that are not valid")
    if type(follow) is not str and follow is not None:
        raise Corrupt("the configuration in the log names a model to follow that is not a text")
    if several is not None and not (type(several) is list and all(type(one) is str and one for one in several)):
        raise Corrupt("the configuration in the log names challengers that are not texts")
    try:
        if keep is not None:
            check_keep(keep if type(keep) is float else -1.0, FORGET)
        challengers = None if several is None else tuple(several)
        return Change(read_stored(document), after, actor, keep, alarm, names, follow, challengers)
    except BadInput as error:
        raise Corrupt(f"the configuration in the log cannot be read: {error}") from error


# Trees of curves in configuration documents: a file in base64, or the digest of a tree that the service has.


PATH: Final = "encoder.curves"
TEXTS_MAX: Final = 2 * 2**20  # characters of all trees of a model: they are in the header of its checkpoints
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


def with_trees(document: object, known: Iterable[Curves]) -> object:
    """Return a configuration document with the trees of `encoder.curves` in place of their texts.

    known : where trees that are given by their digests may be
    Raises `BadInput` (code `unknown_tree` for a digest, and as `read_stage`) with the path of the field.
    """
    encoder = document.get("encoder") if isinstance(document, Mapping) else None
    given = encoder.get("curves") if isinstance(encoder, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(encoder, Mapping) or given is None or isinstance(given, Curves):
        return document
    if not isinstance(given, Mapping):
        raise BadInput(f"{PATH}: expected an object of fields and trees", "wrong_type")
    trees: dict[str, CurveTree] = {tree.digest: tree for curves in known for _, tree in curves} if given else {}
    read = Curves(tuple((name, _read(text, f"{PATH}.{name}", trees)) for name, text in sorted(given.items())))
    if (size := sum(map(len, read.texts().values()))) > TEXTS_MAX:
        raise BadInput(f"{PATH}: the trees have {size} characters together, at most {TEXTS_MAX} fit", "tree_too_large")
    return {**document, "encoder": {**encoder, "curves": read}}


def _read(text: Any, path: str, trees: Mapping[str, CurveTree]) -> CurveTree:
    if not isinstance(text, str):
        raise BadInput(f"{path}: expected the file of a tree in base64, or a digest", "wrong_type")
    if not _DIGEST.fullmatch(text):
        from riata.trees.stage import read_stage  # only models of curves need trees

        return read_stage(text, path)
    if text not in trees:
        raise BadInput(
            f"{path}: no model here has the tree {text}; send the file that `riata tree --out` writes, in base64", "unknown_tree"
        )
    return trees[text]
