"""One rank of test_distributed.py: every case by this rank's shard, against the whole computed here. Prints what differs, and at the end how many were
checked. Started as torchrun starts it: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the environment; SCANFOLD_RANKS_ENGINE and
SCANFOLD_RANKS_DEVICE name the process group's engine (gloo) and where tensors are (cpu). With SCANFOLD_RANKS_FORK it starts all of the ranks. Of the engine
"threaded" all ranks are threads of one process, whose process group is fake: torch's own, for tests."""
import gc
import os
import sys
import threading

import torch
import torch.distributed as dist

import scanfold
from scanfold import distributed as sd

checked = 0
ENGINE = os.environ.get("SCANFOLD_RANKS_ENGINE", "gloo")
DEVICE = os.environ.get("SCANFOLD_RANKS_DEVICE", "cpu")
# Of the listed cases, one in so many: on a device each one compiles kernels. Thin, processes that share two processors leave most to the threads of a fake group,
# which have them all. Five shares no factor with how the list goes round shapes and options.
ASKED = int(os.environ.get("SCANFOLD_RANKS_EVERY", "1"))
EVERY = 5 if ASKED == 1 and os.environ.get("SCANFOLD_TEST_THIN") and ENGINE == "gloo" else ASKED
WHOLE = {"cumsum": scanfold.cumsum, "cumprod": scanfold.cumprod, "cummax": scanfold.cummax, "cummin": scanfold.cummin,
         "logcumsumexp": scanfold.logcumsumexp, "sum": scanfold.sum, "prod": scanfold.prod, "max": scanfold.max, "min": scanfold.min,
         "argmax": scanfold.argmax, "argmin": scanfold.argmin, "logsumexp": scanfold.logsumexp}
SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
REALS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = REALS + (torch.int32, torch.uint8, torch.int64, torch.bool)


def tensor(shape, dtype, seed):
    g = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=g, dtype=torch.float64) * torch.rand(shape, generator=g, dtype=torch.float64)).to(DEVICE, dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 100, shape, generator=g).to(DEVICE, dtype)


def cuts(n, ranks, seed):
    """Where shards begin: anywhere, so that some are empty; or evenly."""
    if seed % 3 == 0:
        return [n * i // ranks for i in range(ranks)] + [n]
    g = torch.Generator().manual_seed(seed)
    return [0] + sorted(torch.randint(0, n + 1, (ranks - 1,), generator=g).tolist()) + [n]


def same(what, got, expected):
    global checked
    checked += 1
    if got.dtype != expected.dtype or got.shape != expected.shape:
        print(f"rank {dist.get_rank()}: {what}: {got.dtype} {tuple(got.shape)} instead of {expected.dtype} {tuple(expected.shape)}")
        return
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[got.element_size()]
    equal = (got.contiguous().view(bits) == expected.contiguous().view(bits)) | (got != got) & (expected != expected)
    if not bool(equal.all()):
        print(f"rank {dist.get_rank()}: {what}: {int((~equal).sum())} of {equal.numel()} differ")


def close(what, got, expected):
    global checked
    checked += 1
    if not torch.allclose(got, expected, rtol=1e-9, atol=1e-12):
        print(f"rank {dist.get_rank()}: {what}: off by {float((got - expected).abs().max())}")


def part(x, dim, at, me):
    return x.narrow(dim, at[me], at[me + 1] - at[me])


def values(ranks, me, group):
    seed = 0
    for name in WHOLE:
        for dtype in DTYPES:
            if dtype is torch.bool and name in ("logsumexp", "logcumsumexp", "argmax", "argmin"):
                continue
            seed += 1
            if (seed + ranks // 2) % EVERY:
                continue
            shape, dim = ((70,), 0) if seed % 3 == 0 else ((3, 45), 1) if seed % 3 == 1 else ((40, 5), 0)
            x, mask = tensor(shape, dtype, seed), tensor(shape, torch.bool, seed + 500)
            how = {} if name in ("argmax", "argmin", "logsumexp") else {"reverse": bool(seed & 1)}
            if seed & 2:
                how["mask"] = mask
            if name in SCANS:
                how["exclusive"] = bool(seed & 4)
            else:
                how["keepdim"] = bool(seed & 4)
            if seed & 8 and not name.startswith(("arg", "log")):
                how["initial"] = 1
            expected = WHOLE[name](x, dim, **how)
            at = cuts(shape[dim], ranks, seed)
            mine = dict(how, mask=part(mask, dim, at, me)) if "mask" in how else how
            got = getattr(sd, name)(part(x, dim, at, me), dim, group=group, dtype=expected.dtype, **mine) if not name.startswith("arg") else \
                getattr(sd, name)(part(x, dim, at, me), dim, group=group, **mine)
            same(f"{name} {dtype} {shape} over {ranks} {how.keys()}", got, part(expected, dim, at, me) if name in SCANS else expected)


def lengths(ranks, me, group):
    """Calls one after another with shards of other lengths: a rank guesses from the last ones how long those of the others are, and others may guess otherwise."""
    for count in ([3 + r for r in range(ranks)], [3] * ranks, [4] * ranks, [4 + (r == 0) for r in range(ranks)], [4] * ranks, [5] * ranks, [5] * ranks):
        at = [0]
        for n in count:
            at.append(at[-1] + n)
        x = tensor((at[-1], 2), torch.float32, at[-1])
        same(f"lengths {count}", sd.cumsum(part(x, 0, at, me), 0, group=group), part(scanfold.cumsum(x, 0), 0, at, me))
        same(f"sum of lengths {count}", sd.sum(part(x, 0, at, me), 0, group=group), scanfold.sum(x, 0))


def moments(ranks, me, group):
    """mean, var, std and norm; some of the elements, and without NaN."""
    for seed, dtype in enumerate((torch.float32, torch.float64, torch.bfloat16)):
        x, mask = tensor((3, 45), dtype, seed), tensor((3, 45), torch.bool, seed + 3)
        holes = torch.where(mask, x, torch.nan)
        at = cuts(45, ranks, seed)
        for name, how in (("mean", {}), ("var", {}), ("var", {"correction": 0}), ("std", {"keepdim": True}), ("norm", {}), ("norm", {"ord": 1}), ("norm", {"ord": torch.inf}),
                          ("norm", {"ord": -torch.inf})):
            ours, whole = getattr(sd, name), getattr(scanfold, name)
            same(f"{name} {dtype} over {ranks} {how}", ours(part(x, 1, at, me), dim=1, group=group, **how), whole(x, dim=1, **how))
            same(f"masked {name} {dtype} over {ranks} {how}", ours(part(x, 1, at, me), dim=1, mask=part(mask, 1, at, me), group=group, **how),
                 whole(x, dim=1, mask=mask, **how))
        same(f"mean without NaN {dtype}", sd.mean(part(holes, 1, at, me), 1, skip_nan=True, group=group), scanfold.mean(holes, 1, skip_nan=True))
        same(f"cumsum without NaN {dtype}", sd.cumsum(part(holes, 1, at, me), 1, skip_nan=True, group=group),
             part(scanfold.cumsum(holes, 1, skip_nan=True), 1, at, me))


def recurrences(ranks, me, group):
    for seed, dtype in enumerate(REALS):
        a, b = tensor((3, 50), dtype, seed), tensor((3, 50), dtype, seed + 9)
        at = cuts(50, ranks, seed)
        for how in ({}, {"reverse": True}, {"exclusive": True, "initial": 0.5}):
            expected = scanfold.linear_recurrence(a, b, 1, **how)
            got = sd.linear_recurrence(part(a, 1, at, me), part(b, 1, at, me), 1, group=group, **how)
            same(f"linear_recurrence {dtype} over {ranks} {how}", got, part(expected, 1, at, me))
        same("a number", sd.linear_recurrence(0.5, part(b, 1, at, me), 1, group=group), part(scanfold.linear_recurrence(0.5, b, 1), 1, at, me))


def gradients(ranks, me, group):
    """Against torch's, of the whole."""
    x = tensor((2, 21), torch.float64, 3)
    x[0, 4] = x[1, 7] = 0  # products of zeros
    weights, mask = tensor((2, 21), torch.float64, 4), tensor((2, 21), torch.bool, 5)
    at = cuts(21, ranks, 7)

    def both(what, ours, whole, scans=True, start=x):
        if len(what) % ASKED:  # the fake group has none of these
            return
        mine, full = part(start, 1, at, me).clone().requires_grad_(), start.clone().requires_grad_()
        y = ours(mine)
        (y * (part(weights, 1, at, me) if scans else weights[:, 0] * (1 if me == 0 else 0))).sum().backward()
        z = whole(full)
        (z * (weights if scans else weights[:, 0])).sum().backward()
        close(f"gradient of {what} over {ranks}", mine.grad, part(full.grad, 1, at, me))
        if ranks != 3:
            return
        mine, full = part(start, 1, at, me).clone().requires_grad_(), start.clone().requires_grad_()
        weight = part(weights, 1, at, me) if scans else weights[:, 0] * (1 if me == 0 else 0)
        first, = torch.autograd.grad((ours(mine) ** 2 * weight).sum(), mine, create_graph=True)
        second, = torch.autograd.grad((first * part(x, 1, at, me).cos()).sum(), mine)
        whole_first, = torch.autograd.grad((whole(full) ** 2 * (weights if scans else weights[:, 0])).sum(), full, create_graph=True)
        whole_second, = torch.autograd.grad((whole_first * x.cos()).sum(), full)
        close(f"second gradient of {what}", second, part(whole_second, 1, at, me))

    def shifted(y, first):
        return torch.cat([torch.full((2, 1), first, dtype=y.dtype, device=y.device), y[:, :-1]], 1)

    both("cumsum", lambda t: sd.cumsum(t, 1, group=group), lambda t: t.cumsum(1))
    both("exclusive cummax", lambda t: sd.cummax(t, 1, exclusive=True, initial=-9, group=group), lambda t: shifted(t.cummax(1).values, -9.0))
    both("cummin with an initial value", lambda t: sd.cummin(t, 1, initial=-0.1, group=group), lambda t: t.cummin(1).values.clamp(max=-0.1))
    both("min with an initial value", lambda t: sd.min(t, 1, initial=-0.1, group=group), lambda t: t.min(1).values.clamp(max=-0.1), False)
    both("exclusive logcumsumexp", lambda t: sd.logcumsumexp(t, 1, exclusive=True, group=group).exp(), lambda t: shifted(t.logcumsumexp(1), -torch.inf).exp())
    both("masked logsumexp", lambda t: sd.logsumexp(t, 1, mask=part(mask, 1, at, me), group=group),
         lambda t: torch.where(mask, t, float("-inf")).logsumexp(1), False)
    both("masked cumsum", lambda t: sd.cumsum(t, 1, mask=part(mask, 1, at, me), group=group), lambda t: (t * mask).cumsum(1))
    both("reverse cumsum", lambda t: sd.cumsum(t, 1, reverse=True, group=group), lambda t: t.flip(1).cumsum(1).flip(1))
    both("cumprod", lambda t: sd.cumprod(t, 1, group=group), lambda t: t.cumprod(1))
    both("exclusive cumprod", lambda t: sd.cumprod(t, 1, exclusive=True, initial=2, group=group),
         lambda t: 2 * shifted(t.cumprod(1), 1.0))
    both("cummax", lambda t: sd.cummax(t, 1, group=group), lambda t: t.cummax(1).values)
    both("reverse cummin", lambda t: sd.cummin(t, 1, reverse=True, group=group), lambda t: t.flip(1).cummin(1).values.flip(1))
    both("logcumsumexp", lambda t: sd.logcumsumexp(t, 1, group=group), lambda t: t.logcumsumexp(1))
    both("sum", lambda t: sd.sum(t, 1, group=group), lambda t: t.sum(1), False)
    both("prod", lambda t: sd.prod(t, 1, group=group), lambda t: t.prod(1), False)
    both("max", lambda t: sd.max(t, 1, group=group), lambda t: t.max(1).values, False)
    both("logsumexp", lambda t: sd.logsumexp(t, 1, group=group), lambda t: t.logsumexp(1), False)
    both("mean", lambda t: sd.mean(t, 1, group=group), lambda t: t.mean(1), False)
    both("var", lambda t: sd.var(t, 1, group=group), lambda t: t.var(1), False)
    both("masked std", lambda t: sd.std(t, 1, mask=part(mask, 1, at, me), correction=0, group=group),
         lambda t: torch.stack([row[kept].std(correction=0) for row, kept in zip(t, mask)]), False)
    both("norm", lambda t: sd.norm(t, 2, 1, group=group), lambda t: torch.linalg.vector_norm(t, 2, 1), False)
    a = tensor((2, 21), torch.float64, 8)
    for how in ({}, {"reverse": True}, {"exclusive": True}):
        both(f"recurrence {how}, by b", lambda t: sd.linear_recurrence(part(a, 1, at, me), t, 1, group=group, **how),
             lambda t: scanfold.linear_recurrence(a, t, 1, **how))
        both(f"recurrence {how}, by a", lambda t: sd.linear_recurrence(t, part(a, 1, at, me), 1, group=group, **how),
             lambda t: scanfold.linear_recurrence(t, a, 1, **how))


def faults(ranks, me, group):
    """One rank asks for something else: all raise the same."""
    if ranks < 2:
        return
    global checked
    x = torch.ones(4, 3, device=DEVICE)
    asks = [
        ("rank 1 has an x of dtype f64, and rank 0 has f32; all ranks must have the same", lambda: sd.cumsum(x.double() if me == 1 else x, 0, group=group)),
        ("rank 1 has op max, and rank 0 has sum; all ranks must have the same", lambda: (sd.cummax if me == 1 else sd.cumsum)(x, 0, group=group)),
        ("rank 1 has axis 1 of 2, and rank 0 has axis 0 of 2; all ranks must have the same", lambda: sd.sum(x, 1 if me == 1 else 0, group=group)),
        ("rank 1 has shape (*, 2), and rank 0 has (*, 3); all ranks must have the same", lambda: sd.sum(x[:, :2] if me == 1 else x, 0, group=group)),
        ("rank 1: IndexError: dim is 5; for a tensor of 2 dimensions it must be -2 to 1", lambda: sd.cumsum(x, 5 if me == 1 else 0, group=group)),
        ("rank 1: TypeError: x is torch.int64; var is of real numbers: give x.float()", lambda: sd.var(x.long() if me == 1 else x, 0, group=group)),
        ("rank 1 has fold 1, and rank 0 has 0; all ranks must have the same", lambda: (sd.sum if me == 1 else sd.cumsum)(x, 0, group=group)),
        ("rank 1 has reverse 1, and rank 0 has 0; all ranks must have the same", lambda: sd.cumsum(x, 0, reverse=me == 1, group=group)),
        ("rank 1 has exclusive 1, and rank 0 has 0; all ranks must have the same", lambda: sd.cumsum(x, 0, exclusive=me == 1, group=group)),
        ("rank 1 has another initial value than rank 0; all ranks must have the same", lambda: sd.cumsum(x, 0, initial=2 if me == 1 else 3, group=group)),
        ("calls norm with order=", lambda: sd.norm(x, 1 if me == 1 else 2, 0, group=group)),
        ("calls var with correction=", lambda: sd.var(x, 0, correction=me == 1, group=group)),
        ("all ranks must make the same call", lambda: (sd.std if me == 1 else sd.var)(x, 0, group=group)),
        ("all ranks must make the same call", lambda: sd.mean(x, 0, mask=x > 0 if me == 1 else None, group=group)),
        ("rank 1: RuntimeError: The size of tensor", lambda: sd.cumsum(x, 0, skip_nan=True, mask=torch.ones(7, 7) if me == 1 else None, group=group)),
        ("rank 1: AttributeError", lambda: sd.mean(x, 0, skip_nan=True, mask=[1] if me == 1 else None, group=group)),
        ("rank 1: TypeError: 'str' object cannot be interpreted as an integer", lambda: sd.cumsum(x, "0" if me == 1 else 0, group=group)),
        ("rank 1: TypeError: x is list; it must be a tensor", lambda: sd.cumsum([1.0] if me == 1 else x, 0, group=group)),
    ]
    for sentence, ask in asks:
        checked += 1
        try:
            ask()
            print(f"rank {me}: no error instead of: {sentence}")
        except Exception as error:
            if sentence not in str(error):
                print(f"rank {me}: {error!r} instead of: {sentence}")


def trees(ranks, me, group):
    """Joined along a tree instead of gathered."""
    before, sd.GATHER_BYTES = sd.GATHER_BYTES, -1
    values(ranks, me, group)
    sd.GATHER_BYTES = before


def dtensors():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    flat, grid = init_device_mesh("cpu", (8,)), init_device_mesh("cpu", (2, 4))
    x = tensor((6, 21, 5), torch.float32, 1)
    for mesh, placements in ((flat, [Shard(1)]), (flat, [Shard(0)]), (flat, [Replicate()]), (grid, [Shard(0), Shard(1)]), (grid, [Shard(2), Replicate()]),
                             (grid, [Shard(1), Shard(2)])):
        whole = x.clone().requires_grad_()
        d = distribute_tensor(x, mesh, placements).requires_grad_()
        y = sd.cumsum(d, 1)
        same(f"DTensor cumsum {placements}", y.full_tensor().detach(), scanfold.cumsum(x, 1))
        if y.placements != d.placements:
            print(f"placements {y.placements} instead of {d.placements}")
        (y * y.detach()).sum().backward()
        z = scanfold.cumsum(whole, 1)
        (z * z.detach()).sum().backward()
        same(f"DTensor gradient {placements}", d.grad.full_tensor(), whole.grad)
        for keepdim in (False, True):
            same(f"DTensor logsumexp {placements}", sd.logsumexp(d, 1, keepdim=keepdim).full_tensor().detach(), scanfold.logsumexp(x, 1, keepdim=keepdim))
        same(f"DTensor var {placements}", sd.var(d, 1).full_tensor().detach(), scanfold.var(x, 1))
        h = sd.linear_recurrence(d, d, 1)
        same(f"DTensor recurrence {placements}", h.full_tensor().detach(), scanfold.linear_recurrence(x, x, 1))
    whole = x.clone().requires_grad_()
    d = distribute_tensor(x, flat, [Shard(1)]).requires_grad_()
    sd.sum(d, 1).sum().backward()
    same("DTensor gradient of sum", d.grad.full_tensor(), torch.ones_like(x))
    whole = x.double().requires_grad_()
    d = distribute_tensor(x.double(), grid, [Shard(0), Shard(1)]).requires_grad_()
    for name in ("logsumexp", "var"):
        first, = torch.autograd.grad((getattr(sd, name)(d, 1) ** 2).sum(), d, create_graph=True)
        second, = torch.autograd.grad((first * first).sum(), d)
        whole_first, = torch.autograd.grad((getattr(torch, name)(whole, 1) ** 2).sum(), whole, create_graph=True)
        whole_second, = torch.autograd.grad((whole_first * whole_first).sum(), whole)
        close(f"DTensor second gradient of {name}", second.full_tensor(), whole_second)


def compiled(me, group):
    """torch.compile breaks its graph there, and the result is right. One rank is enough to compile, which takes seconds; the others call as they are."""
    x = tensor((6,), torch.float32, 2)
    step = lambda t: sd.cumsum(t * 2, 0, group=group) + 1  # noqa: E731
    if me == 0:
        step = torch.compile(step, backend="eager")
    same("compiled", step(x[3 * me:3 * me + 3]), (scanfold.cumsum(x * 2, 0) + 1)[3 * me:3 * me + 3])


def threads(count):
    """Ranks that are threads, with one device among them. The fake group has no messages from one rank to another, so nothing goes along a tree; and a backward
    would run on threads of its own, which are in no group."""
    from torch.testing._internal.distributed.multi_threaded_pg import _install_threaded_pg
    _install_threaded_pg()
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    store = dist.HashStore()
    ended = []

    def one(rank):
        dist.init_process_group("threaded", rank=rank, world_size=count, store=store)
        with torch.no_grad():
            values(count, rank, None)
            lengths(count, rank, None)
            recurrences(count, rank, None)
            moments(count, rank, None)
            faults(count, rank, None)
        ended.append(rank)
    ranks = [threading.Thread(target=one, args=(rank,)) for rank in range(count)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    if len(ended) == count:
        print(f"rank 0 checked {checked}", flush=True)
    os._exit(len(ended) != count)  # torch does not expect such a group when it ends


def fork(count):
    """Every rank, from here on, is a process that has torch already: importing it takes longer than most of what a rank does. This one waits for them and
    says whether all went well."""
    if count == 8:
        import torch.distributed.tensor  # dtensors() has it
        if os.environ.get("SCANFOLD_TEST_THIN"):
            import torch._dynamo  # noqa: F401  and its backward this, which takes longer than all else there; that no call imports it, two ranks say, which are not among these
    gc.freeze()  # a collector that looks at what it has of its parent copies all of that
    ranks = []
    for rank in range(count):
        ranks.append(os.fork())
        if not ranks[-1]:
            os.environ["RANK"] = str(rank)
            return
    failed = sum(os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) != 0 for rank in ranks)
    os._exit(failed > 0)


def main():
    torch.set_num_threads(1)
    if ENGINE == "threaded":
        threads(int(os.environ["WORLD_SIZE"]))
    if os.environ.get("SCANFOLD_RANKS_FORK"):
        fork(int(os.environ["WORLD_SIZE"]))
    dist.init_process_group(ENGINE)
    rank = dist.get_rank()
    # One and two are test_torchrun's, too.
    thin = os.environ.get("SCANFOLD_TEST_THIN") and dist.get_world_size() == 8
    for ranks in (3, 8) if thin else (1, 2, 3, 5, 8):
        if ranks > dist.get_world_size():
            break
        group = dist.new_group(list(range(ranks)))
        if rank < ranks:
            values(ranks, rank, group)
            lengths(ranks, rank, group)
            recurrences(ranks, rank, group)
            if ranks == 3:
                moments(ranks, rank, group)
            # Thin: three ranks alone have gradients, and eight alone all of what goes along trees.
            if ranks in ((3,) if thin else (3, 8)) or ENGINE != "gloo":
                gradients(ranks, rank, group)
            faults(ranks, rank, group)
            if ranks in (3, 8) or ENGINE != "gloo":
                trees(ranks, rank, group)
            if ranks == 2 and DEVICE == "cpu":
                # Importing these takes seconds: no call may do so by itself. The fork of eight has the second.
                for module in ("torch._dynamo", "torch.distributed.tensor")[:1 if dist.get_world_size() == 8 else 2]:
                    if module in sys.modules:
                        print(f"rank {rank}: calls have imported {module}")
                compiled(rank, group)
        dist.barrier()
    if dist.get_world_size() == 8:
        dtensors()
    dist.barrier()
    sys.stdout.write(f"rank {rank} checked {checked}\n")  # one write: under torchrun all ranks write to the same pipe
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
