#!/usr/bin/env python3
"""check_site.py build/site [report.html ...] [--shots FOLDER]: pages in a headless browser.

Every page of the site that `make docs` built is opened from file:// at the width of a desktop, and
at that of a phone that prefers dark pages. It must have a heading, raise no error, load nothing from
a network, be no wider than the window, show pictures large enough to read and of its own colours,
and each of its links must lead to a page and an anchor that are there. A word typed into the search
must find pages. A report is what `scanfold bench --html` or `python -m scanfold.bench --html` wrote:
it must show every row of its data, and the worst. Needs playwright, and Chromium: $CHROMIUM, or one
on the path, or playwright's own.
"""
import argparse
import glob
import os
import re
import shutil
import sys
import urllib.parse

from playwright.sync_api import sync_playwright

VIEWS = (("phone", {"width": 375, "height": 740}, "dark"),
         ("desktop", {"width": 1280, "height": 900}, "light"))  # the search is tried in the last
PICTURES = """all => all.filter(one => one.clientWidth).map(one =>
    ({name: one.src, shown: one.clientWidth / one.naturalWidth}))"""
SEARCHES = {"GAE": "returns.html", "keepdim": "c.html", "payload": "order.html"}


def anchors(path, seen={}):
    if path not in seen:
        with open(path) as file:
            seen[path] = set(re.findall(r'\sid="([^"]+)"', file.read()))
    return seen[path]


def broken_links(page):
    for link in page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)"):
        parts = urllib.parse.urlsplit(link)
        if parts.scheme != "file":
            yield f"{link}: not a page of the site"
            continue
        path = urllib.parse.unquote(parts.path)
        if not os.path.isfile(path):
            yield f"{link}: no such file"
        elif parts.fragment and path.endswith(".html"):
            anchor = urllib.parse.unquote(parts.fragment)
            if anchor not in anchors(path) and not anchor.startswith("__"):
                yield f"{link}: no such anchor"


def check_page(page, problems, name, colours):
    if not page.locator("h1").count():
        problems.append(f"{name}: no heading")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if wide > 0:
        problems.append(f"{name}: {wide} pixels wider than the window")
    for picture in page.eval_on_selector_all("img", PICTURES):
        if picture["shown"] < 0.55 or {"light": "-dark.", "dark": "-light."}[colours] in picture["name"]:
            problems.append(f"{name}: {picture['name']} at {picture['shown']:.2f} of its size, on a {colours} page")
    problems += [f"{name}: {what}" for what in sorted(set(broken_links(page)))]


def check_report(page, problems, name):
    rows, shown, worst = page.evaluate("""[JSON.parse(document.getElementById("data").textContent).rows.length,
        document.querySelectorAll("#rows tbody tr").length, document.querySelectorAll("#worst li").length]""")
    if not rows or shown != rows or worst != min(rows, 5):
        problems.append(f"{name}: {rows} rows, of which {shown} are shown and {worst} among the worst")


def check_search(page, site, problems):
    page.goto(f"file://{site}/index.html")
    for word, expected in SEARCHES.items():
        page.locator(".md-search__input").click()
        page.locator(".md-search__input").fill("")
        page.locator(".md-search__input").press_sequentially(word, delay=20)
        try:
            page.wait_for_selector(".md-search-result__item a", timeout=10000)
        except Exception:
            problems.append(f"search: nothing found for {word}")
            continue
        page.wait_for_timeout(500)
        found = page.eval_on_selector_all(".md-search-result__item a", "all => all.map(a => a.href)")
        if not any(expected in link for link in found):
            problems.append(f"search: {word} did not find {expected}, but {found[:5]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("site", help="the folder that make docs built")
    parser.add_argument("reports", nargs="*", help="pages of scanfold bench --html")
    parser.add_argument("--shots", help="a folder for pictures of what was seen")
    given = parser.parse_args()
    site = os.path.abspath(given.site)
    problems, fetched = [], []
    pages = sorted(glob.glob(os.path.join(site, "**", "*.html"), recursive=True))
    pages = [path for path in pages if not path.endswith("404.html")]
    reports = [os.path.abspath(path) for path in given.reports]
    if given.shots:
        os.makedirs(given.shots, exist_ok=True)
    with sync_playwright() as play:
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for view, size, colours in VIEWS:
            page = browser.new_page(viewport=size, color_scheme=colours)
            page.on("pageerror", lambda error, page=page: problems.append(f"{page.url}: {error}"))
            page.on("request", lambda request: fetched.append(request.url))
            for path in pages + reports:
                name = os.path.basename(path) if path in reports else os.path.relpath(path, site)
                page.goto(f"file://{path}")
                check_page(page, problems, f"{name} ({view})", colours)
                if path in reports:
                    check_report(page, problems, f"{name} ({view})")
                if given.shots:
                    page.screenshot(path=os.path.join(given.shots, f"{name.replace('/', '-')}.{view}.png"))
        check_search(page, site, problems)
        if given.shots:
            page.screenshot(path=os.path.join(given.shots, "search.png"))
        browser.close()
    problems += [f"fetched {url}" for url in sorted(set(fetched)) if not url.startswith(("file:", "data:", "blob:", "about:"))]
    print("\n".join(problems))
    print(f"check_site: {len(pages + reports)} pages at two widths, {len(SEARCHES)} searches, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
