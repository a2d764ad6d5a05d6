"""Explanations of expressions whose inputs have names that no notation would give them: every
format stays what it is."""
import ctypes
import json
import os
import sys
import xml.dom.minidom

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import scanfold_ctypes as sf  # noqa: E402

LIB = sf.load(os.environ.get("SCANFOLD_LIB", os.path.join(ROOT, "build", "libscanfold.so")))
TEXT, JSON, DOT, SVG = range(4)
NAMES = [b'a"b', b"back\\slash", b"line\nfeed", b"tab\there", b"bell\x07\x01\x1f", b"</text>&",
         "größe".encode(), b"\\", b'"', "漢".encode() * 700, b'"' * 3000]
# Each byte is shown as one that is no character.
NO_UTF8 = [b"\xff\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf"]


def explain(name, format):
    """An explanation of cumsum(x, 0) + sum(x), x under another name."""
    graph, plan, needed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    x = sf.numpy_view(np.ones(5, np.float32), 2)
    assert LIB.sf_graph_create(None, ctypes.byref(graph)) == 0
    node = LIB.sf_expr_input(graph, name)
    sums = LIB.sf_expr_scan(graph, node, None), LIB.sf_expr_fold(graph, node, None)
    assert LIB.sf_expr_output(graph, LIB.sf_expr_apply(graph, 0, *sums, 0)) == 0
    assert LIB.sf_plan_create(None, graph, 1, ctypes.byref(x), None, ctypes.byref(plan)) == 0
    assert LIB.sf_plan_explain(plan, format, None, ctypes.c_size_t(0), ctypes.byref(needed)) == 0
    text = ctypes.create_string_buffer(needed.value)
    assert LIB.sf_plan_explain(plan, format, text, needed, None) == 0
    LIB.sf_plan_destroy(plan)
    LIB.sf_graph_destroy(graph)
    return text.value


@pytest.mark.parametrize("name", NAMES + NO_UTF8, ids=range(len(NAMES + NO_UTF8)))
def test_names_that_need_escapes(name):
    shown = json.loads(explain(name, JSON).decode())
    meant = "\ufffd" * len(name) if name in NO_UTF8 else name.decode()
    assert [i["name"] for i in shown["inputs"]] == [meant]
    assert all(meant in p["reads"] for p in shown["passes"])
    xml.dom.minidom.parseString(explain(name, SVG))
    # Every quote of a label is escaped, so that they come in pairs.
    dot = explain(name, DOT).decode(errors="replace").replace("\\\\", "").replace('\\"', "")
    assert all(line.count('"') % 2 == 0 for line in dot.splitlines())
    assert explain(name, TEXT)
