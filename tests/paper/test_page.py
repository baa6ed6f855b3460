"""The report in one file: sound HTML that asks for nothing, and a browser's word on it."""

import itertools
import re
from html.parser import HTMLParser

import pytest
from fakes import CONFIG, ITEMS, TITLE, small  # noqa: F401

from browser import browser, opened
from zocosmo_paper import items, page, plans, reproduce, run
from zocosmo_paper.page import write_page

VOID = {"meta", "link", "img", "input", "br", "hr"}


class Outline(HTMLParser):
    """Tags as they open and close; what is left open, ids, headings, targets and pictures."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.ids, self.headings, self.links, self.images = [], [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        about = dict(attrs)
        self.ids += [about["id"]] if "id" in about else []
        self.headings += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        self.links += [about["href"]] if tag == "a" else []
        self.images += [about] if tag == "img" else []
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of both items, made once."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (items, run, page):
            patch.setattr(module, "all_items", lambda: ITEMS)
        for module in (plans, page):
            patch.setattr(module, "config_text", lambda name: CONFIG)
        out = tmp_path_factory.mktemp("out")
        yield write_page(out, reproduce(["small"], out))


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture
def screen(chromium, report):
    with opened(chromium, report) as shown:
        yield shown


@pytest.fixture
def outline(report):
    return Outline(report.read_text(encoding="utf-8"))


def column(screen, number):
    cells = screen.locator(f"#verdicts tbody tr:not([hidden]) > :nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_tags_close_in_order_and_ids_are_unique(outline):
    assert (outline.open, outline.wrong) == ([], [])
    assert len(set(outline.ids)) == len(outline.ids)


def test_headings_go_down_one_level_at_a_time(outline):
    levels = outline.headings
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_every_link_leads_somewhere(outline, report):
    for link in outline.links:
        assert link[1:] in outline.ids if link.startswith("#") else (report.parent / link).is_file()
    assert "../small/tab-small/log.parquet" in outline.links


def test_pictures_are_in_the_page_and_have_their_text(outline):
    assert [image["alt"] for image in outline.images] == ["From 0 to 1 & back"]
    assert outline.images[0]["src"].startswith("data:image/svg+xml;base64,")


def test_a_large_drawing_is_shown_as_pixels(report, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MOST_SVG", 10)
    picture = ITEMS["small"].find
    figure = page._figure(
        page.Picture("curve", "A line", "…", picture), report.parents[1] / "small", report.parent
    )
    assert "data:image/png;base64," in figure


def test_the_page_says_what_was_claimed_chosen_and_typed(report):
    text = report.read_text(encoding="utf-8")
    for words in ("That things get smaller.", "the origin, since none is printed", "zocosmo reproduce small"):
        assert words in text
    assert "Small &amp; &lt;sound&gt;" in text
    assert TITLE not in text
    assert "zocosmo reproduce needy --model NAME" in text


def test_a_verdict_changes_the_page(report):
    text = report.read_text(encoding="utf-8")
    assert text.count('data-verdict="no"') == 1
    assert text.count('data-verdict="within"') == 2


def test_nothing_in_the_page_names_another_place(report):
    """But for the namespace of pictures, which are encoded."""
    assert re.findall(r"https?://|url\(|@import", report.read_text(encoding="utf-8")) == []


def test_a_browser_has_nothing_to_say_and_asks_for_nothing(screen, report):
    assert screen.said == []
    assert {url for url in screen.asked if not url.startswith("data:")} == {report.as_uri()}


def test_the_policy_would_stop_a_request(screen):
    """A page that asked for something would be seen: the browser refuses, and says so."""
    screen.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://localhost:9/x.png'}))")
    screen.wait_for_timeout(100)
    assert any("Content Security Policy" in said for said in screen.said)


def test_pictures_can_be_seen(screen):
    assert screen.evaluate("Array.from(document.images, i => i.complete && i.naturalWidth > 100)") == [True]


def test_what_does_not_hold_stands_first(screen):
    assert column(screen, 7) == ["✗ no", "– not run", "≈ ordering", "✓ within", "✓ within"]


@pytest.mark.parametrize("key", ["click", "Enter"])
def test_a_heading_sorts_up_and_down_by_mouse_and_keyboard(screen, key):
    heading = screen.get_by_role("button", name="claim")
    press = heading.click if key == "click" else lambda: heading.press("Enter")
    press()
    up = column(screen, 2)
    press()
    assert len(up) == 5
    assert up == sorted(up)
    assert column(screen, 2) == up[::-1]
    assert screen.locator("#verdicts th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_numbers_sort_as_numbers_and_what_is_missing_comes_last(screen):
    screen.get_by_role("button", name="ours").first.click()
    found = screen.locator("#verdicts tbody td:nth-child(4)")
    keys = [cell.get_attribute("data-key") for cell in found.all()]
    assert keys[-1] == ""
    assert [float(key) for key in keys[:-1]] == sorted(float(key) for key in keys[:-1])


def test_tables_sort_printed_numbers_by_what_they_are(screen):
    """Powers of ten and thousands count; words come after numbers, and what is empty last."""
    screen.locator("table").nth(1).get_by_role("button", name="paper").click()
    found = screen.locator("table").nth(1).locator("tbody td:nth-child(2)").all_inner_texts()
    assert found == ["(2.5 ± 1)e-3", "0.01 ± 0.1", "1.0", "1.0", "80.7K", "lower", ""]


def test_the_board_can_be_filtered_by_verdict_words_and_item(screen):
    screen.get_by_label("within").uncheck()
    assert len(column(screen, 1)) == 3
    screen.get_by_label("Words").fill("MODEL")
    assert column(screen, 2)[0].startswith("a model learns")
    assert screen.locator("output").inner_text() == "1 of 5 lines"


def test_a_link_of_an_item_shows_its_verdicts(screen):
    screen.get_by_role("link", name="Verdicts", exact=True).click()
    assert screen.locator("select").input_value() == "small"
    assert column(screen, 1) == ["small"] * 5


def test_the_command_can_be_copied(chromium, report):
    with opened(chromium, report, permissions=["clipboard-read", "clipboard-write"]) as shown:
        shown.get_by_role("button", name="Copy the command").first.click()
        shown.get_by_text("Copied").wait_for()
        assert shown.evaluate("navigator.clipboard.readText()") == "zocosmo reproduce small"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(chromium, report, scheme):
    with opened(chromium, report, viewport={"width": 390, "height": 844}, color_scheme=scheme) as shown:
        wide = "document.documentElement.scrollWidth"
        assert shown.evaluate(wide) == 390
        assert shown.evaluate("document.querySelector('.scroll').scrollWidth") > 390 - 24


def test_dark_and_light_differ_and_are_legible(chromium, report):
    """Contrast by WCAG: at least 4.5 between every colour of text and the ground."""
    for scheme in ("light", "dark"):
        with opened(chromium, report, color_scheme=scheme) as shown:
            ground = luminance(shown, "body", "backgroundColor")
            assert (ground > 0.5) == (scheme == "light")
            for part in ("body", ".soft", ".no", ".within", ".ordering", ".not-run", "p a"):
                light, dark = sorted((ground, luminance(shown, part, "color")), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (scheme, part)


def luminance(shown, selector, what):
    rgb = shown.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{what}")
    parts = [int(value) / 255 for value in re.findall(r"\d+", rgb)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_print_shows_the_whole_board_and_no_controls(screen):
    screen.emulate_media(media="print")
    assert not screen.locator("#filter").is_visible()
    assert not screen.get_by_role("button", name="Copy the command").first.is_visible()
    assert screen.evaluate("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"


def test_without_scripts_the_page_is_complete(chromium, report):
    with opened(chromium, report, java_script_enabled=False) as shown:
        assert not shown.locator("#filter").is_visible()
        assert shown.locator("#verdicts tbody tr").count() == 5


def test_a_phone_shows_paper_and_ours_beside_the_claim(chromium, report):
    with opened(chromium, report, viewport={"width": 390, "height": 844}) as shown:
        row = shown.locator("#verdicts tbody tr").first
        boxes = [row.locator(f":scope > :nth-child({k})").bounding_box() for k in (2, 3, 4, 7)]
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
        paper, ours, verdict = boxes[1:]
        assert paper["x"] + paper["width"] <= ours["x"] + 1
        assert ours["x"] + ours["width"] <= verdict["x"] + 1


def test_the_page_opens_with_the_headline_of_its_lines(report):
    text = " ".join(report.read_text(encoding="utf-8").split())
    assert "Of 4 figures and orderings that the paper prints and that can be rerun here, 3 agree" in text
