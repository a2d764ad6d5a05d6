#!/usr/bin/env python3
"""Draws the picture of the README from bench/results: each contender's share of a copy's speed.

    python3 bench/picture.py            writes docs/pictures/shares-light.svg and shares-dark.svg
    python3 bench/picture.py --check    exits with 1 if those files are not what would be written

A bar that reaches the line at 1.0 is as fast as copying the same bytes. GPU rows come from gpu.json
(and from python.json for the product of matrices), CPU rows from cpu.json. Where there is a
zoo.json (bench/zoo.py --json bench/results/zoo.json), random cases have a panel too. Needs nothing
but Python.
"""
import json
import math
import os
import sys
from html import escape

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results")
PICTURES = os.path.join(HERE, "..", "docs", "pictures")

# The label of a group of bars, and the name of its row in the results.
GPU = [("masked cumsum along rows", "masked cumsum 32768 x 32768, dim 1"),
       ("reverse cumsum along rows", "reverse cumsum 32768 x 32768, dim 1"),
       ("reverse cumsum down columns", "reverse cumsum 32768 x 32768, dim 0"),
       ("sum over the middle axis", "sum 128 x 4096 x 4095, dim 1"),
       ("sum(x @ w.T / 2, 1) * 1.5", "gemm_divide_sum_scale"),
       ("cumsum of 8 rows of 2^24", "cumsum 8 x 2^24, dim 1"),
       ("cumsum down 2^20 rows of 8", "cumsum 2^20 x 8, dim 0")]
CPU = [("masked cumsum along rows", "masked cumsum axis 1", [8192, 8192]),
       ("reverse cumsum along rows", "reverse cumsum axis 1", [8192, 8192]),
       ("reverse cumsum down columns", "reverse cumsum axis 0", [8192, 8192]),
       ("sum over the middle axis", "sum axis 1", [16, 4096, 4095]),
       ("sum(x @ w.T / 2, 1) * 1.5", "matmul, divide, sum, scale", [1024, 8192, 8192]),
       ("cumsum of one row of 2^28", "cumsum of one line", [1 << 28]),
       ("cumsum down 2^22 rows of 8", "cumsum axis 0", [1 << 22, 8])]

THEMES = {
    "light": {"text": "#1f2328", "faint": "#59636e", "line": "#d1d9e0",
              "scanfold": "#0969da", "torch.compile": "#8250df", "torch": "#bc4c00",
              "NumPy": "#6e7781"},
    "dark": {"text": "#f0f6fc", "faint": "#9198a1", "line": "#3d444d",
             "scanfold": "#4493f8", "torch.compile": "#ab7df8", "torch": "#f0883e",
             "NumPy": "#b1bac4"},
}
WIDTH, LABELS, RIGHT, BAR, GAP = 860, 215, 60, 11, 12
MOST = 1.4  # the axis ends here


def load(name):
    with open(os.path.join(RESULTS, name)) as file:
        return json.load(file)


def gpu_groups():
    rows = {row["work"]: row for row in load("gpu.json")["rows"]}
    models = {row["work"]: row["forward"] for row in load("python.json")["rows"]}
    for label, name in GPU:
        if name in rows:
            row = rows[name]
            shares = {"scanfold": row["of_copy"],
                      "torch.compile": row["peers"]["compile"]["of_copy"],
                      "torch": row["peers"]["torch"]["of_copy"]}
        else:
            times = models[name]
            shares = {ours: times["copy"] / times[theirs] for ours, theirs in
                      (("scanfold", "call"), ("torch.compile", "default"), ("torch", "eager"))}
        yield label, shares


def cpu_groups():
    rows = {(row["work"], tuple(row["shape"])): row["contenders"]
            for row in reversed(load("cpu.json")["rows"])}  # of rows with the same name, the first
    for label, name, shape in CPU:
        times = {who: found["seconds"] for who, found in rows[name, tuple(shape)].items()}
        yield label, {"scanfold": times["copy"] / times["scanfold"],
                      "torch": times["copy"] / times["torch"],
                      "NumPy": times["copy"] / times["numpy"]}


def zoo_groups(rows):
    """The mean and the slowest, of the cases that all contenders have."""
    peers = {"scanfold": "ms", "torch.compile": "compile_ms", "torch": "torch_ms"}
    peers = {name: key for name, key in peers.items() if any(key in row for row in rows)}
    rows = [row for row in rows if all(key in row for key in peers.values())]
    shares = {name: sorted(row["copy_ms"] / row[key] for row in rows) for name, key in peers.items()}
    yield f"{len(rows)} random cases: mean", {name: math.exp(sum(map(math.log, all)) / len(all)) for name, all in shares.items()}
    yield "a tenth of them is below", {name: all[len(all) // 10] for name, all in shares.items()}
    yield "the slowest", {name: all[0] for name, all in shares.items()}


def panel(title, groups, top, colours):
    """(lines of SVG, where the panel ends)."""
    across = (WIDTH - LABELS - RIGHT) / MOST
    lines = [f'<text x="0" y="{top + 16}" class="title">{escape(title)}</text>']
    y = top + 32
    first = y
    bars = []
    for label, shares in groups:
        middle = y + BAR * len(shares) / 2 + 4
        bars.append(f'<text x="{LABELS - 10}" y="{middle:.1f}" text-anchor="end">{escape(label)}</text>')
        for name, share in shares.items():
            wide = max(1.5, min(share, MOST) * across)
            number = f"{share:.2f}" if share >= 0.005 else f"{share:.4f}"
            bars.append(f'<rect x="{LABELS}" y="{y}" width="{wide:.1f}" height="{BAR - 1}" '
                        f'fill="{colours[name]}"><title>{escape(label)}: {name} {number}</title></rect>')
            weight = ' class="ours"' if name == "scanfold" else ' class="number"'
            bars.append(f'<text x="{LABELS + wide + 5:.1f}" y="{y + BAR - 2}"{weight}>{number}</text>')
            y += BAR
        y += GAP
    for tenths in (0, 5, 10):
        x = LABELS + tenths / 10 * across
        dash = "" if tenths != 10 else ' stroke-dasharray="4 3"'
        colour = colours["faint"] if tenths == 10 else colours["line"]
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{first - 6}" y2="{y - 4}" '
                     f'stroke="{colour}"{dash}/>')
        lines.append(f'<text x="{x:.1f}" y="{y + 9}" text-anchor="middle" class="number">'
                     f'{"a copy" if tenths == 10 else tenths / 10:}</text>')
    return lines + bars, y + 22


def draw(colours):
    gpu, cpu = load("gpu.json")["about"], load("cpu.json")["about"]
    lines, y = panel(f'{gpu["chip"]}, float32, torch {gpu["torch"].partition("+")[0]}',
                     list(gpu_groups()), 34, colours)
    if os.path.exists(os.path.join(RESULTS, "zoo.json")):
        zoo = load("zoo.json")
        more, y = panel(f'{zoo["about"]["chip"]}, random shapes, dtypes and layouts (bench/zoo.py)', list(zoo_groups(zoo["rows"])), y + 14, colours)
        lines += more
    more, y = panel(f'{cpu["threads"]} threads of an {cpu["instructions"].upper()} virtual machine, '
                    f'float32, torch {cpu["torch"].partition("+")[0]}, NumPy {cpu["numpy"]}',
                    list(cpu_groups()), y + 14, colours)
    legend, x = [], 0
    for name in ("scanfold", "torch.compile", "torch", "NumPy"):
        legend.append(f'<rect x="{x}" y="4" width="11" height="11" fill="{colours[name]}"/>'
                      f'<text x="{x + 16}" y="14">{name}</text>')
        x += 32 + 7 * len(name)
    legend.append(f'<text x="{WIDTH}" y="14" text-anchor="end" class="number">'
                  'share of the speed of a copy of the same bytes; longer is faster</text>')
    style = (f'text{{font:12px system-ui,sans-serif;fill:{colours["text"]}}}'
             f'.title{{font-weight:600;font-size:13px}}.number{{font-size:10px;fill:{colours["faint"]}}}'
             '.ours{font-size:10px;font-weight:700}')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -4 {WIDTH + 16} {y + 8}" '
                      f'width="{WIDTH + 16}" height="{y + 8}" role="img">',
                      "<title>Speed of scans and folds as a share of a plain copy</title>",
                      f"<style>{style}</style>", *legend, *lines, *more, "</svg>", ""])


def main():
    stale = []
    for theme, colours in THEMES.items():
        path = os.path.join(PICTURES, f"shares-{theme}.svg")
        text = draw(colours)
        if "--check" not in sys.argv[1:]:
            os.makedirs(PICTURES, exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path).read() != text:
            stale.append(os.path.normpath(path))
    if stale:
        sys.exit(f"picture.py: {', '.join(stale)}: not what bench/results says; "
                 "run python3 bench/picture.py")


if __name__ == "__main__":
    main()
