"""Rounds: draw → ask → step → mix → write → count → checkpoint, in one place for every engine."""
