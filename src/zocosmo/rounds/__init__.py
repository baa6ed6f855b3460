"""Rounds: draw → ask → step → mix → write → count → checkpoint, the same code for every engine."""
