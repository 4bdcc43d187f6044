"""Creating a model for a file: the configuration document for its labels, its text features and the requested learner."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.base.errors import BadInput, nearest
from riata.learn.kinds import KINDS
from riata.wire.readers import FILE_READERS

if TYPE_CHECKING:
    from riata.client import Riata
from collections.abc import Set
from typing import TYPE_CHECKING, Literal

from riata.base.errors import Malformed
from riata.wire.given import (
    ABSENT,
    FORMS,
    NUMBER,
    OWN,
    SEVERAL,
    TAG,
    TEXT,
    TRUTH,
    Given,
    LabelTally,
    OtherLabels,
    listed,
    plain_number,
    tag_sentence,
)
from riata.wire.readers import reader_named

LABELS: Final = ("0/1", "-1/+1", "real", "classes")
SECTIONS: Final = ("learner", "encoder", "drift", "classes", "label_weight")
POSITIVE_WEIGHT: Final = "label_weight.positive"  # the setting of --label-weight
InteractionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "-q",
        "--quadratic",
        "--cubic",
        "--interactions",
        metavar="LETTERS",
        help="Cross namespaces of VW text by their first letters, as vw does: -q ab, --cubic abc, : for any. The namespaces are"
        " those of the first rows. Repeatable; for other formats, set encoder.crosses.",
    ),
]
_LENGTHS: Final = (2, 3)


def model_document(labels: str, text: Iterable[str] = (), learner: str | None = None) -> dict[str, Any]:
    """Return the configuration of a model for these labels and this learner; every other setting has its default."""
    if labels not in LABELS:
        raise BadInput(f"--labels {labels}: {nearest(labels, LABELS)}", "bad_option")
    document: dict[str, Any] = {"labels": labels}
    if learner is not None:
        document["learner"] = learner_document(learner)
    elif labels == "real":
        document["learner"] = _learner_of_real_labels()
    if fields := list(text):
        document["encoder"] = {"text": fields}
    return document


def _learner_of_real_labels() -> dict[str, Any]:
    from riata.learn.registry import SPECS  # takes long to load, and nothing else here needs it

    return next({"kind": kind, **spec.real_labels} for kind, spec in SPECS.items() if spec.real_labels is not None)


def learner_document(text: str) -> dict[str, Any]:
    """Parse the value of --learner: the name of a learner, or a JSON file with its settings. Raises `BadInput`."""
    if text in KINDS:
        return {"kind": text}
    path = Path(text)
    if not path.is_file():
        raise BadInput(f"--learner {text}: neither a learner nor a file; {nearest(text, KINDS)}", "bad_option")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"--learner {text}: not JSON: {error}", "bad_option") from None
    if not isinstance(document, dict):
        raise BadInput(f'--learner {text}: expected an object, such as {{"kind": "taylor_sketch", "gamma": 0.3}}', "bad_option")
    return document


def add_curves(document: dict[str, Any], given: Iterable[str]) -> None:
    """Add fields of curves, given as `field=file of a tree`. Raises `BadInput`."""
    for one in given:
        field, equals, path = one.partition("=")
        if not (field and equals and Path(path).is_file()):
            raise BadInput(
                f"--curve {one}: expected FIELD=FILE, such as ecg=ecg.tree, and a file of `riata tree --out`", "bad_option"
            )
        text = base64.b64encode(Path(path).read_bytes()).decode()
        document.setdefault("encoder", {}).setdefault("curves", {})[field] = text


def apply_setting(document: dict[str, Any], setting: str) -> None:
    """Apply `key=value`. A key without a section belongs to the model if it has a setting of that name, otherwise to the
    learner. Raises `BadInput`."""
    from riata.run.state.config import ModelConfig

    key, is_given, text = setting.partition("=")
    if not is_given or not key:
        raise BadInput(f"--set {setting}: expected KEY=VALUE, such as eta=0.5 or encoder.ngrams=2", "bad_option")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    section, dot, name = key.partition(".")
    if not dot and key in {one.name for one in dataclasses.fields(ModelConfig)} - {"learner", "encoder"}:
        document[key] = value
        return
    if dot and section not in SECTIONS:
        raise BadInput(f"--set {setting}: sections are {', '.join(SECTIONS)}", "bad_option")
    section, name = (section, name) if dot else ("learner", key)
    part = document.setdefault(section, {"kind": KINDS[0]} if section == "learner" else {})
    if not isinstance(part, dict):
        raise BadInput(f"--set {setting}: {section} in the model file is not an object", "bad_option")
    part[name] = value


def ensure_model(
    riata: Riata,
    model: str,
    labels: str,
    learner: str | None = None,
    crosses: Sequence[Sequence[str]] = (),
    settings: Iterable[str] = (),
) -> bool:
    """Create `model` for `labels` and with `settings`, KEY=VALUE, if it does not exist; return whether it was created.

    Raises `BadInput` if it exists and has a different `labels` setting, or other crosses than those given.
    """
    from riata.client import ApiNotFound

    try:
        present = riata.model(model)
    except ApiNotFound:
        document = model_document(labels, learner=learner)
        for one in settings:
            apply_setting(document, one)
        riata.create_model(model, {**document, "encoder": {"crosses": crosses}} if crosses else document)
        return True
    taken = present.get("config", {}).get("labels")
    if taken is not None and taken != labels:
        raise BadInput(f"model {model!r} takes labels {taken}, not {labels}; choose another model with --model", "labels_differ")
    if crosses and present.get("config", {}).get("encoder", {}).get("crosses") != [list(cross) for cross in crosses]:
        raise BadInput(f"model {model!r} has other crosses; choose another model with --model", "crosses_differ")
    return False


# Interactions of namespaces as Vowpal Wabbit's options name them, by first letters, become the encoder's crosses.


def crosses_of(interactions: Sequence[str], form: str, lines: Iterable[bytes]) -> list[list[str]]:
    """Return the crosses that interactions of first letters mean for a file that begins with `lines`, each once.

    Raises `BadInput` if the file is no VW text, or if no namespace has such a first letter.
    """
    if not interactions:
        return []
    reader = FILE_READERS.get(form)
    if reader is None or reader.file is None or reader.file.namespaces is None:
        raise BadInput(
            "-q crosses namespaces of VW text; for other formats, set encoder.crosses to names of fields", "bad_option"
        )
    names = reader.file.namespaces(lines)
    crosses: dict[tuple[str, ...], None] = {}
    for letters in interactions:
        if len(letters) not in _LENGTHS:
            raise BadInput(f"-q {letters}: expected two or three first letters of namespaces, such as -q ab", "bad_option")
        meant = [[name for name in names if letter in (":", name[0])] for letter in letters]
        for letter, found in zip(letters, meant, strict=True):
            if not found:
                told = f"begins with {letter!r}" if letter != ":" else "has a name"
                raise BadInput(f"-q {letters}: no namespace of the first rows {told}; they are {', '.join(names)}", "bad_option")
        for cross in itertools.product(*meant):
            crosses[tuple(sorted(cross, key=names.index))] = None
    return [list(cross) for cross in crosses]


# Detection of the label convention of a file from its first rows, and removal of labels from rows.


Labels = Literal["0/1", "-1/+1", "real"]
TWO: Final = 2
HEAD_ROWS: Final = 1000  # of stdin, which cannot be read twice


def sniff_labels(lines: Iterable[bytes], form: str, header: bytes = b"") -> Labels:
    """Return the `labels` setting that accepts every label of `lines`. Raises `Malformed` as `convention` does."""
    found = {given for line in lines if (given := label_of(line, form, header)) is not None}
    return convention(found, reader_named(form)[1].hint)


def convention(found: Set[Given], hint: str = "") -> Labels:
    """Return the `labels` setting that accepts these labels. Words and lists among numbers are left to the rows' own refusals.

    Raises `Malformed` if there are none, or if the labels are not two classes. A mix of -1 and 0 matches neither convention.
    Other numbers mean a regression or two other names, which the caller has to request. `hint` shows a row with a label.
    """
    numbers = {float(given.value) for given in found if given.kind in (NUMBER, TRUTH)}
    if several := [given for given in found if given.kind == SEVERAL]:
        raise Malformed(
            f"the label {several[0].value}: several labels in a line are not supported; write a file for each label, of 0 and 1"
        )
    if not numbers:
        raise Malformed(_without_numbers(found, hint))
    for form in ("0/1", "-1/+1"):
        if numbers <= FORMS[form]:
            return form
    shown = listed([plain_number(number) for number in sorted(numbers)])
    told = f"the labels {shown} are neither 0/1 nor -1/+1"
    if len(numbers) == TWO:
        larger = plain_number(max(numbers))
        told = f"{told}; if {larger} means 1: --positive {larger}, for CSV and Parquet"
    raise Malformed(f"{told}; names of classes need --labels classes; a regression needs --labels real")


def _without_numbers(found: Set[Given], hint: str) -> str:
    """Say what is wrong with rows none of which has a number as its label."""
    if tags := [given for given in found if given.kind == TAG]:
        return f"the first rows have no labels: {tag_sentence(tags[0])}"
    words = sorted(given.shown() for given in found if given.kind == TEXT and str(given.value).strip().lower() not in ABSENT)
    if words:
        return f"the labels {listed(words)} are no numbers; names of classes need --labels classes, two classes 0 and 1"
    shape = f" as in {hint}" if hint else ""
    return f"the first rows have no labels (0/1 or -1/+1); learning needs them{shape}"


def label_of(line: bytes, form: str, header: bytes = b"") -> Given | None:
    """Return the label of a row as it was given, or None if none can be found."""
    return reader_named(form)[1].label(line, header)


def without_label(line: bytes, form: str, header: bytes = b"") -> bytes:
    """Return the row for a prediction request, without its label, weight and id.

    The features are unchanged, byte for byte; the service validates them. Unreadable rows are returned unchanged.
    """
    return reader_named(form)[1].without_label(line, header)


# Looks at the labels of a file before its first row is sent: one of another setting would teach a model half of what it says.


def setting_of(riata: Riata, model: str, labels: str | None) -> str | None:
    """Return the setting `labels` of a model; of one that does not exist what it will be created with. None if neither is known,
    as without the right to read the model."""
    from riata.client import ApiNotFound, ApiRefused

    try:
        config = riata.model(model).get("config")
    except ApiNotFound:
        return labels if labels in OWN else None
    except ApiRefused:
        return None
    found = config.get("labels") if isinstance(config, dict) else None
    return found if found in OWN else None


def require_own_labels(labels: Iterable[tuple[Given | None, int]], setting: str, *, is_table: bool) -> None:
    """Raise `OtherLabels` if all of these labels are those of another setting."""
    tally = LabelTally(setting)
    for given, count in labels:
        tally.add(given, count)
    try:
        tally.require_own_form()
    except OtherLabels as error:
        hint = "; --positive says which value means 1" if is_table and setting in FORMS else ""
        raise OtherLabels(f"{error.detail}{hint}. Nothing was sent", error.rows) from None
