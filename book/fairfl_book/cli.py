"""The command line: `fairfl data|run|build|references|lessons|claims|cards|bench|paper|replay|models|certificates|arena|new`.

Exit codes: 0 done, 1 something ran and failed, 2 the request itself could not be met.

What a command needs is imported in it, after its request is known to be one: help and refusals come at once.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import fairfl_lite
from fairfl_lite.errors import BuildError, FairFLError, did_you_mean, refused

if TYPE_CHECKING:
    from fairfl_book.notebooks.runner import Project

CLAIM_COLUMNS = ["id", "paper", "where", "kind", "printed", "measured", "low", "high", "seeds", "verdict", "notebook"]
MOST_CLAIMS = 10
"""How many of the lines that a search finds are printed."""


class Parser(argparse.ArgumentParser):
    """Says the nearest name for a misspelt command, in one sentence."""

    def error(self, message: str) -> NoReturn:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and "invalid choice" in message:
                written = ast.literal_eval(message.split("invalid choice: ")[1].rpartition(" (choose from")[0])
                message = f"There is no command {written!r}{did_you_mean(written, action.choices)}"
        self.exit(2, f"fairfl: {message.rstrip('.')}. Try {self.prog} --help.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        return args.do(args)
    except FairFLError as error:
        print(f"fairfl: {error}", file=sys.stderr)
        return 2
    except BuildError as error:
        print(f"fairfl: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        return 0
    except OSError as error:
        print(f"fairfl: {refused(error)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if "no locator available" not in str(error):  # of numba, when no folder that it tries can be written
            raise
        print("fairfl: Compiled code can be kept nowhere: set FAIRFL_CACHE to a folder that can be written.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fairfl: stopped; what was finished is kept, the next run goes on with the rest.", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="fairfl", description="Run the notebooks, build the book, read the ledger.")
    top.add_argument("--version", action="version", version=f"fairfl-lite {fairfl_lite.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, do: Any, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(do=do)
        return made

    data = command("data", do_data, "list, fetch or check the datasets")
    data.add_argument("action", choices=["list", "fetch", "check"])
    data.add_argument("names", nargs="*", metavar="NAME", help="datasets, all of them if none is named")

    run = command("run", do_run, "run one notebook and make its page")
    run.add_argument("notebook", nargs="?", metavar="NOTEBOOK", help="a path, or a short name such as fairfed/2_tables")
    run.add_argument("-p", dest="changes", action="append", default=[], metavar="name=value",
                     help="another value of a parameter, as in -p seeds=5, once for each; the run gets its own page")  # fmt: skip
    run.add_argument("--profile", default="quick", metavar="quick|paper",
                     help="quick, as on the pages (the default), or paper, at the paper's own scale")  # fmt: skip
    run.add_argument("--list", action="store_true",
                     help="list the notebooks, or the one that is named, with parameters, limits and default values")  # fmt: skip
    run.add_argument("--why", action="store_true", help="only say why it would be run")

    build = command("build", do_build, "run every notebook that is not up to date and build the book")
    build.add_argument("--why", action="store_true", help="only say what would be run and why")

    references = command("references", do_references, "compare quick runs with the outputs in notebooks/")
    references.add_argument("names", nargs="*", metavar="NOTEBOOK", help="those of these, all of them if none is named")
    references.add_argument("--update", action="store_true", help="keep the outputs of the runs instead")

    lessons = command("lessons", do_lessons, "make notebooks for students and instructors from those with exercises")
    lessons.add_argument("--out", type=Path, metavar="FOLDER", help="where to put them; lessons/ if none is named")

    claims = command("claims", do_claims, "the ledger: printed and measured, with a verdict")
    claims.add_argument("words", nargs="*", metavar="ID or WORDS",
                        help='an entry by its id, or those that have these words: "FairFed EOD Adult alpha 0.5"')  # fmt: skip
    claims.add_argument("--paper", metavar="PAPER")
    claims.add_argument("--json", action="store_true")
    claims.add_argument("--rerun", action="store_true", help="first measure it again")
    claims.add_argument("--changes", nargs="*", metavar="EDITION",
                        help="what became of each verdict between two ledger.csv files (none named: first and now)")  # fmt: skip

    cards = command("cards", do_cards, "check that what the cards select is stored or will be, or write their schema")
    cards.add_argument("action", choices=["check", "schema"])
    cards.add_argument("--paper", metavar="PAPER", help="the card of this paper, all of them if none is named")

    bench = command("bench", do_bench, "measure the speed of local training on this machine")
    bench.add_argument("--json", action="store_true")
    bench.add_argument("--against", metavar="REVISION", help="speeds over those of another commit, alternated")
    bench.add_argument("--peers", action="store_true", help="beside plain torch, JAX, Flower and FedLab, into results/peers.json")
    bench.add_argument("--spread", action="store_true", help="of a federation over Dask workers, into results/spread.json")

    paper = command("paper", do_paper, "measure the results at the papers' own scale, into results/")
    paper.add_argument("names", nargs="*", metavar="NAME", help="experiments, all of them if none is named")
    paper.add_argument("--only", action="append", default=[], metavar="setting=value[,value]",
                       help="these cells of one experiment; what is stored of others stays")  # fmt: skip
    paper.add_argument("--on", choices=["dask"], help="measure the cells on a Dask cluster")
    paper.add_argument("--scheduler", metavar="ADDRESS", help="that of the cluster; processes on this machine if none is named")
    paper.add_argument("--workers", type=int, metavar="N", help="how many processes on this machine, two if not said")

    replay = command("replay", do_replay, "measure stored results again and compare them with results/")
    replay.add_argument("names", nargs="*", metavar="NAME", help="experiments, all of them if none is named")
    replay.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="skip a cell that takes longer")

    models = command("models", do_models, "train the sets of models that RankFF chooses from, going on where it was stopped")
    models.add_argument("names", nargs="*", metavar="NAME", help="sets, those of MNIST if none is named")

    certificates = command("certificates", do_certificates, "make certificates, so that nobody else gets into a Dask cluster")
    certificates.add_argument(
        "folder", type=Path, metavar="FOLDER", help="where to put them; each holds a key, but for authority.pem"
    )
    certificates.add_argument(
        "--days", type=int, default=365, metavar="N", help="for how many days they are valid, 365 if not said"
    )

    arena = command("arena", do_arena, "compare methods on a table of your own, under the arena's protocol")
    arena.add_argument("--federation", type=Path, required=True, metavar="FILE", help="a CSV file with one row per person")
    arena.add_argument("--label", required=True, metavar="COLUMN", help="the column to predict")
    arena.add_argument("--sensitive", required=True, metavar="COLUMN", help="the column that says which group a row belongs to")
    arena.add_argument("--clients", required=True, metavar="COLUMN", help="the column that says which client holds a row")
    arena.add_argument("--favourable", metavar="VALUE", help="of the label; needed where it is not 0 and 1")
    arena.add_argument("--privileged", metavar="VALUE", help="of the sensitive column; the last of the two in order if not said")
    arena.add_argument("--methods", metavar="NAME[,NAME]", help="which methods beside fedavg, all of them if not said")
    arena.add_argument("--seeds", type=int, default=10, metavar="N", help="10 if not said; the arena itself has 50")
    arena.add_argument("--rounds", type=int, metavar="N", help="those of the protocol if not said")
    arena.add_argument("--out", type=Path, metavar="FILE", help="keep every value of every setting as CSV")
    arena.add_argument("--page", type=Path, metavar="FILE", help="draw all settings into an HTML page whose metrics you choose")
    arena.add_argument("--estimate", action="store_true", help="only say how long it takes")

    new = command("new", do_new, "make a small paper, method or dataset that works, to begin with")
    new.add_argument("kind", choices=["paper", "method", "dataset"])
    new.add_argument("name", metavar="NAME", help="in small letters, digits and hyphens, as in fair-fate")
    return top


def do_data(args: argparse.Namespace) -> int:
    from fairfl_lite import data

    chosen = _chosen(args.names, list(data.DATASETS), "dataset")
    if args.action == "list":
        table = data.listing()
        print(table[table["dataset"].isin(chosen)].to_string(index=False))
        return 0
    if args.action == "check":
        table = data.check()
        table = table[table["dataset"].isin(chosen)]
        print(table.to_string(index=False))
        # A dataset nobody named may be missing, but a file that is here must be the right one.
        return int(table["status"].isin(["missing", "corrupt"] if args.names else ["corrupt"]).any())
    return _fetch(chosen, must=bool(args.names))


def _fetch(names: Sequence[str], must: bool) -> int:
    """Fetch each dataset; without `must`, one that is large or that its owners do not give away is only reported."""
    from fairfl_lite import data

    failed = False
    for name in names:
        try:
            data.fetch(name, large=must)
            print(f"{name}: here")
        except FairFLError as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    return int(failed and must)


def do_run(args: argparse.Namespace) -> int:
    from fairfl_book.notebooks import runner
    from fairfl_book.site import book

    project = runner.Project.find()
    if args.list:
        return _list_notebooks(project, [project.name(args.notebook)] if args.notebook else project.names())
    if args.notebook is None:
        raise FairFLError("Name a notebook, as in fairfl run fairfed/2_tables: fairfl run --list shows all of them.")
    name = project.name(args.notebook)
    overrides = dict(_change(text) for text in args.changes)
    job = runner.job(project, name, args.profile, overrides)
    if args.why:
        print("\n".join(f"{name}: {reason}" for reason in runner.why(job) or ["up to date"]))
        return 0
    runner.fetch([name], project)
    job = runner.job(project, name, args.profile, overrides)
    done = "was up to date" if not runner.why(job) else "done"
    failures = runner.run([job])
    if job.changed and not failures:
        from fairfl_book.site import trial

        print(f"{name}: {done}. The book is left as it is; open {_near(trial.make(job))}")
        return 0
    if job.changed:
        raise BuildError(str(failures[0]))  # a trial with other values says nothing about the page
    book.settle(project, [job], failures)
    print(f"{name}: {done}, see {_near(project.root / 'executed' / f'{name}.ipynb')}")
    return 0


def _list_notebooks(project: Project, names: Sequence[str]) -> int:
    """Print the notebooks, each with its parameters: what may be given by -p, within which limits."""
    from fairfl_book.notebooks import outputs, parameters

    for name in names:
        print(name)
        for parameter in parameters.declared(outputs.source(project.source(name))).values():
            print(f"    {parameter}")
    return 0


def do_build(args: argparse.Namespace) -> int:
    from fairfl_book.notebooks import runner
    from fairfl_book.site import book

    project = runner.Project.find()
    if args.why:
        for name in project.names():
            for reason in runner.why(runner.job(project, name)) or ["up to date"]:
                print(f"{name}: {reason}")
        return 0
    print(f"The book is built. Open {book.build(project)}")
    return 0


def do_references(args: argparse.Namespace) -> int:
    from fairfl_book.notebooks import runner
    from fairfl_book.site import book

    project = runner.Project.find()
    names = [project.name(written) for written in args.names] or project.names()
    jobs = book.execute(project, names)
    if args.update:
        changed = book.update(project, jobs)
        print("\n".join(f"{name}: outputs kept" for name in changed) or "All outputs were kept already.")
        for one in jobs:
            if one.absent:
                print(f"{one.name}: left as it was, for it shows {' and '.join(one.absent)}, not here: see `fairfl data list`.")
        return 0
    found = book.differences(project, jobs)
    print("\n".join(found) or "All runs agree with the outputs kept in notebooks/.")
    return int(bool(found))


def do_lessons(args: argparse.Namespace) -> int:
    from fairfl_book.notebooks import lessons, runner

    project = runner.Project.find()
    folder = args.out or project.root / "lessons"
    made = lessons.make(project, folder)
    print(f"{len(made)} notebooks each in {_near(folder / 'student')} and {_near(folder / 'instructor')}")
    return 0


def do_claims(args: argparse.Namespace) -> int:
    from fairfl_book import cards

    id = args.words[0] if len(args.words) == 1 and _is_id(args.words[0]) else None
    if args.rerun and not id:
        raise FairFLError("Name the claim to measure again: fairfl claims ID --rerun.")
    if args.paper is not None:
        cards.load(args.paper)
    if id is not None:
        paper = cards.of(id).paper
        if args.paper not in (None, paper):
            raise FairFLError(f"Claim {id} is one of {paper}: leave --paper {args.paper} out.")

    from fairfl_book import ledger

    if args.changes is not None:
        return _changes(args)
    if id:
        found = {"stored": dataclasses.asdict(ledger.claim(id))}
        if args.rerun:
            from fairfl_book.ledger import afresh

            found["just now"] = dataclasses.asdict(afresh.remeasure(id))
        print(_json(found.items()) if args.json else _fields(found))
        return 0
    if args.words:
        return _find_claims(" ".join(args.words), args)
    table = ledger.claims(args.paper)
    if args.json:
        print(table.to_json(orient="records", indent=1, force_ascii=False))
    else:
        print(table[CLAIM_COLUMNS].to_string(index=False, na_rep="-", float_format="%.4g"))
    return 0


def _is_id(word: str) -> bool:
    """Whether a word of the command is meant as the id of an entry: fairfed.t1.adult, and neither 0.5 nor a sentence."""
    return not word or (word[0].isalpha() and "." in word and " " not in word)


def _find_claims(query: str, args: argparse.Namespace) -> int:
    """Print the entries that have these words, best first, and name the words that none has."""
    from fairfl_book import ledger
    from fairfl_book.ledger import find

    found = find.find(ledger.judged(args.paper), query)
    missing = " nor ".join(map(repr, found.missing))
    if not found.claims:
        said = f"No line of the ledger has {missing}" if found.missing else f"No line of the ledger has all of {query!r}"
        raise FairFLError(f"{said}: try fewer words, or other ones.")
    if found.missing:
        print(f"fairfl: No line of the ledger has {missing}; these have the other words.", file=sys.stderr)
    if args.json:
        print(_json([("stored", dataclasses.asdict(c)) for c in found.claims]))
        return 0
    print("\n".join(map(str, found.claims[:MOST_CLAIMS])))
    if len(found.claims) > MOST_CLAIMS:
        print(f"The best {MOST_CLAIMS} of {len(found.claims):,} lines are shown: add a word, or see them all with --json.")
    return 0


def do_cards(args: argparse.Namespace) -> int:
    from fairfl_book import cards

    if args.action == "schema":
        from fairfl_book.cards import schemas

        print(f"The schema of the cards is written to {_near(schemas.write())}.")
        return 0
    papers = _chosen([args.paper] if args.paper else [], cards.names(), "paper")
    from fairfl_book.ledger import selected

    shelf, failed = selected.Shelf(), False
    for paper in papers:
        found = selected.check(paper, shelf=shelf)
        failed |= bool(found.mistakes)
        wait, wrong = len(found.pending), len(found.mistakes)
        said = f"{paper}: {found.entries} entries read results, {wait} of them wait for runs, {wrong} are mistaken"
        print("\n".join([*found.mistakes, said]))
    return int(failed)


def _changes(args: argparse.Namespace) -> int:
    from fairfl_book.ledger import editions

    if args.words or args.paper or args.rerun or len(args.changes) > 2:
        raise FairFLError("Name at most two editions: fairfl claims --changes [OLD [NEW]].")
    table = editions.changes(*args.changes)
    moved = table[table["cause"] != ""]
    if args.json:
        print(moved.reset_index().to_json(orient="records", indent=1, force_ascii=False))
    else:
        print(f"{editions.crossed(table).to_string()}\n\n{moved.to_string()}\n\n{len(moved)} of {len(table)} entries changed.")
    return 0


def _json(found: Iterable[tuple[str, dict[str, Any]]]) -> str:
    """One record for each claim and each time that it was judged; what is not a number is null."""
    lines = [{"made": made, **{k: None if v != v else v for k, v in line.items()}} for made, line in found]
    return json.dumps(lines, indent=1, ensure_ascii=False)


def _fields(found: Mapping[str, dict[str, Any]]) -> str:
    """A claim field by field, what is empty left out; with the measurement just made beside the stored one."""
    lines = [f"{'':20} " + "   ".join(f"{made:<16}" for made in found)] if len(found) > 1 else []
    for name in next(iter(found.values())):
        values = [line[name] for line in found.values()]
        if any(value == value and value not in ("", None) for value in values):
            shown = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
            lines.append(f"{name:20} " + ("   ".join(f"{text:<16}" for text in shown) if len(set(shown)) > 1 else shown[0]))
    return "\n".join(line.rstrip() for line in lines)


def do_bench(args: argparse.Namespace) -> int:
    from fairfl_book import bench, peers, spread

    if args.peers:
        return peers.main()
    if args.spread:
        return spread.main()
    bench.main(json=args.json, revision=args.against)
    return 0


def do_models(args: argparse.Namespace) -> int:
    from papers.rankff import model_sets

    names = args.names or [name for name in model_sets.PAPER if name.startswith("mnist")]
    for name, sets in [(name, model_sets.trainings(name)) for name in names]:
        for chosen in sets:
            trained = chosen.train()
            print(f"{name}: {len(trained)} models of {trained.shape[1]:,} parameters in {chosen.folder}")
    return 0


def do_paper(args: argparse.Namespace) -> int:
    only = {name: value.split(",") for name, value in (_change(text, "--only setting=value") for text in args.only)}
    if only and len(args.names) != 1:
        raise FairFLError("Name the one experiment whose cells --only chooses.")
    if (args.scheduler or args.workers is not None) and not args.on:
        raise FairFLError("--scheduler and --workers are about a cluster: write --on dask before them.")
    if args.workers is not None and (args.scheduler or args.workers < 1):
        raise FairFLError("--workers is how many processes to start on this machine, at least 1: leave it out, or --scheduler.")
    if args.on and find_spec("distributed") is None:
        raise FairFLError(f"Dask is not installed: {sys.executable} -m pip install -r requirements-dask.lock")

    from fairfl_book.experiments import catalogue, clusters

    failed = False
    names = _chosen(args.names, catalogue.names(), "experiment")
    with clusters.dask(args.scheduler, args.workers) if args.on else nullcontext() as cluster:
        for name in names:
            print(f"{name}: running", file=sys.stderr)
            try:
                catalogue.run(name, only, cluster)
            except FairFLError as error:  # data that cannot be had: what is stored stays, the others go on
                failed = True
                print(f"{name}: not measured. {error}", file=sys.stderr)
    return int(failed and bool(args.names))


def do_replay(args: argparse.Namespace) -> int:
    from fairfl_book.experiments import catalogue

    names = _chosen(args.names, catalogue.names(), "experiment")
    return int(not catalogue.replay(names, args.limit).agrees)


def do_certificates(args: argparse.Namespace) -> int:
    from fairfl_lite.federation import certificates

    made = certificates.make(args.folder, args.days)
    authority, others = made.pop(certificates.AUTHORITY), list(made.items())
    print(f"{authority}: whom to trust; every machine needs it")
    for name, path in others:
        print(f"{path}: the certificate and key of the {Path(name).stem}; give it to nobody else")
    names = {role: args.folder / f"{role}.pem" for role in certificates.ROLES}
    for role, rest in (("scheduler", ""), ("worker", " tls://HOST:8786")):
        files = f"--tls-ca-file {authority} --tls-cert {names[role]} --tls-key {names[role]}"
        protocol = "--protocol tls " if role == "scheduler" else ""
        print(f"dask {role}{rest} {protocol}{files}")
    return 0


def do_arena(args: argparse.Namespace) -> int:
    from fairfl_lite import store
    from papers.arena import compare, protocol, runs

    rounds = protocol.ROUNDS if args.rounds is None else args.rounds
    if args.seeds < 2 or rounds < 1:
        raise FairFLError("The arena needs at least two seeds, for an interval, and one round.")
    own = runs.OwnTable.read(args.federation, args.label, args.sensitive, args.clients, args.favourable, args.privileged)
    names = _chosen([name for name in (args.methods or "").split(",") if name], list(runs.CONTESTANTS), "method in the arena")
    names = list(dict.fromkeys(["fedavg", *names]))
    seconds = runs.estimate(own, names, args.seeds, rounds)
    many = len(set(own.rows.columns[args.clients]))
    print(f"{len(own.rows):,} rows, {many} clients, {len(names)} methods, {args.seeds} seeds and {rounds} rounds: "
          f"it takes about {max(1, round(seconds / 60))} min on this machine.", flush=True)  # fmt: skip
    if args.estimate:
        return 0
    frame = runs.compared(own, names, args.seeds, rounds)
    if args.out:
        store.write(args.out, frame.to_csv(index=False).encode())
    print(compare.shown({rule: compare.verdicts(frame, rule) for rule in compare.RULES}))
    if args.page:
        from fairfl_book.site import front_page

        front_page.own_page(frame, args.federation.name, runs.CONTESTANTS, args.page)
        print(f"Open {args.page}")
    return 0


def do_new(args: argparse.Namespace) -> int:
    from fairfl_book import new

    made = new.make(args.kind, args.name)
    width = max(map(len, made.commands))
    print("\n".join(["New files:", *(f"  {path}" for path in made.files)]))
    if made.changed:
        print("\n".join(["Changed:", *(f"  {path}" for path in made.changed)]))
    print("\n".join(["It works as it is. Try:", *(f"  {command:{width}}  {says}" for command, says in made.commands.items())]))
    return 0


def _chosen(names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    for name in names:
        if name not in known:
            choice = ", ".join(known)
            raise FairFLError(f"There is no {what} {name!r}{did_you_mean(name, known)}: there are {choice}.")
    return list(names) or list(known)


def _change(text: str, how: str = "-p name=value") -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise FairFLError(f"Write it as {how}, unlike {text!r}.")
    return name, value


def _near(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


if __name__ == "__main__":
    sys.exit(main())
