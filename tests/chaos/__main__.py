"""`make chaos`: every hostile input is tried, and counted by kind."""

from __future__ import annotations

import sys
from collections import Counter

from chaos import hostile


def main() -> int:
    bad, all_of_them = [], Counter()
    print(f"{'inputs':>12} {'tried':>6} {'accepted':>9} {'refused':>8} {'traceback':>10} {'bad':>4}")
    for kind, make in hostile.KINDS.items():
        outcomes = [hostile.tried(case) for case in make(hostile.SHARES[kind])]
        counts = Counter(outcome.what for outcome in outcomes)
        wrong = [outcome for outcome in outcomes if outcome.bad]
        all_of_them += Counter(tried=len(outcomes), bad=len(wrong), **counts)
        bad += wrong
        _line(kind, Counter(tried=len(outcomes), bad=len(wrong), **counts))
    _line("all", all_of_them)
    for outcome in bad:
        print(f"{outcome.case.kind}, {outcome.case.name}: {outcome.what} {outcome.said[:200]}")
    return int(bool(bad))


def _line(kind: str, counts: Counter[str]) -> None:
    accepted, refused, traceback = (counts[what] for what in (hostile.ACCEPTED, hostile.REFUSED, hostile.TRACEBACK))
    print(f"{kind:>12} {counts['tried']:>6} {accepted:>9} {refused:>8} {traceback:>10} {counts['bad']:>4}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
