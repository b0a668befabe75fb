"""The command line: what is run, kept, and told of what cannot be measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import BENCHMARKS, SCALING, __main__, load, plot, saved
from benchmarks.harness import BenchmarkError, measure
from benchmarks.model import Benchmark, Contender, Peer
from benchmarks.reports import Figures, Report


def pretend(benchmark: Benchmark, **_: Any) -> Report:
    """Return a report without measuring anything."""
    contenders = [benchmark.ours, *(peer.contender for peer in benchmark.peers)]
    figures = {each.name: Figures(1, {}, [0.001 * (i + 1)]) for i, each in enumerate(contenders)}
    return Report(benchmark, 1, figures)


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(__main__, "measure", pretend)


def names_in(output: str) -> list[str]:
    return [report["name"] for report in json.loads(output)["benchmarks"]]


def test_every_name_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main([]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [*BENCHMARKS, *SCALING]


def test_every_name_is_that_of_its_benchmark() -> None:
    assert [load(name)[0].name for name in BENCHMARKS] == list(BENCHMARKS)
    for name in SCALING:
        assert [each.name for each in load(name)] == [
            f"{name}-{each.num_envs}" for each in load(name)
        ]


def test_all_is_every_row_once(capsys: pytest.CaptureFixture[str]) -> None:
    __main__.main(["roundtrip", "all", "--json"])
    assert names_in(capsys.readouterr().out) == list(BENCHMARKS)


def test_what_cannot_be_measured_does_not_stop_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(benchmark: Benchmark, **options: Any) -> Report:
        if benchmark.name == "atari":
            raise BenchmarkError("no ROM")
        return pretend(benchmark, **options)

    monkeypatch.setattr(__main__, "measure", fail)
    assert __main__.main(["all", "--json"]) == 2
    said = capsys.readouterr()
    assert names_in(said.out) == [name for name in BENCHMARKS if name != "atari"]
    assert "atari: no ROM" in said.err


def test_figures_are_kept_with_the_picture_of_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `benchmarks` is not installed")
    __main__.main(["all", "--plot", "--output", str(tmp_path)])
    kept = saved.read(tmp_path)["benchmarks"]
    curves = [each.name for name in SCALING for each in load(name)]
    assert list(kept) == [*BENCHMARKS, *curves]
    for suffix in ("png", "svg"):
        assert (tmp_path / f"performance.{suffix}").stat().st_size > 1000


def test_one_row_is_kept_in_the_place_of_its_earlier_figures(tmp_path: Path) -> None:
    for name in ("roundtrip", "atari", "roundtrip"):
        __main__.main([name, "--save", "--output", str(tmp_path)])
    assert list(saved.read(tmp_path)["benchmarks"]) == ["roundtrip", "atari"]


def test_figures_of_another_machine_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    __main__.main(["roundtrip", "--save", "--output", str(tmp_path)])
    here = saved.machine()
    monkeypatch.setattr(saved, "machine", lambda: {**here, "cores": here["cores"] + 1})
    __main__.main(["atari", "--save", "--output", str(tmp_path)])
    assert list(saved.read(tmp_path)["benchmarks"]) == ["atari"]


def test_there_is_nothing_to_draw_before_something_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(__main__, "require_matplotlib", lambda: None)
    assert __main__.main(["--plot", "--output", str(tmp_path)]) == 2
    assert "all --plot` makes it" in capsys.readouterr().err


def test_a_missing_matplotlib_is_told_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plot.importlib.util, "find_spec", lambda name: None)
    assert __main__.main(["all", "--plot", "--output", str(tmp_path)]) == 2
    assert "openenv-gym[benchmarks]" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nope"], "no benchmark nope; there are roundtrip"),
        (["roundtrip", "--rounds", "0"], "--rounds must be at least 1"),
        (["roundtrip", "--peers-only", "--save"], "--peers-only leaves out"),
    ],
)
def test_wrong_arguments_are_told(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        __main__.main(arguments)
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def cartpoles(driver: str, *, optional: bool) -> Benchmark:
    options = {"id": "CartPole-v1", "kwargs": {}, "modules": []}
    ours = Contender("here", "gymnasium_env", options, 5)
    peer = Peer(Contender("there", driver, options, 5), optional=optional)
    return Benchmark("cartpoles", "CartPole, twice", ours, (peer,))


def test_contenders_are_measured_in_processes_of_their_own() -> None:
    report = measure(cartpoles("gymnasium_env", optional=False), rounds=2)
    assert list(report.figures) == ["here", "there"]
    assert all(
        len(figures.amounts) == 2 and figures.median > 0 for figures in report.figures.values()
    )


def test_only_a_peer_that_may_be_left_out_is() -> None:
    report = measure(cartpoles("no_such_driver", optional=True), rounds=1)
    assert list(report.figures) == ["here"] and report.comparisons == []
    with pytest.raises(BenchmarkError, match=r"there ended.*\n.*no_such_driver"):
        measure(cartpoles("no_such_driver", optional=False), rounds=1)
