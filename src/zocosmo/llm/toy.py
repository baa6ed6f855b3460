"""A generated sentiment task, for trying things out without data.

Short reviews from eight domains. A word list does not solve it: negation inverts words, and in a sentence
with "but" the second half decides.
"""

from functools import cache

from zocosmo.errors import check_known
from zocosmo.llm.rows import Columns, LabelledText
from zocosmo.problems.draws import private

SIZES = {"train": 2000, "validation": 400}
NAME = "toy sentiment task v1"  # seeds the tape; change it with the words or draws

THINGS = (
    ("film", ("plot", "cast", "script", "ending", "soundtrack", "camera work")),
    ("restaurant", ("soup", "bread", "fish", "dessert", "menu", "coffee")),
    ("hotel", ("room", "bed", "breakfast", "view", "pool", "front desk")),
    ("novel", ("prose", "opening", "hero", "dialogue", "last chapter", "translation")),
    ("phone", ("battery", "screen", "speaker", "keyboard", "charger", "camera")),
    ("tour", ("guide", "bus", "route", "schedule", "boat ride", "lunch stop")),
    ("course", ("teacher", "handout", "exercise set", "pace", "final project", "classroom")),
    ("bicycle", ("saddle", "frame", "gear shift", "brake", "bell", "paint")),
)
STRONG = (
    (
        "awful", "dreadful", "disappointing", "poor", "annoying", "clumsy", "unpleasant", "shoddy",
        "frustrating", "second-rate", "forgettable", "miserable", "lousy", "hopeless", "tedious", "sloppy",
    ),
    (
        "lovely", "superb", "delightful", "excellent", "impressive", "charming", "pleasant", "brilliant",
        "satisfying", "first-rate", "memorable", "splendid", "appealing", "wonderful", "enjoyable", "perfect",
    ),
)  # fmt: skip
MILD = (("bad", "dull", "weak", "boring"), ("good", "convincing", "exciting", "worth the money"))
DEGREES = ("", "really ", "quite ", "truly ", "rather ", "simply ")
OPENINGS = ("", "Honestly, ", "To my surprise, ", "As we found out, ", "In the end, ", "I must say: ")
NEGATIONS = ("not", "never", "by no means", "anything but", "far from being", "not at all")
CLOSINGS = (
    (
        "I want my money back.", "We left early.", "Never again.", "I cannot recommend it.",
        "A waste of an afternoon.", "My sister felt the same and gave hers away.",
    ),
    (
        "I would pick it again tomorrow.", "We stayed longer than planned.", "Everyone should try it.",
        "I have told all my friends.", "Worth every minute.", "My sister felt the same and got one too.",
    ),
)  # fmt: skip


class Choices:
    """Choices from one stream of coins, one 64-bit word each."""

    def __init__(self, *ids: int) -> None:
        self._words = iter(private(NAME).coins("toy", *ids).words(32).tolist())

    def below(self, n: int) -> int:
        return int(next(self._words)) % n  # the bias is negligible: n is tiny beside 2⁶⁴

    def of(self, choices: tuple[str, ...]) -> str:
        return choices[self.below(len(choices))]


def clause(draw: Choices, part: str, label: int, *, plain: bool = False) -> str:
    """Such as "the soup was really lovely"; one in four, unless `plain`, negates an opposite word."""
    if draw.below(4) == 0 and not plain:
        return f"the {part} was {draw.of(NEGATIONS)} {draw.of(MILD[1 - label])}"
    words = (STRONG, STRONG, MILD)[draw.below(3)][label]
    return f"the {part} was {draw.of(DEGREES)}{draw.of(words)}"


def sentence(draw: Choices, label: int) -> str:
    """A review with the given label."""
    thing, parts = THINGS[draw.below(len(THINGS))]
    k = draw.below(len(parts))
    part, other = parts[k], parts[(k + 1 + draw.below(len(parts) - 1)) % len(parts)]
    with_it, against = clause(draw, part, label), clause(draw, part, 1 - label, plain=True)
    also, whole = clause(draw, other, label), clause(draw, thing, label)
    closing = draw.of(CLOSINGS[label])
    forms = (
        f"{with_it}.",
        f"{with_it}, and {also}.",
        f"{with_it}. {closing}",
        f"{against}, but all in all {whole}.",
        f"although {against}, {also}. {closing}",
        f"we had been told that {against}, yet {also}.",
    )
    text = draw.of(OPENINGS) + draw.of(forms)
    return text[0].upper() + text[1:]


@cache
def reviews() -> tuple[tuple[str, int], ...]:
    """Text and label of all rows, with distinct texts, so that splits are disjoint, and balanced labels.

    One of rows 2k and 2k + 1 is positive; a coin decides which.
    """
    made: dict[str, int] = {}
    for k in range(sum(SIZES.values())):
        label, attempt = (Choices(k // 2).below(2) + k) % 2, 0
        while (text := sentence(Choices(k, attempt), label)) in made:
            attempt += 1
        made[text] = label
    return tuple(made.items())


def toy_rows(split: str, columns: Columns) -> list[LabelledText]:
    """The rows of a split, the same on every machine.

    >>> toy_rows("validation", Columns(("sentence",), "label", 2))[0].fields["sentence"]
    'To my surprise, the translation was simply unpleasant, but all in all the novel was really splendid.'
    """
    check_known("split", split, SIZES)
    begin = 0 if split == "train" else SIZES["train"]
    made = reviews()[begin : begin + SIZES[split]]
    return [
        columns.row(f"toy {split} row {k}", {"sentence": text, "label": label})
        for k, (text, label) in enumerate(made)
    ]
