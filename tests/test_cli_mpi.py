"""scanfold --mpi: the files of several ranks are those of one process, byte by byte, whole or not at all."""
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from cli_tools import CLI, needs_cli, noise

MPIRUN = shutil.which("mpirun")
pytestmark = [needs_cli, pytest.mark.skipif(not MPIRUN, reason="there is no mpirun"),
              pytest.mark.skipif(not os.environ.get("SCANFOLD_HAS_MPI"), reason="SCANFOLD_HAS_MPI is not set: no scanfold_mpi was built")]
# More ranks than there are CPUs, as whoever runs the tests, on this machine alone.
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
           OMPI_MCA_btl="self,vader", SCANFOLD_NUM_THREADS="1")


def run(ranks, *arguments):
    return subprocess.run([MPIRUN, "-n", str(ranks), CLI, *map(str, arguments)], env=ENV, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(7, 1003, 3), so that no number of ranks divides an axis; also as Fortran has it, with a mask, and with NaN."""
    where = tmp_path_factory.mktemp("mpi")
    x = noise((7, 1003, 3), "f4")
    np.save(where / "x.npy", x)
    np.save(where / "fortran.npy", np.asfortranarray(x))
    np.save(where / "mask.npy", noise((1003, 1), "f4", 1) > 0)
    np.save(where / "nan.npy", np.where(x > 1, np.nan, x))
    np.save(where / "integers.npy", (x * 100).astype("i4"))
    np.save(where / "empty.npy", np.zeros((3, 0, 4), "f4"))
    return where


CASES = [
    (1, "scan x.npy --axis 1"),
    (2, "scan x.npy --axis 1 --reverse --exclusive"),
    (2, "sum x.npy"),
    (2, "fold nan.npy --op logsumexp --axis 1 --skip-nan --keepdim"),
    (3, "scan fortran.npy --axis 1 --mask mask.npy --dtype f64"),
    (3, "scan x.npy --axis -1 --op prod"),
    (3, "sum integers.npy --axis 0,1 --reverse --initial 5"),
    (3, "sum empty.npy"),
    (5, "scan integers.npy --axis 0 --op max"),
    (5, "scan x.npy --axis 2"),  # two ranks have nothing
    (5, "fold x.npy --op argmax"),
    (5, "prod x.npy --axis 1"),
]


@pytest.mark.parametrize("ranks, line", CASES)
def test_the_bytes_of_one_process(files, tmp_path, ranks, line):
    words = [str(files / w) if w.endswith(".npy") else w for w in line.split()]
    one, many = tmp_path / "one.npy", tmp_path / "many.npy"
    subprocess.run([CLI, *words, "-o", str(one)], check=True)
    done = run(ranks, *words, "-o", many, "--mpi")
    assert done.returncode == 0, done.stderr
    assert many.read_bytes() == one.read_bytes()
    assert many.stat().st_mode == one.stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["many.npy", "one.npy"]


def test_one_value_is_printed_once(files):
    done = run(3, "max", files / "integers.npy", "--mpi")
    assert done.returncode == 0 and done.stdout == f"{np.load(files / 'integers.npy').max()}\n"


REFUSED = [
    ("scan x.npy -o y.npy --axis 5", "axis is 5"),
    ("scan missing.npy -o y.npy", "cannot open"),
    ("sum x.npy --axis 1", "the result is more than one value"),
    ("sum x.npy --axis 0,2 -o y.npy", "--mpi shares one axis among the ranks"),
    ("scan x.npy -o /dev/null", "/dev/null is no regular file"),
]


@pytest.mark.parametrize("line, says", REFUSED)
def test_a_refusal_is_said_once(files, tmp_path, line, says):
    words = [str(files / w) if w in ("x.npy", "missing.npy") else str(tmp_path / w) if w == "y.npy" else w for w in line.split()]
    done = run(2, *words, "--mpi")
    assert done.returncode != 0
    assert done.stderr.count("scanfold: ") == 1 and done.stderr.count(says) == 1, done.stderr
    assert os.listdir(tmp_path) == []


def test_standard_streams_are_refused(files):
    done = subprocess.run([CLI, "scan", str(files / "x.npy"), "-o", "-", "--mpi"], env=ENV, capture_output=True, text=True)
    assert done.returncode == 2 and "--mpi is for files" in done.stderr


def test_a_rank_that_fails_alone(files, tmp_path):
    """Rank 1 has another input: every rank hears of it, and what stood in the output's place stays."""
    (tmp_path / "y.npy").write_text("as it was")
    tail = [str(tmp_path / "y.npy"), "--mpi"]
    done = subprocess.run([MPIRUN, "-n", "1", CLI, "scan", str(files / "x.npy"), "-o", *tail,
                           ":", "-n", "1", CLI, "scan", str(files / "missing.npy"), "-o", *tail], env=ENV, capture_output=True, text=True)
    assert done.returncode != 0 and "scanfold: rank 1: cannot open" in done.stderr
    done = subprocess.run([MPIRUN, "-n", "1", CLI, "scan", str(files / "x.npy"), "-o", *tail,
                           ":", "-n", "1", CLI, "scan", str(files / "x.npy"), "--op", "max", "-o", *tail], env=ENV, capture_output=True, text=True)
    assert done.returncode != 0 and "scanfold: rank 1 has op max, and rank 0 has sum; all ranks must have the same" in done.stderr
    assert (tmp_path / "y.npy").read_text() == "as it was" and os.listdir(tmp_path) == ["y.npy"]


def holders(name):
    """The processes that have mapped a file of this name."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/maps") as maps:
                found += [int(process)] if name in maps.read() else []
        except OSError:
            pass  # it has ended, or belongs to another user
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs Linux's /proc")
def test_a_rank_that_is_killed(tmp_path):
    """A kill leaves nothing, even of the rank that made the file: the others remove it."""
    x = tmp_path / "x.npy"
    held = np.lib.format.open_memmap(x, "w+", "f4", (1 << 26,))
    held.flush()
    work = subprocess.Popen([MPIRUN, "-n", "2", CLI, "scan", str(x), "-o", str(tmp_path / "y.npy"), "--mpi"], env=ENV, stderr=subprocess.PIPE)
    try:
        deadline = time.time() + 60
        made, first = None, None
        while not made or not set(holders(made)) - {first}:
            assert time.time() < deadline and work.poll() is None, "the temporary file was not seen"
            made = made or next((name for name in os.listdir(tmp_path) if name.startswith(".scanfold-")), None)
            first = int(made.split("-")[1]) if made else None  # rank 0, whose number the name has
        os.kill(first, signal.SIGKILL)
        work.communicate(timeout=60)
    finally:
        work.kill()
    assert work.returncode != 0
    for _ in range(100):
        if sorted(os.listdir(tmp_path)) == ["x.npy"]:
            break
        time.sleep(0.1)
    assert sorted(os.listdir(tmp_path)) == ["x.npy"]
