"""Eight ranks over gloo on the loopback address: sharded scans and folds have the bits of one process. The cases are in ranks_worker.py."""
import os
import re
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


@pytest.mark.host_only("shards are computed in CPU memory")
@pytest.mark.skipif(not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="this torch has no gloo")
def test_ranks_have_the_bits_of_one_process():
    here = os.path.dirname(os.path.abspath(__file__))
    env = dict(os.environ, WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1",
               GLOO_SOCKET_IFNAME="lo", TORCH_DISTRIBUTED_DEBUG="OFF")
    worker = [sys.executable, os.path.join(here, "ranks_worker.py")]
    ranks = [subprocess.Popen(worker, env=dict(env, RANK=str(i)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(RANKS)]
    try:
        ended = [rank.communicate(timeout=300) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for i, (out, err) in enumerate(ended):
        assert ranks[i].returncode == 0, err[-3000:]
        lines = out.splitlines()
        assert re.fullmatch(rf"rank {i} checked \d+", lines[-1]) and len(lines) == 1, "\n".join(lines[:20])
        assert int(lines[-1].split()[-1]) > 100


@pytest.mark.host_only("shards are computed in CPU memory")
@pytest.mark.skipif(not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="this torch has no gloo")
def test_a_layer_whose_sequence_is_sharded():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "recurrences", "context_parallel.py")
    env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "1000 steps over 3 ranks: the bits of one process, and its gradients\n"
