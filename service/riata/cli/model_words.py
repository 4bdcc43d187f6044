"""One shape of arguments for all commands that take a model: its name is the first word after the command, or `--model NAME`.

A command declares it as its first argument, or as the option `--model` beside arguments of another kind; here each of the two
also takes the other form. So `riata metrics clicks` and `riata metrics --model clicks` are the same, as are `riata observe clicks
rows.csv` and `riata observe rows.csv --model clicks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from typer.core import TyperCommand

from riata.base.errors import BadInput

OPTION: Final = "--model"
TWICE: Final = f"the model is named twice: {{!r}} and {OPTION}; name it once"
NAMES: Final = frozenset({"model", "name"})  # of the argument of a command whose first argument is a model


class ModelCommand(TyperCommand):
    """A command that takes a model."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command."""
        return super().parse_args(ctx, self.in_declared_form(args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the line of usage."""
        options, *rest = super().collect_usage_pieces(ctx)
        return [options, *rest] if self._is_argument() else [options, "[model]", *rest]

    def in_declared_form(self, args: Sequence[str]) -> list[str]:
        """Return the words with the model where the command declares it. Raises `BadInput` if it is named twice."""
        words = [at for at, is_word in enumerate(self._are_words(args)) if is_word]
        arguments = [one for one in self.params if one.param_type_name == "argument"]
        if self._is_argument():
            return self._from_option(list(args), words, len(arguments))
        if words and self._begins_with_model([args[at] for at in words], arguments):
            if any(word == OPTION or word.startswith(f"{OPTION}=") for word in args):
                raise BadInput(TWICE.format(args[words[0]][:64]), "bad_option")
            first = words[0]
            return [OPTION, args[first], *args[:first], *args[first + 1 :]]
        return list(args)

    def _from_option(self, args: list[str], words: list[int], arguments: int) -> list[str]:
        at = next((at for at, word in enumerate(args) if word == OPTION or word.startswith(f"{OPTION}=")), None)
        if at is None:
            return args
        joined = args[at] != OPTION
        name = args[at].removeprefix(f"{OPTION}=") if joined else "".join(args[at + 1 : at + 2])
        if not name:
            raise BadInput(f"{OPTION}: give the name of a model", "bad_option")
        if len(words) >= arguments:
            raise BadInput(TWICE.format(args[words[0]][:64]), "bad_option")
        return [name, *args[:at], *args[at + (1 if joined else 2) :]]

    def _begins_with_model(self, words: Sequence[str], arguments: Sequence[Any]) -> bool:
        """Whether the first word is one more than the arguments take. Of features, which have a value each, it is one without."""
        if any(one.nargs == -1 for one in arguments):
            return arguments[0].name == "features" and len(words) > 1 and "=" not in words[0]
        return len(words) > len(arguments)

    def _is_argument(self) -> bool:
        first = next((one for one in self.params if one.param_type_name == "argument"), None)
        has_option = any(OPTION in one.opts for one in self.params)
        return first is not None and first.name in NAMES and not has_option

    def _are_words(self, args: Sequence[str]) -> list[bool]:
        """Return for each of the arguments whether it is a word: neither an option nor its value."""
        options: list[Any] = [one for one in self.params if one.param_type_name == "option"]
        valued = {opt for one in options if not one.is_flag for opt in one.opts}
        found, is_value, only_words = [], False, False
        for word in args:
            is_option = not only_words and word.startswith("-") and word != "-"
            found.append(not is_option and not is_value)
            only_words |= word == "--" and not is_value
            is_value = is_option and not is_value and (word in valued or (self._is_argument() and word == OPTION))
        return found
