"""What the tests of the command line share: how to run it, and the expected results.

The binary's path comes from SCANFOLD_CLI.
"""
import io
import os
import subprocess

import numpy as np
import pytest

from rule import rule_fold, rule_scan

CLI = os.environ.get("SCANFOLD_CLI", "")
CLI = os.path.abspath(CLI) if CLI else CLI
needs_cli = pytest.mark.skipif(not CLI, reason="SCANFOLD_CLI does not name the binary")


# ---------------------------------------------------------------------------------------------------------------
# By the rule
# ---------------------------------------------------------------------------------------------------------------

def scan_axis(x, axis, op=np.add, acc=None, out=None, reverse=False, exclusive=False, mask=None, initial=None,
              identity=0):
    """The scan of every line of x, by the rule, in the accumulator's type."""
    acc = acc or x.dtype
    a = x.astype(acc)
    if mask is not None:
        a = np.where(mask, a, np.asarray(identity, acc))
    result = np.empty(x.shape, out or x.dtype)
    a, view = np.moveaxis(a, axis, -1), np.moveaxis(result, axis, -1)
    for i in np.ndindex(a.shape[:-1]):
        s = rule_scan(a[i][::-1] if reverse else a[i], op)
        if exclusive:
            s[1:], s[:1] = s[:-1].copy(), identity
        if initial is not None:
            s = op(np.asarray(initial, acc), s)
        view[i] = (s[::-1] if reverse else s).astype(result.dtype)
    return result


def fold_axes(x, axes, op=np.add, acc=None, out=None, reverse=False, mask=None, initial=None, identity=0):
    acc = acc or x.dtype
    a = x.astype(acc)
    if mask is not None:
        a = np.where(mask, a, np.asarray(identity, acc))
    kept = [i for i in range(x.ndim) if i not in axes]
    a = a.transpose(kept + sorted(axes)).reshape([x.shape[i] for i in kept] + [-1])
    result = np.empty(a.shape[:-1], out or x.dtype)
    for i in np.ndindex(result.shape):
        value = rule_fold(a[i][::-1] if reverse else a[i], op)
        if initial is not None:
            value = op(np.asarray(initial, acc), value)
        result[i] = np.asarray(value).astype(result.dtype)
    return result


def noise(shape, dtype, seed=0):
    """Numbers of many magnitudes and both signs, so that another order of addition has other bits."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == bool:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    magnitude = 10.0 ** rng.uniform(-2, 1, shape)
    return (rng.standard_normal(shape) * magnitude).astype(dtype)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def npy_of(x):
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


# ---------------------------------------------------------------------------------------------------------------
# Running it
# ---------------------------------------------------------------------------------------------------------------

def run(*arguments, **options):
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, timeout=60, **options)


def ok(*arguments, **options):
    done = run(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout


def refused(*arguments, says=(), status=1, **options):
    done = run(*arguments, **options)
    text = done.stderr.decode()
    assert done.returncode == status, (done.returncode, text)
    assert text.startswith("scanfold: ") and text.endswith("\n"), text
    if status == 2:
        assert "--help" in text
    else:
        lines = text.splitlines()
        assert len(lines) == 1 or (len(lines) == 3 and lines[2].strip() == "^"), text
    for part in [says] if isinstance(says, str) else says:
        assert part in text, text
    return text


def on_a_terminal(arguments, cwd, send_stdout=False, seconds=20, env=None):
    """Runs with standard error (and perhaps output) on a pseudo-terminal; the exit status and what was shown."""
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = subprocess.Popen([CLI, *map(str, arguments)], cwd=cwd, stderr=slave, stdin=subprocess.DEVNULL, env=env,
                               stdout=slave if send_stdout else subprocess.DEVNULL)
    os.close(slave)
    shown = b""
    while True:
        try:
            got = os.read(master, 65536)
        except OSError:
            break
        if not got:
            break
        shown += got
    os.close(master)
    return process.wait(seconds), shown
