"""Words that depend on a number."""


def counted(number: int, what: str, form: str = "") -> str:
    """A number and what it counts.

    >>> counted(1, "trial"), counted(3030, "row"), counted(3030, "row", ",")
    ('1 trial', '3030 rows', '3,030 rows')
    """
    return f"{number:{form}} {what}" if number == 1 else f"{number:{form}} {what}s"
