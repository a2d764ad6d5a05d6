"""Blocks of C and lines for a terminal, as the documents show them, are run.

    SCANFOLD_CLI=build/cli/scanfold SCANFOLD_LIB=build/libscanfold.so python -m pytest tests/test_samples.py

A block that begins with ```c is compiled and run; one without main is put into one, after what the
page says in a comment, <!-- before c ... -->; one behind <!-- not run: why --> is left out. Of blocks that begin with ```sh the lines that call
scanfold are run (bench: its smallest rows) in a folder that <!-- before ... -->, which is Python, has filled; a comment in the
line below is what they print. Of blocks that begin with ```console the lines behind $ are run, and must print what follows, where ... is anything. Blocks of
Python are run by tests/python/test_docs.py. The examples in the header's comments are compiled.
"""
import doctest
import glob
import os
import re
import shutil
import subprocess

import pytest

from cli_tools import CLI, needs_cli

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MORE = [os.path.join("bench", "README.md"), "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md"]
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
        # Rows may be slower than they were a moment ago: other tests run beside this one.
        slower = "--compare" in line and done.returncode == 1 and "slower" in done.stderr
        assert done.returncode == 0 or slower, line + "\n" + done.stderr
        if expected is not None:
            assert done.stdout.strip() == expected, line


def consoles():
    for page in PAGES:
        for number, block in enumerate(re.findall(r"^```console\n(.*?)^```$", read(page), re.S | re.M), 1):
            yield pytest.param(block, id=f"{page}-{number}")


@needs_cli
@pytest.mark.parametrize("block", list(consoles()))
def test_console(block, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    os.symlink(os.path.abspath(os.path.join(ROOT, CLI)), tmp_path / "bin" / "scanfold")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)[1:]
    assert parts and len(parts) % 2 == 0
    for line, expected in zip(parts[::2], parts[1::2]):
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=300, cwd=tmp_path)
        printed = done.stdout + done.stderr
        assert doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS), line + "\n" + printed


def test_no_sample_escapes():
    """Every block says what it is, so that a test finds it; what names a target of make or a file of ours names one that is there."""
    with open(os.path.join(ROOT, "Makefile")) as file:
        targets = set(re.findall(r"^([a-z][a-z0-9-]*):", file.read(), re.M))
    for page in PAGES + MORE:
        text = read(page)
        for left_out, kind, block in re.findall(r"(<!-- not run: [^>]*-->\n)?^```(\w*)\n(.*?)^```$", text, re.S | re.M):
            runs = kind in ("python", "pycon", "c", "console", "cmake", "sh")
            assert runs or left_out, f"{page}: a block of {kind or 'nothing'} that no test runs: {block[:80]}"
            for line in block.splitlines() if kind == "sh" else ():
                line = line.partition("#")[0]
                for target in re.findall(r"\bmake ((?:[a-z][a-z0-9-]* ?)+)", line):
                    assert set(target.split()) <= targets, f"{page}: {line}"
                for path in re.findall(r"(?:^|\s)((?:bench|tests|examples|packaging)/[\w/.]+\.(?:py|sh|patch))", line):
                    assert os.path.exists(os.path.join(ROOT, path)), f"{page}: {line}"
        assert not re.search(r"\n\n    (?:scanfold|torch|np|sf_)\S*\(", text), f"{page}: code that is only indented, which no test runs"


# Names that the recipes invent for what is to be added, and the reader's own files.
THEIRS = re.compile(r"sve256|_sin$|XOR|^(app\.c|model\.py)$")


def test_documents_name_what_is_there():
    """Files, and names of ours, that a page has between backticks; and the constants that porters are told of, each in its file."""
    sources = [path for top in ("src", "include", "cli", "python", "bench", "tests", "cmake", "docs", "examples", "packaging")
               for path in glob.glob(os.path.join(ROOT, top, "**", "*.*"), recursive=True) if os.path.isfile(path) and not path.endswith((".so", ".pyc"))]
    paths = [os.path.relpath(path, ROOT) for path in sources + glob.glob(os.path.join(ROOT, "*.*"))]
    text = "".join(read(path) for path in paths if path.endswith((".c", ".h", ".cu", ".cuh", ".def", ".py", ".cmake", ".txt", ".hpp")))
    for page in PAGES + MORE:
        for name in set(re.findall(r"`([^`\n]+)`", read(page))):
            if THEIRS.search(name):
                continue
            if re.fullmatch(r"[\w./]+\.(c|h|cu|cuh|hpp|py|sh|def|md|cmake|txt|patch)", name):
                assert any(path == name or path.endswith("/" + name) for path in paths), f"{page}: there is no file {name}"
            elif re.fullmatch(r"(sf|SF|SCANFOLD|V|K|v)_\w+", name):
                assert name in text, f"{page}: there is no {name}"
    rows = re.findall(r"^\| (`[A-Z_]+`.*?) \| (`src/.*?) \| ", read(os.path.join("docs", "tuning.md")), re.M)
    assert len(rows) >= 7
    for names, files in rows:
        found = "".join(read(os.path.relpath(path, ROOT)) for name in re.findall(r"`(.*?)`", files) for path in glob.glob(os.path.join(ROOT, name)))
        for name in re.findall(r"`(.*?)`", names):
            assert re.search(rf"\b{name}( =|\s+[\d(])", found), f"{name} is not in {files}"


HEADER_BEFORE = """
#include <scanfold.h>
#include <stdio.h>
extern sf_tensor x, y, w, sums;
extern sf_graph *graph;
extern sf_plan *plan;
extern int32_t a, b, o;
extern int64_t n;
extern sf_expr_options by_o;
extern sf_fold_options options;
"""


@pytest.mark.skipif(not shutil.which(os.environ.get("CC", "cc")), reason="no C compiler")
def test_the_header_s_examples_compile(tmp_path):
    """Each is in a comment, indented by four columns; the names it uses are declared here.
    Examples with ... in them are sketches."""
    comments = re.findall(r"/\*.*?\*/", read(os.path.join("include", "scanfold.h")), re.S)
    blocks = [block for comment in comments for block in re.findall(r"(?:^ \*     .*[;{}/]\n(?:^ \*     .*\n)*)", comment, re.M)]
    blocks = ["\n".join(line[7:] for line in block.splitlines()) for block in blocks if "..." not in block.replace("// ...", "")]
    blocks = [block for block in blocks if "sf_" in block]
    assert len(blocks) >= 8
    for number, block in enumerate(blocks):
        (tmp_path / "example.c").write_text(f"{HEADER_BEFORE}void example(void);\nvoid example(void)\n{{\n{block}\n}}\n")
        done = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-fsyntax-only", "-Wall", "-Wno-unused", "-Werror", "-I",
                               os.path.join(ROOT, "include"), "example.c"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, block + "\n" + done.stderr
