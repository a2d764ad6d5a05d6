"""Ranks over gloo beside one process: the time of a sharded scan and fold, and how much of it is the exchange.

    python bench/ranks.py [log2 of the elements, 28] [ranks, 2] [rounds, 9]
    python bench/ranks.py cuda [log2 of the elements, 28]

The second is of a shard on a CUDA device: what a rank computes, without the exchange, beside the same call of an unsharded tensor.

One process uses as many threads as there are ranks, each rank one thread. The two are measured in turn: in every round rank 0 computes the whole while the
others wait, then all compute their shards, which takes as long as the slowest takes. The ratio is the median of the rounds' ratios, so that a machine that is
busy with something else disturbs both alike; the range says how much it did. Beside the exchange stands the engine's own all-gather of as many bytes.
"""
import os
import socket
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import scanfold
from scanfold import _scanfold, distributed as sd

ROUNDS = 9


def timed(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def counting(function, spent):
    """The function, which adds the time that it takes to spent[0]."""
    def run(*given):
        begin = time.perf_counter()
        result = function(*given)
        spent[0] += time.perf_counter() - begin
        return result
    return run


def rank_main(elements, rounds):
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shard = torch.rand(elements // ranks)
    whole = torch.rand(elements) if rank == 0 else None
    spent = [0.0]
    sd._meet = counting(sd._meet, spent)
    for name in ("cumsum", "sum"):
        ratios, alone, together, shares, bare = [], [], [], [], []
        for i in range(rounds + 1):  # the first one is not counted
            if rank == 0:
                torch.set_num_threads(ranks)
                one = timed(lambda: getattr(scanfold, name)(whole, 0))
            torch.set_num_threads(1)
            dist.barrier()
            spent[0] = 0.0
            own = timed(lambda: getattr(sd, name)(shard, 0))
            dist.barrier()
            nothing = timed(lambda: dist.all_gather([torch.empty(sd._MESSAGE_BYTES, dtype=torch.uint8) for _ in range(ranks)], torch.empty(sd._MESSAGE_BYTES, dtype=torch.uint8)))
            numbers = [torch.empty(3, dtype=torch.float64) for _ in range(ranks)]
            dist.all_gather(numbers, torch.tensor([own, spent[0], nothing], dtype=torch.float64))
            if rank or not i:
                continue
            slowest = max(float(n[0]) for n in numbers)
            alone.append(one)
            together.append(slowest)
            ratios.append(one / slowest)
            # The rank that arrives last does not wait: its time is that of the exchange alone.
            shares.append(min(float(n[1]) for n in numbers) / slowest)
            bare.append(min(float(n[2]) for n in numbers) / slowest)
        if rank == 0:
            print(f"{name} of {elements} f32: one process of {ranks} threads {statistics.median(alone) * 1e3:.1f} ms, {ranks} ranks {statistics.median(together) * 1e3:.1f} ms, "
                  f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), exchange {100 * statistics.median(shares):.2f}% ({100 * min(shares):.2f} to {100 * max(shares):.2f}), "
                  f"a bare all-gather of as much {100 * statistics.median(bare):.2f}%", flush=True)


def device_shard(x, a, op, fold, before):
    """What the second of two ranks computes; the first has `before` elements."""
    made = sd._result_dtype(op, x, None)
    out = torch.empty(() if fold else x.shape, dtype=made, device="cuda")
    first_out = out if fold else torch.empty(before, dtype=made, device="cuda")

    def asked(t, factor, result):
        return (t, factor, None, result, op, 0, fold, False, False, False, None)
    first = asked(x[:1].expand(before), None if a is None else a[:1].expand(before), first_out)
    cards = _scanfold.shard_card(*first) + _scanfold.shard_card(*asked(x, a, out))
    opened = _scanfold.shard_open(*first, 0, 2, cards)
    span = torch.empty(_scanfold.shard_bytes(opened, 0, 1), dtype=torch.uint8)
    _scanfold.shard_values(opened, span)

    def run():
        shard = _scanfold.shard_open(*asked(x, a, out), 1, 2, cards)
        mine = torch.empty(_scanfold.shard_bytes(shard, 1, 2), dtype=torch.uint8)
        _scanfold.shard_values(shard, mine)
        _scanfold.shard_finish(shard, torch.cat([span, mine]))
    return run


def device_main(elements):
    """Shards as long as those before them, shards that begin at a multiple of 8 elements, and at an odd index."""
    uniform, a = torch.rand(elements, device="cuda"), torch.rand(elements, device="cuda")
    near = 1 + 1e-3 * (uniform - 0.5)  # for products: those of the others would soon be zero
    near[0] = 1  # what stands before a shard repeats this one
    names = (("cumsum", sd.SUM), ("sum", sd.SUM), ("cummax", sd.MAX), ("max", sd.MAX), ("cumprod", sd.PROD), ("prod", sd.PROD), ("argmax", sd.ARGMAX),
             ("logcumsumexp", sd.LOGSUMEXP), ("logsumexp", sd.LOGSUMEXP), ("linear_recurrence", sd.RECURRENCE))

    def waited(run):
        def call():
            torch.cuda.synchronize()
            run()
            torch.cuda.synchronize()
        return call
    for before, label in ((elements, ""), (3 * elements + 12344, ", from anywhere"), (3 * elements + 12345, ", from an odd index")):
        for name, op in names:
            x, factor = near if op == sd.PROD else uniform, a if op == sd.RECURRENCE else None
            whole = getattr(scanfold, name)
            alone = waited(lambda: whole(x, 0) if factor is None else whole(factor, x, 0))
            shard = waited(device_shard(x, factor, op, not (name.startswith(("cum", "logcum")) or factor is not None), before))
            alone(), shard()
            rounds = [(timed(alone), timed(shard)) for _ in range(ROUNDS)]
            print(f"{name}{label}, {torch.cuda.get_device_name()}: unsharded {statistics.median(r[0] for r in rounds) * 1e3:.3f} ms, a shard "
                  f"{statistics.median(r[1] for r in rounds) * 1e3:.3f} ms, {statistics.median(r[0] / r[1] for r in rounds):.2f} of its speed", flush=True)


def main():
    if sys.argv[1:2] == ["cuda"]:
        return device_main(1 << int(sys.argv[2] if len(sys.argv) > 2 else 28))
    given = [int(v) for v in sys.argv[1:]]
    log, ranks, rounds = given + [28, 2, ROUNDS][len(given):]
    if "RANK" in os.environ:
        return rank_main(1 << log, rounds)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    started = [subprocess.Popen([sys.executable, *sys.argv], env=dict(env, RANK=str(i))) for i in range(ranks)]
    return max([rank.wait() for rank in started])


if __name__ == "__main__":
    sys.exit(main())
