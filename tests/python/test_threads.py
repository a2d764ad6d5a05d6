"""Threads beside torch's: how many work on its tensors, and on which CPUs. Each test has a process
of its own, whose pool is new."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

OURS = """
import glob, os
def ours():
    "The CPUs of each of the library's threads."
    found = []
    for task in glob.glob("/proc/self/task/*"):
        if open(task + "/comm").read() == "scanfold\\n":
            found.append(os.sched_getaffinity(int(task.rsplit("/", 1)[1])))
    return found
"""


def run(program, **environment):
    unset = {name: value for name, value in os.environ.items()
             if not name.startswith(("OMP_", "GOMP_", "KMP_", "SCANFOLD_NUM"))}
    done = subprocess.run([sys.executable, "-c", OURS + program], env=dict(unset, **environment),
                          capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr


@pytest.mark.host_only("a CPU's threads")
def test_torch_says_how_many():
    """Also in the workers of a DataLoader, where torch has set 1."""
    run("""
import numpy, scanfold, torch
from scanfold import _compile  # its operators
x = torch.ones(1 << 20)
program = '[["input"],["scan",0,0,1,0,0,-1,0],["output",1]]'
torch.set_num_threads(1)
scanfold.cumsum(x, 0), scanfold.sum(x)
torch.ops.scanfold.expression([x.reshape(1024, 1024)], program, 0)
rows, columns = torch.ones(1000, 1), torch.ones(1, 1000)  # small, but for their outer product
product = '[["input"],["input"],["apply",2,0,1,-1],["scan",2,0,1,0,0,-1,0],["output",3]]'
torch.ops.scanfold.expression([rows, columns], product, 0)
scanfold.run("sum(x * y, axis=1)", x=rows, y=columns)
assert not ours(), "torch has one thread, and the library more"
torch.set_num_threads(2)
scanfold.cumsum(x, 0)
assert len(ours()) == 1, ours()
scanfold.cumsum(numpy.ones(1 << 20, numpy.float32))
assert len(ours()) == 2, "what is not torch's has as many as there are"
class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return int(scanfold.cumsum(x, 0)[-1]), len(ours())
loader = torch.utils.data.DataLoader(Items(), num_workers=1, multiprocessing_context="fork")
for totals, threads in loader:
    assert totals.tolist() == [1 << 20] and threads.tolist() == [0], (totals, threads)
""", SCANFOLD_NUM_THREADS="3")


@pytest.mark.host_only("a CPU's threads")
def test_bound_threads():
    """OpenMP binds the main thread to one CPU as soon as torch is imported. The library still has
    all, and in a child of fork too."""
    unbound = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS")}
    asked = "import scanfold; print(scanfold.info()['threads'])"
    threads = subprocess.run([sys.executable, "-c", asked], env=unbound, capture_output=True,
                             text=True, check=True).stdout
    run(f"threads = {threads}" + """
every = os.sched_getaffinity(0)
import time, torch
x = torch.ones(1 << 20).add(1)  # OpenMP is at work; its threads would not survive fork
import scanfold
torch.set_num_threads(len(every))
def check():
    assert scanfold.info()["threads"] == threads, scanfold.info()
    with scanfold.using(threads=2):
        scanfold.cumsum(x, 0)
    assert len(ours()) == min(1, len(every) - 1), (ours(), every)
    late = time.monotonic() + 30  # a thread says where it may run as soon as it runs, which a call does not wait for
    while not all(cpus == every for cpus in ours()) and time.monotonic() < late:
        time.sleep(0.01)
    assert all(cpus == every for cpus in ours()), (ours(), every)
check()
child = os.fork()
if not child:
    code = 1
    try:
        check()
        code = 0
    finally:
        os._exit(code)
assert not os.waitpid(child, 0)[1]
""", OMP_PROC_BIND="true")
