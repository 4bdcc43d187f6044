"""The route of the card of a model."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import riata
from riata.base.clock import rfc3339
from riata.base.document import write_document
from riata.learn.registry import ALGO_VERSION, default_learner, spec_of
from riata.predict.explain import top_weights
from riata.predict.name_book import NameBook
from riata.run.log.event_times import UNKNOWN
from riata.run.state.config import ModelConfig
from riata.run.writer.published import Published
from riata.web.api.options import choice
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.models import ModelWarning
from riata.web.api.schemas import TEXT, Count, Document, Figure, Figures, Number, Object, Time, json_content
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer

TOP: Final = 20

_MARKS: Final = re.compile(r"[\\`*_{}\[\]()#+\-!|~:.@/]")
HORIZONS: Final = {"cumulative": "all events", "faded": "faded", "window": "last events"}
FIGURES: Final = {
    "log_loss": "log loss", "base_log_loss": "log loss of the base rate", "normalised_entropy": "normalised entropy",
    "auc": "AUC", "accuracy": "accuracy", "base_rate": "share of positive labels", "calibration_ratio": "predicted / observed",
    "calibration_error": "calibration error", "loss": "loss", "base_loss": "loss of the base rate",
}  # fmt: skip

FORMAT: Final = choice("format", "form of the answer", ("markdown", "json"), "markdown")


class CardModel(Document):
    """Which model it is."""

    name: str
    version: Count
    seq: Count
    lineage: str


class MadeBy(Document):
    """The program that learnt it."""

    riata: str
    algorithm: Count


class CardLearner(Document):
    """Its learner."""

    kind: str
    about: str


class CardData(Document):
    """What it has learnt.

    first_event : null if the log has dropped the event
    last_event  : null if the log has dropped the event
    """

    examples: Count
    skipped: Count
    first_event: Time | None
    last_event: Time | None


class CardFigures(Document):
    """How good it is."""

    cumulative: Figures
    faded: Figures
    window: Figures


class CardWeight(Document):
    """A weight."""

    feature: str | None
    slot: Count
    weight: Number
    std_error: Figure


class CardWeights(Document):
    """What it weighs. shaped_columns : how many numeric columns add what their weights do not show"""

    non_zeros: Count
    shaped_columns: Count
    intercept: Number
    link: str
    largest: list[CardWeight]


class Card(Document):
    """The card of a model.

    settings : those that differ from the defaults, by path
    """

    model: CardModel
    made_by: MadeBy
    learner: CardLearner
    config: Object
    settings: Object
    data: CardData
    figures: CardFigures
    cost: dict[str, Figure] | None
    warnings: list[ModelWarning]
    weights: CardWeights
    changes: list[Object]


# The card of a model: what it is, what it has learnt, how good it is and what it weighs, as a document and as Markdown.


def card_of(
    published: Published,
    names: NameBook,
    times: tuple[str | None, str | None],
    changes: list[dict[str, Any]],
    warnings: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the card as a document. times: when the first and the last learnt event were accepted, null if the log has dropped
    it; changes, warnings: as the other routes answer them. Takes as long as sorting the weights."""
    model, config = published.model, published.config
    weights, origin = model.weights, model.origin
    largest = top_weights(weights, model.weight_errors(), TOP, "", names)
    figures = published.figures
    return {
        "model": {"name": origin.name, "version": published.version, "seq": model.seq, "lineage": origin.lineage.hex()},
        "made_by": {"riata": riata.__version__, "algorithm": ALGO_VERSION},
        "learner": {"kind": config.learner.kind, "about": spec_of(config.learner).about},
        "config": write_document(config),
        "settings": chosen_settings(config),
        "data": {
            "examples": figures["cumulative"]["examples"],
            "skipped": published.skipped,
            "first_event": times[0],
            "last_event": times[1],
        },
        "figures": {name: figures[name] for name in HORIZONS},
        "cost": figures.get("cost"),
        "warnings": warnings,
        "weights": {
            "non_zeros": weights.non_zeros,
            "shaped_columns": weights.shaped_columns,
            "intercept": weights.intercept,
            "link": weights.link,
            "largest": [{key: value for key, value in asdict(one).items() if key != "names"} for one in largest],
        },
        "changes": changes,
    }


def chosen_settings(config: ModelConfig) -> dict[str, Any]:
    """Return the settings of a model that differ from their defaults, by path; those of its learner from the learner's."""
    kind = spec_of(config.learner).config
    default = write_document(ModelConfig())
    default["learner"] = write_document(kind())
    chosen = _differences(default, write_document(config), "")
    return chosen if config.learner.kind == default_learner().kind else {"learner.kind": config.learner.kind, **chosen}


def _differences(default: dict[str, Any], document: dict[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, dict) and isinstance(default.get(name), dict):
            found |= _differences(default[name], value, f"{prefix}{name}.")
        elif value != default.get(name):
            found[prefix + name] = value
    return found


def markdown(card: dict[str, Any]) -> str:
    """Return a card as Markdown."""
    model, data, weights, figures = card["model"], card["data"], card["weights"], card["figures"]
    first, last = (data[name] or "unknown, the log has dropped it" for name in ("first_event", "last_event"))
    what = [
        ("learner", f"`{card['learner']['kind']}`"),
        ("served version", f"{model['version']}, after event {model['seq']}"),
        ("lineage", f"`{model['lineage']}`"),
        ("program", f"Riata {card['made_by']['riata']}, algorithm version {card['made_by']['algorithm']}"),
    ]
    learnt = [
        ("examples learnt", f"{data['examples']:,}"),
        ("events left out", f"{data['skipped']:,}"),
        ("first event accepted", first),
        ("last event accepted", last),
    ]
    settings = [(_code(name), _code(json.dumps(value, ensure_ascii=False))) for name, value in card["settings"].items()]
    tested = (
        "Every event is predicted before it is learnt. `faded` halves the weight of an event every "
        f"{figures['faded']['half_life']:,} events; `last events` are {figures['window']['examples']:,}."
    )
    largest = [
        (_code(one["feature"] or f"slot {one['slot']}"), f"{one['weight']:+.6g}", _number(one["std_error"]))
        for one in weights["largest"]
    ]
    shaped = f" {weights['shaped_columns']} columns have shapes too (`riata shapes`)." if weights["shaped_columns"] else ""
    costs = [(_text(name), _number(value)) for name, value in (card["cost"] or {}).items()]
    sections = [
        [f"# Model card: {_text(model['name'])}", "", card["learner"]["about"], "", *_table(("", ""), what)],
        ["## Settings other than the defaults", "", *(_table(("setting", "value"), settings) if settings else ["None.", ""])],
        ["## Data", "", *_table(("", ""), learnt)],
        ["## Figures", "", tested, "", *_table(("", *HORIZONS.values()), _figure_rows(figures))],
        ["## Costs", "", *_table(("", "mean of the last events"), costs)] if costs else [],
        ["## Warnings", "", *([f"- {_code(one['code'])}: {_text(one['detail'])}" for one in card["warnings"]] or ["None."]), ""],
        ["## Weights", "", f"{weights['non_zeros']:,} are not zero; the intercept is {weights['intercept']:+.6g}.{shaped}", ""],
        _table(("feature", "weight", "standard error"), largest),
        ["## Changes", "", *_table(("event", "time", "what", "by"), [_change_row(one) for one in card["changes"]])],
    ]
    return "\n".join(line for section in sections for line in section).rstrip() + "\n"


def _figure_rows(figures: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for name, title in FIGURES.items():
        values = [figures[horizon].get(name) for horizon in HORIZONS]
        same = name.endswith("loss") and "log_loss" not in name and figures["cumulative"].get("log_loss") is not None
        if any(value is not None for value in values) and not same:  # the loss of a logistic learner is the log loss
            rows.append((title, *(_number(value) for value in values)))
    return rows


def _change_row(change: dict[str, Any]) -> tuple[str, ...]:
    told = ", ".join(
        f"{_code(name)} {_text(str(before))} → {_text(str(after))}" for name, (before, after) in change["settings"].items()
    )
    what = f"{_text(change['kind'])}{': ' if told else ''}{told}"
    return str(change["seq"]), change["time"] or "unknown", what, _text(change["actor"] or "")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [_line(head), _line(("---",) * len(head)), *map(_line, rows), ""]


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.6g}"


def _code(name: str) -> str:
    """Quote a name as code, also one that has backquotes, bars, tags or line breaks: clients choose names."""
    shown = _one_line(name)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if "`" in (shown[:1], shown[-1:]) or (shown != shown.strip(" ") and shown.strip(" ")) else ""
    quoted = f"{fence}{pad}{shown}{pad}{fence}" if shown else "(empty)"
    return quoted.replace("|", "\\|")  # a table is cut at bars before code is read


def _text(words: str) -> str:
    """Escape what Markdown, or HTML in it, would read as more than text."""
    return html.escape(_MARKS.sub(lambda mark: "\\" + mark[0], _one_line(words)), quote=False)


def _one_line(words: str) -> str:
    """Write what is not printed, such as a line break or a change of direction, as an escape of Python."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in words)


async def card(call: Call) -> Answer:
    """The card of a model: Markdown for people, or with `format=json` the same as a document."""
    model, options = call.asked()
    form = FORMAT.of(options)
    service = call.parts.service
    published, names = service.published(model), service.names(model)
    seq = published.model.seq
    events = await service.event_times(model, [1, seq]) if seq else [UNKNOWN, UNKNOWN]
    times = [None if one.accepted_ms is None else rfc3339(one.accepted_ms) for one in events]
    changes, warnings = await service.changes(model), call.parts.meters.warnings(published, names)
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(None, card_of, published, names, (times[0], times[1]), changes, warnings)
    if form == "json":
        return call.answer(found)
    return Answer(200, markdown(found).encode(), b"text/markdown; charset=utf-8")


TAG: Final = "models"
ROUTES: Final = (
    Route(
        "GET",
        f"{AT}/card",
        (ADMIN, WATCH),
        card,
        "The card of a model: configuration, data, figures, warnings, largest weights and changes, to be kept beside a decision.",
        {200: {"text/markdown": {"schema": TEXT}, **json_content(Card)}},
        (404, 422, 503),
        (FORMAT,),
    ),
)
