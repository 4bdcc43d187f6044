"""Settings of truncated gradient: the configuration that users write, with the reason for every default."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, MaxLen, doc

from riata.base.document import DocumentValue, Exclusion, refuse
from riata.base.errors import BadInput, nearest
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import NAME_BYTES_MAX
from riata.learn.shapes import COLUMNS_MAX, PAIRS_MAX
from riata.learn.spec import LearnerSettings

ETA: Final = 0.9
MISSING_MAX: Final = 256  # features
VALUES_MAX: Final = 16  # of each
EVERY_FEATURE: Final = "*"
AUTO: Final = "auto"
SHAPES_EXAMPLE: Final = '{"columns": ["age", "fare"], "pairs": [["age", "fare"]]}'
ACCUMULATOR_MAX: Final = 1e12


EXCLUSIONS: Final[Sequence[Exclusion[TruncatedGradientConfig]]] = (
    Exclusion(
        "`normalised`",
        '`rate` other than "adaptive"',
        lambda config: config.normalised and config.rate != "adaptive",
        "learner: normalised needs rate = 'adaptive'",
    ),
    Exclusion(
        '`rule` "round"',
        "an infinite `ceiling`",
        lambda config: config.rule == "round" and math.isinf(config.ceiling),
        "learner: rule = 'round' with an infinite ceiling would set every weight to zero; give a finite ceiling",
    ),
    Exclusion(
        '`rule` "subgradient"',
        '`normalised`, and `rate` "decaying"',
        lambda config: config.rule == "subgradient" and (config.normalised or config.rate == "decaying"),
        "learner: rule = 'subgradient' needs a step size that does not change at rows without the feature: rate 'constant', or "
        "'adaptive' without normalised",
    ),
    Exclusion(
        "`grid`",
        "`normalised`",
        lambda config: config.grid and config.normalised,
        "learner: grid needs truncations that are sums of equal parts; set normalised to false",
    ),
    Exclusion(
        "lists in `shapes`",
        'another `loss` than "logistic", and `normalised` false',
        lambda config: config.declares_shapes() and bool(config.no_shapes()),
        lambda config: f"learner.shapes: {config.no_shapes()}",
    ),
)


@frozen_dataclass(frozen=True, slots=True)
class Missing:
    """Values of a feature that stand for a missing one. The name is as in explanations; `*` means every feature."""

    feature: Annotated[str, MaxLen(NAME_BYTES_MAX)]
    values: Annotated[tuple[float, ...], MaxLen(VALUES_MAX)]


@frozen_dataclass(frozen=True, slots=True)
class DeclaredShapes(DocumentValue):
    """Columns and pairs that have shapes, by names as in explanations, each once and in order; None: those that are found."""

    columns: tuple[str, ...] | None = None
    pairs: tuple[tuple[str, str], ...] | None = None

    def written(self) -> dict[str, Any]:
        """Return what answers show of it."""
        pairs = AUTO if self.pairs is None else [list(pair) for pair in self.pairs]
        return {"columns": AUTO if self.columns is None else list(self.columns), "pairs": pairs}

    @staticmethod
    def from_document(value: object, path: str) -> DeclaredShapes:
        """Read what a client sent. Raises `BadInput` with the path."""
        if isinstance(value, DeclaredShapes):
            return value
        if not isinstance(value, Mapping) or not value:
            raise BadInput(f'{path}: expected "auto", "off", or an object such as {SHAPES_EXAMPLE}', "wrong_type")
        for key in value:
            if key not in ("columns", "pairs"):
                raise BadInput(f"{path}.{str(key)[:64]}: unknown key; {nearest(str(key), ('columns', 'pairs'))}", "unknown_key")
        columns, pairs = _names(value.get("columns", AUTO), f"{path}.columns"), _pairs(value.get("pairs", AUTO), f"{path}.pairs")
        if columns == ():
            raise BadInput(f'{path}.columns: name a column, or say "off" in place of the object', "out_of_range")
        for name in (name for pair in pairs or () for name in pair):
            if columns is not None and name not in columns:
                raise BadInput(f"{path}.pairs: {name!r} is not among the columns; add it there", "conflicting_settings")
        return DeclaredShapes(columns, pairs)

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the schema of what a client sends."""
        name = {"type": "string", "maxLength": NAME_BYTES_MAX}
        pair = {"type": "array", "items": name, "minItems": 2, "maxItems": 2}
        columns = {"type": "array", "items": name, "minItems": 1, "maxItems": COLUMNS_MAX}
        lists = {"columns": columns, "pairs": {"type": "array", "items": pair, "maxItems": PAIRS_MAX}}
        return {
            "type": "object",
            "properties": {key: {"anyOf": [{"enum": [AUTO]}, own]} for key, own in lists.items()},
            "additionalProperties": False,
            "minProperties": 1,
        }


def _names(given: object, path: str) -> tuple[str, ...] | None:
    if given == AUTO:
        return None
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise BadInput(f'{path}: expected "auto" or a list of names', "wrong_type")
    if len(given) > COLUMNS_MAX or any(len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX for name in given):
        raise BadInput(f"{path}: at most {COLUMNS_MAX} names of at most {NAME_BYTES_MAX} bytes", "out_of_range")
    return tuple(sorted(set(given)))


def _pairs(given: object, path: str) -> tuple[tuple[str, str], ...] | None:
    if given == AUTO:
        return None
    if not isinstance(given, list | tuple):
        raise BadInput(f'{path}: expected "auto" or a list of pairs of names', "wrong_type")
    found = set()
    for at, pair in enumerate(given):
        names = _names(pair, f"{path}[{at}]")
        if names is None or len(names) != 2 or len(pair) != 2:
            raise BadInput(f"{path}[{at}]: a pair has two different names", "out_of_range")
        found.add((names[0], names[1]))
    if len(found) > PAIRS_MAX:
        raise BadInput(f"{path}: at most {PAIRS_MAX} pairs", "out_of_range")
    return tuple(sorted(found))


@frozen_dataclass(frozen=True, slots=True)
class TruncatedGradientConfig(LearnerSettings):
    """Settings of truncated gradient.

    One set of defaults for every stream, chosen by progressive log loss on texts, categories, numbers without a common unit,
    clicks at a rate of one in a hundred, and a synthetic stream whose labels are mostly noise.
    """

    kind: Literal["truncated_gradient"] = "truncated_gradient"
    loss: Annotated[
        Literal["logistic", "squared", "hinge"],
        doc(
            "logistic gives probabilities; squared is (margin - label)^2; hinge gives margins only. Default logistic: most "
            "labels are binary, and most clients need a probability."
        ),
    ] = "logistic"
    rate: Annotated[
        Literal["constant", "decaying", "adaptive"],
        doc(
            "constant: eta. decaying: eta (delay / (delay + i))^power at row i = 0, 1, ... adaptive: for each feature eta / "
            "root of the sum of its squared gradients. Default adaptive: rare features still learn after frequent ones have "
            "converged."
        ),
    ] = "adaptive"
    normalised: Annotated[
        bool,
        doc(
            "Divide each feature by its largest value so far, inside the update. Only with the adaptive rate. Gravity and "
            "ceiling then apply to weight times scale. Default true: units do not matter."
        ),
    ] = True
    eta: Annotated[
        float,
        Gt(0),
        Le(1e6),
        doc(
            "Step size. Default 0.9: larger steps are better if features are informative, smaller ones if labels are noisy. "
            "With 0.5 the noisy stream is 3 % better and texts are 22 % worse; with 1.2 it is 4 % worse and texts are 8 % "
            "better."
        ),
    ] = ETA
    power: Annotated[
        float, Ge(0), Le(1), doc("Exponent of the decaying rate. Default 1/2: the value from theory without strong convexity.")
    ] = 0.5
    delay: Annotated[float, Gt(0), Le(1e12), doc("Rows before the rate decays noticeably. Default 1: eta / sqrt(1 + i).")] = 1.0
    accumulator: Annotated[
        float,
        Ge(0),
        Le(ACCUMULATOR_MAX),
        doc(
            "Initial value of the sums of squared gradients of the adaptive rate, also for the intercept. With 0 the first "
            "step of a feature would have full size. Default 0.03: a stream of rare clicks is not overfitted, and values from "
            "0.01 to 0.1 give similar results."
        ),
    ] = 0.03
    reach: Annotated[
        float,
        Gt(1),
        doc(
            "Only with normalised: a value counts in the step as at most this many times the largest one before, so that one "
            'outlier cannot disable a feature. "infinite": no limit. Default 2: a scale a thousand times too small is '
            "corrected within ten rows."
        ),
    ] = 2.0
    scale: Annotated[
        Literal["largest", "counts"],
        doc(
            "Only with normalised: what a feature that is not a numeric column is divided by. largest: its largest value seen. "
            "counts: nothing while its values are at most 16, then a sixteenth of the largest one. counts is better for words, "
            "of which one long text would make the steps smaller for good. Default largest: units do not matter."
        ),
    ] = "largest"
    mixed: Annotated[
        bool,
        doc(
            "Learn with three step sizes side by side, 0.6, 2.7 and 24.3, and mix their margins by how likely they made the "
            "labels so far. The larger two have ten times the accumulator, and take values up to 16 as they are. Only with the "
            "logistic loss and with normalised; an eta other than 0.9 stays. False: every setting stays. Default true: the best "
            "eta of public streams is between 0.3 and 24."
        ),
    ] = True
    base_rate: Annotated[
        bool,
        doc(
            "With `mixed`, the rate of positives so far is one more member, until the others have made the labels much likelier. "
            "Only with an intercept, and not with several classes. Default true: the log loss of rare clicks is up to 9 % less, "
            "and that of 23 public streams at most 0.2 % more."
        ),
    ] = True
    second_order: Annotated[
        bool,
        doc(
            "With `base_rate`, while there are fewer than 80 features: a member moves all weights together, by their covariance. "
            "Default true: the log loss of small tables is up to 35 % less."
        ),
    ] = True
    learns_again: Annotated[
        bool,
        doc(
            "With shapes, at row 128: second order begins anew, with weights in units of the deviations of columns; without it "
            "all members, if values were far. Pairs of columns are sought from row 128 on, not 512, and new ones learn the rows "
            "of the sample. Default true: the log loss of small tables is up to 16 % less."
        ),
    ] = True
    shapes: Annotated[
        DeclaredShapes | Literal["auto", "off"],
        doc(
            "auto: where a quarter of the features are values of numeric columns, the margin gets a number for the interval of "
            "each value, and for pairs of columns that an additive model misses. off: a linear model. An object lists columns, "
            "pairs or both, named as in explanations, pairs also with indicators; what it leaves out is found. Only with the "
            "logistic loss and with normalised. Default auto: the log loss of public tables is 5 to 20 % less."
        ),
    ] = "auto"
    classes_shaped: Annotated[
        bool,
        doc(
            "Whether several classes have shapes and bounds. Columns and pairs are those of all classes. Default true, as for "
            "two classes."
        ),
    ] = True
    classes_second_order: Annotated[
        bool,
        doc(
            "Whether each of several classes has second order, while there are fewer than 80 features. A row of d features costs "
            "d^2 operations for each class. Default false: of ten digits the log loss is 34 % less for 1.5 times the time, of 19 "
            "kinds of attacks 1 % more for 1.8 times."
        ),
    ] = False
    bounded: Annotated[
        bool,
        doc(
            "Probabilities take margins as at most 1 + ln(rows learnt + 2) in size: after n rows no event is known to be rarer "
            "than about one in n. Only with the logistic loss. Default true: the log loss of public streams is up to 26 % less, "
            "and at most 0.2 % more. False: as in the paper."
        ),
    ] = True
    step: Annotated[
        Literal["invariant", "gradient"],
        doc(
            "invariant: the update of an importance-weighted row is the limit of many small steps. gradient: importance "
            "multiplies the gradient. Default invariant: a large eta or importance cannot move a margin past its label."
        ),
    ] = "invariant"
    rule: Annotated[
        Literal["truncate", "round", "subgradient"],
        doc(
            "truncate: shrink weights up to the ceiling by eta * gravity * period. round: set weights up to the ceiling to "
            "zero. subgradient: shrink every weight by eta * gravity at every row, even past zero; hardly ever sparse. Default "
            "truncate: weights are sparse, and a small weight that keeps growing survives."
        ),
    ] = "truncate"
    gravity: Annotated[
        float,
        Ge(0),
        Le(1e6),
        doc(
            "L1 penalty: how strongly each row pulls weights towards zero. Default 3e-5: half of the words of texts and nearly "
            "all values of click logs get weight zero, for less than 1 % of the log loss; noisy streams improve."
        ),
    ] = 3e-5
    period: Annotated[
        int,
        Ge(1),
        Le(2**31),
        doc("Rows between truncations. Default 100: a feature in one row of a hundred has one row to outgrow a truncation."),
    ] = 100
    ceiling: Annotated[
        float,
        Gt(0),
        doc(
            'Weights above it are not truncated; "infinite": all are. Default 0.1: large weights stay unbiased, and weights '
            "that move a margin by less than a tenth may become zero."
        ),
    ] = 0.1
    intercept: Annotated[
        bool,
        doc(
            "Learn an intercept: a feature that is always 1, never truncated, with a step size of its own. Default true: the "
            "base rate is learnt directly."
        ),
    ] = True
    centred: Annotated[
        bool,
        doc(
            "Steps of numeric columns are those of the value less its running mean; the intercept moves against them. Numeric "
            "columns are features in more than half of the rows with values other than 1. Weights stay in the units of the "
            "input. Only with normalised and an intercept. False: as in the paper. Default true: on streams of numbers the log "
            "loss is 0 to 16 % less, and up to 28 % if they are far from zero."
        ),
    ] = True
    calibrated: Annotated[
        bool,
        doc(
            "Multiply margins by a number, and add one, both learnt online and folded into the weights that are served. Only "
            "with the logistic loss, and with normalised. False: as in the paper. Default true: on texts the log loss is 12 to "
            "22 % less; elsewhere it differs by at most 1 %."
        ),
    ] = True
    scaled_label: Annotated[
        bool,
        doc(
            "Learn labels less their mean and over their spread, both of the first 1024 rows; predictions are in the units of "
            "the label. Only with the squared loss and the adaptive rate. False: as in the paper. Default true: steps have the "
            "size of eta whatever the label."
        ),
    ] = True
    missing: Annotated[
        tuple[Missing, ...],
        MaxLen(MISSING_MAX),
        doc(
            "Values that stand for a missing one, such as 999. Where a feature has one it counts as absent, and the row has an "
            "indicator of the feature and the value in its place. The log keeps rows as sent, and refits take them so. Not with "
            "encoder.normalise."
        ),
    ] = ()
    far_values: Annotated[
        Literal["auto", "off"],
        doc(
            "auto: a value counts as at most three times the distance of the quartiles from the median of its numeric column. "
            "One far outside that repeats gets an indicator, and counts as the median, since it may stand for a missing one. "
            "Not with encoder.normalise, and with shapes only if `mixed`. Default auto: 999 in 5 % of the "
            "rows costs 3 % of the log loss in place of 7 to 10 %, and the log loss of public tables is up to 9 % less."
        ),
    ] = "auto"
    grid: Annotated[
        bool,
        doc(
            "Round weights and truncations to multiples of 2^-40, so that their sums are exact. Not with normalised. Default "
            "false: float64 is accurate enough."
        ),
    ] = False

    exclusions = EXCLUSIONS

    def __post_init__(self) -> None:
        """Refuse settings that conflict (`BadInput`, code `conflicting_settings`)."""
        refuse(self, self.exclusions)
        names = [one.feature for one in self.missing]
        for one in self.missing:
            if names.count(one.feature) > 1:
                raise BadInput(f"learner.missing: two entries for the feature {one.feature!r}; join them", "conflicting_settings")
            if not one.values or 0.0 in one.values:
                why = "it has no values" if not one.values else "0 is absent without being declared"
                raise BadInput(
                    f"learner.missing: {one.feature!r}: {why}; name the values that mean a missing one", "out_of_range"
                )

    def sets_apart(self) -> bool:
        return bool(self.missing)

    def declares_shapes(self) -> bool:
        return isinstance(self.shapes, DeclaredShapes)

    def is_mixed(self) -> bool:
        """Whether three step sizes are learnt side by side: if `mixed` asks for it and no other setting excludes it."""
        return self.mixed and self.eta == ETA and self.loss == "logistic" and self.normalised

    def has_base_rate(self) -> bool:
        """Whether the base rate is a member."""
        return self.base_rate and self.intercept

    def has_second_order(self) -> bool:
        """Whether one of second order is in its place while there are few features."""
        return self.second_order and self.has_base_rate()

    def scales_second_order(self) -> bool:
        return self.learns_again and self.has_second_order()

    def of_class(self) -> TruncatedGradientConfig:
        bounded = self.bounded and self.classes_shaped
        base_rate = self.base_rate and self.second_order and self.classes_second_order
        return replace(self, shapes="off", bounded=bounded, base_rate=base_rate, far_values="off")

    def searches_far(self) -> bool:
        """Whether limits are sought where shapes are."""
        return self.far_values == "auto" and self.is_mixed() and not self.no_shapes()

    def limits_values(self, classes: bool = False) -> bool:
        return self.far_values == "auto" and bool(self.no_shapes(classes))

    def is_bounded(self) -> bool:
        """Whether margins are bounded where probabilities take them."""
        return self.bounded and self.loss == "logistic"

    def no_shapes(self, classes: bool = False) -> str:
        if self.shapes == "off":
            return 'learner.shapes is "off"'
        if classes and not self.classes_shaped:
            return "learner.classes_shaped is false"
        return "" if self.loss == "logistic" and self.normalised else "they need the logistic loss, and learner.normalised"

    def can_forget(self) -> bool:
        return self.rate == "adaptive"

    def undoes_scale(self) -> str:
        divides = self.normalised and self.scale == "largest"
        return 'it divides features by their largest value: set learner.scale to "counts"' if divides else ""

    def wants_scaled(self) -> bool:
        return not self.normalised
