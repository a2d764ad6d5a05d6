#!/usr/bin/env python3
"""check_site.py FOLDER [--shots FOLDER]: the site that `make docs` built, in a headless browser.

Every page is opened from file:// at the width of a desktop and of a phone. It must have a heading,
raise no error, load nothing from a network, be no wider than the phone, and each of its links must
lead to a page and an anchor that are there. A word typed into the search must find pages. Needs
playwright, and Chromium: $CHROMIUM, or one on the path, or playwright's own.
"""
import glob
import os
import re
import shutil
import sys
import urllib.parse

from playwright.sync_api import sync_playwright

PHONE, DESKTOP = {"width": 375, "height": 740}, {"width": 1280, "height": 900}
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


def check_page(page, problems, name):
    if not page.locator("h1").count():
        problems.append(f"{name}: no heading")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if wide > 0:
        problems.append(f"{name}: {wide} pixels wider than the window")
    problems += [f"{name}: {what}" for what in sorted(set(broken_links(page)))]


def check_search(page, site, problems):
    page.goto(f"file://{site}/index.html")
    page.set_viewport_size(DESKTOP)
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
    site = os.path.abspath(sys.argv[1])
    shots = sys.argv[3] if sys.argv[2:3] == ["--shots"] else None
    problems, fetched = [], []
    pages = sorted(glob.glob(os.path.join(site, "**", "*.html"), recursive=True))
    pages = [path for path in pages if not path.endswith("404.html")]
    with sync_playwright() as play:
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
        page.on("request", lambda request: fetched.append(request.url))
        for path in pages:
            name = os.path.relpath(path, site)
            for size, viewport in (("phone", PHONE), ("desktop", DESKTOP)):
                page.set_viewport_size(viewport)
                page.goto(f"file://{path}")
                check_page(page, problems, f"{name} ({size})")
                if shots:
                    os.makedirs(shots, exist_ok=True)
                    page.screenshot(path=os.path.join(shots, f"{name.replace('/', '-')}.{size}.png"))
        check_search(page, site, problems)
        if shots:
            page.screenshot(path=os.path.join(shots, "search.png"))
        browser.close()
    problems += [f"fetched {url}" for url in sorted(set(fetched)) if not url.startswith(("file:", "data:", "blob:", "about:"))]
    print("\n".join(problems))
    print(f"check_site: {len(pages)} pages at two widths, {len(SEARCHES)} searches, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
