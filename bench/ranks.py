"""Ranks over gloo beside one process: the time of a sharded scan and fold, and how much of it is the exchange.

    python bench/ranks.py [log2 of the elements, 28] [ranks, 2]
    python bench/ranks.py cuda [log2 of the elements, 28]

The second is of a shard on a CUDA device: what a rank computes, without the exchange, beside the same call of an unsharded tensor.

One process uses as many threads as there are ranks, each rank one thread. Times are the best of a few rounds; a round of ranks is as slow as its
slowest.
"""
import os
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import scanfold
from scanfold import _scanfold, distributed as sd

ROUNDS = 7


def best(run):
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def rank_main(elements):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x = torch.rand(elements // ranks)
    spent = [0.0]

    def timed(function):
        def run(*given):
            begin = time.perf_counter()
            result = function(*given)
            spent[0] += time.perf_counter() - begin
            return result
        return run
    sd._gather = timed(sd._gather)
    for name, run in (("cumsum", lambda: sd.cumsum(x, 0)), ("sum", lambda: sd.sum(x, 0))):
        rounds = []
        for _ in range(ROUNDS):
            dist.barrier()
            spent[0], begin = 0.0, time.perf_counter()
            run()
            whole = time.perf_counter() - begin
            numbers = [torch.empty(2, dtype=torch.float64) for _ in range(ranks)]
            dist.all_gather(numbers, torch.tensor([whole, spent[0]], dtype=torch.float64))
            rounds.append((max(float(n[0]) for n in numbers), min(float(n[1]) for n in numbers)))
        whole, exchange = min(rounds[1:])
        if rank == 0:
            # The rank that arrives last waits for nobody: its time is the exchange alone.
            print(f"{name} {ranks} ranks: {whole * 1e3:.1f} ms, exchange {exchange * 1e3:.2f} ms ({100 * exchange / whole:.1f}%)")


def device_main(elements):
    """The second of two ranks with shards of this length."""
    x = torch.rand(elements, device="cuda")

    def sharded(fold):
        out = torch.empty(() if fold else elements, device="cuda")
        asked = (x, None, None, out, sd.SUM, 0, fold, False, False, False, None)
        cards = _scanfold.shard_card(*asked) * 2
        shard = _scanfold.shard_open(*asked, 1, 2, cards)
        mine = torch.empty(_scanfold.shard_bytes(shard, 1, 2), dtype=torch.uint8)
        _scanfold.shard_values(shard, mine)
        _scanfold.shard_finish(shard, torch.cat([mine, mine]))

    def waited(run):
        def timed():
            run()
            torch.cuda.synchronize()
        return timed
    for name, whole, fold in (("cumsum", lambda: scanfold.cumsum(x, 0), False), ("sum", lambda: scanfold.sum(x, 0), True)):
        alone, shard = best(waited(whole)), best(waited(lambda: sharded(fold)))
        print(f"{name}, {torch.cuda.get_device_name()}: unsharded {alone * 1e3:.3f} ms, a shard {shard * 1e3:.3f} ms, {alone / shard:.2f} of its speed")


def main():
    if sys.argv[1:2] == ["cuda"]:
        return device_main(1 << int(sys.argv[2] if len(sys.argv) > 2 else 28))
    elements, ranks = 1 << int(sys.argv[1] if len(sys.argv) > 1 else 28), int(sys.argv[2] if len(sys.argv) > 2 else 2)
    if "RANK" in os.environ:
        return rank_main(elements)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    for _ in range(2):  # in turns, because the machine may be busy
        torch.set_num_threads(ranks)
        x = torch.rand(elements)
        for name, run in (("cumsum", lambda: scanfold.cumsum(x, 0)), ("sum", lambda: scanfold.sum(x, 0))):
            print(f"{name} one process, {ranks} threads: {best(run) * 1e3:.1f} ms", flush=True)
        del x
        for rank in [subprocess.Popen([sys.executable, *sys.argv], env=dict(env, RANK=str(i))) for i in range(ranks)]:
            rank.wait()


if __name__ == "__main__":
    main()
