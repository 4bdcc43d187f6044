"""Structural rules: which package may import which, maximum lengths, forbidden calls, required docstrings and twins."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from riata.wire.readers import READERS
from tests.mutants.mutants import ALL
from tests.tiers import EVERY_DAY, FULL

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "service" / "riata"
TWINS = ROOT / "tests" / "twins"
NATIVE = ROOT / "service" / "native"

# A package imports those of earlier lines only.
ORDER = [
    "__init__ base",
    "native scorer",
    "maths",
    "wire",
    "learn store",
    "predict watch trees",
    "lab",
    "run",
    "web client",
    "wiring estimators model",
    "cli",
    "__main__",
]
RANK = {package: rank for rank, line in enumerate(ORDER) for package in line.split()}

THIRD_PARTY = {
    "base": {"numpy", "annotated_types"},
    "base/settings.py": {"pydantic", "pydantic_settings", "annotated_types"},
    "base/read_settings.py": {"pydantic", "pydantic_settings"},
    "scorer": set(),
    "native": {"numpy"},
    "maths": {"numpy"},
    "wire": {"numpy", "msgspec", "annotated_types"},
    "learn": {"numpy", "annotated_types"},
    "store": {"numpy"},
    "store/redis/link.py": {"hiredis"},
    "predict": {"numpy"},
    "lab": {"numpy"},
    "trees": {"numpy"},
    "watch": {"numpy", "annotated_types"},
    "run": {"numpy", "annotated_types"},
    "web": {
        "annotated_types",
        "fastapi",
        "starlette",
        "uvicorn",
        "pydantic",
        "prometheus_client",
        "numpy",
        "anyio",
        "msgspec",
    },
    "web/spans.py": {"opentelemetry"},
    "web/server/body.py": {"backports", "compression", "starlette"},
    "client": {"httpx"},
    "estimators": {"sklearn", "scipy", "numpy"},
    "cli": {"typer", "rich", "click"},
    "cli/model_setup.py": {"msgspec", "typer"},
    "cli/marginals.py": {"rich", "numpy"},
    "cli/parquet.py": {"pyarrow"},
    "wire/readers/arrow_columns.py": {"numpy", "pyarrow"},
    "cli/csv_file.py": {"msgspec"},
    "lab/pools/dask_pool.py": {"distributed"},
    "cli/redis_stream.py": {"redis"},
    "cli/kafka_topic.py": {"confluent_kafka"},
    "model": set(),
    "wiring": set(),
    "__main__": set(),
    "__init__": set(),
}

BANNED_CALLS = {"print", "eval", "exec", "__import__"}
BANNED_IMPORTS = {"pickle", "dill", "joblib", "marshal", "shelve"}
FUNCTION_LINES_MAX = 60
ARGUMENTS_MAX = 6
ADR_HEADINGS = ["Status", "Context", "Decision", "Consequences"]
ADR_LINES_MAX = 40
ADR_WIDTH_MAX = 140
TOP_LEVEL = {
    "pyproject.toml", "service", "tests", "docker", "deploy", "README.md", "docker-compose.yml", "Makefile", "CHANGELOG.md",
    "requirements.lock", "MANIFEST.in", "LICENSE", "SECURITY.md", "CONTRIBUTING.md",
}  # fmt: skip


@functools.cache
def modules() -> list[tuple[str, Path, ast.Module]]:
    """Package, file and syntax tree of each module."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        room = inside.parts[0] if len(inside.parts) > 1 else inside.stem
        found.append((room, path, ast.parse(path.read_text(encoding="utf-8"))))
    return found


@functools.cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a tree. Each check needs them."""
    return tuple(ast.walk(tree))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "riata":
                yield from (f"riata.{alias.name}" for alias in node.names)
            else:
                yield node.module


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {node.id for node in function.decorator_list if isinstance(node, ast.Name)}


def wrong_imports(room: str, names: Iterator[str], place: str) -> list[str]:
    wrong = []
    for name in names:
        parts = name.split(".")
        if parts[0] != "riata" or len(parts) < 2 or parts[1].startswith("_"):
            continue
        target = parts[1]
        if target != room and RANK[target] >= RANK[room]:
            wrong.append(f"{place} imports {name}")
    return wrong


def test_imports_go_down_in_rank_only() -> None:
    wrong = [w for room, path, tree in modules() for w in wrong_imports(room, imported(tree), path.name)]
    assert wrong == []


def test_the_check_of_ranks_sees_an_import_upwards() -> None:
    tree = ast.parse("from riata.run.state.core import Core\nimport riata.base.errors\nfrom riata import web")
    assert wrong_imports("learn", imported(tree), "x.py") == ["x.py imports riata.run.state.core", "x.py imports riata.web"]


def test_third_party_imports_are_on_the_list() -> None:
    wrong = []
    for room, path, tree in modules():
        allowed = THIRD_PARTY.get(path.relative_to(PACKAGE).as_posix(), THIRD_PARTY[room])
        for name in imported(tree):
            top = name.split(".")[0]
            if top != "riata" and top not in sys.stdlib_module_names and top not in allowed:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert wrong == []


# Who may have which effect: packages, and single files of others.
EFFECTS = {
    "ctypes": {"native", "wiring", "base/process.py"},
    "socket": {"web", "store", "client", "cli", "wiring"},
    "ssl": {"web", "store", "client"},
    "http": {"web", "client", "cli"},
    "urllib.request": {"client"},
    # The writer yields when the event loop has something to read; a pool waits for a process no longer than it has patience; a
    # connection to Redis is used again if nothing unrequested came.
    "select": {"web", "run/writer/loop_yield.py", "lab/pools/processes.py", "store/redis/link.py"},
    "selectors": {"web"},
}
HTTP_WORDS = re.compile(r"HTTP/\d|Content-Length|Transfer-Encoding|Keep-Alive|\bepoll\b", re.IGNORECASE)
SPEAK_HTTP = {"web", "client", "cli", "run/writer/loop_yield.py"}


def effects(room: str, inside: str, tree: ast.Module) -> list[str]:
    """Imports and words in a file that belong to another package."""
    found = []
    for name in imported(tree):
        for effect, allowed in EFFECTS.items():
            if (name == effect or name.startswith(effect + ".")) and not {room, inside} & allowed:
                found.append(f"{inside} imports {name}")
    docs = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in docs:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            words = HTTP_WORDS.findall(text)
        elif isinstance(node, ast.Name | ast.arg | ast.Attribute):
            words = (
                ["epoll"]
                if "epoll"
                in (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") or getattr(node, "arg", ""))
                else []
            )
        else:
            continue
        if not {room, inside} & SPEAK_HTTP:
            found += [f"{inside}:{node.lineno} says {word}" for word in words]
    return found


def test_each_effect_is_in_its_package_only() -> None:
    assert [w for room, path, tree in modules() for w in effects(room, path.relative_to(PACKAGE).as_posix(), tree)] == []


def test_every_exception_names_a_file_that_exists() -> None:
    files = {name for allowed in [*EFFECTS.values(), SPEAK_HTTP] for name in allowed if name.endswith(".py")}
    assert {name for name in files if not (PACKAGE / name).is_file()} == set()


def test_the_check_of_effects_sees_imports_and_words() -> None:
    tree = ast.parse('''"""Of HTTP/1.1 and epoll."""
import socket, select
from ctypes import CDLL
from http import HTTPStatus
def f(epoll: int) -> bytes:
    return b"HTTP/1.1 200 OK" + str(epoll)
''')
    assert effects("predict", "predict/x.py", tree) == [
        "predict/x.py imports socket", "predict/x.py imports select", "predict/x.py imports ctypes",
        "predict/x.py imports http", "predict/x.py:5 says epoll", "predict/x.py:6 says HTTP/1", "predict/x.py:6 says epoll",
    ]  # fmt: skip
    assert effects("web", "web/x.py", tree) == ["web/x.py imports ctypes"]
    assert effects("native", "native/x.py", ast.parse("from ctypes import CDLL")) == []
    assert effects("run", "run/writer/loop_yield.py", ast.parse("import select")) == []
    assert effects("run", "run/x.py", ast.parse("import select")) == ["run/x.py imports select"]


def named(path: Path) -> str:
    return ".".join(("riata", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other, directly or through others."""
    while leaves := {name for name, others in imports.items() if not others & imports.keys()}:
        imports = {name: others for name, others in imports.items() if name not in leaves}
    reached: dict[str, set[str]] = {}
    for start in imports:
        found, waiting = set[str](), [start]
        while waiting:
            new = (imports[waiting.pop()] & imports.keys()) - found
            found |= new
            waiting += new
        reached[start] = found
    groups = {
        tuple(sorted(other for other in found if start in reached[other])) for start, found in reached.items() if start in found
    }
    return [list(group) for group in sorted(groups)]


def module_imports(name: str, tree: ast.Module, known: set[str]) -> set[str]:
    """The modules among `known` that a module imports anywhere, also only for its annotations."""
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= whole & known or {node.module}
    return found & known - {name}


def test_no_files_import_each_other() -> None:
    trees = {named(path): tree for _, path, tree in modules()}
    assert cycles({name: module_imports(name, tree, set(trees)) for name, tree in trees.items()}) == []


def test_the_check_of_cycles_sees_one_of_annotations() -> None:
    texts = {
        "riata.a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from riata.c import C",
        "riata.b": "from riata import a\nfrom riata.a import A",
        "riata.c": "def f():\n    import riata.b",
        "riata.d": "from riata.a import A",
    }
    imports = {name: module_imports(name, ast.parse(text), set(texts)) for name, text in texts.items()}
    assert imports["riata.b"] == {"riata.a"}
    assert cycles(imports) == [["riata.a", "riata.b", "riata.c"]]
    assert cycles({**imports, "riata.c": set()}) == []


READER_IMPORTS = {  # those who may import a reader
    "cli/demo_stream.py",  # generates rows, as JSON
}
WRITERS = {
    "web/server/answers.py",
    "web/api/predictions.py",
    "web/api/routes/predict.py",
    "client/calls.py",
}  # they name what they write


def names_a_reader(inside: str, tree: ast.Module) -> list[str]:
    """Imports of a reader, and its names and media types as literals; application/json is that of every document."""
    if inside.startswith("wire/readers/"):
        return []
    prefix = "riata.wire.readers."
    wrong = [f"{inside} imports {name}" for name in imported(tree) if name.startswith(prefix) and inside not in READER_IMPORTS]
    media = {media.name for reader in READERS for media in reader.media_types} - {"application/json"}
    words = {*media, *(reader.name for reader in READERS)}
    literals = [node.value for node in nodes(tree) if isinstance(node, ast.Constant)]
    named = [text.decode("latin-1") if isinstance(text, bytes) else text for text in literals if isinstance(text, bytes | str)]
    return wrong + [f"{inside} names {word}" for word in named if word in words and inside not in WRITERS]


def test_nothing_outside_its_folder_names_a_reader() -> None:
    assert [w for _, path, tree in modules() for w in names_a_reader(path.relative_to(PACKAGE).as_posix(), tree)] == []


def test_the_check_of_readers_sees_a_reader_named() -> None:
    tree = ast.parse('from riata.wire.readers.vw.body import read_vw\nx = ("vw", b"text/x-vw", "view")')
    found = names_a_reader("cli/source.py", tree)
    assert found == [
        "cli/source.py imports riata.wire.readers.vw.body",
        "cli/source.py names vw",
        "cli/source.py names text/x-vw",
    ]
    assert names_a_reader("wire/readers/vw.py", tree) == []


WIRING = PACKAGE / "wiring.py"
INNER_SETTINGS = {
    "EngineSettings",
    "ArchiveSettings",
    "RefitSettings",
    "Retention",
    "SqliteSettings",
    "RedisSettings",
    "WebSettings",
    "Bounds",
}


def settings_passed(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """The calls of `wiring` that pass something of the settings on: the dotted name of what is called, and the call."""
    origin = {
        alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        name = origin.get(node.func.id, "")
        if name.startswith("riata.") and any(_reads_settings(value) for value in given(node)):
            yield name, node


def given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _reads_settings(value: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "settings"
        for node in ast.walk(value)
    )


def second_defaults(signature: inspect.Signature, call: ast.Call) -> list[str]:
    """The parameters that are given something of the settings, and have a default of their own."""
    bound = signature.bind(*call.args, **{keyword.arg or "": keyword.value for keyword in call.keywords}).arguments
    return [
        name
        for name, value in bound.items()
        if _reads_settings(value) and signature.parameters[name].default is not inspect.Parameter.empty
    ]


def called(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_what_the_operator_sets_has_a_default_in_one_place() -> None:
    passed = list(settings_passed(ast.parse(WIRING.read_text(encoding="utf-8"))))
    wrong = [f"{name}: {found}" for name, call in passed for found in second_defaults(inspect.signature(called(name)), call)]
    assert wrong == []
    assert {name.rpartition(".")[2] for name, _ in passed} >= INNER_SETTINGS | {"Buckets", "open_in_memory"}


def test_settings_of_inner_layers_have_no_defaults() -> None:
    found = {
        node.name: [ast.unparse(field) for field in node.body if isinstance(field, ast.AnnAssign) and has_default(field)]
        for room, _, tree in modules()
        for node in ast.walk(tree)
        if room in ("store", "run", "web") and isinstance(node, ast.ClassDef)
        and (node.name in INNER_SETTINGS or node.name.endswith("Settings"))
    }  # fmt: skip
    assert {name: fields for name, fields in found.items() if fields} == {}
    assert found.keys() >= INNER_SETTINGS


def has_default(field: ast.AnnAssign) -> bool:
    """Whether a field of a dataclass has a default; `field(repr=False)` gives none."""
    if not isinstance(field.value, ast.Call):
        return field.value is not None
    return any(keyword.arg in ("default", "default_factory") for keyword in field.value.keywords)


def test_the_check_of_defaults_sees_them() -> None:
    tree = ast.parse("from riata.web.auth.gate import Buckets\nBuckets(settings.a, together=2 * settings.b)\nBuckets(1, 2)")
    passed = list(settings_passed(tree))
    assert [name for name, _ in passed] == ["riata.web.auth.gate.Buckets"]

    def two(per_key: float, together: float = 0.0) -> None: ...

    assert second_defaults(inspect.signature(two), passed[0][1]) == ["together"]
    fields = ast.parse("a: int\nb: int = 1\nc: str = field(repr=False)\nd: dict = field(default_factory=dict)").body
    assert [has_default(field) for field in fields if isinstance(field, ast.AnnAssign)] == [False, True, False, True]


def test_functions_stay_short() -> None:
    wrong = []
    for _, path, tree in modules():
        for function in functions(tree):
            length = code_lines(function)
            if length > FUNCTION_LINES_MAX:
                wrong.append(f"{path.relative_to(PACKAGE)}: {function.name} has {length} lines")
    assert wrong == []


def test_functions_take_few_arguments() -> None:
    wrong = []
    for _, path, tree in modules():
        for function in functions(tree):
            names = [argument.arg for argument in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]]
            count = len([name for name in names if name not in ("self", "cls")])
            if count > ARGUMENTS_MAX and path.parent.name not in (
                "cli",
                "client",
            ):  # there an argument is an option of the user's
                wrong.append(f"{path.relative_to(PACKAGE)}: {function.name} takes {count}")
    assert wrong == []


def test_nothing_banned_is_called_or_imported() -> None:
    wrong = []
    for _, path, tree in modules():
        for node in nodes(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
                wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno} calls {node.func.id}")
        banned = [name for name in imported(tree) if name.split(".")[0] in BANNED_IMPORTS]
        wrong += [f"{path.relative_to(PACKAGE)} imports {name}" for name in banned]
    assert wrong == []


def test_packages_that_determine_bits_use_no_clock_and_no_random_numbers() -> None:
    wrong = []
    for room, path, tree in modules():
        if room in ("native", "maths", "learn", "watch", "predict") or path.name in ("core.py", "model_state.py"):
            names = {name.split(".")[0] for name in imported(tree)}
            wrong += [f"{path.relative_to(PACKAGE)} imports {name}" for name in names & {"time", "random", "secrets", "datetime"}]
    assert wrong == []


DRIVEN = {"core.py", "lease.py", "tail.py", "recovery.py", "checkpointer.py"}  # of `run`: clocks and chance are handed to them
OWN_WILL = {"time.time", "time.time_ns", "random.random", "random.uniform", "uuid.uuid4", "os.urandom", "secrets.token_bytes"}


def own_will(tree: ast.Module) -> list[str]:
    """Calls by which code reads the clock or random numbers itself."""
    dotted = [
        f"{node.value.id}.{node.attr}"
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    bare = [name for name in imported(tree) if name in ("random", "secrets", "uuid")]
    return [name for name in dotted if name in OWN_WILL] + bare


def test_the_protocol_reads_neither_clock_nor_random_numbers() -> None:
    driven = {path.name: tree for room, path, tree in modules() if room == "run" and path.name in DRIVEN}
    assert driven.keys() == DRIVEN
    assert {name: found for name, tree in driven.items() if (found := own_will(tree))} == {}


def test_the_check_of_the_protocol_detects_clocks_and_random_numbers() -> None:
    tree = ast.parse("import time, random\nx = time.time() + random.random()")
    assert own_will(tree) == ["time.time", "random.random", "random"]


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    doc = ast.get_docstring(function, clean=False)
    return (function.end_lineno or 0) - function.lineno + 1 - (len(doc.splitlines()) if doc else 0)


def twins_of(trees: Iterator[ast.Module]) -> set[str]:
    """The files of the native core that have a twin: each file of twins lists those that it is for as TWINS_OF."""
    found: set[str] = set()
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Assign) and [target.id for target in node.targets if isinstance(target, ast.Name)] == [
                "TWINS_OF"
            ]:
                found |= set(ast.literal_eval(node.value))
    return found


def test_every_file_of_the_native_core_has_a_slow_twin() -> None:
    files = {path.stem for path in NATIVE.glob("*.c")}
    twins = twins_of(ast.parse(path.read_text(encoding="utf-8")) for path in TWINS.rglob("*.py"))
    assert (files - twins, twins - files) == (set(), set())


def test_every_function_of_the_native_core_is_called() -> None:
    text = (NATIVE / "riata.h").read_text(encoding="utf-8")
    exported = re.findall(r"^(?:EXPORT|QUICK) [^(;]*?riata_(\w+)\(", text, re.MULTILINE)
    code = "".join(path.read_text(encoding="utf-8") for root in (PACKAGE, ROOT / "tests") for path in root.rglob("*.py"))
    assert set(exported) - set(re.findall(r"(?:core|found|for_bytes\([^\n]+\))\.(\w+)", code)) == set()


def test_public_functions_and_classes_say_what_they_are() -> None:
    wrong = []
    for _, path, tree in modules():
        if ast.get_docstring(tree) is None:
            wrong.append(f"{path.relative_to(PACKAGE)} has no docstring")
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                wrong.append(f"{path.relative_to(PACKAGE)}: {node.name}")
    assert wrong == []


def wrong_in_record(text: str) -> list[str]:
    """What a decision record has that it may not have."""
    lines = text.splitlines()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    wrong = [f"headings {headings}"] if headings != ADR_HEADINGS else []
    wrong += [f"{len(lines)} lines"] if len(lines) > ADR_LINES_MAX else []
    return wrong + [f"line {at} is long" for at, line in enumerate(lines, 1) if len(line) > ADR_WIDTH_MAX]


def test_decision_records_are_short_and_have_their_headings() -> None:
    records = sorted((ROOT / "service" / "docs" / "adr").glob("[0-9]*.md"))
    wrong = {record.name: found for record in records if (found := wrong_in_record(record.read_text(encoding="utf-8")))}
    assert wrong == {}
    assert len(records) >= 10


def test_the_check_of_decision_records_sees_headings_and_lengths() -> None:
    good = "\n\n".join(f"## {heading}\nA sentence." for heading in ADR_HEADINGS)
    assert wrong_in_record(good) == []
    assert wrong_in_record(good + "\n\n## Evidence\nLinks.") == [f"headings {[*ADR_HEADINGS, 'Evidence']}"]
    assert wrong_in_record(good + "\n" * 31) == ["41 lines"]
    assert wrong_in_record(good + "x" * 140) == ["line 11 is long"]


def test_the_table_of_tiers_names_tests_that_exist() -> None:
    wrong = []
    for entry in (*FULL, *EVERY_DAY):
        beginning, _, test = entry.partition("::")
        files = [path for path in (ROOT / "tests").rglob("test_*.py") if path.as_posix().startswith(f"{ROOT}/tests/{beginning}")]
        found = [path for path in files if f"def {test.partition('[')[0]}" in path.read_text(encoding="utf-8")]
        wrong += [] if found else [entry]
    assert wrong == []


def test_each_mutant_changes_one_place() -> None:
    wrong = [one for one in ALL if (ROOT / "service" / one.file).read_text(encoding="utf-8").count(one.old) != 1]
    assert wrong == []


def test_the_top_level_has_only_listed_files() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: what is installed beside the project is not ours to judge")
    made_here = {"riata-data", "build", "dist"}
    names = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert names - TOP_LEVEL - made_here == set()


def test_the_project_speaks_of_itself_alone() -> None:
    banned = re.compile(r"/work/|/tmp/brief|pypi\.org|pythonhosted|registry\.npmjs|deb\.debian", re.IGNORECASE)
    wrong = []
    for folder in ("service", "tests", "docker", "deploy"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".toml", ".yml", ".lock", ".json", ".txt") and path != Path(__file__):
                wrong += [f"{path.relative_to(ROOT)}: {found}" for found in banned.findall(path.read_text(encoding="utf-8"))]
    assert wrong == []
