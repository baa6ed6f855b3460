"""Networks that change: nodes on any machines over ZeroMQ, who join, leave and lag; no torch needed."""
