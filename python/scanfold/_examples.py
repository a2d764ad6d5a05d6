"""Examples for the docstrings of scanfold.jax and scanfold.distributed, whose other texts are those
of the package's own functions. tests/python/test_docs.py runs them: those of `ranks` on two ranks,
of which the first shows what it has.
"""

_JAX = {
    "cumsum": ("jax.jit(sfj.cumsum)(jnp.array([1., 2., 3.]))",
               "Array([1., 3., 6.], dtype=float32)"),
    "cumprod": ("jax.grad(lambda x: sfj.cumprod(x).sum())(jnp.array([1., 2., 3.]))",
                "Array([9., 4., 2.], dtype=float32)"),
    "cummax": ("jax.jit(sfj.cummax)(jnp.array([3, 1, 4, 1, 5]))",
               "Array([3, 3, 4, 4, 5], dtype=int32)"),
    "cummin": ("jax.jit(sfj.cummin)(jnp.array([3, 1, 4, 1, 5]))",
               "Array([3, 1, 1, 1, 1], dtype=int32)"),
    "logcumsumexp": ("jax.jit(sfj.logcumsumexp)(jnp.array([0., 0., 1e4]))",
                     "Array([0.000000e+00, 6.931472e-01, 1.000000e+04], dtype=float32)"),
    "cummean": ("jax.jit(sfj.cummean)(jnp.array([1., 3., 2.]))",
                "Array([1., 2., 2.], dtype=float32)"),
    "cumvar": ("jax.jit(sfj.cumvar)(jnp.array([1., 3., 5.]))",
               "Array([0.       , 1.       , 2.6666667], dtype=float32)"),
    "sum": ("jax.vmap(sfj.sum)(jnp.array([[1., 2.], [3., 4.]]))",
            "Array([3., 7.], dtype=float32)"),
    "prod": ("jax.grad(sfj.prod)(jnp.array([2., 0., 5.]))",
             "Array([ 0., 10.,  0.], dtype=float32)"),
    "max": ("jax.grad(sfj.max)(jnp.array([1., 3., 3.]))",
            "Array([0. , 0.5, 0.5], dtype=float32)"),
    "min": ("jax.vmap(sfj.min)(jnp.array([[1., 2.], [3., 4.]]))",
            "Array([1., 3.], dtype=float32)"),
    "logsumexp": ("jax.grad(sfj.logsumexp)(jnp.array([0., 0.]))",
                  "Array([0.5, 0.5], dtype=float32)"),
    "argmax": ("jax.vmap(sfj.argmax)(jnp.array([[1, 5, 5], [7, 2, 3]]))",
               "Array([1, 0], dtype=int32)"),
    "argmin": ("jax.vmap(sfj.argmin)(jnp.array([[1, 5, 1], [7, 2, 3]]))",
               "Array([0, 1], dtype=int32)"),
    "mean": ("jax.grad(sfj.mean)(jnp.array([1., 3.]))", "Array([0.5, 0.5], dtype=float32)"),
    "var": ("jax.grad(sfj.var)(jnp.array([1., 3.]))", "Array([-1.,  1.], dtype=float32)"),
    "std": ("jax.jit(sfj.std)(jnp.array([1., 3.]))", "Array(1., dtype=float32)"),
    "norm": ("jax.grad(sfj.norm)(jnp.array([3., 4.]))", "Array([0.6, 0.8], dtype=float32)"),
    "sumsq": ("jax.grad(sfj.sumsq)(jnp.array([3., 4.]))", "Array([6., 8.], dtype=float32)"),
    "any": ("jax.vmap(sfj.any)(jnp.array([[0, 0], [0, 3]]))",
            "Array([False,  True], dtype=bool)"),
    "all": ("jax.vmap(sfj.all)(jnp.array([[1, 0], [2, 3]]))",
            "Array([False,  True], dtype=bool)"),
    "count_nonzero": ("jax.vmap(sfj.count_nonzero)(jnp.array([[1, 0], [2, 3]]))",
                      "Array([1, 2], dtype=int32)"),
    "softmax": ("jax.jit(sfj.softmax)(jnp.array([0., 0., -1e4]))",
                "Array([0.5, 0.5, 0. ], dtype=float32)"),
    "log_softmax": ("jax.jit(sfj.log_softmax)(jnp.array([1e4, 0.]))",
                    "Array([     0., -10000.], dtype=float32)"),
    "layer_norm": ("jax.jit(sfj.layer_norm)(jnp.array([1., 5.]))",
                   "Array([-0.9999988,  0.9999988], dtype=float32)"),
    "rms_norm": ("jax.jit(sfj.rms_norm)(jnp.array([1., 7.]))",
                 "Array([0.2, 1.4], dtype=float32)"),
    "normalize": ("jax.jit(sfj.normalize)(jnp.array([3., 4.]))",
                  "Array([0.6, 0.8], dtype=float32)"),
    "standardize": ("jax.jit(sfj.standardize)(jnp.array([1., 3.]))",
                    "Array([-1.,  1.], dtype=float32)"),
    "linear_recurrence": ("jax.grad(lambda a: sfj.linear_recurrence(a, jnp.ones(3)).sum())(0.5)",
                          "Array(3., dtype=float32)"),
}

_RANKS = {
    "cumsum": ("cumsum(x, 0)", "tensor([1., 3.])"),
    "cumprod": ("cumprod(x, 0)", "tensor([1., 2.])"),
    "cummax": ("cummax(x, 0, reverse=True)", "tensor([4., 4.])"),
    "cummin": ("cummin(x, 0, reverse=True)", "tensor([1., 2.])"),
    "logcumsumexp": ("logcumsumexp(x * 1e4, 0)", "tensor([10000., 20000.])"),
    "linear_recurrence": ("linear_recurrence(0.5, x, 0)", "tensor([1.0000, 2.5000])"),
    "sum": ("sum(x, 0)", "tensor(10.)"),
    "prod": ("prod(x, 0)", "tensor(24.)"),
    "max": ("max(x, 0)", "tensor(4.)"),
    "min": ("min(x, 0)", "tensor(1.)"),
    "argmax": ("argmax(x, 0)", "tensor(3)"),
    "argmin": ("argmin(x, 0)", "tensor(0)"),
    "logsumexp": ("logsumexp(x * 1e4, 0)", "tensor(40000.)"),
    "mean": ("mean(x, 0)", "tensor(2.5000)"),
    "var": ("var(x, 0)", "tensor(1.6667)"),
    "std": ("std(x, 0)", "tensor(1.2910)"),
    "norm": ("norm(x, 2, 0)", "tensor(5.4772)"),
}


def jax(name):
    """The example of a function of scanfold.jax."""
    line, shown = _JAX[name]
    return f">>> import jax, jax.numpy as jnp, scanfold.jax as sfj\n>>> {line}\n{shown}"


def ranks(name):
    """The example of a function of scanfold.distributed."""
    line, shown = _RANKS[name]
    return f""">>> import torch, torch.distributed as dist, scanfold.distributed
>>> x = torch.tensor([[1., 2.], [3., 4.]][dist.get_rank()])  # two ranks, each with its shard
>>> scanfold.distributed.{line}  # as the first rank sees it
{shown}"""
