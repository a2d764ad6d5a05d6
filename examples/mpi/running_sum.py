"""A running sum over the NumPy arrays of all ranks, over mpi4py: every rank has some rows of one long matrix, as many as it likes.

    mpirun -n 3 python examples/mpi/running_sum.py

The library has no transport, and needs none: it says what a rank must tell the others, and takes what they told (docs/ranks.md). So anything that gathers
bytes will do; here that is comm.allgather and comm.Allgatherv. Any array that scanfold takes will do, too, through DLPack or as NumPy's own.
"""
import numpy as np
from mpi4py import MPI

import scanfold
from scanfold import _scanfold

SUM = 0


def cumsum(x, axis, comm):
    """This rank's part of the running sum along an axis that is sharded over the ranks of comm, in their order."""
    out = np.empty_like(x)
    asked = (x, None, None, out, SUM, axis, False, False, False, False, None)
    cards = b"".join(comm.allgather(_scanfold.shard_card(*asked)))
    shard = _scanfold.shard_open(*asked, comm.rank, comm.size, cards)  # raises the same on every rank if their cards do not agree
    sizes = [_scanfold.shard_bytes(shard, place, place + 1) for place in _scanfold.shard_places(shard)[2]]
    mine, spans = np.empty(sizes[comm.rank], np.uint8), np.empty(sum(sizes), np.uint8)
    _scanfold.shard_values(shard, mine)
    comm.Allgatherv([mine, MPI.BYTE], [spans, sizes, MPI.BYTE])
    _scanfold.shard_finish(shard, spans)
    return out


def main():
    comm = MPI.COMM_WORLD
    whole = np.random.default_rng(1).standard_normal((1000, 4)).astype(np.float32)
    at = [1000 * rank ** 2 // comm.size ** 2 for rank in range(comm.size + 1)]  # uneven
    begin, end = at[comm.rank], at[comm.rank + 1]
    part = cumsum(whole[begin:end], 0, comm)
    same = part.tobytes() == scanfold.cumsum(whole, 0)[begin:end].tobytes()
    if not all(comm.allgather(same)):
        raise SystemExit("the bits differ from those of one process")
    if comm.rank == 0:
        print(f"1000 rows over {comm.size} ranks: the bits of one process")


if __name__ == "__main__":
    main()
