"""Eight ranks over gloo on the loopback address: sharded scans and folds have the bits of one process; some on a CUDA device, and over NCCL. The cases are in
ranks_worker.py."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
RANKS = 8


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_ranks(count, engine, device):
    """So many ranks of ranks_worker.py; none may differ anywhere."""
    here = os.path.dirname(os.path.abspath(__file__))
    env = dict(os.environ, SCANFOLD_RANKS_FORK="1", WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1",
               GLOO_SOCKET_IFNAME="lo", TORCH_DISTRIBUTED_DEBUG="OFF", SCANFOLD_RANKS_ENGINE=engine, SCANFOLD_RANKS_DEVICE=device)
    ranks = subprocess.Popen([sys.executable, os.path.join(here, "ranks_worker.py")], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
    try:
        out, err = ranks.communicate(timeout=300)
    finally:
        if ranks.returncode is None:
            os.killpg(ranks.pid, signal.SIGKILL)
    assert ranks.returncode == 0, err[-3000:]
    lines = sorted(out.splitlines())
    assert len(lines) == (1 if engine == "threaded" else count), "\n".join(lines[:20])
    for i, line in enumerate(lines):
        assert re.fullmatch(rf"rank {i} checked \d+", line), "\n".join(lines[:20])
        assert int(line.split()[-1]) > 100


needs_gloo = pytest.mark.skipif(not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="this torch has no gloo")


@pytest.mark.host_only("CUDA has tests of its own below")
@needs_gloo
def test_ranks_have_the_bits_of_one_process():
    run_ranks(RANKS, "gloo", "cpu")


@pytest.mark.host_only("over gloo")
@needs_gloo
def test_torchrun():
    """As users start ranks: torchrun with two of them."""
    worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_worker.py")
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port()), worker]
    done = subprocess.run(run, env=dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [re.sub(r"\d+$", "N", line) for line in sorted(done.stdout.splitlines())] == ["rank 0 checked N", "rank 1 checked N"]


@needs_gloo
def test_shards_on_one_gpu(cuda):
    """Three ranks whose shards are on one device, and whose values go by way of the host."""
    run_ranks(3, "gloo", "cuda")


@pytest.mark.host_only("CUDA has a test of its own below")
def test_ranks_of_a_fake_group():
    run_ranks(3, "threaded", "cpu")


def test_shards_of_a_fake_group_on_one_gpu(cuda):
    """Ranks that are threads of one process, with their shards on one device."""
    run_ranks(5, "threaded", "cuda")


def test_nccl_with_one_rank(cuda):
    """What is exchanged goes by way of the device, gathered and along a tree."""
    if not torch.distributed.is_nccl_available():
        pytest.skip("this torch has no NCCL")
    run_ranks(1, "nccl", "cuda")


@pytest.mark.host_only("a layer of the CPU")
@pytest.mark.repeats("ranks_worker.py has recurrences of shards and their gradients")
@needs_gloo
def test_a_layer_whose_sequence_is_sharded():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "recurrences", "context_parallel.py")
    env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "1000 steps over 3 ranks: the bits of one process, and its gradients\n"


@pytest.mark.host_only("NumPy arrays")
def test_numpy_arrays_over_mpi4py():
    pytest.importorskip("mpi4py")
    if not shutil.which("mpirun"):
        pytest.skip("there is no mpirun")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "mpi", "running_sum.py")
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl="self,vader")
    done = subprocess.run(["mpirun", "-n", "3", sys.executable, script], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "1000 rows over 3 ranks: the bits of one process\n"
