import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_two_peers_agree_and_pay_for_values_only():
    command = [sys.executable, str(EXAMPLES / "two_peers.py")]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert out.count("True") == 3
    assert "each peer sent 161,280 bits" in out


def test_four_rigs_find_their_common_setting():
    command = [sys.executable, str(EXAMPLES / "rigs.py")]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "All 400 rounds are done." in out
