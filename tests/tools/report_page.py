#!/usr/bin/env python3
"""The report of an optimization, clicked through in Chromium.

    report_page.py PROGRAM

Mouse, keyboard and fingers on the pictures of a small model and of a long one; light, dark and on a phone. Ends with 77
(skipped) where there is no Chromium. With REWRIGHT_SCREENSHOTS=FOLDER what was seen is kept there.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import chromium  # noqa: E402

SHOTS = os.environ.get("REWRIGHT_SCREENSHOTS")


def report(program, folder, name, zoo, *flags):
    model, page = folder / f"{name}.onnx", folder / f"{name}.html"
    subprocess.run([program, "zoo", *zoo, "-o", model, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([program, "optimize", model, "--cost", "analytic:v100", "--no-prove", "--no-check", "--quiet",
                    "--report", page, *flags], check=True, stdout=subprocess.DEVNULL)
    return str(page)


class Page:
    def __init__(self, browser, path, **how):
        self.browser = browser
        browser.open(path, **how)
        browser.painted()
        self.data = json.loads(browser.value("document.getElementById('graphs').textContent"))

    def text(self, id):
        return self.browser.value(f"document.getElementById('{id}').textContent")

    def count(self, selector):
        return self.browser.value(f"document.querySelectorAll({json.dumps(selector)}).length")

    def view(self, side):
        """x, y and scale of a pane."""
        transform = self.browser.value(f"document.querySelector('#pane{side} g').getAttribute('transform')")
        return [float(x) for x in transform.replace("translate(", "").replace(") scale(", " ").rstrip(")").split()]

    def style(self, selector, what):
        return self.browser.value(f"getComputedStyle(document.querySelector({json.dumps(selector)})).{what}")

    def shot(self, name):
        if SHOTS:
            self.browser.screenshot(f"{SHOTS}/{name}.png")

    def is_clean(self):
        assert not self.browser.complaints(), self.browser.complaints()


def near(a, b, within=0.6):
    assert abs(a - b) <= within, (a, b)


def changes(page):
    regions = page.data["regions"]
    assert regions > 0 and len(page.data["sides"]) == 2
    for side in page.data["sides"]:
        assert any(n[4] >= 0 for n in side["nodes"]) and any(n[4] < 0 for n in side["nodes"])
    page.browser.click("#next")
    assert page.text("which") == f"change 1 of {regions}", page.text("which")
    assert page.count(".pane .now") > 0 and page.text("about").startswith("change1 of")
    colors = {page.style(".pane .changed rect", "stroke"), page.style(".pane g:not(.changed) > rect", "stroke")}
    assert len(colors) == 2, colors
    page.shot("change")
    page.browser.click("#previous")
    assert page.text("which") == f"change {regions} of {regions}"
    # The rewrites below lead back to their places.
    place = page.browser.value("document.querySelector('button.place').dataset.region")
    page.browser.click("button.place")
    assert page.text("which") == f"change {int(place) + 1} of {regions}"
    rule = page.browser.value("document.querySelector('button.place').dataset.rule")
    assert rule.split(" + ")[0] in page.text("about"), page.text("about")
    link = page.browser.value("document.querySelector('button.place').closest('tr').querySelector('a').hash.slice(1)")
    assert page.browser.value(f"document.getElementById({json.dumps(link)}).closest('tr').querySelector('pre') !== null")


def moving(page):
    browser = page.browser
    browser.click("#fit")
    for side in (0, 1):
        assert page.count(f"#pane{side} path.boxes, #pane{side} [data-node]") > 0
    before = [page.view(0), page.view(1)]
    browser.drag("#pane0", 70, -45)
    for side in (0, 1):
        near(page.view(side)[0], before[side][0] + 70)
        near(page.view(side)[1], before[side][1] - 45)
    browser.click("#together")
    assert page.browser.value("document.getElementById('together').getAttribute('aria-pressed')") == "false"
    still = page.view(0)
    browser.drag("#pane1", 30, 30)
    assert page.view(0) == still
    near(page.view(1)[0], before[1][0] + 100)
    browser.click("#together")
    x, y = browser.middle("#pane0")
    scale = page.view(0)[2]
    under = (x - page.view(0)[0]) / scale
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-60, modifiers=2)
    browser.painted()
    assert page.view(0)[2] > 1.5 * scale, page.view(0)
    left = browser.value("document.getElementById('pane0').getBoundingClientRect().left")
    near((x - left - page.view(0)[0]) / page.view(0)[2], (x - left - before[0][0] - 70) / scale, 2)  # stays under the mouse
    assert under is not None
    top = page.view(0)[1]
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=50)
    browser.painted()
    near(page.view(0)[1], top - 50)


def search(page):
    browser = page.browser
    nodes = [n for side in page.data["sides"] for n in side["nodes"]]
    word = nodes[-1][0]
    expected = sum(word in " ".join([n[0], n[1], n[2], n[3], n[7]]).lower() for n in nodes)
    browser.click("#search")
    browser.type(word)
    assert page.text("found") == f"{expected} found", (word, page.text("found"), expected)
    browser.key("Enter")
    assert page.text("found").startswith(f"1 of {expected}")
    assert page.count("#pane0 .chosen, #pane1 .chosen") > 0 and page.count(".hit") > 0
    assert page.text("about").startswith("operator")
    page.shot("search")
    browser.key("Enter")
    assert page.text("found").startswith(f"{min(2, expected)} of {expected}")
    browser.key("Escape")
    assert page.text("found") == "" and page.count(".hit") == 0
    browser.click("#search")
    browser.type("no such thing")
    assert page.text("found") == "0 found"
    browser.key("Escape")


def nodes(page):
    """A click tells about a node, and shows it in the other graph."""
    browser = page.browser
    a, b = page.data["pairs"][-1]
    browser.click("#search")
    browser.type(page.data["sides"][0]["nodes"][a][2] or page.data["sides"][0]["nodes"][a][0])
    browser.key("Enter")
    browser.key("Escape")
    browser.key("Escape")
    assert page.text("about") == "" and page.count(".chosen") == 0
    which = browser.value("document.querySelector('#pane0 [data-node]').dataset.node")
    browser.click(f"#pane0 [data-node='{which}']")
    node = page.data["sides"][0]["nodes"][int(which)]
    assert node[0] in page.text("about") and node[1] in page.text("about"), page.text("about")
    assert page.count("#pane0 .chosen") == 1
    partner = dict(map(tuple, page.data["pairs"])).get(int(which))
    assert page.count("#pane1 .chosen") == (partner is not None)


def keyboard(page):
    browser = page.browser
    browser.value("document.activeElement.blur()")
    for _ in range(60):  # reached without a mouse
        browser.key("Tab")
        if browser.value("document.activeElement.id") == "pane0":
            break
    assert browser.value("document.activeElement.id") == "pane0"
    assert page.style("#pane0", "outlineStyle") != "none"
    x, y, scale = page.view(0)
    browser.key("ArrowRight")
    near(page.view(0)[0], x - 80)
    browser.key("ArrowDown")
    near(page.view(0)[1], y - 80)
    browser.key("+")
    near(page.view(0)[2], scale * 1.3, 0.01)
    near(page.view(1)[2], page.view(0)[2], 1e-4)
    browser.key("-")
    browser.key("n")
    assert page.text("which").startswith("change ")
    at = page.text("which")
    browser.key("p")
    assert page.data["regions"] == 1 or page.text("which") != at
    browser.key("j")
    first = page.text("about")
    assert first.startswith("operator")
    browser.key("j")
    assert page.text("about") != first
    browser.key("k")
    assert page.text("about") == first
    browser.key("/")
    assert browser.value("document.activeElement.id") == "search"
    browser.key("Escape")
    assert browser.value("document.activeElement.id") == "pane0"


def light_and_dark(page, path):
    light = page.style("body", "backgroundColor")
    page.browser.key("t")
    assert page.style("body", "backgroundColor") != light
    page.browser.key("t")
    assert page.style("body", "backgroundColor") == light
    dark = Page(page.browser, path, dark=True)
    assert dark.style("body", "backgroundColor") != light
    assert dark.style("body", "color") != dark.style("body", "backgroundColor")
    dark.shot("dark")
    dark.is_clean()


def phone(browser, path):
    page = Page(browser, path, width=390, height=800, phone=True)
    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "wider than the phone"
    tops = [browser.value(f"document.getElementById('pane{k}').getBoundingClientRect().top") for k in (0, 1)]
    assert tops[1] > tops[0] + 100, "one above the other"
    scale = page.view(0)[2]
    browser.pinch("#pane0", 2)
    assert 1.6 * scale < page.view(0)[2] < 2.4 * scale, (scale, page.view(0))
    browser.click("#next")
    assert page.text("which").startswith("change 1 of ")
    page.shot("phone")
    page.is_clean()


def long_model(browser, path):
    """What is drawn is what can be seen, and boxes without a text where that would be small."""
    page = Page(browser, path)
    count = sum(len(side["nodes"]) for side in page.data["sides"])
    assert count > 400, count
    assert 0 < page.count(".pane *") < 500, page.count(".pane *")
    browser.click("#fit")
    assert 0 < page.count(".pane *") < 60, page.count(".pane *")
    page.shot("long")
    browser.click("#next")
    assert 0 < page.count(".pane *") < 1200
    page.shot("long_change")
    page.is_clean()


def unchanged(browser, path):
    page = Page(browser, path)
    assert len(page.data["sides"]) == 1 and page.data["regions"] == 0
    assert page.count("#pane0 [data-node]") > 0 and page.count("#pane1") == 0
    assert browser.value("document.getElementById('next').disabled")
    page.is_clean()


def main():
    program, browser_program = sys.argv[1], chromium.find()
    if browser_program is None:
        print("skipped: no Chromium")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name, chromium.Browser(browser_program) as browser:
        folder = pathlib.Path(name)
        small = report(program, folder, "small", ["taso_nasrnn", "--layers", "1"], "--budget", "50")
        page = Page(browser, small)
        page.shot("small")
        for part in (changes, moving, search, nodes, keyboard):
            part(page)
            page.is_clean()
            print(part.__name__, "passed")
        light_and_dark(page, small)
        phone(browser, small)
        unchanged(browser, report(program, folder, "same", ["taso_nasrnn", "--layers", "1"], "--budget", "0",
                                  "--no-baseline"))
        # All of bert_base takes half a gigabyte for its weights.
        zoo = ["bert_base"] if os.environ.get("REWRIGHT_FULL") else ["nasrnn"]
        long_model(browser, report(program, folder, "long", zoo, "--budget", "200"))
    print("passed")


if __name__ == "__main__":
    main()
