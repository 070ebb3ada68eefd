"""The archive of results: every file described as it is, every result with its run, every package of the lock on the bill."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile

import pytest
import yaml
from small import ROOT

from fairfl_book.site import crate


@pytest.fixture(scope="module")
def packed() -> bytes:
    return crate.packed(crate.files(ROOT))


@pytest.fixture(scope="module")
def content(packed) -> dict[str, bytes]:
    """What a reader finds in the archive."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def graph(content) -> dict[str, dict]:
    found = json.loads(content["ro-crate-metadata.json"])["@graph"]
    assert len({one["@id"] for one in found}) == len(found)
    return {one["@id"]: one for one in found}


def test_the_same_results_give_the_same_bytes(packed):
    assert crate.packed(crate.files(ROOT)) == packed


def test_every_file_is_described_as_it_is(content, graph):
    assert graph["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    described = {part["@id"] for part in graph["./"]["hasPart"]}
    assert described == content.keys() - {"ro-crate-metadata.json"}
    for name in described:
        assert graph[name]["sha256"] == hashlib.sha256(content[name]).hexdigest(), name
        assert graph[name]["contentSize"] == str(len(content[name])), name


def test_nothing_is_named_that_is_not_there(graph):
    def named(value):
        if isinstance(value, dict):
            yield from [value["@id"]] if set(value) == {"@id"} else (one for part in value.values() for one in named(part))
        elif isinstance(value, list):
            yield from (one for part in value for one in named(part))

    outside = "https://w3id.org/ro/crate/1.1"
    assert {one for thing in graph.values() for one in named(list(thing.values()))} - {outside} <= graph.keys()


def test_every_result_has_the_run_that_made_it(content, graph):
    """As its own provenance says, which is read here without the package."""
    results = {path.relative_to(ROOT).as_posix() for path in (ROOT / "results").glob("*/*.csv*")}
    runs = [one for one in graph.values() if one["@type"] == "CreateAction"]
    assert sorted(run["result"]["@id"] for run in runs) == sorted(results)
    for run in runs:
        name = run["result"]["@id"]
        made = json.loads(content[re.sub(r"\.csv(\.gz)?$", ".json", name)])
        assert made["sha256"] == graph[name]["sha256"]
        assert run["name"] == made["command"]
        assert made["git"]["commit"] in graph[run["instrument"]["@id"]]["softwareVersion"]
        used = {graph[one["@id"]].get("identifier") for one in run["object"]}
        assert {f"sha256:{digest}" for digest in made["data"].values()} <= used


def test_a_checker_is_told_every_result_and_its_command(content):
    told = yaml.safe_load(content["codecheck.yml"])
    assert {entry["file"] for entry in told["manifest"]} == {
        name for name in content if name.startswith("results/") and ".csv" in name
    }
    assert all(entry["comment"].startswith("fairfl ") for entry in told["manifest"])
    assert told["paper"]["title"] == yaml.safe_load(content["CITATION.cff"])["title"]


def test_the_bill_of_materials_is_the_lock(content):
    bill = json.loads(content["sbom.cdx.json"])
    optional = ("requirements-cuda.lock", "requirements-dask.lock")
    for names, scope in ((("requirements.lock",), "required"), (optional, "optional")):
        text = "".join((ROOT / name).read_text() for name in names)
        listed = [one for one in bill["components"] if one["scope"] == scope]
        assert [f"{one['name']}=={one['version']}" for one in listed] == re.findall(r"^[\w-]+==[^\s;]+", text, re.M)
        assert [hash["content"] for one in listed for hash in one["hashes"]] == re.findall(r"sha256:([0-9a-f]{64})", text)
        assert all(one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" for one in listed)
