from compare.tiny import read, with_method
from zocosmo.compare.traits import start, watch


def test_a_record_that_grows_is_not_the_nodes_when_it_has_a_row_for_each():
    """decomfl, one node of four at a time: x and a round number are a node's, however long the record is."""
    comparison = read(with_method("{kind: decomfl, label: one, perturbations: 4, participants: 1}"))
    plan = comparison.contests[0].pilot(comparison.pilot_seeds)
    trial = next(trial for trial in plan.trials if trial.labels[2].startswith("one "))
    simulation, lengths = start(plan, trial), set()
    for _ in range(10):
        simulation.round()
        lengths.add(simulation.state.history.shape[-2])
    assert 4 in lengths
    assert watch(start(plan, trial), 10).node == 1 + 1 / 8
