"""python -m scanfold.bench: the table and the page, and a model of one's own beside its floor."""
import argparse
import json
import os
import random

import pytest
import scanfold.bench as bench

numpy = pytest.importorskip("numpy")

MODEL = """
import torch
class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.weight = torch.nn.Parameter(torch.ones(1, 64))
    def forward(self, x, mask):
        return torch.cumsum(x * mask, dim=self.dim) * self.weight
def get_inputs():
    return [torch.randn(256, 64), torch.rand(64) > 0.5]
def get_init_inputs():
    return [1]
"""


@pytest.mark.host_only("times the CPU")
def test_peers(tmp_path, capsys):
    page, numbers = tmp_path / "report.html", tmp_path / "rows.json"
    given = ["--quick", "--only", "64x64", "--rounds", "1", "--html", str(page), "--json", str(numbers)]
    assert bench.main(given) == 0
    rows = json.loads(numbers.read_text())["rows"]
    assert [row["work"] for row in rows] == ["cumsum axis 1"] and rows[0]["bytes"] == 2 * 4 * 64 * 64
    assert rows[0]["fraction"] == pytest.approx(rows[0]["peer_seconds"] / rows[0]["seconds"])
    assert "NumPy" in rows[0]["others"] and "worst: cumsum axis 1" in capsys.readouterr().out
    text = page.read_text()
    data = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
    assert data["rows"] == rows and data["commit"] and data["cpu"] and "http" not in text.replace(json.dumps(data), "")
    with pytest.raises(SystemExit, match="no row contains 'none'"):
        bench.main(["--quick", "--only", "none"])


@pytest.mark.host_only("what every contender computes is the same")
@pytest.mark.parametrize("name, how", [("cumsum", ""), ("cumsum", "reverse"), ("cumsum", "masked"), ("sum", ""), ("max", "")])
def test_contenders_agree(name, how, torch):
    x = numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 4)
    mask = x > 5 if how == "masked" else numpy.ones(1, bool)
    calls, moved = bench.contenders(numpy, torch, name, x, mask, 1, how)
    assert set(calls) == {"scanfold", "NumPy", "torch", "copy"}
    ours, theirs, torchs = (numpy.array(calls[who]().tolist(), numpy.float32) for who in ("scanfold", "NumPy", "torch"))
    assert (ours == theirs).all() and (ours == torchs).all()
    assert moved == x.nbytes + ours.nbytes + (x.size if how == "masked" else 0)


def small_model(tmp_path, text=MODEL):
    path = tmp_path / "model.py"
    path.write_text(text)
    return str(path)


def test_model(device, tmp_path, torch, capsys):
    if not hasattr(torch, "compiler"):
        pytest.skip("the backend is for torch 2.3 and later")
    numbers = tmp_path / "model.json"
    given = [small_model(tmp_path), "--device", device, "--seconds", "0", "--backends", "eager,scanfold", "--json", str(numbers)]
    bench.main(given)
    result = json.loads(numbers.read_text())
    assert result["bytes"] == 4 * (2 * 256 * 64 + 64) + 64
    assert list(result["contenders"]) == ["eager", "scanfold"]
    for row in result["contenders"].values():
        assert row["ms"] > 0 and "WRONG" not in row["note"]
        assert row["of_floor"] == pytest.approx(result["floor_ms"] / row["ms"])
    assert "least bytes 131,392" in capsys.readouterr().out


@pytest.mark.host_only("what it says of times")
def test_below_the_floor_is_suspect(tmp_path, torch, monkeypatch, capsys):
    from scanfold import _timing
    for times, status, note in (([1.0, 0.8], 1, "SUSPECT: below the floor"), ([1.0, 0.95], 0, ""), ([1.0, 3.0], 0, "")):
        monkeypatch.setattr(_timing, "medians", lambda runs, device, seconds, times=times: times)
        assert bench.main([small_model(tmp_path), "--device", "cpu", "--backends", "eager"]) == status
        assert capsys.readouterr().out.splitlines()[-1].endswith(note or f"{1 / times[1]:.3f}")


@pytest.mark.host_only("reads files")
def test_bytes_count_once(torch):
    x = torch.ones(4, 8)
    assert bench.bytes_of(x) == 128 and bench.bytes_of(x[:1].expand(4, 8)) == 32
    assert bench.least_bytes([x, x.T], [torch.ones(4)]) == 128 + 16


@pytest.mark.host_only("reads files")
def test_what_a_file_must_have(tmp_path, torch):
    with pytest.raises(SystemExit, match=r"model.py has no Model, get_init_inputs; it must have"):
        bench.main([small_model(tmp_path, "def get_inputs():\n    return []\n")])


@pytest.mark.host_only("draws cases, and times none")
def test_cases_of_the_zoo_have_names(monkeypatch):
    """bench/zoo.py --case: a name that the lists show is the case that was drawn."""
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.syspath_prepend(os.path.join(os.path.dirname(__file__), "..", "..", "bench"))
    zoo = pytest.importorskip("zoo")
    drawn = random.Random(5)
    layouts = set()
    for limits in [zoo.LARGE] * 150 + [zoo.SMALL] * 150:
        case = zoo.Case(drawn, limits)
        same = zoo.Case.named(case.name)
        layouts.add(same.layout)
        assert {**vars(same), "seed": 0} == {**vars(case), "seed": 0} and same.name == case.name
    assert layouts == {"contiguous", "transposed", "odd offset"}
    with pytest.raises(argparse.ArgumentTypeError, match="is no case; one is"):
        zoo.Case.named("mean float32 8 x 8, 0")
    with pytest.raises(argparse.ArgumentTypeError, match="is no case; one is"):
        zoo.Case.named("sum float31 8 x 8, 0")
