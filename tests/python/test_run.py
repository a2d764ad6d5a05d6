"""scanfold.run and scanfold.explain: the library's notation on arrays of any kind."""
import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

import oracle
import scanfold

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
M = X > 0


@pytest.mark.host_only("the arrays are NumPy's")
@pytest.mark.parametrize("text, names, expected", [
    ("cumsum(x * m, 1)", "xm", lambda x, m: np.cumsum(x * m, 1)),
    ("flip(cumsum(flip(x, 1), 1), 1) * m", "xm", lambda x, m: x[:, ::-1].cumsum(1)[:, ::-1] * m),
    ("sum(x, 1, keepdim=True, mask=m)", "xm", lambda x, m: np.where(m, x, 0).sum(1, keepdims=True)),
    ("max(x, 0), cumsum(where(m, x, 0), -1), x.T", "xm",
     lambda x, m: (x.max(0), np.where(m, x, 0).cumsum(1), x.T)),
    ("cummin(x, 0, reverse=True)[1:]", "x",
     lambda x, m: np.minimum.accumulate(x[::-1], 0)[::-1][1:]),
])
def test_numpy(text, names, expected):
    for x in (X, X.T.copy().T, X[:, ::-1], np.broadcast_to(X[0], (3, 4))):
        inputs = {name: {"x": x, "m": M}[name] for name in names}
        made, right = scanfold.run(text, **inputs), expected(x, M)
        assert isinstance(made, tuple) == isinstance(right, tuple)
        for a, b in zip(made, right) if isinstance(made, tuple) else [(made, right)]:
            assert type(a) is np.ndarray and oracle.same_bits(a, b), text


def test_torch(device, torch):
    x, m = torch.from_numpy(X.copy()).to(device), torch.from_numpy(M).to(device)
    y = scanfold.run("cumsum(x * m, 1)", x=x, m=m)
    assert isinstance(y, torch.Tensor) and torch.equal(y, torch.cumsum(x * m, 1))
    mixed = scanfold.run("cumsum(x * m, 1)", x=x.T.contiguous().T, m=M if device == "cpu" else m)
    assert torch.equal(mixed, y)  # of the first input's kind
    out = torch.empty(3, device=device)
    version = out._version
    assert scanfold.run("sum(x, 1)", x=x, out=out) is out
    assert torch.equal(out, x.sum(1)) and out._version > version


def test_torch_tensors_that_are_more_than_their_memory(device, torch):
    x, plain = torch.ones(3, requires_grad=True, device=device), torch.ones(3, device=device)
    told = r"^{0} requires a gradient.*scanfold\.cumsum.*torch\.compile.*{0}\.detach\(\)"
    for names in ({"x": x, "y": plain}, {"x": plain, "y": x}, {"x": plain.cpu().numpy(), "y": x}):
        name = next(name for name in names if names[name] is x)
        with pytest.raises(TypeError, match=told.format(name)):
            scanfold.run("cumsum(x * y)", **names)
    with torch.no_grad():
        assert scanfold.run("cumsum(x * y)", x=x, y=plain).tolist() == [1, 2, 3]
    for bad in (torch.ones(3, device="meta"), type("Mine", (torch.Tensor,), {})([1.0])):
        with pytest.raises(TypeError, match="^x is a torch tensor that is more than its memory"):
            scanfold.run("cumsum(x)", x=bad)
    with pytest.raises(TypeError, match="^x is a torch tensor that is more than its memory"):
        scanfold.explain("cumsum(x)", x=torch.ones(3, device="meta"))
    with pytest.raises(TypeError, match="^x is a torch tensor that is more than its memory.*vmap"):
        torch.func.vmap(lambda x: scanfold.run("cumsum(x)", x=x))(torch.ones(2, 3, device=device))
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level(), pytest.raises(TypeError, match="more than its memory"):
        scanfold.run("cumsum(x)", x=forward_ad.make_dual(plain, plain))


def test_torch_compile_leaves_it_alone(device, torch):
    if not hasattr(getattr(torch, "compiler", None), "is_compiling"):
        pytest.skip("torch 2.1 and later")

    def model(x):
        return scanfold.run("cumsum(x, 1), sum(x)", x=x * 2)[0] + 1
    x = torch.from_numpy(X).to(device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(torch.compile(model, backend="eager")(x), model(x))


@pytest.mark.host_only("JAX chooses its device")
def test_jax():
    jnp = pytest.importorskip("jax", reason="JAX is not installed").numpy
    x = jnp.asarray(X)
    y, total = scanfold.run("cumsum(x * m, 1), sum(x)", x=x, m=jnp.asarray(M))
    assert isinstance(y, type(x)) and isinstance(total, type(x))
    assert (np.asarray(y) == np.cumsum(X * M, 1)).all() and float(total) == X.sum()
    with pytest.raises(ValueError, match="out is .*read-only"):
        scanfold.run("cumsum(x, 1)", x=x, out=jnp.zeros((3, 4)))


@pytest.mark.host_only("the arrays are NumPy's")
def test_out():
    one, two = np.empty(3, np.float32), np.empty((3, 8), np.float32)
    assert scanfold.run("sum(x, 1)", x=X, out=one) is one and (one == X.sum(1)).all()
    made = scanfold.run("sum(x, 1), x * 2", x=X, out=(one, two[:, ::2]))
    assert made[0] is one and (two[:, ::2] == X * 2).all()
    before = X.copy()
    for out, why in [(np.empty(3), "out is f64.*f32"), ((one, one), "out is 2 arrays"),
                     (np.empty(4, np.float32), r"out has shape \(4,\)"),
                     (X[:, 0], "out overlaps x"),
                     (np.broadcast_to(np.float32(0), 3), "out is .*read-only")]:
        with pytest.raises(ValueError, match=why):
            scanfold.run("sum(x, 1)", x=X, out=out)
    with pytest.raises(ValueError, match="out is 1 array, the expression has 2 results"):
        scanfold.run("sum(x, 1), sum(x)", x=X, out=one)
    with pytest.raises(TypeError, match="output 1 is .*NoneType"):
        scanfold.run("sum(x, 1), sum(x)", x=X, out=[one, None])
    assert (X == before).all()


@pytest.mark.host_only("the arrays are NumPy's")
def test_exact():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((5, 33)).astype(np.float32)
    w = rng.standard_normal((7, 33)).astype(np.float32)
    text = "sum((x @ w.T) / 3, axis=1) * 1.5"
    exact = scanfold.run(text, x=x, w=w, exact=True)
    one_by_one = scanfold.run("x @ w.T", x=x, w=w)
    for step in ("p / 3", "sum(p, 1)", "p * 1.5"):
        one_by_one = scanfold.run(step, p=one_by_one)
    assert oracle.same_bits(exact, one_by_one)
    assert not oracle.same_bits(scanfold.run(text, x=x, w=w), exact)
    assert scanfold.explain(text, x=x, w=w, exact=True) != scanfold.explain(text, x=x, w=w)


@pytest.mark.host_only("the arrays are NumPy's")
def test_names():
    with pytest.raises(TypeError, match="^m: named by .* but not given. Its inputs are x, m$"):
        scanfold.run("cumsum(x * m, 1)", x=X)
    with pytest.raises(TypeError, match="^n, y: given, but not named by .*. Its inputs are x$"):
        scanfold.run("cumsum(x, 1)", x=X, n=X, y=X)
    with pytest.raises(TypeError, match="^out: named.*options here"):
        scanfold.run("out + x", x=X)
    assert scanfold.run("expression + model", expression=X, model=X)[0, 0] == -10
    with pytest.raises(TypeError, match="by name"):
        scanfold.explain("sum(x)", X)


@pytest.mark.host_only("the arrays are NumPy's")
def test_errors():
    shown = "cumsum has no argument depth\n  cumsum(x, depth=1)\n            ^"
    for text, words in [("cumsum(x, depth=1)", shown), ("x @ x", "do not fit"),
                        ("x +", "x +\n     ^"), ("1 + 2", "no inputs"), ("", "expected"),
                        ("x\0", "null")]:
        with pytest.raises(ValueError) as error:
            scanfold.run(text, **({"x": X} if "x" in text else {}))
        assert words in str(error.value)
    for wrong in (3, None, ["x"], b"x"):
        with pytest.raises(TypeError, match="the expression is .*a string is expected"):
            scanfold.run(wrong, x=X)
    with pytest.raises(TypeError, match="^s is the number 2.5: write it into the expression"):
        scanfold.run("x * s", x=X, s=2.5)
    with pytest.raises(TypeError, match="^x is <class 'list'>: give a NumPy array"):
        scanfold.run("sum(x)", x=[1.0])
    with pytest.raises(ValueError, match="at most 32"):
        scanfold.run(" + ".join(f"x{i}" for i in range(33)), **{f"x{i}": X for i in range(33)})


@pytest.mark.host_only("the arrays are NumPy's")
def test_a_warm_call_parses_and_plans_nothing(monkeypatch):
    text = "cumsum(x * m, 1) - 7"  # of this test alone
    scanfold.run(text, x=X, m=M)
    kept = scanfold._Default._expressions
    expression, _ = kept[text, False]
    assert scanfold._scanfold.expression_plans(expression) == 1

    def parsed(*arguments):
        raise AssertionError("parsed again")
    monkeypatch.setattr(scanfold._scanfold, "expression_parse", parsed)
    for x in (X, X * 2, np.asfortranarray(X), X[:, ::-1]):  # a plan serves any strides
        scanfold.run(text, x=x, m=M)
    assert scanfold._scanfold.expression_plans(expression) == 1
    scanfold.run(text, x=X[:2], m=M[:2])
    scanfold.run(text, x=X.astype(np.float64), m=M)
    assert scanfold._scanfold.expression_plans(expression) == 3


@pytest.mark.host_only("the arrays are NumPy's")
def test_expressions_are_not_kept_without_end():
    for i in range(300):
        scanfold.run(f"x + {i}", x=X)
    assert len(scanfold._Default._expressions) <= 256


@pytest.mark.host_only("the arrays are NumPy's")
def test_using():
    """An expression is run with the settings of its `using` block, and is freed with it."""
    x = np.random.default_rng(0).standard_normal((40, 1001)).astype(np.float32)
    expected = scanfold.run("cumsum(x * 2, 1)", x=x)
    block = scanfold.using(backend="ref")
    with block:
        assert oracle.same_bits(scanfold.run("cumsum(x * 2, 1)", x=x), expected)
        assert "on CPU, ref" in scanfold.explain("cumsum(x * 2, 1)", x=x)
        with scanfold.using(threads=3, isa="portable"):
            assert "portable, 3 threads" in scanfold.explain("cumsum(x * 2, 1)", x=x)
        with pytest.raises(ValueError, match="no argument depth"):  # its own context's sentence
            scanfold.run("cumsum(x, depth=1)", x=x)
    assert "on CPU, ref" not in scanfold.explain("cumsum(x * 2, 1)", x=x)
    gone = weakref.ref(block)
    del block
    gc.collect()
    assert gone() is None


@pytest.mark.host_only("the arrays are NumPy's")
def test_explain(capsys):
    told = scanfold.explain("flip(cumsum(flip(x * m, 1), 1), 1)", x=X, m=M)
    assert capsys.readouterr().out == told
    assert "cumsum(x * m.astype(f32), 1, reverse=True)" in told and "after:  1 pass" in told


@pytest.mark.host_only("the arrays are NumPy's")
def test_threads():
    x = np.random.default_rng(1).standard_normal((50, 801)).astype(np.float32)
    expected, wrong = scanfold.run("cumsum(x * 2, 1), sum(x, 1)", x=x), []

    def work():
        for n in range(20, 50):
            made = scanfold.run("cumsum(x * 2, 1), sum(x, 1)", x=x[:n])  # 30 shapes, some at once
            if not all(oracle.same_bits(a, b[:n]) for a, b in zip(made, expected)):
                wrong.append(n)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.host_only("the arrays are NumPy's")
def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scanfold.run("cumsum(x * m, 1), exp(x) / 0", x=X, m=M)
