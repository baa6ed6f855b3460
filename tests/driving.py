"""A step driven by hand."""


def drive(step, answer):
    """Run a step to its end, answering what it asks; gives the next state."""
    told = None
    while True:
        try:
            query = step.send(told)
        except StopIteration as done:
            return done.value
        told = answer(query)
