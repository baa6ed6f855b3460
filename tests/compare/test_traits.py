import pytest

from compare.tiny import read, with_method
from zocosmo.compare import compare
from zocosmo.compare.traits import numbers

MORE = (
    with_method("{kind: cosmo, q: 2, beta: 0.5, label: moving}")
    + """\
  - {kind: flood}
  - {kind: mezo}
  - {kind: choco, q: 2}
"""
)


@pytest.fixture(scope="module")
def traits(tmp_path_factory):
    result = compare(read(MORE), tmp_path_factory.mktemp("traits"))[0]
    return {each.method: each for each in result.traits}


def test_memory_is_what_a_node_keeps_over_d(traits):
    """x; x and momentum; x, what is believed of it, and the sum over neighbours."""
    found = {name: traits[name].kept.node for name in ("cosmo", "moving", "flood", "choco")}
    assert found == {"cosmo": 1, "moving": 2, "flood": 1, "choco": 3}


def test_the_server_keeps_its_own(traits):
    """decomfl: the model w beside x, a round number for each node, and what the last round was."""
    node, public, _ = traits["served"].kept
    assert node == 1 + 1 / 8
    assert public >= 1


def test_waits_server_and_states_are_measured(traits):
    assert {name: each.waits for name, each in traits.items() if name != "edge_local"} == {
        "cosmo": 1, "moving": 1, "served": 2, "flood": 2, "mezo": 0, "choco": 1
    }  # fmt: skip
    assert {name for name, each in traits.items() if each.server} == {"served"}
    assert {name for name, each in traits.items() if not each.kept.apart} == {"served", "flood"}


def test_bits_and_queries_are_per_node_and_round(traits):
    """Two neighbours, two values of 32 bits; one of them on a matching; nothing at all."""
    assert {name: traits[name].bits for name in ("cosmo", "edge_local", "mezo")} == {
        "cosmo": 2 * 2 * 32, "edge_local": 2 * 32, "mezo": 0
    }  # fmt: skip
    assert {each.queries for each in traits.values()} == {2}
    assert traits["served"].up + traits["served"].down == traits["served"].bits
    assert traits["served"].up == 32


@pytest.mark.parametrize(
    ("shape", "own"),
    [
        ((1, 4, 8), True),
        ((1, 3, 4, 8), True),
        ((1, 4), True),
        ((1, 8), False),
        ((1, 1, 8), False),
        ((1, 5, 2), False),
    ],
)
def test_a_field_with_a_row_for_each_node_is_the_nodes(shape, own):
    assert (numbers(shape, 4, 8)[0] > 0) is own


def test_a_vector_of_d_is_no_nodes_even_where_d_is_n():
    assert numbers((1, 4), 4, 4) == (0, 4)
