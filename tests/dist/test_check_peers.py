"""What processes that are each other's peers refuse before they start."""

import pytest

from methods.cases import METHODS, small
from zocosmo.core.price import WRITTEN
from zocosmo.dist.engine import check_peers
from zocosmo.errors import InputError

PEERS = {name: kind for name, kind in METHODS.items() if not kind.server}


@pytest.mark.parametrize("name", [name for name, kind in PEERS.items() if "entropy" in kind.codecs])
def test_a_bound_on_bits_has_no_bytes(name):
    with pytest.raises(InputError, match="codec 'entropy' has a price but no bytes; use zocosmo run, or"):
        check_peers(small(name, codec="entropy"))
    check_peers(small(name))


def test_signs_have_no_bytes_and_no_other_codec_to_offer():
    with pytest.raises(InputError, match=r"use zocosmo run$"):
        check_peers(small("choco", compressor="sign"))


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(PEERS)))
def test_a_server_is_no_peer(name):
    with pytest.raises(InputError, match=f"{name} needs a server and processes are peers"):
        check_peers(small(name))


def test_every_method_without_a_server_can_be_sent_in_some_codec():
    assert {name for name, kind in PEERS.items() if not set(kind.codecs) & WRITTEN} == set()


@pytest.mark.parametrize("name", ["tree_sum", "moniqua"])
@pytest.mark.parametrize("bits", [2, 16])
def test_residues_have_bytes(name, bits):
    check_peers(small(name, bits=bits))
