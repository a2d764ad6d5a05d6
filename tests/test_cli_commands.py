"""The commands that work on no file: help, info, bench, digest, cache.

SCANFOLD_FAKES names the folder of a libcuda and an NVRTC with no GPU behind them (tests/cuda/fake.h); without it, what CUDA
has to do with these commands is not tested.
"""
import json
import os
import re

import pytest

from cli_tools import CLI, needs_cli, ok, on_a_terminal, refused

pytestmark = needs_cli
FAKES = os.environ.get("SCANFOLD_FAKES", "")
FAKES = os.path.abspath(FAKES) if FAKES else FAKES
needs_fakes = pytest.mark.skipif(not FAKES, reason="SCANFOLD_FAKES does not name the folder of the fake libcuda and NVRTC")


def cuda(**more):
    """An environment in which two CUDA devices seem to be."""
    return dict(os.environ, SCANFOLD_LIBCUDA=FAKES + "/libfake_libcuda.so", SCANFOLD_NVRTC=FAKES + "/libfake_nvrtc.so", **more)


def no_cuda(**more):
    return dict(os.environ, SCANFOLD_LIBCUDA="/no/such/libcuda.so", **more)


def test_help_and_version():
    assert b"examples:" in ok("--help") == ok("help") == ok("-h")
    for command in ("scan", "fold", "sum", "prod", "max", "min", "info", "bench", "digest", "cache"):
        text = ok(command, "--help")
        assert text == ok("help", command) and text.startswith(b"usage: scanfold")
        assert all(len(line) <= 120 for line in text.decode().splitlines())
    assert ok("--version").startswith(b"scanfold ")


def test_info():
    text = ok("info").decode()
    assert text.startswith("scanfold ") and "(chosen)" in text and "threads" in text and "cpu" in text
    assert "ref (chosen)" in ok("info", env=dict(os.environ, SCANFOLD_BACKEND="ref")).decode()
    unset = {name: value for name, value in os.environ.items() if name not in ("SCANFOLD_NUM_THREADS", "OMP_NUM_THREADS")}
    threads = [re.search(r"threads +(\d+)", ok("info", env=dict(unset, OMP_PROC_BIND=bind)).decode())[1] for bind in ("false", "true")]
    assert threads[0] == threads[1], "a bound thread is not all there are"
    assert int(threads[0]) <= len(os.sched_getaffinity(0)), "fewer where a container has a quota"
    refused("info", env=dict(os.environ, SCANFOLD_ISA="abacus"), says="abacus")


def test_bench(tmp_path):
    text = ok("bench", "--quick", "--filter", "small", "--rounds", "3", "--threads", "1", "--json",
              tmp_path / "b.json").decode()
    assert "cumsum axis 1 small" in text and "1 thread," in text
    table = json.loads((tmp_path / "b.json").read_text())
    assert table["threads"] == 1 and table["rounds"] == 3 and table["compiler"] and table["cpu"] and table["version"]
    assert len(table["rows"]) == 2
    for row in table["rows"]:
        assert row["bytes"] == 2 * 4 * 1024 * 1024 and row["peer"] == "copy"
        assert row["seconds"] > 0 and row["fraction"] > 0
    page = tmp_path / "report.html"
    ok("bench", "--quick", "--filter", "tiny", "--rounds", "1", "--html", page)
    text = page.read_text()
    data = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
    assert [row["work"] for row in data["rows"]] == ["cumsum axis 1 tiny", "cumsum axis 0 tiny"]
    assert data["commit"] and data["cpu"] and "@DATA@" not in text and "http" not in text
    text = ok("bench", "--quick", "--filter", "sum all", "--rounds", "1").decode()
    assert "read" in text
    refused("bench", "--filter", "no such row", says="no such row")
    refused("bench", "--json", tmp_path / "no" / "b.json", says="b.json")


def test_bench_compare(tmp_path):
    tiny = "bench", "--quick", "--filter", "axis 1 tiny", "--rounds", "3", "--threads", "1"  # so small that other processes hardly disturb it
    ok(*tiny, "--json", tmp_path / "b.json")
    text = (tmp_path / "b.json").read_text()
    fraction = re.search(r'"fraction": ([0-9.]+)', text)[1]
    for times, slower in ((0.001, False), (1000, True)):  # what it was is far below or above what it can be
        (tmp_path / "c.json").write_text(text.replace(f'"fraction": {fraction}', f'"fraction": {float(fraction) * times:.4f}'))
        arguments = *tiny, "--compare", tmp_path / "c.json", "--tolerance", "0.5"
        if slower:
            refused(*arguments, says="1 of 1 rows are slower than they were")
        else:
            assert "slower" not in ok(*arguments).decode()
            (tmp_path / "c.json").write_text(json.dumps(json.loads((tmp_path / "c.json").read_text()), indent=1))  # as other programs write it
            assert " 0.00" in ok(*arguments).decode().splitlines()[-1]
    (tmp_path / "c.json").write_text(text.replace("tiny", "other"))
    refused(*tiny, "--compare", tmp_path / "c.json", says="has none of these rows")
    refused("bench", "--compare", tmp_path / "none.json", says="none.json")
    refused("bench", "--compare", __file__, says="is not a file that bench --json wrote")
    refused("bench", "--tolerance", "2", says="--tolerance 2 is not a part of 1", status=2)


def test_digest():
    """The bits of this machine are those of all others: the lines were made with AVX2, AVX-512, and in an emulator with NEON."""
    with open(os.path.join(os.path.dirname(__file__), "digests.txt"), "rb") as file:
        right = file.read()
    assert len(right.splitlines()) > 150
    for isa in re.search(r"instructions +(.*)", ok("info").decode())[1].replace(" (chosen)", "").replace(" (not on this CPU)", "!").split():
        if not isa.endswith("!"):
            assert ok("digest", env=dict(os.environ, SCANFOLD_ISA=isa, SCANFOLD_NUM_THREADS="3")) == right, isa
    some = [line for line in right.splitlines(True) if b"of i16" in line]
    assert ok("digest", "--only", "of i16", "--device", "cpu") == b"".join(some)
    refused("digest", "x", says="digest takes no argument", status=2)
    refused("digest", "--device", "gpu", says="--device gpu is none; it is cpu, cuda or cuda:1", status=2)
    refused("digest", "--device", "cuda:1000", says="cuda", env=dict(os.environ, SCANFOLD_LIBCUDA="/no/such/file"))


# ---------------------------------------------------------------------------------------------------------------
# CUDA: devices and the cache
# ---------------------------------------------------------------------------------------------------------------

def test_info_without_cuda():
    text = ok("info", env=no_cuda()).decode()
    assert re.search(r"^devices +cpu\n +no CUDA: .*SCANFOLD_LIBCUDA is \"/no/such/libcuda.so\"", text, re.M), text
    assert "\nCUDA driver" not in text


@needs_fakes
def test_info_with_devices(tmp_path):
    text = ok("info", env=cuda(SCANFOLD_CACHE_DIR=str(tmp_path))).decode()
    for number in (0, 1):
        assert re.search(rf"^ +cuda:{number} a GPU of the tests, compute capability 9.0, 132 multiprocessors, ", text, re.M), text
    assert "cuda:2" not in text and "no CUDA" not in text
    assert re.search(r"^CUDA driver +13.0, .*/libfake_libcuda.so$", text, re.M)
    assert re.search(r"^CUDA compiler +NVRTC 13.0, .*/libfake_nvrtc.so$", text, re.M)
    assert re.search(rf"^CUDA cache +{re.escape(str(tmp_path))}$", text, re.M)
    text = ok("info", env=dict(cuda(SCANFOLD_CACHE_DIR=""), SCANFOLD_NVRTC="/no/nvrtc.so")).decode()
    assert re.search(r"^CUDA compiler +none: .*/no/nvrtc.so", text, re.M)
    assert re.search(r"^CUDA cache +none", text, re.M)


@needs_fakes
def test_cache(tmp_path):
    folder = tmp_path / "cache"
    env = cuda(SCANFOLD_CACHE_DIR=str(folder))
    assert ok("cache", "list", env=env) == b"0 kernels, 0.0 MB, in %s\n" % str(folder).encode()
    text = ok("cache", "warm", "--device", 1, env=env).decode().splitlines()
    assert re.fullmatch(r"cuda:1 a GPU of the tests: \d+ common calls are compiled", text[0]) and len(text) == 2
    kept = int(re.fullmatch(rf"(\d+) kernels, [\d.]+ MB, in {re.escape(str(folder))}", text[1])[1])
    assert kept == len(list(folder.glob("*.sfbin"))) > 50

    rows = ok("cache", "list", env=env).decode().splitlines()
    assert rows[-1] == text[1] and len(rows) == kept + 1
    for row in rows[:-1]:
        when, size, name, about = re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d) +([\d.]+) KB  ([0-9a-f]{12})  (.*)", row).groups()
        (entry,) = folder.glob(name + "*.sfbin")
        assert abs(float(size) - entry.stat().st_size / 1000) < 0.1 and "sm_90" in about and "NVRTC 13.0" in about

    # Both devices are the same chip: what is kept for one serves the other, and a second warming compiles nothing.
    before = {f: f.stat().st_ino for f in folder.iterdir()}
    text = ok("cache", "warm", env=dict(env, SCANFOLD_NVRTC=FAKES + "/libfake_nvrtc.so")).decode().splitlines()
    assert [line.split()[0] for line in text[:2]] == ["cuda:0", "cuda:1"]
    assert before == {f: f.stat().st_ino for f in folder.iterdir()}

    assert ok("cache", "clear", env=env) == b"removed %d kernels from %s\n" % (kept, str(folder).encode())
    assert list(folder.iterdir()) == []
    assert ok("cache", "clear", env=env).startswith(b"removed 0 kernels")


@needs_fakes
def test_warming_shows_a_bar(tmp_path):
    """Slow enough for a progress bar to appear."""
    env = cuda(SCANFOLD_CACHE_DIR=str(tmp_path), FAKE_NVRTC_MS="15")
    for extra, bar in (([], True), (["-q"], False)):
        status, shown = on_a_terminal(["cache", "warm", "--device", 0, *extra], tmp_path, env=env)
        assert status == 0
        assert (b"cuda:0 [#" in shown and b"%" in shown and shown.endswith(b"\r\x1b[K")) if bar else shown == b""
        ok("cache", "clear", env=env)


@needs_fakes
def test_cache_refusals(tmp_path):
    folder = str(tmp_path)
    refused("cache", "warm", env=no_cuda(SCANFOLD_CACHE_DIR=folder), says="/no/such/libcuda.so")
    refused("cache", "warm", "--device", 2, env=cuda(SCANFOLD_CACHE_DIR=folder), says=("device 2", "sees 2"))
    refused("cache", "warm", env=dict(cuda(SCANFOLD_CACHE_DIR=folder), SCANFOLD_NVRTC="/no/nvrtc.so"), says="/no/nvrtc.so")
    refused("cache", "warm", "--device", 0, env=cuda(SCANFOLD_CACHE_DIR="/proc/no/cache"), says="/proc/no/cache")
    for action in ("warm", "list", "clear"):
        refused("cache", action, env=cuda(SCANFOLD_CACHE_DIR=""), says="SCANFOLD_CACHE_DIR is set to nothing")
    nowhere = {k: v for k, v in cuda().items() if k not in ("HOME", "XDG_CACHE_HOME", "SCANFOLD_CACHE_DIR")}
    refused("cache", "list", env=nowhere, says="HOME")
    for arguments in (["cache"], ["cache", "bake"], ["cache", "list", "x"], ["cache", "clear", "--device", "0"],
                      ["cache", "warm", "--device", "x"], ["cache", "warm", "--device"], ["cache", "warm", "--speed"]):
        refused(*arguments, status=2)


def test_mpi_where_it_is_not(tmp_path):
    """A program that stands alone finds no scanfold_mpi: its sentence says what is missing."""
    beside = os.path.join(os.path.dirname(CLI), "..", "libscanfold_mpi.so")
    if os.path.exists(beside):
        pytest.skip("scanfold_mpi was built")
    refused("sum", tmp_path / "x.npy", "--mpi", says=["--mpi needs libscanfold_mpi.so", "libopenmpi-dev"])
