"""The configuration of the encoder: how the features of a model are made from what clients send."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, Protocol

from annotated_types import Ge, Le, MaxLen

from riata.base.arrays import F64
from riata.base.document import DocumentValue, Exclusion, refuse, write_document
from riata.base.errors import BadInput
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import BITS_MAX, BITS_MIN, NAME_BYTES_MAX, NAMES_KEPT_MAX
from riata.wire.fields import AUTO, CURVE, TEXT, Fields

# Fields that are curves: trees, learnt before, that turn a curve into indicators of the leaves in which it ends.

CURVES_MAX: Final = 16  # fields
POINTS_MAX: Final = 4096  # of a curve: warping takes time in proportion
CURVE_ABS_MAX: Final = 1e100  # squares of differences stay finite


class CurveTree(Protocol):
    """A tree that splits on one curve."""

    @property
    def digest(self) -> str:
        """Identifies the tree: 32 hexadecimal digits."""
        ...

    @property
    def channels(self) -> int:
        """Numbers of each point."""
        ...

    @property
    def length(self) -> int | None:
        """The number of points that a curve needs; None: any."""
        ...

    @property
    def text(self) -> str:
        """The file of the tree in base64, as configurations carry it."""
        ...

    def described(self, field: str) -> dict[str, Any]:
        """Return what its leaves mean, for people, and the file."""
        ...

    def leaves(self, points: F64) -> list[int]:
        """Return the leaf in which a curve ends, f64[points, channels]; of trees of an output code, one leaf of each."""
        ...


@frozen_dataclass(frozen=True, slots=True)
class Curves(DocumentValue):
    """The value of `encoder.curves`: fields and their trees, in the order of the names."""

    trees: tuple[tuple[str, CurveTree], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.trees)

    def __iter__(self) -> Iterator[tuple[str, CurveTree]]:
        return iter(self.trees)

    def of(self, name: str) -> CurveTree | None:
        """Return the tree of a field; None if the field is no curve."""
        return next((tree for field, tree in self.trees if field == name), None)

    def written(self) -> dict[str, str]:
        """Return the digests by field."""
        return {field: tree.digest for field, tree in self.trees}

    def texts(self) -> dict[str, str]:
        """Return the trees themselves by field, for a log."""
        return {field: tree.text for field, tree in self.trees}

    @staticmethod
    def from_document(value: object, path: str) -> Curves:
        """Read what a client sent, if it names no tree: `run.state.config` has read others before. Raises `BadInput`."""
        if value != {}:
            raise BadInput(f"{path}: expected an object of fields and trees", "wrong_type")
        return NO_CURVES

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the schema of what a client sends."""
        return {"type": "object", "maxProperties": CURVES_MAX, "additionalProperties": {"type": "string"}}


NO_CURVES: Final = Curves()


FEATURE_HASH_VERSION: Final = 1  # maths/hashing.py; another function would be another version
FIRST_RULE: Final = 1  # of words: encoders stored without `words` have it
TEXT_FIELDS_MAX: Final = 64  # each string feature is compared with all of them
CROSSES_MAX: Final = 1024  # all pairs of 45 fields
CROSSED_FIELDS_MAX: Final = 64  # each name of a row is compared with all of them
CROSS_SCALE_MIN: Final = 2.0**-20  # a penalty a million times as strong leaves nothing
CROSSED_PER_ROW_MAX: Final = 4096  # features that crosses add to one row
LEAF_BYTES: Final = 16  # room for `#` and the number of a leaf after the name of a field
_HASH_KEY_MAX: Final = 2**63 - 1
_FINGERPRINT_BYTES: Final = 8


def _both_text_and_curve(config: EncoderConfig) -> str:
    return next((name for name, _ in config.curves if name in config.text), "")


EXCLUSIONS: Final[Sequence[Exclusion[EncoderConfig]]] = (
    Exclusion(
        "a field of `encoder.curves`",
        "the same field in `encoder.text`",
        lambda config: bool(_both_text_and_curve(config)),
        lambda config: f"encoder.curves: {_both_text_and_curve(config)} is a text as well; a field is one of both",
    ),
    Exclusion(
        "`encoder.cross_scale`",
        "an encoder without `encoder.crosses`",
        lambda config: config.cross_scale != 1.0 and not config.crosses,
        "encoder.cross_scale: needs encoder.crosses, the fields that are crossed",
    ),
)


@frozen_dataclass(frozen=True, slots=True)
class EncoderConfig:
    """How names become slots and values become numbers. Any change requires relearning, except of `names_max` and `fields`."""

    bits: Annotated[
        int,
        Ge(BITS_MIN),
        Le(BITS_MAX),
        "The weight table has 2^bits slots; 22 keeps collisions rare up to a million names, at 32 MiB for each array.",
    ] = 22
    text: Annotated[
        tuple[Annotated[str, MaxLen(NAME_BYTES_MAX)], ...],
        MaxLen(TEXT_FIELDS_MAX),
        "Fields whose string is split into lower-case words, counted; without it a string is one indicator.",
    ] = ()
    ngrams: Annotated[
        int, Ge(1), Le(3), "Longest run of neighbouring words that is a feature of its own; 1 counts single words."
    ] = 1
    crosses: Annotated[
        tuple[tuple[Annotated[str, MaxLen(NAME_BYTES_MAX)], ...], ...],
        MaxLen(CROSSES_MAX),
        "Pairs and triples of fields whose combinations are features of their own, such as `country=DE × device=phone`; a"
        " namespace of VW text is a field.",
    ] = ()
    cross_scale: Annotated[
        float,
        Ge(CROSS_SCALE_MIN),
        Le(1.0),
        "What the values of crossed features are multiplied by, which gives them a penalty of their own: with 0.25 the L1 penalty"
        " of their weights is four times that of the others, and their steps are shorter.",
    ] = 1.0
    curves: Annotated[
        Curves,
        "Fields that are curves, each with its tree: the file of `riata tree` in base64, or its digest if a model has it. A"
        " curve becomes an indicator of its leaf, `ecg#7`.",
    ] = NO_CURVES
    fields: Annotated[
        Fields,
        'Kinds of fields, such as {"zip": "category"}: number, category, boolean, time, unix_s, unix_ms, list or text. The'
        ' kind of any other field is that of its first value that is learnt; {"*": "off"}, or "off", reads it by each value.',
    ] = AUTO
    words: Annotated[
        Literal[1, 2], "Rule by which texts are split: 2 knows the words of every script; 1 is of models made before it."
    ] = 2
    normalise: Annotated[
        Literal["none", "l2"], "l2 divides each row by its Euclidean length, so that long documents do not outweigh short ones."
    ] = "none"
    hash_key: Annotated[
        int, Ge(0), Le(_HASH_KEY_MAX), "Key of the feature hash; a secret one keeps clients from making names collide on purpose."
    ] = 0
    names_max: Annotated[
        int, Ge(0), Le(NAMES_KEPT_MAX), "How many feature names are remembered, so that weights can be shown by name."
    ] = NAMES_KEPT_MAX

    exclusions = EXCLUSIONS

    def __post_init__(self) -> None:
        """Check the crosses and the curves. Raises `BadInput`."""
        for name, _ in self.curves:
            if not 1 <= len(name.encode()) <= NAME_BYTES_MAX - LEAF_BYTES:
                raise BadInput(
                    f"encoder.curves: the name of a field has 1 to {NAME_BYTES_MAX - LEAF_BYTES} bytes", "out_of_range"
                )
        if len(self.curves.trees) > CURVES_MAX:
            raise BadInput(f"encoder.curves: more than {CURVES_MAX} fields", "out_of_range")
        known: set[tuple[str, ...]] = set()
        for i, cross in enumerate(self.crosses):
            path = f"encoder.crosses[{i}]"
            if len(cross) not in (2, 3) or not all(cross):
                raise BadInput(f'{path}: expected the names of two or three fields, as ["country", "device"]', "out_of_range")
            if len(cross) == 3 and cross[0] == cross[2] != cross[1]:
                raise BadInput(f"{path}: name a field that is crossed with itself twice in a row", "out_of_range")
            if tuple(sorted(cross)) in known:
                raise BadInput(f"{path}: these fields are crossed already", "out_of_range")
            known.add(tuple(sorted(cross)))
        if len({name for cross in self.crosses for name in cross}) > CROSSED_FIELDS_MAX:
            raise BadInput(f"encoder.crosses: more than {CROSSED_FIELDS_MAX} different fields", "out_of_range")
        refuse(self, self.exclusions)

    def kinds_of_settings(self) -> dict[str, int]:
        """Return the kinds of the fields that are texts or curves by settings of their own, by name."""
        return dict.fromkeys(self.text, TEXT) | {name: CURVE for name, _ in self.curves}


def fingerprint(config: EncoderConfig) -> str:
    """Return 16 hex digits that are equal only if two encoders make the same features of the same values; `names_max`, and by
    which kind values are read (`fields`), do not matter."""
    document = write_document(config)
    del document["names_max"], document["fields"]
    document["feature_hash"] = FEATURE_HASH_VERSION
    # Fingerprints of models that were made before these settings existed stay as they are.
    if not config.crosses:
        del document["crosses"]
    if config.cross_scale == 1.0:
        del document["cross_scale"]
    if not config.curves:
        del document["curves"]
    if config.words == FIRST_RULE:
        del document["words"]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=_FINGERPRINT_BYTES).hexdigest()
