"""Rows of a sparse matrix are segments: sums, means and a softmax over what each row has, without a loop and without making it dense.

    python examples/segments/csr_rows.py
"""
import numpy as np
import scipy.sparse

import scanfold


def main():
    matrix = scipy.sparse.csr_matrix(scipy.sparse.random(2000, 500, 0.02, "csr", np.float64, np.random.default_rng(0)))
    values, offsets = matrix.data, matrix.indptr

    sums = scanfold.sum(values, offsets=offsets)
    assert np.allclose(sums, np.asarray(matrix.sum(axis=1)).ravel())

    weights = scanfold.softmax(values, offsets=offsets)  # over the entries that are there, of each row
    attention = scipy.sparse.csr_matrix((weights, matrix.indices, offsets), matrix.shape)
    filled = np.diff(offsets) > 0
    assert np.allclose(np.asarray(attention.sum(axis=1)).ravel(), filled)

    longest = int(np.argmax(np.diff(offsets)))
    row = values[offsets[longest]:offsets[longest + 1]]
    mine = weights[offsets[longest]:offsets[longest + 1]]
    assert np.array_equal(mine, scanfold.softmax(row))  # to the bit, whatever surrounds it
    print(f"{len(filled)} rows, {matrix.nnz} entries, {np.sum(~filled)} rows empty; the longest has {len(row)}, and a softmax that ends with {mine[-1]:.6f}")


if __name__ == "__main__":
    main()
