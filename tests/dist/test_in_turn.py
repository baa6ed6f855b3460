"""The order of exchanges for backends that do one thing after the other, tried over Gloo."""

import sys
from pathlib import Path

from zocosmo.dist.launch import launch
from zocosmo.experiments.plan import load_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import read_log

CONFIG = """
problem: {kind: quadratic, d: 12, zeta: 1.0}
graphs: [{kind: complete, n: 4}, {kind: star, n: 5}]
methods:
  - {kind: cosmo, q: 3, eta: 0.01, mu: 0.001}
  - {kind: edge_local, q: 3, eta: 0.01, mu: 0.001}
  - {kind: com_dszo, q: 3, eta: 0.01, mu: 0.001}
seeds: [1]
rounds: 20
wire: f64
"""

SCRIPT = """
import sys
from pathlib import Path
from zocosmo.dist.links import Links
from zocosmo.dist.rendezvous import join
from zocosmo.dist.run import Options, run_ranks
from zocosmo.experiments.plan import load_plan

connect = Links.connect

def and_then_in_turn(self, *args):
    self.backend = "gloo"
    connect(self, *args)
    self.backend = "in turn"

Links.connect = and_then_in_turn
run_ranks(load_plan(Path(sys.argv[1])), join(), Path(sys.argv[2]), Options(deadline=60))
"""


def test_messages_in_turn_reach_everyone_on_any_graph(tmp_path: Path):
    """Three processes for four and five nodes: triangles and a star of processes."""
    config, script = tmp_path / "plan.yaml", tmp_path / "script.py"
    config.write_text(CONFIG)
    script.write_text(SCRIPT)
    assert launch([sys.executable, str(script), str(config), str(tmp_path / "out")], 3) == 0
    assert read_log(tmp_path / "out" / "log.parquet").rows.equals(run_plan(load_plan(config)).rows)
