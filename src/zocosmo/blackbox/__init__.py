"""For people with a black box: their functions as oracles, suggestions, ask and tell, `minimize`."""
