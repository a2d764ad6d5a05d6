"""Blocks of C and lines for a terminal, as the documents show them, are run.

    SCANFOLD_CLI=build/cli/scanfold SCANFOLD_LIB=build/libscanfold.so python -m pytest tests/test_samples.py

A block that begins with ```c is compiled and run; one without main is put into one, after what the
page says in a comment, <!-- before c ... -->; one behind <!-- not run: why --> is left out. Of blocks that begin with ```sh the lines that call
scanfold are run (bench: its smallest rows) in a folder that <!-- before ... -->, which is Python, has filled; a comment in the
line below is what they print. Blocks of Python are run by tests/python/test_docs.py.
"""
import glob
import os
import re
import shutil
import subprocess

import pytest

from cli_tools import CLI, needs_cli

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = [os.path.relpath(path, ROOT) for path in
         [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True))]]
LIB = os.environ.get("SCANFOLD_LIB", os.path.join(ROOT, "build", "libscanfold.so"))


def read(page):
    with open(os.path.join(ROOT, page)) as file:
        return file.read()


def programs():
    for page in PAGES:
        blocks = re.findall(r"(<!-- not run: [^>]*-->\n)?(?:<!-- before c\n(.*?)-->\n)?^```c\n(.*?)^```$", read(page), re.S | re.M)
        for number, (left_out, before, code) in enumerate(blocks, 1):
            if not left_out:
                yield pytest.param(before, code, id=f"{page}-{number}")


@pytest.mark.skipif(not os.path.exists(LIB), reason="the library is not built")
@pytest.mark.skipif(not shutil.which(os.environ.get("CC", "cc")), reason="no C compiler")
@pytest.mark.parametrize("before, code", list(programs()))
def test_c(before, code, tmp_path):
    if "int main" not in code:
        code = f"#include <scanfold.h>\n#include <stdio.h>\n\nint main(void)\n{{\n{before}{code}return 0;\n}}\n"
    (tmp_path / "app.c").write_text(code)
    folder = os.path.dirname(os.path.abspath(LIB))
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "app.c",
                    "-I", os.path.join(ROOT, "include"), "-L", folder, "-lscanfold", f"-Wl,-rpath,{folder}", "-o", "app"],
                   cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "app"], check=True, capture_output=True, text=True, timeout=60).stdout
    expected = re.findall(r"printf\(.*/\* (.*) \*/$", code, re.M)
    assert [line.strip() for line in printed.splitlines()] == expected


def lines_of(page):
    """(line, what it prints or None), of all blocks."""
    for block in re.findall(r"^```sh\n(.*?)^```$", read(page), re.S | re.M):
        lines = block.splitlines()
        for line, below in zip(lines, lines[1:] + [""]):
            if line.startswith("scanfold "):
                yield line.partition("  #")[0], below[2:] if below.startswith("# ") else None


@needs_cli
@pytest.mark.parametrize("page", [page for page in PAGES if any(lines_of(page))])
def test_terminal(page, tmp_path, monkeypatch):
    numpy = pytest.importorskip("numpy")
    monkeypatch.chdir(tmp_path)
    numpy.save("rewards.npy", numpy.ones((2, 3)))
    for code in re.findall(r"<!-- before\n(import numpy\nnumpy\.save.*?)-->", read(page), re.S):
        exec(code, {})
    (tmp_path / "bin").mkdir()
    os.symlink(os.path.abspath(os.path.join(ROOT, CLI)), tmp_path / "bin" / "scanfold")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for line, expected in lines_of(page):
        if line.startswith("scanfold bench"):
            line += " --quick --rounds 1 --filter tiny"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, line + "\n" + done.stderr
        if expected is not None:
            assert done.stdout.strip() == expected, line
