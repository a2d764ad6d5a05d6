"""bench/models.py: its models are right and its table says which are slower."""
import importlib.util
import json
import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 5):
    pytest.skip("torch.compile needs torch 2.5 for this", allow_module_level=True)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = os.path.join(ROOT, "bench", "models.py")
if not os.path.exists(PATH):
    pytest.skip("the benchmarks are not here", allow_module_level=True)
_spec = importlib.util.spec_from_file_location("models", PATH)
models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(models)

FIVE = "mse_loss,sum_keepdim,max_over_rows,masked_cumsum,cumprod"


def test_five_of_them(device, tmp_path, capsys):
    """Beside torch's own operators one by one: Inductor takes its time to compile."""
    path = tmp_path / "rows.json"
    given = ["--small", "--device", device, "--against", "aot_eager", "--only", FIVE]
    assert models.main(given + ["--json", str(path)]) == 0
    assert len(models.MODELS) >= 40
    rows = json.loads(path.read_text())["rows"]
    passes = {name: [row["pass"] for row in rows if row["model"] == name]
              for name in FIVE.split(",")}
    assert passes["cumprod"] == ["forward"] and passes["mse_loss"] == ["forward", "backward"]
    assert sum(map(len, passes.values())) == len(rows) == 7
    assert "0 slower or wrong" in capsys.readouterr().out


@pytest.mark.host_only("what it prints")
def test_what_is_slower_or_wrong_stands_last(monkeypatch, capsys):
    told = {"slow": (1.04, ""), "wrong": (0.5, "forward differs"), "fast": (0.5, ""),
            "as fast": (1.02, ""), "failed": (None, "scanfold raised an error")}

    def measure(name, options, tell):
        ratio, wrong = told[name]
        times = {} if ratio is None else {"theirs_ms": 1.0, "ours_ms": ratio, "ratio": ratio}
        return [{"model": name, "pass": "forward", "wrong": wrong, **times}]
    monkeypatch.setattr(models, "measure", measure)
    for names, status in ((list(told), 1), (["slow"], 1), (["wrong"], 1), (["as fast", "fast"], 0)):
        monkeypatch.setattr(models, "MODELS", dict.fromkeys(names))
        assert models.main(["--device", "cpu"]) == status
        lines = capsys.readouterr().out.splitlines()[1:-1]
        if len(names) == 5:
            assert [line.split("forward")[0].strip() for line in lines] == \
                ["fast", "as fast", "slow", "failed", "wrong"]
            assert [line.partition("SLOWER")[2] for line in lines[:3]] == ["", "", " by 4%"]
            assert all("WRONG: " in line for line in lines[3:])


@pytest.mark.host_only("how results are compared")
def test_wrong_results_are_noticed():
    right, off = [torch.linspace(1, 2, 100)], [torch.linspace(1, 2, 100) * 1.01]
    exact = {"forward": [right[0].double()]}
    assert models.differs({"forward": right}, exact, {"forward": right}, False) == ""
    why = models.differs({"forward": right}, exact, {"forward": off}, False)
    assert why.startswith("forward differs from eager mode by up to 0.02")
