"""What the documents say is run: docstrings, the examples after >>>, and every block of Python.

A block that begins with ```python is run as it stands, all blocks of a page one after another in an
empty folder. What a line prints must be what the comment behind it says. Code that a page needs and
does not show is in a comment, <!-- before ... -->; a block behind <!-- not run: why --> is compiled
only. Blocks of C and lines for a terminal are run by tests/test_samples.py.
"""
import contextlib
import doctest
import glob
import importlib
import importlib.util
import inspect
import io
import os
import re
import runpy
import signal
import subprocess
import sys

import pytest

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")


MODULES = ["scanfold", "scanfold.torch", "scanfold.distributed", "scanfold.jax"]


def public(name):
    """A module, and the functions that it is for, by name."""
    for library in ("torch", "jax"):
        if name == f"scanfold.{library}" or name.endswith("distributed") and library == "torch":
            pytest.importorskip(library, reason=f"{library} is not installed")
    module = importlib.import_module(name)
    return module, {one: getattr(module, one) for one in module.__all__}


@pytest.mark.host_only("what is printed is the CPU's")
@pytest.mark.parametrize("name", ["scanfold", "scanfold.torch", "scanfold.jax"])
def test_docstrings(name):
    """Every public function, and the module itself, has an example that prints what it says."""
    module, functions = public(name)
    for one, thing in {"the module": module, **functions}.items():
        examples = doctest.DocTestParser().get_doctest(inspect.getdoc(thing), {}, f"{name}: {one}", None, 0)
        assert examples.examples or one == "the module" and name.endswith("torch"), one
        assert doctest.DocTestRunner().run(examples).failed == 0, one


RANK = """
import doctest, inspect, os, sys
import torch.distributed as dist, scanfold.distributed as sfd
other = os.fork()  # torch has been imported for both
dist.init_process_group("gloo", init_method=sys.argv[1], rank=0 if other else 1, world_size=2)
runner = doctest.DocTestRunner()
for name in sfd.__all__:
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(sfd, name)), {}, name, None, 0)
    runner.run(examples, out=None if dist.get_rank() == 0 else lambda text: None)
    assert examples.examples, name
if not other:
    os._exit(0)
assert not os.waitpid(other, 0)[1] and not runner.failures
"""


@pytest.mark.host_only("two ranks by gloo")
def test_docstrings_of_ranks(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this torch has no gloo")
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(sys.path))
    ranks = subprocess.Popen([sys.executable, "-c", RANK, f"file://{tmp_path}/store"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             start_new_session=True)
    try:
        said = ranks.communicate(timeout=300)[0]
    finally:
        if ranks.returncode is None:
            os.killpg(ranks.pid, signal.SIGKILL)
    assert ranks.returncode == 0, said


@pytest.mark.host_only("reads docstrings")
@pytest.mark.parametrize("name", MODULES)
def test_every_argument_is_described(name):
    """In a line of its own, which help() shows, within 100 columns; and so is what is returned.
    No docstring refers to another function instead."""
    for one, function in public(name)[1].items():
        text = inspect.getdoc(function)
        lines = [line.partition("  ")[0].split(", ") for line in text.splitlines()]
        for argument in inspect.signature(function).parameters:
            assert any(argument in line for line in lines), (one, argument)
        assert "  as for" not in text and "rguments as for" not in text and "rguments are those" not in text, one
        assert any(line.startswith("Returns ") for line in text.splitlines()), one
        assert all(len(line) <= 100 for line in text.splitlines()), one


@pytest.mark.host_only("what is printed is the CPU's")
@pytest.mark.parametrize("name", ["python.md", "torch.md", "segments.md"])
def test_documents(name):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if name == "torch.md" and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 3):
        pytest.skip("the page describes torch 2.3 and later")
    found = doctest.testfile(os.path.join(DOCS, name), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0 and found.failed == 0


SAMPLES = re.compile(r"<!-- before\n(.*?)-->|(<!-- not run: [^>]*-->\n)?^```python\n(.*?)^```$", re.S | re.M)
PAGES = [os.path.relpath(path, os.path.join(DOCS, "..")) for path in
         [os.path.join(DOCS, "..", "README.md"), *sorted(glob.glob(os.path.join(DOCS, "**", "*.md"), recursive=True))]]


def said(text):
    """Without spaces: NumPy pads its numbers, and a comment has one line."""
    return re.sub(r"\s", "", text)


@pytest.mark.host_only("what is printed is the CPU's")
@pytest.mark.parametrize("page", PAGES)
def test_samples(page, tmp_path, monkeypatch):
    with open(os.path.join(DOCS, "..", page)) as file:
        found = SAMPLES.findall(file.read())
    if not any(code for _, _, code in found):
        pytest.skip("no Python on this page")
    for library in ("torch", "jax"):
        if any(f"import {library}" in code for _, _, code in found):
            pytest.importorskip(library, reason=f"{library} is not installed")
    torch = sys.modules.get("torch")
    if torch is not None and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 3):
        pytest.skip("the backend is for torch 2.3 and later")
    monkeypatch.chdir(tmp_path)
    names = {}
    for hidden, left_out, code in found:
        compiled = compile(hidden or code, page, "exec")
        if left_out:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compiled, names)
        expected = re.findall(r"^print\(.*\)  # (.*)$", code, re.M)
        if expected:
            assert said(printed.getvalue()) == said("".join(expected)), code


def names_for(library):
    """What the tables take for granted: arrays of the library whose row or column it is, and the libraries that are here."""
    names = {}
    for name, module in {"np": "numpy", "sf": "scanfold", "scanfold": "scanfold", "torch": "torch", "F": "torch.nn.functional", "jax": "jax",
                         "scipy": "scipy", "pandas": "pandas", "bridge": "scanfold.torch", "_1": "scipy.stats", "_2": "scipy.signal"}.items():
        with contextlib.suppress(ImportError):
            names[name] = importlib.import_module(module)
    np = names["np"]
    x = np.random.default_rng(0).standard_normal((4, 5))
    arrays = {"x": x, "m": x > 0, "v": x[0], "w": x[1], "b": x[2], "x32": x.astype("f"), "starts": np.array([0, 2, 3]),
              "n": np.array([2, 1, 2])}
    if library == "torch":
        arrays = {name: names["torch"].tensor(array) for name, array in arrays.items()}
    elif library == "JAX":
        arrays = {name: names["jax"].numpy.asarray(array) for name, array in arrays.items()}
    elif library == "pandas":
        arrays.update(df=names["pandas"].DataFrame(x), s=names["pandas"].Series(x[0]))
    return {"s": 0.5, "a": 0.9, **names, **arrays}


def rows_of(page):
    """(library, what one writes there, what one writes here) of each row of the page's tables."""
    with open(os.path.join(DOCS, page)) as file:
        tables = re.findall(r"^\| (.*) \|\n\|[-|]+\|\n((?:\|.*\n)*)", file.read(), re.M)
    for head, body in tables:
        columns = head.split(" | ")
        for row in body.splitlines():
            *theirs, ours = ([*re.findall(r"`([^`]*)`", cell)] for cell in row[1:-1].split(" | "))
            if not ours:
                continue  # in words
            if columns[0] == "you write" and row[2] != "`":
                yield row.split()[1], theirs[0], ours
            elif columns[-1] == "scanfold":
                yield from ((library, one, ours) for library, one in zip(columns, theirs) if one)


@pytest.mark.host_only("what is compared is the CPU's")
@pytest.mark.parametrize("page, least", [("from-others.md", 10), ("python.md", 40)])
def test_tables_from_other_libraries(page, least):
    """Both sides of a row give the same numbers. A name alone (jax.lax.scan) is not a call; libraries that are not here have no rows."""
    numpy = pytest.importorskip("numpy")
    compared = 0
    for library, theirs, ours in rows_of(page):
        if not importlib.util.find_spec({"NumPy": "numpy", "SciPy": "scipy", "CuPy": "cupy", "JAX": "jax"}.get(library, library)):
            continue
        names = names_for(library)
        if "linear_sum" in ours[0]:
            names.update(w=names["x"], b=names["v"][:4])
        if len(ours) > 1 and ours[-1].startswith("v = "):
            exec(ours.pop(), names)
        pairs = zip(theirs, ours) if len(theirs) == len(ours) else ((theirs[0], one) for one in ours)
        for there, here in pairs:
            if "scipy" in there and "scipy" not in names or "(" not in there or "(" not in here:
                continue
            try:
                expected = eval(there, names)
            except AttributeError:
                continue  # an older library has no such function
            result = eval(here, names)
            for one, other in zip(expected, result) if isinstance(expected, tuple) else [(expected, result)]:
                assert numpy.allclose(numpy.asarray(one), numpy.asarray(other), rtol=1e-5), f"{there} is not {here}"
            compared += 1
    assert compared >= least or any(importlib.util.find_spec(name) is None for name in ("torch", "jax")), compared


@pytest.mark.host_only("reads files")
def test_the_picture_is_of_the_results():
    script = os.path.join(DOCS, "..", "bench", "picture.py")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.host_only("reads files")
@pytest.mark.parametrize("name", ["scanfold.h", "scanfold_mpi.h"])
def test_the_header_ends_by_column_100(name):
    with open(os.path.join(DOCS, "..", "include", name)) as file:
        assert [line for line in file if len(line.rstrip("\n")) > 100] == []


@pytest.mark.host_only("reads files")
@pytest.mark.parametrize("name", ["scanfold.h", "scanfold_mpi.h"])
def test_the_header_describes_every_function(name):
    """Right above it, or above the group it is in: every argument but the first, which is what it is a function of; what is returned; and which
    threads may call it."""
    with open(os.path.join(DOCS, "..", "include", name)) as file:
        header = file.read()
    comment, count = "", 0
    for found in re.finditer(r"^/\*(.*?)\*/|^SF_API ([^;]*);", header, re.S | re.M):
        if found[2] is None:
            comment = " ".join(found[1].replace("*", " ").split())
            continue
        name, arguments = re.search(r"\b(sf_\w+)\((.*)\)", re.sub(r"\((\*\w+)\)\([^()]*\)", r"\1", found[2]), re.S).groups()
        named = [re.search(r"(\w+)\s*$", one)[1] for one in arguments.split(",")]
        missing = [one for one in named[1:] if not re.search(rf"\b{one}\b", comment)]
        assert comment and not missing, f"{name}: {missing} of {comment}"
        assert "Threads: " in comment and (found[2].startswith("void") or re.search(r"\b[Rr]eturns?\b", comment)), f"{name}: {comment}"
        count += 1
    assert count == header.count("\nSF_API ")


@pytest.mark.host_only("reads files")
def test_the_readme_is_short():
    with open(os.path.join(DOCS, "..", "README.md")) as file:
        assert len(file.readlines()) < 150


def test_the_five_operators_run(device, monkeypatch, capsys):
    """examples/kernelbench/run.py, small: it checks each result, and stops with a sentence where one is wrong."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 3):
        pytest.skip("the backend is for torch 2.3 and later")
    script = os.path.join(DOCS, "..", "examples", "kernelbench", "run.py")
    monkeypatch.setattr(sys, "argv", [script, "--scale", "0.02", "--seconds", "0.05", "--rest", "eager", "--device", device])
    monkeypatch.setattr(sys, "path", list(sys.path))
    runpy.run_path(script, run_name="__main__")  # here, where torch has been imported
    rows = {row.split()[0]: row for row in capsys.readouterr().out.splitlines()[2:]}
    assert list(rows) == ["masked_cumsum", "reverse_cumsum", "flip_cumsum_flip", "sum_over_dimension", "gemm_divide_sum_scale"]
    for name, row in rows.items():
        assert row.count(" ms") == 3 and row.endswith("-" if name.startswith("gemm") else "same"), row


SAMPLE = [os.path.join(os.path.dirname(__file__), "typed_sample.py")]
EXAMPLES = sorted(glob.glob(os.path.join(DOCS, "..", "examples", "*", "*.py")))
# What --strict is, for modules: to be strict with some of them.
STRICT = """disallow_any_generics disallow_subclassing_any disallow_untyped_calls disallow_untyped_defs disallow_incomplete_defs check_untyped_defs
disallow_untyped_decorators warn_redundant_casts warn_unused_ignores warn_return_any strict_equality extra_checks""".split()


def checked(command, files):
    import scanfold
    package = os.path.dirname(os.path.dirname(scanfold.__file__))
    files = [file for file in files if importlib.util.find_spec("mpi4py") or os.path.basename(os.path.dirname(file)) != "mpi"]
    return subprocess.run([sys.executable, "-m", *command, *files], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, MYPYPATH=package, PYTHONPATH=package))


@pytest.mark.host_only("reads files")
def test_stubs_are_what_mypy_makes_of_them(tmp_path):
    """The sample is checked strictly, and so are our stubs; the examples as people write them. All in one run, because NumPy's stubs take most of it."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    loose = tmp_path / "loose.py"
    loose.write_text("import scanfold\ndef untyped(x):\n    return scanfold.cumsum(x)\n")
    settings, strictly = tmp_path / "mypy.ini", "".join(f"{name} = True\n" for name in STRICT) + "implicit_reexport = False\n"
    # torch takes mypy half a minute to read
    settings.write_text("[mypy]\nignore_missing_imports = True\n[mypy-torch.*]\nfollow_imports = skip\n[mypy-numpy.*]\nignore_missing_imports = False\n"
                        f"[mypy-scanfold,scanfold.*]\nignore_missing_imports = False\n{strictly}[mypy-typed_sample,loose]\n{strictly}")
    examples = EXAMPLES if importlib.util.find_spec("torch") else []
    done = checked(["mypy", "--config-file", str(settings), "--cache-dir", str(tmp_path)], SAMPLE + examples + [str(loose)])
    found = [line for line in done.stdout.splitlines() if "error:" in line]
    assert done.returncode == 1 and len(found) == 1 and "loose.py:2: error: Function is missing a type annotation" in found[0], done.stdout + done.stderr


@pytest.mark.host_only("reads files")
@pytest.mark.parametrize("files", ["the sample", "examples"])
def test_stubs_are_what_pyright_makes_of_them(files):
    pytest.importorskip("pyright", reason="pyright is not installed")
    if files == "examples":
        pytest.importorskip("torch", reason="torch is not installed")
        pytest.importorskip("scipy", reason="scipy is not installed")
    if subprocess.run([sys.executable, "-m", "pyright", "--version"], capture_output=True).returncode:
        pytest.skip("pyright does not run here")
    done = checked(["pyright", "--pythonpath", sys.executable], SAMPLE if files == "the sample" else EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.host_only("reads files")
def test_stubs_name_what_there_is():
    import scanfold
    folder = os.path.dirname(scanfold.__file__)
    with open(os.path.join(folder, "__init__.pyi")) as file:
        text = file.read()
    assert os.path.exists(os.path.join(folder, "py.typed"))
    for name in scanfold.__all__:
        assert f"def {name}(" in text or f"class {name}" in text or f"\n{name}: " in text, name
    with open(os.path.join(folder, "jax.pyi")) as file:
        text = file.read()
    from_the_package = re.findall(r"(\w+) as \1", text)
    if importlib.util.find_spec("jax") is not None:
        assert sorted(from_the_package + ["run"]) == sorted(importlib.import_module("scanfold.jax").__all__)
    pytest.importorskip("torch", reason="torch is not installed")
    import scanfold.torch as bridge
    with open(os.path.join(folder, "torch.pyi")) as file:
        text = " ".join(file.read().split())
    for name in bridge.__all__:
        stub = text[text.index(f"def {name}("):]
        named = [part.split(":")[0].strip() for part in stub[stub.index("(") + 1:stub.index(") ->")].split(", ") if ":" in part]
        assert named == list(inspect.signature(getattr(bridge, name)).parameters), name
