import pytest

from compare.tiny import changed, line_of, read
from zocosmo.errors import ConfigError

BOTH = changed("  bowl:", "  cup: {kind: quadratic, d: 4}\n  bowl:")
BAD = {
    "q: 2, tune: {q: [1, 2]}": "methods[0].tune.q is tuned and set to 2 on cup; leave one out",
    "on: {bowl: {q: 3}}, tune: {q: [1, 2]}": "methods[0].tune.q is tuned and set to 3 on bowl; leave one out",
    "q: 2, mu: 0.1, tune: {mu: [0.1, 0.2]}": "methods[0].tune.mu is tuned and set to 0.1 on cup",
    "q: 2, only: []": "methods[0].only is empty; name problems or leave it out",
    "q: 2, only: [cup], on: {bowl: {q: 1}}": "methods[0].on.bowl is for a problem that only: excludes",
}


@pytest.mark.parametrize("entry", BAD)
def test_what_an_entry_says_is_never_passed_over_in_silence(entry):
    text = BOTH.replace("{kind: cosmo, q: 2}", f"{{kind: cosmo, {entry}}}")
    with pytest.raises(ConfigError) as error:
        read(text)
    assert str(error.value).startswith(f"tiny.yaml:{line_of(text, entry)}: {BAD[entry]}")
