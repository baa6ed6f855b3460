"""Ranks that were not started alike, or where they must not work, all end before round 0."""

import json

import pytest

from dist.plans import KEY, SPARSE, case, config, graphs
from dist.ranks import run_cases, run_commands
from zocosmo.core import Tape
from zocosmo.dist.seal import make_key
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import make_header, read_log

COSMO = [{"kind": "cosmo", **SPARSE}]
TEXT = config(COSMO, graphs(3, ["ring"]), rounds=4)
SEED = "a seed that nobody else may read"


def changed(**entries):
    return json.dumps({**json.loads(TEXT), **entries})


def shown(text):
    """The seed of a config, as a refusal shows it."""
    return Tape(json.loads(text)["seeds"][0]).commitment()[:12] + "…"


OTHERS = {  # by name: another config, or hash of the code, and what must be said of it
    "seed": (changed(seeds=[8]), f"rank 0 has {shown(TEXT)}, rank 1 {shown(changed(seeds=[8]))}"),
    "d": (
        changed(problem={**json.loads(TEXT)["problem"], "d": 13}),
        "d: rank 0 has 12, rank 1 13; parameters.problem.d: rank 0 has 12, rank 1 13",
    ),
    "q": (changed(methods=[{**COSMO[0], "q": 4}]), "q: rank 0 has 5, rank 1 4"),
    "graph": (
        changed(graphs=graphs(3, ["path"])),
        "edges: rank 0 has 3 edges (0-2 only here), rank 1 2 edges",
    ),
    "nodes": (changed(graphs=graphs(4, ["ring"])), "n: rank 0 has 3, rank 1 4"),
    "wire": (changed(wire="f32"), "value: rank 0 has 'f64', rank 1 'f32'"),
    "dtype": (
        changed(wire="f32", dtype="float32"),
        "parameters.dtype: rank 0 has 'float64', rank 1 'float32'",
    ),
    "nominal": (changed(wire="nominal_f32"), "parameters.wire: rank 0 has 'f64', rank 1 'nominal_f32'"),
    "codec": (
        changed(methods=[{**COSMO[0], "codec": "delta"}]),
        "codec: rank 0 has 'values', rank 1 'delta'",
    ),
    "method": (
        changed(methods=[{**COSMO[0], "kind": "rand_k"}]),
        "method: rank 0 has 'cosmo', rank 1 'rand_k'",
    ),
    "eta": (changed(methods=[{**COSMO[0], "eta": 0.5}]), "parameters.eta: rank 0 has 0.015625, rank 1 0.5"),
    "decay": (
        changed(methods=[{**COSMO[0], "decay": {"kind": "drop", "at": 2}}]),
        "parameters.decay.kind: rank 0 has 'constant', rank 1 'drop'",
    ),
    "noise": (
        changed(problem={**json.loads(TEXT)["problem"], "sigma": 0.5}),
        "parameters.problem.sigma: rank 0 has 0.25, rank 1 0.5",
    ),
    "subspace": (
        changed(problem={**json.loads(TEXT)["problem"], "subspace": {"size": 6}}),
        "d: rank 0 has 12, rank 1 6; parameters.problem.subspace.size: rank 0 has absent, rank 1 6",
    ),
    "rounds": (changed(rounds=6), "parameters.rounds: rank 0 has 4, rank 1 6"),
    "log_every": (changed(log_every=1), "parameters.log_every: rank 0 has 2, rank 1 1"),
    "trials": (changed(seeds=[7, 8]), "trials: rank 0 has 1, rank 1 has 2"),
}


def mismatches(folder):
    for name, (text, _) in OTHERS.items():
        yield case(f"other-{name}", folder, TEXT, ranks={"1": {"config": text}})
    yield case("other-code", folder, TEXT, ranks={"1": {"source": "f" * 64}})
    yield case("other-every", folder, TEXT, ranks={"2": {"options": {"checkpoint_every": 3}}})
    both = {"q": changed(methods=[{**COSMO[0], "q": 4}])}
    yield case("other-two", folder, TEXT, ranks={"1": {"config": both["q"]}, "2": {"config": both["q"]}})


def places(folder):
    """Folders that rank 0 must not use, and more processes than nodes."""
    run_plan(read_plan(Config(changed(rounds=6), "case.yaml"), "case"), folder / "another")
    yield case("another", folder, TEXT)
    (folder / "stopped").mkdir()
    (folder / "another" / "plan.json").replace(folder / "stopped" / "plan.json")
    yield case("stopped", folder, changed(rounds=6))
    yield case("crowd", folder, changed(graphs=graphs(2, ["ring"])))


def seeds(folder):
    """Rank 0's seeds for all: in the open and sealed; whole runs that hand out none."""
    given = {"hand_out": [SEED, 7], "ranks": {"1": {"hand_out": [1]}, "2": {"hand_out": None}}}
    yield {"name": "seeds-open", **given}
    yield {"name": "seeds-sealed", "key": KEY, **given}
    yield {"name": "seeds-twice", "key": KEY, **given}
    yield {"name": "seeds-other-key", **given, "key": KEY, "ranks": {"2": {"key": "5b" * 32}}}
    yield case("secret", folder, changed(seeds=[SEED]))
    yield case("secret-sealed", folder, changed(seeds=[SEED]), key=KEY)


def apart(folder):
    """Ranks that end at different moments: what the others come to say."""
    few = {"1": {"config": changed(graphs=graphs(2, ["ring"]))}}
    yield case("one-ends", folder, TEXT, within=3, ranks=few)
    yield case("other-key", folder, TEXT, key=KEY, ranks={"1": {"key": "5b" * 32}})
    yield {"name": "no-seeds", "hand_out": None, "within": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("refusals")


@pytest.fixture(scope="module")
def said(folder):
    return run_cases(folder, 3, [*mismatches(folder), *places(folder), *seeds(folder), *apart(folder)])


def line(said, name):
    """The one refusal that every rank ended with, promptly."""
    found = {(rank.get("error"), rank.get("text")) for rank in said[name]}
    assert len(found) == 1, found
    assert max(rank["seconds"] for rank in said[name]) < 10
    assert sum(rank["channels"] for rank in said[name]) == 0  # none got as far as a round
    return found.pop()


def in_store(said, name, text):
    """Whether any rank published it, as it is or in hex."""
    everything = [bytes.fromhex(each) for rank in said[name] for each in rank["published"]]
    assert everything
    return any(text.encode() in each or text.encode().hex().encode() in each for each in everything)


@pytest.mark.parametrize("name", OTHERS)
def test_ranks_that_differ_end_with_the_field_both_values_and_the_ranks(said, name):
    error, text = line(said, f"other-{name}")
    assert error == "ManifestMismatch"
    assert OTHERS[name][1] in text
    assert text.endswith("; start all ranks with the same settings")


def test_another_version_of_the_code_is_refused(said):
    error, text = line(said, "other-code")
    assert error == "ManifestMismatch"
    assert "parameters.code: rank 0 has '" in text
    assert f" {'0' * 16}', rank 1 '" in text and f" {'f' * 16}';" in text  # noqa: PT018


def test_ranks_that_would_keep_other_checkpoints_are_refused(said):
    """They would never hold a common round to resume from."""
    error, text = line(said, "other-every")
    assert error == "ManifestMismatch"
    assert "parameters.checkpoint_every: rank 0 has 1000000, rank 2 3;" in text


def test_all_ranks_that_differ_are_named(said):
    assert (
        line(said, "other-two")[1] == "q: rank 0 has 5, ranks 1, 2 4; start all ranks with the same settings"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("another", "holds a study of another plan"),
        ("stopped", "holds a study that was stopped; continue it with --resume"),
        ("crowd", "3 processes for 2 nodes; start at most one"),
    ],
)
def test_a_place_that_cannot_be_used_stops_every_rank_with_one_line(said, name, words):
    error, text = line(said, name)
    assert error == "InputError"
    assert words in text
    assert "\n" not in text


@pytest.mark.parametrize("name", ["seeds-open", "seeds-sealed"])
def test_all_ranks_get_the_seeds_of_rank_0(said, name):
    assert [rank["seeds"] for rank in said[name]] == [[SEED, 7]] * 3
    assert in_store(said, name, SEED) == (name == "seeds-open")


def test_seeds_are_sealed_anew_each_time(said):
    first, second = (set(said[name][0]["published"]) for name in ("seeds-sealed", "seeds-twice"))
    assert first.isdisjoint(second)


def test_seeds_do_not_open_under_another_key(said):
    ranks = said["seeds-other-key"]
    assert ranks[2]["error"] == "SealBroken"
    assert [rank.get("seeds") for rank in ranks] == [[SEED, 7], [SEED, 7], None]


@pytest.mark.parametrize("name", ["secret", "secret-sealed"])
def test_a_seed_that_is_not_handed_out_never_leaves_a_process(said, name):
    assert [rank["has_log"] for rank in said[name]] == [True, False, False]
    assert not in_store(said, name, SEED)


def test_only_an_open_job_has_a_commitment_that_can_be_guessed(said):
    """In a sealed one it is salted anew at each start, the same for all ranks."""
    assert in_store(said, "secret", Tape(SEED).commitment())
    assert not in_store(said, "secret-sealed", Tape(SEED).commitment())


def test_what_a_sealed_job_writes_is_closed_to_others(said, folder):
    files = {name: list((folder / name).rglob("*")) for name in ("secret", "secret-sealed")}
    assert any("plan.json" in path.name for path in files["secret-sealed"])
    assert not [path for path in files["secret-sealed"] if path.stat().st_mode & 0o077]
    assert [path for path in files["secret"] if path.stat().st_mode & 0o044]


def test_ranks_do_not_wait_for_one_that_ended_before_the_handshake(said):
    ranks = said["one-ends"]
    assert [rank["error"] for rank in ranks] == ["PeerLost", "InputError", "PeerLost"]
    assert all(f"the first to end was rank 1: {ranks[1]['text']}" in ranks[k]["text"] for k in (0, 2))


def test_under_another_key_every_rank_says_that_it_is_the_key(said):
    """Whoever cannot open a message says so; the others name it as the first to end, and why."""
    ranks = said["other-key"]
    assert {rank["error"] for rank in ranks} <= {"SealBroken", "PeerLost"}
    assert ["compare the key files" in rank["text"] for rank in ranks] == [True] * 3


def test_where_rank_0_has_no_seeds_to_hand_out_no_rank_ends_with_a_traceback(said):
    errors = [rank["error"] for rank in said["no-seeds"]]
    assert errors[0] == "InputError"
    assert set(errors[1:]) <= {"InputError", "PeerLost"}


def dist(folder, texts, *options, last=()):
    """`python -m zocosmo.dist` in as many processes as there are configs; the last has options of its own."""
    paths = []
    for rank, text in enumerate(texts):
        paths.append(folder / f"config-{rank}.yaml")
        paths[-1].write_text(text, encoding="utf-8")
        paths[-1].chmod(0o600)  # seeds of a sealed job must not be read by others
    out = ["--out", str(folder / "out")]
    commands = [["-m", "zocosmo.dist", str(path), *out, *options] for path in paths]
    commands[-1] += last
    return run_commands(folder, commands, 60)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([TEXT, changed(rounds=6)], "parameters.rounds: rank 0 has 4, rank 1 6"),
        ([TEXT, changed(wire="f32")], "value: rank 0 has 'f64', rank 1 'f32'"),
        ([changed(graphs=graphs(2, ["ring"]))] * 3, "3 processes for 2 nodes"),
    ],
    ids=["rounds", "wire", "crowd"],
)
def test_a_refusal_is_one_line_and_exit_code_2(tmp_path, others, words):
    ended = dist(tmp_path, others)
    assert [each.code for each in ended] == [2] * len(others)
    assert all(each.is_one_line and words in each.err for each in ended)
    assert not (tmp_path / "out" / "log.parquet").exists()


def test_a_rank_with_other_seeds_runs_those_of_rank_0_if_asked_to(tmp_path):
    """Rank 0 has seed 7 and rank 1 seed 8; the log is that of seed 7 in the simulator."""
    ended = dist(tmp_path, [TEXT, changed(seeds=[8])], "--seeds-from-rank-0")
    assert [each.code for each in ended] == [0, 0]
    expected = run_plan(read_plan(Config(TEXT, "case.yaml"), "case"))
    assert read_log(tmp_path / "out" / "log.parquet").rows.equals(expected.rows)


def test_a_key_that_only_one_rank_has_is_refused_with_one_line(tmp_path):
    """Its messages are longer than its peers expect; that must be found before any is sent."""
    make_key(tmp_path / "key")
    ended = dist(tmp_path, [TEXT, TEXT], "--join-within", "10", last=["--key-file", str(tmp_path / "key")])
    assert [each.code for each in ended] == [2, 2]
    assert all(
        each.is_one_line and "parameters.sealed: rank 0 has False, rank 1 True" in each.err for each in ended
    )


def test_a_stopped_study_is_refused_with_one_line_and_goes_on_when_asked_to(tmp_path):
    plan = read_plan(Config(TEXT, "case.yaml"), "case")
    header = json.dumps(make_header(plan.config, plan.fingerprint))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.json").write_text(header, encoding="utf-8")
    refused, resumed = dist(tmp_path, [TEXT, TEXT]), dist(tmp_path, [TEXT, TEXT], "--resume")
    assert [each.code for each in refused + resumed] == [2, 2, 0, 0]
    assert all(each.is_one_line and "continue it with --resume" in each.err for each in refused)
    assert read_log(tmp_path / "out" / "log.parquet").rows.equals(run_plan(plan).rows)
