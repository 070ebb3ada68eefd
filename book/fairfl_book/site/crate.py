"""All measured results as one archive that others can keep, read and check without this project: `make crate`.

It is an RO-Crate (https://w3id.org/ro/crate/1.1): results/ with a description of every file and of the run that made it, the
versions of all that was used as a bill of materials (CycloneDX), and codecheck.yml, which lists what a checker should be able
to make again. All of it comes from the provenance beside the results and from the lock, so nothing of it is stored; the same
commit gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tomllib
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from fairfl_book import cards, datacards, results
from fairfl_book.site import lock
from fairfl_lite import store
from fairfl_lite.data import DATASETS

NAME = "crate.zip"
BILL, CHECK, ABOUT = "sbom.cdx.json", "codecheck.yml", "ro-crate-metadata.json"
LICENCE = "https://spdx.org/licenses/MIT"
KINDS = {
    ".csv": "text/csv",
    ".gz": "application/gzip",
    ".json": "application/json",
    ".yml": "application/yaml",
    ".cff": "application/yaml",
}
_FIRST = (1980, 1, 1, 0, 0, 0)
"""The oldest time that an archive can hold: what is in it has no other."""


def write(root: Path) -> Path:
    """Put the archive where the book's pages lead to."""
    target = root / "book" / "_static" / NAME
    content = packed(files(root))
    if not target.is_file() or target.read_bytes() != content:
        store.write(target, content)
    return target


def packed(content: dict[str, bytes]) -> bytes:
    """An archive of these files: the same bytes for the same files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content):
            archive.writestr(zipfile.ZipInfo(name, _FIRST), content[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def files(root: Path) -> dict[str, bytes]:
    """What is in the archive, by name."""
    taken = [*sorted((root / "results").glob("*/*.csv*")), *sorted((root / "results").glob("*/*.json"))]
    taken += [root / name for name in (*lock.HEADS, "CITATION.cff", "LICENSE")]
    content = {path.relative_to(root).as_posix(): path.read_bytes() for path in taken}
    content[BILL] = _text(bill(root))
    content[CHECK] = yaml.safe_dump(codecheck(root), sort_keys=False, allow_unicode=True).encode()
    content[ABOUT] = _text(described(root, content))
    return content


def bill(root: Path) -> dict[str, Any]:
    """The packages of all locks in CycloneDX; those that only one build of torch needs, or only a cluster, are optional."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    both = [(one, "required" if name == lock.LOCK else "optional") for name in lock.HEADS for one in lock.read(root / name)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": project["name"],
                "name": project["name"],
                "version": _citation(root)["version"],
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{one.name}@{one.version}",
                "purl": f"pkg:pypi/{one.name}@{one.version}",
                "name": one.name,
                "version": one.version,
                "scope": scope,
                "hashes": [{"alg": "SHA-256", "content": hash} for hash in one.hashes],
                **({"properties": [{"name": "marker", "value": one.marker}]} if one.marker else {}),
            }
            for one, scope in both
        ],
    }


def codecheck(root: Path) -> dict[str, Any]:
    """What a checker gets (https://codecheck.org.uk): what is to be made again, by which command. The rest is theirs."""
    about = _citation(root)
    return {
        "version": "https://codecheck.org.uk/spec/config/1.0/",
        "paper": {"title": about["title"], "authors": [{"name": author["name"]} for author in about["authors"]]},
        "manifest": [
            {
                "file": path.relative_to(root).as_posix(),
                "comment": f"{made['command']}; {made['rows']} rows in {made['seconds']:.0f} s",
            }
            for path, made in _measured(root).items()
        ],
    }


def described(root: Path, content: dict[str, bytes]) -> dict[str, Any]:
    """The graph of the crate: every file of `content`, and for each result the run, the data and the code that it came from."""
    about = _citation(root)
    things: dict[str, dict[str, Any]] = {}

    def thing(identity: str, kind: str, /, **fields: Any) -> dict[str, str]:
        things[identity] = {"@id": identity, "@type": kind, **fields}
        return {"@id": identity}

    def file(name: str, /, **fields: Any) -> dict[str, str]:
        kind = KINDS.get(Path(name).suffix, "text/plain")
        size, digest = str(len(content[name])), hashlib.sha256(content[name]).hexdigest()
        return thing(name, "File", **{"name": name, "encodingFormat": kind, "contentSize": size, "sha256": digest, **fields})

    thing(ABOUT, "CreativeWork", conformsTo={"@id": "https://w3id.org/ro/crate/1.1"}, about={"@id": "./"})
    parts = [file(name) for name in sorted(content)]
    runs = []
    for path, made in _measured(root).items():  # the oldest say neither what they read nor where they ran
        name = path.relative_to(root).as_posix()
        title = f"{path.parent.name}/{path.name.partition('.')[0]}"
        commit, where = made["git"]["commit"], made.get("cpu", "a processor that was not noted")
        code = thing(
            f"#code-{commit[:12]}",
            "SoftwareApplication",
            name="fairfl-lite",
            softwareVersion=f"{made['versions']['fairfl_lite']}, commit {commit}",
        )
        data = [_dataset(thing, dataset, digest) for dataset, digest in made["data"].items()]
        read = [{"@id": results.path(other).relative_to(root).as_posix()} for other in made.get("reads", ())]
        runs.append(
            thing(
                f"#run-{title}",
                "CreateAction",
                name=made["command"],
                description=f"{made['seconds']:.0f} s on {where}; all else is in the JSON file beside the result",
                instrument=code,
                object=data + read,
                result={"@id": name},
            )
        )
        file(name, name=f"Result {title}", description=f"{made['rows']} rows: keys, seed, metric, value")
        beside = f"results/{title}.json"
        file(beside, name=f"Provenance of {title}", about={"@id": name})
    cited = []
    for paper in cards.names():
        citation = cards.load(paper).citation
        where = f"https://arxiv.org/abs/{citation['arxiv']}" if "arxiv" in citation else f"#paper-{paper}"
        cited.append(thing(where, "ScholarlyArticle", name=citation["title"], datePublished=str(citation["year"])))
    thing(
        "./",
        "Dataset",
        name=about["title"],
        description="What was measured for the book, each result with the run, the code and the data that it came from.",
        datePublished=_date(root),
        license=thing(LICENCE, "CreativeWork", name="MIT License", url=LICENCE),
        author=[thing(f"#author-{at}", "Organization", name=author["name"]) for at, author in enumerate(about["authors"])],
        citation=cited,
        hasPart=parts,
        mentions=runs,
    )
    context = ["https://w3id.org/ro/crate/1.1/context", {"sha256": "https://schema.org/sha256"}]
    return {"@context": context, "@graph": list(things.values())}


def _dataset(thing: Any, name: str, digest: str) -> dict[str, str]:
    about = {"name": name}
    if name in DATASETS and name in datacards.files():
        dataset, card = DATASETS[name], datacards.load(name)
        about = {"name": dataset.title, "description": card.provenance, "url": dataset.url, "license": dataset.licence}
    return thing(f"#data-{name}-{digest[:12]}", "Dataset", identifier=f"sha256:{digest}", **about)


def _measured(root: Path) -> dict[Path, dict[str, Any]]:
    """The provenance of every result, by its CSV."""
    names = sorted(path.relative_to(root / "results").with_suffix("").as_posix() for path in (root / "results").glob("*/*.json"))
    return {results.path(name): results.provenance(name) for name in names}


def _citation(root: Path) -> dict[str, Any]:
    return yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))


def _date(root: Path) -> str:
    """The day on which results were last committed; without a history, today."""
    command = ["git", "log", "-1", "--format=%cs", "--", "results"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    except OSError:
        return date.today().isoformat()
    return done.stdout.strip() or date.today().isoformat()


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


if __name__ == "__main__":
    print(write(store.root()))
