"""Every bench of speed in turn, each in a separate process, and one page of all their claims.

What each found is read from the file that it leaves beside its page; with --only, the others' from when they last ran.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.bench import contest
from tests.bench.contest import Claim
from tests.bench.ratio_picture import draw_claims

SPEED: Final = (
    "learner_speed", "parse_speed", "first_pass", "fit_speed", "observe_bulk", "observe_single", "redis_ratio", "predict_speed",
    "beside_learning", "memory", "start_up",
)  # fmt: skip
HOW: Final = (
    "Both sides of each ratio were measured alternately in one run on one machine, after a check that they do the same work. "
    "The pages below have the contenders, the conditions and the checks."
)
HERE: Final = Path(__file__).parent


def run_bench(name: str, quick: bool) -> int:
    """Run one bench; returns its exit status. Its output is not captured."""
    command = [sys.executable, "-m", f"tests.bench.{name}", *(["--quick"] if quick else [])]
    return subprocess.run(command, check=False).returncode


def summary(results: list[dict[str, Any]], failed: list[str], trial: bool) -> str:
    """The page of all claims."""
    claims: list[Claim] = [claim for result in results for claim in result["claims"]]
    reached = sum(claim.reached for claim in claims)
    text = [
        "# Speed against the peers\n",
        *(["*A trial: short runs, few of them. Not evidence.*\n"] if trial else []),
        f"**{reached}** of {len(claims)} ratios are reached. {HOW}\n",
    ]
    if claims:
        text += [contest.claim_table(claims), "![ratios](speed.svg)\n"]
    text += [f"- [{result['title']}]({result['name']}.md): {result['conditions'].strip()}" for result in results]
    text += [f"- **{name} did not end well**; nothing is claimed of it." for name in failed]
    return "\n".join(text) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run and report; exit status 1 if a bench failed or found unequal work."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--only", choices=SPEED, action="append", help="run this one (may be given again)")
    options = parser.parse_args(arguments)
    chosen = options.only or [name for name in SPEED if (HERE / f"{name}.py").is_file()]
    failed = [name for name in chosen if run_bench(name, options.quick) != 0]
    found = [contest.read_result(name, options.quick) for name in SPEED if name not in failed]
    results = [result for result in found if result is not None]
    text = summary(results, failed, options.quick)
    sys.stdout.write("\n" + text)
    if not options.no_write:
        at = contest.folder(options.quick)
        at.mkdir(parents=True, exist_ok=True)
        (at / "speed.md").write_text(text, encoding="utf-8")
        claims = [claim for result in results for claim in result["claims"]]
        if claims:
            draw_claims(claims, at / "speed.svg")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
