#!/usr/bin/env python3
"""The report of an optimization, clicked through in Chromium.

    report_page.py PROGRAM

Mouse, keyboard and fingers on the pictures of a small model and of a long one; light, dark and on a phone. Ends with 77
(skipped) where there is no Chromium. With REWRIGHT_SCREENSHOTS=FOLDER what was seen is kept there.
"""
import collections
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

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
    # The first change is what is seen first.
    assert page.text("which") == f"change 1 of {regions}", page.text("which")
    for side in (0, 1):
        assert page.count(f"#pane{side} [data-node]") > 0, side
    assert page.count(".pane .now") > 0 and page.text("about").startswith("change1 of")
    colors = {page.style(".pane .changed rect", "stroke"), page.style(".pane g:not(.changed) > rect", "stroke")}
    assert len(colors) == 2, colors
    page.shot("change")
    page.browser.click("#previous")
    assert page.text("which") == f"change {regions} of {regions}"
    assert page.browser.value("location.hash") == f"#change-{regions}"
    # The rewrites below lead back to their places, and have their laws and gains.
    page.browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    place = page.browser.value("document.querySelector('button.place').dataset.region")
    page.browser.click("button.place")
    assert page.text("which") == f"change {int(place) + 1} of {regions}"
    rule = page.browser.value("document.querySelector('button.place').dataset.rule")
    assert rule.split(" + ")[0] in page.text("about"), page.text("about")
    rows = page.browser.value("""[...document.querySelectorAll('details.rule')].map(d =>
        [d.querySelectorAll('pre').length, d.querySelector('summary').textContent])""")
    assert rows and all(laws > 0 and "gains" in summary for laws, summary in rows), rows
    assert page.browser.value("!document.body.textContent.includes('Gains:')")


def links(page, path):
    """A change has an address, and a link in the table of changes."""
    browser, last = page.browser, page.data["regions"]
    browser.click(f"#change-{last}")
    assert page.text("which").startswith(f"change {last} of")
    browser.open(path + f"#change-{last}")
    browser.painted()
    assert page.text("which").startswith(f"change {last} of"), page.text("which")
    browser.value("location.hash = '#change-1'")
    browser.painted()
    assert page.text("which").startswith("change 1 of")
    browser.value("location.hash = '#change-999'")
    browser.painted()
    assert page.text("which").startswith("change 1 of")


def costs(page):
    """A node tells what it costs; colors follow; the dearest groups lead to their nodes."""
    browser = page.browser
    assert page.count("button.jump") > 0
    browser.click("button.jump")
    side, node = browser.value("(e => [+e.dataset.side, +e.dataset.node])(document.querySelector('button.jump'))")
    chosen = page.data["sides"][side]["nodes"][node]
    about = page.text("about")
    assert chosen[0] in about and "not measured" in about and " ms" in about and "FLOP" in about, about
    assert browser.value(f"document.querySelector('#pane{side} .chosen').dataset.node") == str(node)
    dearest = max(group[0] for side in page.data["sides"] for group in side["groups"])
    plain = page.style(f"#pane{side} .chosen rect", "fill")
    browser.click("#heat")
    assert browser.value(f"document.querySelector('#pane{side} .chosen').classList.contains('hot')")
    heats = [int(h) for h in browser.value("""[...document.querySelectorAll('.pane [data-node]')].map(
        e => (/h(\\d)/.exec(e.getAttribute('class')) || [0, -1])[1])""")]
    assert max(heats) > min(h for h in heats if h >= 0), heats
    if page.data["sides"][side]["groups"][chosen[8]][0] == dearest:
        assert page.style(f"#pane{side} .chosen rect", "fill") != plain
    page.shot("costs")
    browser.key("h")
    assert browser.value("document.getElementById('heat').getAttribute('aria-pressed')") == "false"
    assert page.style(f"#pane{side} .chosen rect", "fill") == plain
    titles = browser.value("[...document.querySelectorAll('svg.plot')].map(e => e.getAttribute('aria-label'))")
    assert any("Roofline" in t for t in titles) and any("search" in t for t in titles), titles
    assert page.count("svg.plot circle") > 0


def other_pane(page):
    """Wherever one jumps, both pictures show something."""
    browser = page.browser
    words = sorted({n[0] for side in page.data["sides"] for n in side["nodes"] if n[4] >= 0})
    for word in words:
        browser.click("#search")
        browser.type(word)
        for _ in range(30):
            browser.key("Enter")
            for side in (0, 1):
                assert page.count(f"#pane{side} [data-node]") > 0, (word, page.text("found"), side)
        browser.key("Escape")
        browser.key("j")
        assert page.text("about").startswith("operator")
    browser.click("#next")
    browser.key("Escape")
    browser.click("#next")
    at = int(page.text("which").split()[1]) - 1
    browser.value("document.getElementById('pane1').focus()")
    browser.key("j")
    inside = [n[4] == at for n in page.data["sides"][1]["nodes"]]
    if any(inside):  # j goes on from the change
        assert page.text("about").startswith("operator" + page.data["sides"][1]["nodes"][inside.index(True)][0])


def minimap(page):
    browser = page.browser
    browser.click("#fit")
    browser.click("#closer")
    before = page.view(0)
    box = browser.value("""(r => [r.left, r.top, r.width, r.height])(
        document.getElementById('map0').getBoundingClientRect())""")
    browser.mouse("mousePressed", box[0] + box[2] / 2, box[1] + 5, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseReleased", box[0] + box[2] / 2, box[1] + 5, button="left", clickCount=1)
    browser.painted()
    assert page.view(0)[1] > before[1], (before, page.view(0))
    near(page.view(0)[2], before[2], 1e-6)
    assert page.count("#map0 .seen") == 1 and page.count("#map1 .seen") == 1


def export(page):
    """The pictures as a file: all nodes, with colors and without classes."""
    browser = page.browser
    browser.value("""(() => { const keep = URL.createObjectURL;
        URL.createObjectURL = (blob) => { window.saved = blob; return keep.call(URL, blob); }; })()""")
    browser.click("#export")
    text = browser.value("window.saved.text()")
    root = xml.etree.ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    boxes = [e for e in root.iter() if e.tag.endswith("rect")]
    nodes = sum(len(side["nodes"]) for side in page.data["sides"])
    assert len(boxes) == nodes + 1, (len(boxes), nodes)
    assert all(e.get("fill") for e in boxes)
    assert all(e.get("stroke").startswith("rgb") for e in root.iter() if e.tag.endswith("path"))
    assert "var(" not in text and "color(" not in text
    assert len({e.get("fill") for e in boxes}) > 1  # the page, and a change


SEEN_RUN = """[...document.querySelectorAll('.pane .run')].find(run => {
    const box = run.getBoundingClientRect();
    return run.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)); })"""


def folding(browser, path):
    """Of equal changes the first is shown, the others are counted; what did not change is one box."""
    page = Page(browser, path)
    total = sum(len(side["nodes"]) for side in page.data["sides"])
    kinds = collections.Counter(page.data["kinds"]).most_common()
    assert kinds[0][1] > 3, kinds
    first = kinds[0][0]
    browser.value(f"location.hash = '#change-{first + 1}'")
    browser.painted()
    assert f"{kinds[0][1]} times the same change" in page.text("about"), page.text("about")
    assert browser.value("document.getElementById('folded').getAttribute('aria-pressed')") == "true"
    browser.click("#fit")
    boxes = page.count("#map0 path"), browser.value("document.querySelector('#map0').getAttribute('viewBox')")
    browser.click("#folded")
    tall = float(browser.value("document.querySelector('#map0').getAttribute('viewBox').split(' ')[3]"))
    assert tall > 1.9 * float(boxes[1].split(" ")[3]), (tall, boxes, total)
    browser.key("f")
    assert browser.value("document.querySelector('#map0').getAttribute('viewBox')") == boxes[1]
    texts = "[...document.querySelectorAll('.pane .run text')].map(e => e.textContent).join(' ')"
    browser.click("#next")
    browser.click("#previous")
    for _ in range(12):  # down to the first box whose middle is seen
        if browser.value(f"(() => {{ const run = {SEEN_RUN}; if (run) run.id = 'seen'; return Boolean(run); }})()"):
            break
        browser.value("document.getElementById('pane0').focus()")
        browser.key("PageDown")
    assert "nodes" in browser.value(texts)
    browser.click("#seen")
    assert float(browser.value("document.querySelector('#map0').getAttribute('viewBox').split(' ')[3]")) > float(
        boxes[1].split(" ")[3])
    # The last change is one of those that were left out: it is shown all the same.
    last = page.data["regions"]
    browser.value(f"location.hash = '#change-{last}'")
    browser.painted()
    assert page.count("#pane0 .now") + page.count("#pane1 .now") > 0
    page.shot("folded")
    page.is_clean()


def prints(browser, path):
    page = Page(browser, path)
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.value("dispatchEvent(new Event('beforeprint')); 1")
    assert page.style(".bar", "display") == "none" and page.style("#map0", "display") == "none"
    assert browser.value("document.querySelectorAll('details:not([open])').length") == 0
    browser.value("dispatchEvent(new Event('afterprint')); 1")
    assert browser.value("document.querySelectorAll('details[open]').length") == 0
    assert len(browser.call("Page.printToPDF")["data"]) > 10000
    browser.call("Emulation.setEmulatedMedia", media="")
    page.is_clean()


def axe_script():
    """The text of axe-core, from REWRIGHT_AXE or from a package of Python that carries it; None where there is none."""
    places = [os.environ.get("REWRIGHT_AXE", "")]
    for package in ("axe_playwright_python", "axe_core_python"):
        spec = importlib.util.find_spec(package)
        folders = spec.submodule_search_locations if spec else []
        places += [str(pathlib.Path(folder) / "axe.min.js") for folder in folders]
    return next((pathlib.Path(p).read_text() for p in places if p and os.path.exists(p)), None)


def accessible(browser, path):
    script = axe_script()
    if script is None:
        return print("accessible: skipped, no axe-core")
    for how in ({}, {"dark": True}, {"width": 390, "height": 844, "phone": True}):
        Page(browser, path, **how)
        browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.value(script + ";0")
        found = json.loads(browser.value("axe.run().then(r => JSON.stringify(r.violations))"))
        bad = [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")]
        assert not bad, (how, bad)
    print("accessible passed")


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
    browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "wider than the phone with details"
    narrow = browser.value("Math.min(...[...document.querySelectorAll('button.place')].map(e => e.clientWidth))")
    assert narrow > 40, narrow
    map_height, height = (browser.value(f"document.getElementById('{id}').clientHeight") for id in ("map0", "pane0"))
    assert map_height <= height + 2, (map_height, height)
    scale = page.view(0)[2]
    browser.pinch("#pane0", 2)
    assert 1.6 * scale < page.view(0)[2] < 2.4 * scale, (scale, page.view(0))
    assert page.text("which").startswith("change 1 of ")
    page.shot("phone")
    page.is_clean()


def long_model(browser, path):
    """What is drawn is what can be seen, and boxes without a text where that would be small."""
    page = Page(browser, path)
    drawn = browser.value("performance.timing.loadEventEnd - performance.timing.navigationStart")
    print(f"{os.path.basename(path)}: {os.path.getsize(path) / 1e3:.0f} kB, first picture within {drawn} ms")
    count = sum(len(side["nodes"]) for side in page.data["sides"])
    assert count > 400, count
    assert 0 < page.count(".pane *") < 500, page.count(".pane *")
    if browser.value("document.getElementById('folded').getAttribute('aria-pressed')") == "true":
        browser.click("#folded")
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
    assert browser.value("document.getElementById('next').disabled && document.getElementById('folded').disabled")
    page.is_clean()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program, browser_program = sys.argv[1], chromium.find()
    if browser_program is None:
        print("skipped: no Chromium")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name, chromium.Browser(browser_program) as browser:
        folder = pathlib.Path(name)
        small = report(program, folder, "small", ["taso_nasrnn", "--layers", "1"], "--budget", "50")
        page = Page(browser, small)
        page.shot("small")
        for part in (changes, costs, moving, search, nodes, keyboard, other_pane, minimap, export):
            part(page)
            page.is_clean()
            print(part.__name__, "passed")
        links(page, small)
        light_and_dark(page, small)
        prints(browser, small)
        accessible(browser, small)
        phone(browser, small)
        unchanged(browser, report(program, folder, "same", ["taso_nasrnn", "--layers", "1"], "--budget", "0",
                                  "--no-baseline"))
        # All of bert_base takes half a gigabyte for its weights.
        for name in ["bert_base", "nasnet_a"] if os.environ.get("REWRIGHT_FULL") else ["nasrnn"]:
            long = report(program, folder, name, [name], "--budget", "200")
            assert os.path.getsize(long) < 5e6, os.path.getsize(long)
            long_model(browser, long)
            other_pane(Page(browser, long))
            folding(browser, long)
    print("passed")


if __name__ == "__main__":
    main()
