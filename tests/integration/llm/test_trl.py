"""TRL itself: what it makes of our environments, and that it trains on them."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.trl import component, environment, episode_reward, rollout_func, rows
from tests.agents.worlds import Line, Vault
from tests.support.serving import serving


pytestmark = [
    pytest.mark.llm,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("default"),  # those of other people's libraries
]

IDS = {
    "openenv/TextBlackjack-v0": {},
    "openenv/Echo-v0": {},
    "openenv/CartPole-v1": {},
    "openenv/Taxi-v4": {},
    "openenv/Pendulum-v1": {},
    "openenv/OpenSpiel-v0": {"game": "tic_tac_toe", "tools": "actions"},
    "openenv/Coding-v0": {"allow_unisolated": True, "allow_unsandboxed": True},
}


@pytest.fixture(scope="module")
def vault() -> Iterator[str]:
    with serving(Vault) as url:
        yield url


def trainer_of(tmp_path: Any, **taken: Any) -> Any:
    import grpo_blackjack as example
    from datasets import Dataset
    from trl import GRPOTrainer

    tokenizer = example.make_tokenizer()
    for name in taken.pop("calls", ()):
        tokenizer.add_tokens([name])
    config = example.make_config(str(tmp_path), steps=2, seed=1, weights=taken.pop("weights", None))
    config.per_device_train_batch_size = config.generation_batch_size = 8
    config.num_generations = 4
    return GRPOTrainer(
        model=example.make_model(tokenizer),
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(rows(8, prompt="Play.")),
        args=config,
        **taken,
    )


@pytest.mark.parametrize("env_id", IDS)
def test_transformers_makes_schemas_of_every_tool(env_id: str) -> None:
    from transformers.utils import get_json_schema

    made = environment(env_id, provider="process", **IDS[env_id])
    env = made()
    try:
        for tool in made.pool.abilities.tools:
            schema = get_json_schema(getattr(env, tool.name))["function"]
            assert schema["name"] == tool.name
            arguments = schema["parameters"]["properties"]
            assert list(arguments) == list(tool.schema["properties"])
            assert all(each["description"] for each in arguments.values())
            assert schema["parameters"].get("required", []) == tool.schema.get("required", [])
    finally:
        made.close()


def test_a_schema_is_what_the_environment_says(vault: str) -> None:
    from transformers.utils import get_json_schema

    made = environment("openenv/Remote-v0", base_url=vault)
    schema = get_json_schema(made().guess)["function"]
    made.close()
    assert schema["description"] == "Guess the code."
    assert schema["parameters"] == {
        "type": "object",
        "properties": {
            "digit": {"type": "integer", "description": "The digit."},
            "tone": {
                "type": "string",
                "enum": ["kind", "rude"],
                "description": "How it is said.",
            },
        },
        "required": ["digit"],
    }


def test_grpo_finds_tools_and_the_reward(tmp_path: Any, vault: str) -> None:
    made = environment("openenv/Remote-v0", base_url=vault)
    trainer = trainer_of(tmp_path, environment_factory=made)
    assert [tool.__name__ for tool in trainer.tools] == ["guess", "look"]
    assert trainer.reward_func_names == ["Remote"]
    made.close()


def test_grpo_calls_tools_shows_errors_and_gives_groups_one_seed(tmp_path: Any, vault: str) -> None:
    """The model is replaced by a script; the loop around it is TRL's."""
    made = environment("openenv/Remote-v0", base_url=vault)
    calls = [
        f'<tool_call>{{"name": "guess", "arguments": {{"digit": {digit}}}}}</tool_call>'
        for digit in (12, 3, 4)
    ]
    trainer = trainer_of(
        tmp_path, environment_factory=made, calls=calls, reward_funcs=[component("found")]
    )
    trainer.max_completion_length = 400
    end = trainer.processing_class.eos_token_id
    ids = [trainer.processing_class.convert_tokens_to_ids(call) for call in calls]
    script = iter([*([[each, end]] * 8 for each in ids), [[end]] * 8])
    trainer._generate_single_turn = lambda prompts, *args, **kwargs: (
        next(script)[: len(prompts)],
        None,
    )
    inputs = [
        dict(row) for row in (trainer.train_dataset[3], trainer.train_dataset[0]) for _ in range(4)
    ]
    came = trainer._generate_and_score_completions(inputs)
    assert [env.episode.seed for env in trainer.environments] == [3] * 4 + [0] * 4
    codes = [Vault.code_of(3), Vault.code_of(0)]
    told = trainer._logs["completion"]
    assert len(told) == 8
    assert [env.episode.refused >= 1 for env in trainer.environments] == [True] * 8
    expected = [0.5 if code in (3, 4) else 0.0 for code in codes for _ in range(4)]
    assert [env.reward for env in trainer.environments] == expected
    assert came["tool_mask"].sum() > 0
    made.close()


def test_a_server_that_fails_ends_the_training(tmp_path: Any) -> None:
    with serving(Line) as url:
        made = environment("openenv/Remote-v0", base_url=url)
        call = '<tool_call>{"name": "act", "arguments": {"by": -3}}</tool_call>'
        trainer = trainer_of(tmp_path, environment_factory=made, calls=[call])
        ids = [
            trainer.processing_class.convert_tokens_to_ids(call),
            trainer.processing_class.eos_token_id,
        ]
        trainer._generate_single_turn = lambda prompts, *args, **kwargs: (
            [ids] * len(prompts),
            None,
        )
        trainer.max_tool_calling_iterations = 1
        with pytest.raises(errors.EnvironmentFailedError, match="the line broke"):
            trainer.train()
        made.close()


def test_a_rollout_function_trains(tmp_path: Any) -> None:
    with serving(Line) as url:
        made = rollout_func("openenv/Remote-v0", base_url=url, unfinished_reward=-1.0)
        trainer = trainer_of(tmp_path, rollout_func=made, reward_funcs=[episode_reward])
        trainer.train()
        made.close()
    (first, *_) = trainer.state.log_history
    assert first["rewards/episode_reward/mean"] < 0


def test_the_example_learns_to_play(capsys: pytest.CaptureFixture[str]) -> None:
    import grpo_blackjack as example

    last = example.main(["--steps", "24"])
    assert last["reward"] > last["first reward"]
    assert last["rewards/legal/mean"] > 0.8
    assert "rewards/outcome/mean" in capsys.readouterr().out


def test_the_example_has_a_model_that_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    import grpo_blackjack as example

    last = example.main(["--adapter", "rollout", "--steps", "3"])
    assert -1.0 <= last["reward"] <= 1.0
    assert "rewards/legal/mean" in capsys.readouterr().out


# -- AsyncGRPO ----------------------------------------------------------------------------------


def test_the_loop_of_async_grpo_plays_in_a_spawned_child() -> None:
    import grpo_blackjack as example
    from async_child import run_in_child
    from datasets import Dataset

    made = environment("openenv/TextBlackjack-v0", provider="process", tools=["play"])
    made()  # it knows its tools, which travel
    tokenizer = example.make_tokenizer()
    context = multiprocessing.get_context("spawn")
    kwargs = {
        "model_name": "none",
        "dataset": Dataset.from_list(rows(16, prompt="Play.")),
        "reward_funcs": [],
        "processing_class": tokenizer,
        "eos_token_ids": [tokenizer.eos_token_id],
        "environment_factory": made,
        "num_generations": 4,
        "max_inflight_tasks": 8,
    }
    shared = {
        "samples_queue": context.Queue(),
        "model_version_value": context.Value("i", 0),
        "stop_event": context.Event(),
        "child_ready_event": context.Event(),
        "heartbeat_value": context.Value("d", 0.0),
        "failed_event": context.Event(),
        "exception_info_queue": context.Queue(1),
        "metrics_queue": context.Queue(),
    }
    child = context.Process(target=run_in_child, args=(kwargs, shared))
    child.start()
    draining = threading.Event()

    def drain() -> None:
        while not draining.wait(0.1):
            while not shared["metrics_queue"].empty():
                shared["metrics_queue"].get()

    thread = threading.Thread(target=drain)
    thread.start()
    try:
        samples = [shared["samples_queue"].get(timeout=240) for _ in range(16)]
        assert not shared["failed_event"].is_set()
    finally:
        shared["stop_event"].set()
        child.join(30)
        if child.is_alive():
            child.terminate()
            child.join()
        draining.set()
        thread.join()
        made.close()
    by_group: dict[int, set[str]] = {}
    for sample in samples:
        by_group.setdefault(sample.group_id, set()).add(sample.prompt[-1]["content"])
        assert "The game is over" in str(sample.completion)
    assert len(by_group) >= 2
    assert all(len(prompts) == 1 for prompts in by_group.values())
    # The members of a group play alike here, so none is better than the others.
    assert {sample.advantage for sample in samples} == {0.0}
