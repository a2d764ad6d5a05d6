"""scanfold's functions for JAX: under jit, grad, jvp, vmap and shard_map, on the CPU and on CUDA.

The results have the same bits as everywhere else.

>>> import jax, jax.numpy as jnp
>>> import scanfold.jax as sfj
>>> x = jnp.array([[1., 2., 3.], [4., 5., 6.]])
>>> jax.jit(lambda x: sfj.cumsum(x, axis=1, reverse=True))(x)
Array([[ 6.,  5.,  3.],
       [15., 11.,  6.]], dtype=float32)
>>> jax.grad(lambda x: sfj.logsumexp(x, axis=1).sum())(x).shape
(2, 3)

Each call becomes an expression in the library's notation (docs/expressions.md), which XLA calls
through its foreign function interface; so does its derivative. Names and arguments are those of the
package's own functions, including segments (docs/segments.md); only out is not accepted.
"""
import inspect as _inspect

import scanfold as _package

from ._docs import complete as _complete
from ._examples import jax as _example
from ._jax_calls import FUNCTIONS as _FUNCTIONS, NOT_TAKEN as _NOT_TAKEN, Given as _Given, run


_TAKEN = "a JAX array or tracer, or what jax.numpy.asarray takes"


def _made(name, compute):
    """The package's function of this name for JAX, with the same arguments and docstring."""
    own = getattr(_package, name)
    signature = _inspect.signature(own)
    signature = signature.replace(parameters=[p for p in signature.parameters.values() if p.name not in _NOT_TAKEN])

    def function(*args, **keywords):
        for option in _NOT_TAKEN:
            if keywords.pop(option, None) is not None:
                raise TypeError(f"scanfold.jax.{name} has no {option}: outside of jax.jit and its like scanfold.{name} has it")
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        return compute(name, _Given(bound.arguments))
    function.__name__ = function.__qualname__ = name
    told = f"scanfold.{name} for JAX's arrays and tracers. Without jax_enable_x64\n    dtypes of 32 bits take the place of those of 64."
    function.__doc__ = f"{told}\n\n    {own.__doc__}" if own.__doc__ else None
    function.__signature__ = signature
    return _complete(function, _NOT_TAKEN, example=_example(name), x=_TAKEN, b=_TAKEN)


globals().update({_name: _made(_name, _compute) for _name, _compute in _FUNCTIONS.items()})
__all__ = ["run", *_FUNCTIONS]
