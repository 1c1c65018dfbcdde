import itertools
from pathlib import Path

import pytest

from pbkv.errors import SettingsError
from pbkv.workload import WORKLOADS, WorkloadDataError, make_workflows


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_the_same_seed_makes_the_same_workflows(workload):
    first = make_workflows(workload, 5, seed=3)

    assert first == make_workflows(workload, 5, seed=3)
    assert first != make_workflows(workload, 5, seed=4)


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_prompts_of_one_context_only_grow(workload):
    for workflow in make_workflows(workload, 20, seed=1, scale=0.3):
        longest = dict.fromkeys(workflow.contexts, 0)
        for call, length in zip(workflow.calls, workflow.prompt_tokens(), strict=True):
            kept = length - sum(s.num_tokens for s in call.instruction)
            assert kept > longest[call.context]
            longest[call.context] = kept


def test_hover_prompts_average_about_a_thousand_tokens_over_eleven_calls():
    workflows = make_workflows("hover", 300, seed=1)
    lengths = [length for workflow in workflows for length in workflow.prompt_tokens()]

    assert 1000 <= sum(lengths) / len(lengths) <= 1300
    assert 10 <= len(lengths) / len(workflows) <= 12.5


def test_hover_follows_the_graph_of_the_published_workload():
    allowed = {
        "Planner": {"Query"},
        "Query": {"Retriever"},
        "Retriever": {"Reader", "Judge"},
        "Reader": {"Judge"},
        "Judge": {"Query", "Verdict", "Refiner"},
        "Refiner": {"Query", "Retriever"},
        "Verdict": {"Verdict", "Critic"},
        "Critic": {"Verdict", "Refiner"},
    }
    for workflow in make_workflows("hover", 200, seed=2):
        agents = [call.agent for call in workflow.calls]
        assert agents[0] == "Planner" and agents[-1] == "Verdict"
        assert all(b in allowed[a] for a, b in itertools.pairwise(agents))


def test_unknown_workload_lists_the_choices():
    with pytest.raises(SettingsError, match="hover, swebench"):
        make_workflows("chess", 1, seed=0)


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_missing_data_is_named(workload, tmp_path: Path):
    with pytest.raises(WorkloadDataError, match="cannot read"):
        make_workflows(workload, 1, seed=0, data_dir=tmp_path)


def test_broken_data_is_named(tmp_path: Path):
    folder = tmp_path / "hover"
    folder.mkdir()
    (folder / "hover_dev_release_v1.1.json").write_text('[{"uid": "x"}]')

    with pytest.raises(WorkloadDataError, match="no HoVer claims"):
        make_workflows("hover", 1, seed=0, data_dir=tmp_path)


@pytest.mark.parametrize(
    ("workload", "file", "text", "said"),
    [
        (
            "hover",
            "hover/hover_dev_release_v1.1.json",
            '[{"uid": "x", "claim": "c", "num_hops": 2}]',
            "holds 1 claims, not 2",
        ),
        ("swebench", "swebench/call_lengths.json", '{"traces": {}}', "no run of 6 calls"),
        ("financebench", "financebench/financebench_open_source.jsonl", "", "no FinanceBench"),
    ],
)
def test_too_little_data_is_named(tmp_path: Path, workload: str, file: str, text: str, said: str):
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(text)

    with pytest.raises(WorkloadDataError, match=said):
        make_workflows(workload, 2, seed=0, data_dir=tmp_path)
