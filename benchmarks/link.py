"""Messages between two processes, at the size of the paper's LoRA model.   make bench

value-only through the channel, against bare tensors of the same bytes: at most 1.4 times as long
value-only through the channel, against indexed: faster;  the same sealed: at most 1.3 times as long
value-only between members of a network over ZeroMQ, against bare tensors: at most 2 times as long
a whole mix of states of 2.5e6 coordinates, against bare tensors: at most 2.2 times as long
"""

from timing import report

from zocosmo.dist.bench import bench_link

PROGRAM = "zocosmo.net.beside_gloo"
AIMS = (
    ("one way: value-only against indexed", "values", "indexed", "≥ 1 (the paper: 1.28)"),
    ("one way: value-only against dense", "values", "dense", "≥ 1 (the paper: 21.16)"),
    ("both ways: frames against bare tensors of the same bytes", "framed", "raw", "≥ 0.71"),
    ("both ways: frames against indexed frames", "framed", "named", "≥ 1"),
    ("both ways: sealed frames against frames", "sealed", "framed", "≥ 0.77"),
    ("both ways: restrict, exchange, average, put against bare", "mix", "raw", "≥ 0.45"),
    ("both ways: frames between members over ZeroMQ against bare", "members", "raw", "≥ 0.5"),
)


def main() -> None:
    took = {row["name"]: 1e-6 * row["median_us"] for row in bench_link(program=PROGRAM)["rows"]}
    for title, ours, theirs, aim in AIMS:
        report(title, took[ours], took[theirs], aim)


if __name__ == "__main__":
    main()
