"""The commands that take an expression: run and explain."""
import json
import os
import xml.dom.minidom

import numpy as np
import pytest

from cli_tools import needs_cli, ok, refused, run

pytestmark = needs_cli
GEMM = "sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Small whole numbers, whose sums are exact in any order."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(7)
    arrays = {"x": draw.integers(-4, 5, (20, 30)).astype("f4"), "w": draw.integers(-4, 5, (12, 30)).astype("f4"),
              "m": draw.random((20, 30)) > 0.5}
    for name, array in arrays.items():
        np.save(name + ".npy", array)
    return arrays


def test_run_gemm(files):
    x, w = files["x"], files["w"]
    ok("run", GEMM, "x=x.npy", "w=w.npy", "-o", "y.npy")
    assert np.array_equal(np.load("y.npy"), ((x @ w.T) / 2).sum(1, keepdims=True) * 1.5)
    ok("run", GEMM, "x=x.npy", "w=w.npy", "-o", "y.npy", "--exact", "--threads", "1")
    assert np.array_equal(np.load("y.npy"), ((x @ w.T) / 2).sum(1, keepdims=True) * 1.5)


def test_run_several_results(files):
    x, m = files["x"], files["m"]
    ok("run", "cumsum(x * m, axis=1), sum(x, 0), x[:0]", "x=x.npy", "m=m.npy", "-o", "a.npy", "-o", "b.npy", "-o", "c.npy")
    assert np.array_equal(np.load("a.npy"), np.cumsum(x * m, 1))
    assert np.array_equal(np.load("b.npy"), x.sum(0))
    assert np.load("c.npy").shape == (0, 30)


def test_run_prints_single_values(files):
    assert ok("run", "sum(x), max(x), sum(m)", "x=x.npy", "m=m.npy").split() == \
        [b"%d" % files["x"].sum(), b"%d" % files["x"].max(), b"%d" % files["m"].sum()]


def test_run_reads_fortran_order_and_writes_over_its_input(files):
    np.save("x.npy", np.asfortranarray(files["x"]))
    ok("run", "flip(cumsum(flip(x, 1), 1), 1)", "x=x.npy", "-o", "x.npy")
    assert np.array_equal(np.load("x.npy"), np.cumsum(files["x"][:, ::-1], 1)[:, ::-1])


def test_run_views_bytes_as_bf16(files):
    np.save("h.npy", (np.arange(8, dtype="f4").view("u4") >> 16).astype("u2"))
    assert ok("run", "sum(h).astype(f32)", "h=h.npy", "--view", "h=bf16") == b"28\n"


def test_run_refuses(files):
    refused("run", "x + y", "x=x.npy", says="y=in.npy", status=2)
    refused("run", "x", "x=x.npy", "z=w.npy", "-o", "o.npy", says="the expression has no z", status=2)
    refused("run", "x", "x=x.npy", says="more than one value", status=2)
    refused("run", "x[:0]", "x=x.npy", says="the result is empty", status=2)
    refused("run", "sum(x)", "x=x.npy", "x=w.npy", says="two files are named for x: x.npy and w.npy", status=2)
    refused("run", "sum(x)", "x=x.npy", "--view", "x=f32", "--view", "x=i32", says="twice what dtype x has", status=2)
    refused("run", "sum(x, axis=5)", "x=x.npy", says="x has no axis 5: its rank is 2, so an axis is -2 to 1", status=1)
    refused("run", "x", "x=x.npy", "-o", "a.npy", "-o", "b.npy", says="has 1 result", status=2)
    refused("run", "x", "x.npy", "-o", "o.npy", says="x=...", status=2)
    refused("run", "x", "x=none.npy", "-o", "o.npy", says="cannot open", status=1)
    refused("run", "x + w", "x=x.npy", "w=w.npy", "-o", "o.npy", says="do not broadcast", status=1)
    refused("run", says="needs an expression", status=2)
    assert sorted(os.listdir(".")) == ["m.npy", "w.npy", "x.npy"]


def test_an_expression_that_begins_with_a_minus(files):
    """Looks like an option; after -- it does not."""
    for expression in ("-x", "-(x)", "--x", "-exp(x)"):
        refused("run", expression, "x=x.npy", says='scanfold run -- "-x"', status=2)
        refused("explain", expression, "--shape", "x=3", says='scanfold explain -- "-x"', status=2)
    assert ok("run", "--", "-sum(x)", "x=x.npy") == b"%d\n" % -files["x"].sum()
    ok("run", "-o", "y.npy", "--", "-x", "x=x.npy")
    assert np.array_equal(np.load("y.npy"), -files["x"])
    assert b"out = -x" in ok("explain", "--shape", "x=3", "--", "-x")
    refused("run", "--", "-x", "x=x.npy", "-o", "y.npy", says="-o stands after --", status=2)


def test_carets():
    done = run("explain", "sum(x, depth=1)", "--shape", "x=4")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [b"scanfold: sum has no argument depth", b"  sum(x, depth=1)", b"         ^"]
    done = run("explain", "x + sum(y, axis=5)", "--shape", "x=4", "--shape", "y=4,3")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [b"scanfold: y has no axis 5: its rank is 2, so an axis is -2 to 1", b"  x + sum(y, axis=5)", b"      ^"]


def test_explain_text():
    text = ok("explain", GEMM, "--shape", "x=1024,8192", "--shape", "w=8192,8192").decode()
    assert "becomes\n  sum(x * sum(w, 0, keepdim=True), 1, keepdim=True) * 0.75\n" in text
    assert "after:  2 passes, 302.0 MB read, 36.9 kB written" in text and "[rounds differently]" in text


def test_explain_formats():
    shapes = ["--shape", "x=8,9", "--shape", "m=9", "--dtype", "m=bool"]
    story = json.loads(ok("explain", "cumsum(x * m, 1)", *shapes, "--format", "json"))
    assert story["after"] == {"passes": 1, "bytes_read": 8 * 9 * 4 + 9, "bytes_written": 8 * 9 * 4}
    assert story["before"]["passes"] == 2 and story["passes"][0]["reads"] == ["x", "m"] and not story["exact"]
    assert ok("explain", "cumsum(x * m, 1)", *shapes, "--format", "dot").startswith(b"digraph plan {")
    xml.dom.minidom.parseString(ok("explain", "where(m, x, 0) < 1", *shapes, "--format", "svg"))


def test_explain_says_what_shares_lines_and_why_not():
    softmax = "exp(x - max(x, 1, keepdim=True)) / sum(exp(x - max(x, 1, keepdim=True)), 1, keepdim=True)"
    story = json.loads(ok("explain", softmax, "--shape", "x=8,9", "--format", "json"))
    assert story["after"] == {"passes": 1, "bytes_read": 8 * 9 * 4, "bytes_written": 8 * 9 * 4} and not story["not_fused"]
    assert [p["same_lines"] for p in story["passes"]] == [False, True, True]
    story = json.loads(ok("explain", "x - max(x, 1, keepdim=True) / sum(x, 0, keepdim=True)", "--shape", "x=8,9", "--format", "json"))
    assert story["after"]["passes"] == 2
    assert [r["node"] for r in story["not_fused"]] == ["max(x, 1, keepdim=True)", "sum(x, 0, keepdim=True)"]
    assert "needed for many elements" in story["not_fused"][0]["why"] and "along other axes" in story["not_fused"][1]["why"]


def test_explain_exact():
    story = json.loads(ok("explain", "sum(x * 3, 1)", "--shape", "x=4,5", "--exact", "--format", "json"))
    assert story["rewritten"] == ["sum(x * 3, 1)"] and story["exact"]
    story = json.loads(ok("explain", "sum(x * 3, 1)", "--shape", "x=4,5", "--format", "json"))
    assert story["rewritten"] == ["sum(x, 1) * 3"] and [r["rounds"] for r in story["rewrites"]].count(True) == 1


def test_explain_refuses():
    refused("explain", "x + y", "--shape", "x=3", says="--shape y=", status=2)
    refused("explain", "x", "--shape", "x=a", says="is not a shape", status=2)
    refused("explain", "x", "--shape", "x=3", "--shape", "x=4", says="twice what shape x has", status=2)
    refused("explain", "x", "--shape", "x=3", "--dtype", "x=f32", "--dtype", "x=f64", says="twice what dtype x has", status=2)
    refused("explain", "x", "--shape", "x=3", "--dtype", "x=f99", says="is not a dtype", status=2)
    refused("explain", "x", "--shape", "x=3", "--format", "png", says="--format", status=2)
    refused("explain", "x", "--shape", "x=3", "--device", "tpu", says="--device", status=2)


def test_help_teaches():
    for command in ("run", "explain"):
        text = ok(command, "--help")
        assert b"examples:" in text and b"cumsum" in text and text == ok("help", command)
